//! A call that never answers although it has a deadline: only a new process gets rid of it.
//!
//! The process ends then, so that its parent starts it again, and goes on from the record; at most once in half an hour. The
//! touch file is fed all the time: whoever starves it makes EVE's watchdog reboot the device, undrained.

use std::time::Duration;

use drain::Moment;
use pubsub::store::write_durably;
use pubsub::{Backup, Owner, Root, read_checked};

use super::Service;
use runtime::error_chain;

/// Every call to the API server, and every command, has a deadline far below this one.
const TOO_LONG: Duration = Duration::from_mins(10);

/// The process ends for this at most so often: if that did not help, it will not help again.
const AT_MOST_EVERY: Duration = Duration::from_mins(30);

/// When a process last ended for this, in milliseconds of `CLOCK_BOOTTIME`; below `run/zedkube`.
const STAMP: &str = "ended-because-of-a-hang";

/// Why zedkube ends: a call hangs.
#[derive(Debug, thiserror::Error)]
#[error(
    "{call} has not answered for {minutes} min although it has a deadline; zedkube ends so that it is started again"
)]
pub struct Hanging {
    /// Which call.
    call: &'static str,
    /// For how long.
    minutes: u64,
}

impl Service {
    /// An error when a call hangs and a new process may help.
    pub(super) fn look_for_hanging(&mut self, now: Moment) -> Result<(), Hanging> {
        let limit = TOO_LONG + self.settings.current().health.timeout;
        let Some((call, since)) = self.performer.longest().filter(|(_, since)| limit < now.since(*since))
        else {
            self.around.hanging = None;
            return Ok(());
        };
        if self.around.hanging.is_some() {
            return Ok(());
        }
        let hanging = Hanging { call, minutes: now.since(since).as_secs() / 60 };
        match may_end(self.context.root(), now) {
            Ok(()) => Err(hanging),
            Err(why) => {
                let text = format!("{call} has not answered for {} min; {why}", hanging.minutes);
                tracing::error!("{text}");
                self.around.hanging = Some(text);
                Ok(())
            }
        }
    }
}

/// Notes that the process ends now; or why it must not.
fn may_end(root: &Root, now: Moment) -> Result<(), String> {
    let folder = root.join("/run/zedkube");
    let last = read_checked(&folder.join(STAMP), 32, Owner::RootOrSelf).ok().flatten();
    let last = last.and_then(|bytes| String::from_utf8(bytes).ok()?.trim().parse().ok()).map(Moment);
    if last.is_some_and(|last| last <= now && now.since(last) < AT_MOST_EVERY) {
        return Err(
            "zedkube was started again for that less than 30 min ago, which has not helped".to_owned()
        );
    }
    // Without the stamp it could end again and again.
    write_durably(&folder, STAMP, now.0.to_string().as_bytes(), Backup::None).map_err(|error| {
        format!("zedkube does not end for that while it cannot note it: {}", error_chain(&error))
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
        // Of another boot.
        assert!(may_end(&root, minute(5)).is_ok());
    }

    #[test]
    fn what_cannot_be_noted_is_no_reason_to_end() {
        let folder = tempfile::tempdir().unwrap();
        let why = may_end(&Root::new(folder.path()), Moment(0)).unwrap_err();
        assert!(why.contains("ended-because-of-a-hang"), "{why}");
    }
}
