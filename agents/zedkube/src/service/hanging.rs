//! Finds a call that never answers although it has a deadline: only a new process gets rid of it.
//!
//! The process then ends, its parent starts it again, and it goes on from the record; at most once in 30 min. The touch
//! file is kept fresh all the time, because EVE's watchdog reboots the device, undrained, when it grows old.

use std::time::Duration;

use drain::Moment;
use pubsub::store::write_durably;
use pubsub::{Backup, Owner, Root, read_checked};

use super::Service;
use runtime::error_chain;

/// A call without an answer for this long hangs: every call to the API server, and every command, has a much shorter
/// deadline.
pub(super) const TOO_LONG: Duration = Duration::from_mins(10);

/// Shortest time between two such ends of the process: if the first one did not help, another will not help either.
const AT_MOST_EVERY: Duration = Duration::from_mins(30);

/// The file below `run/zedkube` with the time of the last such end, in milliseconds of `CLOCK_BOOTTIME`.
const STAMP: &str = "ended-because-of-a-hang";

/// zedkube ends because a call hangs.
#[derive(Debug, thiserror::Error)]
#[error(
    "{call} has not answered for {minutes} min although it has a deadline; zedkube ends so that it is started again"
)]
pub struct Hanging {
    /// Name of the call.
    call: &'static str,
    /// Time without an answer.
    minutes: u64,
}

impl Service {
    /// An error if a call hangs and a new process may help.
    pub(super) fn look_for_hanging(&mut self, now: Moment) -> Result<(), Hanging> {
        let limit = self.hangs_after + self.settings.current().health.timeout;
        let Some((call, waited)) = self.performer.longest().filter(|(_, waited)| limit < *waited) else {
            self.around.hanging = None;
            return Ok(());
        };
        if self.around.hanging.is_some() {
            return Ok(());
        }
        let hanging = Hanging { call, minutes: waited.as_secs() / 60 };
        match may_end(self.context.root(), now) {
            Ok(()) => Err(hanging),
            Err(why) => {
                let text = format!("{call} has not answered for {} min; {why}", hanging.minutes);
                tracing::error!("{text}");
                self.around.hanging = Some(text);
                self.publish_at = self.publish_at.min(now);
                Ok(())
            }
        }
    }
}

/// Writes the file with the time, because the process ends now; or says why it must not end.
fn may_end(root: &Root, now: Moment) -> Result<(), String> {
    let folder = root.join("/run/zedkube");
    let last = read_checked(&folder.join(STAMP), 32, Owner::RootOrSelf).ok().flatten();
    let last = last.and_then(|bytes| String::from_utf8(bytes).ok()?.trim().parse().ok()).map(Moment);
    if last.is_some_and(|last| last <= now && now.since(last) < AT_MOST_EVERY) {
        return Err("zedkube was restarted for that less than 30 min ago, which has not helped".to_owned());
    }
    // Without this file the process could end again and again.
    write_durably(&folder, STAMP, now.0.to_string().as_bytes(), Backup::None).map_err(|error| {
        format!("zedkube does not restart for that, because it cannot note the time: {}", error_chain(&error))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_one_end_in_half_an_hour() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        pubsub::store::create_folder(&root.join("/run/zedkube")).unwrap();
        let minute = |minutes: u64| Moment(minutes * 60_000);
        for (at, ends) in [(100, true), (101, false), (129, false), (130, true), (159, false), (161, true)] {
            assert_eq!(may_end(&root, minute(at)).is_ok(), ends, "at {at} min");
        }
        // A time of another boot.
        assert!(may_end(&root, minute(5)).is_ok());
    }

    #[test]
    fn what_cannot_be_noted_is_no_reason_to_end() {
        let folder = tempfile::tempdir().unwrap();
        let why = may_end(&Root::new(folder.path()), Moment(0)).unwrap_err();
        assert!(why.contains("ended-because-of-a-hang"), "{why}");
    }
}
