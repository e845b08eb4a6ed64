//! Signs of life of an agent, given only as long as its loop makes progress.
//!
//! Three watchdogs read them. EVE's watchdog, beside zedbox, reboots a device whose `ROOT/run/<agent>.touch` is older
//! than 300 s. systemd restarts an agent whose watchdog message is missing. `ebb run` restarts one whose
//! `ROOT/run/ebb/lock/<agent>/touch` is old. A loop that hangs gives no sign, so it is found.

use std::env;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;
use nix::fcntl::OFlag;
use nix::sys::stat::futimens;
use nix::sys::time::TimeSpec;
use pubsub::{Owner, Root, common_moment, read_checked};
use sd_notify::NotifyState;
use tokio::sync::Notify;

use crate::clock;

/// Interval of the signs, as in EVE's agents.
pub(crate) const BEAT: Duration = Duration::from_secs(25);
/// After this time without progress a loop counts as hung. One late beat is allowed.
pub const HANGS_AFTER: Duration = Duration::from_secs(45);
/// After this time without progress the service manager ends the agent. The same value is in systemd's units
/// (WatchdogSec). It is well below the 300 s of EVE's watchdog, which reboots the device.
pub const ENDED_AFTER: Duration = Duration::from_mins(3);
/// The environment variable with the service manager's socket: systemd's sd_notify(3).
const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";
/// Number of digits of the time in our touch file. It is fixed, so that even on a full disk the next time can be
/// written.
const TIME_DIGITS: usize = 20;
/// A number of steps that no loop reaches: the loop was not asked yet.
const NEVER_ASKED: u64 = u64::MAX;
/// Lower limit of the interval, for a very short watchdog of systemd.
const SHORTEST_BEAT: Duration = Duration::from_millis(100);

/// The liveness handle of an agent's loop. Clones share it.
#[derive(Clone, Debug)]
pub struct Liveness(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The agent's own touch file, and the one of EVE's watchdog beside zedbox.
    touch: Vec<PathBuf>,
    beat: Duration,
    /// The agent has started, but the service manager was not told yet.
    owes_ready: AtomicBool,
    /// Number of steps of the loop.
    steps: AtomicU64,
    /// The number of steps when the loop was last asked to show progress; [`NEVER_ASKED`] before that.
    asked_at: AtomicU64,
    asked: Notify,
}

impl Liveness {
    /// Touches the files now, and from then on as long as the loop makes progress. Ends with the last handle. Call it
    /// in a tokio runtime.
    pub(crate) fn start(touch: Vec<PathBuf>) -> Self {
        let beat = beat(sd_notify::watchdog_enabled());
        let shared = Arc::new(Shared {
            touch,
            beat,
            owes_ready: AtomicBool::new(false),
            steps: AtomicU64::new(0),
            asked_at: AtomicU64::new(NEVER_ASKED),
            asked: Notify::new(),
        });
        tokio::spawn(feed(Arc::downgrade(&shared)));
        Self(shared)
    }

    /// Notes a step of the loop. Cheap; call it once per step.
    pub fn progress(&self) {
        self.0.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns when the loop has to show progress because it has not since the last beat. Wait for it beside the
    /// other events, then call [`Liveness::progress`]. The wait may be dropped and begun again at any time.
    pub async fn due(&self) {
        loop {
            // Before the check, so that a request in between is not missed.
            let asked = self.0.asked.notified();
            if self.0.steps.load(Ordering::Relaxed) == self.0.asked_at.load(Ordering::Relaxed) {
                return;
            }
            asked.await;
        }
    }

    /// Reports to systemd that the agent has started. Does nothing without systemd.
    pub fn ready(&self) {
        self.0.owes_ready.store(true, Ordering::Relaxed);
        self.0.repeat_ready();
    }

    /// Sets the status line of `systemctl status`.
    pub fn status(&self, text: &str) {
        // A line break would begin a second message.
        notify(&[NotifyState::Status(&text::plain(text))]);
    }
}

impl Shared {
    /// Asks a loop that has done this number of steps for one more. A loop that waits answers at once, before the
    /// next beat.
    fn ask(&self, steps: u64) {
        self.asked_at.store(steps, Ordering::Relaxed);
        self.asked.notify_waiters();
    }

    /// Repeats READY if it did not reach systemd, because systemd ends a service that never becomes ready.
    fn repeat_ready(&self) {
        if self.owes_ready.load(Ordering::Relaxed) && notify(&[NotifyState::Ready]) {
            self.owes_ready.store(false, Ordering::Relaxed);
        }
    }
}

/// The time for which an agent's loop has made no progress; None if there is no touch file.
///
/// Two clocks are compared, and the shorter time counts. The time written in the file leaves out suspend and does not
/// jump; the file's modification time is right even if the disk was too full to write. A modification time in the future
/// says nothing: the wall clock was set back since.
pub fn silent_for(root: &Root, agent: &str) -> Option<Duration> {
    let path = root.touch(agent);
    let text = read_checked(&path, 64, Owner::RootOrSelf).ok().flatten()?;
    let beat_ms: u64 = std::str::from_utf8(&text).ok()?.trim().parse().ok()?;
    let touched = fs::symlink_metadata(&path).ok()?.modified().ok()?;
    let touched = Timestamp::try_from(touched).ok()?;
    let by_beat = Duration::from_millis(clock::awake_millis().saturating_sub(beat_ms));
    let by_wall = Duration::try_from(clock::wall().duration_since(touched)).unwrap_or(Duration::MAX);
    Some(by_beat.min(by_wall))
}

/// The same if it is so long that the agent's loop counts as hung ([`HANGS_AFTER`]).
pub fn hung_for(root: &Root, agent: &str) -> Option<Duration> {
    silent_for(root, agent).filter(|silent| HANGS_AFTER <= *silent)
}

/// The interval: half of systemd's limit, so that one late beat does no harm.
fn beat(watchdog: Option<Duration>) -> Duration {
    watchdog.map_or(BEAT, |limit| (limit / 2).clamp(SHORTEST_BEAT, BEAT))
}

async fn feed(agent: Weak<Shared>) {
    let mut seen = None;
    let mut failing: Vec<bool> = Vec::new();
    while let Some(shared) = agent.upgrade() {
        let steps = shared.steps.load(Ordering::Relaxed);
        if seen.is_some() {
            shared.ask(steps);
        }
        if seen != Some(steps) {
            seen = Some(steps);
            failing.resize(shared.touch.len(), false);
            for (path, was_failing) in shared.touch.iter().zip(&mut failing) {
                let failed = touch(path);
                log_change(path, *was_failing, failed.as_ref().err());
                *was_failing = failed.is_err();
            }
            shared.repeat_ready();
            notify(&[NotifyState::Watchdog]);
        }
        let next = common_moment(shared.beat);
        drop(shared);
        tokio::time::sleep_until(next).await;
    }
}

/// Creates the file if it is missing, writes the time of this beat, and sets the file's times to now.
fn touch(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
        pubsub::store::create_folder(folder).map_err(io::Error::other)?;
    }
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o644)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path)?;
    // Watchdogs read the file's modification time, which must be set even on a full disk.
    let written = file.write_all_at(format!("{:0TIME_DIGITS$}\n", clock::awake_millis()).as_bytes(), 0);
    futimens(&file, &TimeSpec::UTIME_NOW, &TimeSpec::UTIME_NOW)?;
    if let Err(error) = written {
        tracing::debug!("cannot write the time of the beat into {}: {error}", path.display());
    }
    Ok(())
}

/// Logs the first failure and the recovery, but not every failed beat, because a full disk may last.
fn log_change(path: &Path, was_failing: bool, error: Option<&io::Error>) {
    match (was_failing, error) {
        (false, Some(error)) => {
            tracing::warn!(
                "cannot touch {}: {error}; a watchdog may take the agent for hung",
                path.display()
            );
        }
        (true, None) => tracing::info!("{} can be touched again", path.display()),
        (false, None) | (true, Some(_)) => {}
    }
}

/// Sends a state to the service manager. Returns true if it was sent, or if there is no service manager.
fn notify(state: &[NotifyState<'_>]) -> bool {
    let Some(socket) = env::var_os(NOTIFY_SOCKET) else { return true };
    let said = send(socket.as_bytes(), state);
    if let Err(error) = &said {
        tracing::debug!("cannot send to the service manager: {error}");
    }
    said.is_ok()
}

/// Sends without waiting: a service manager that does not read must not block an agent.
fn send(to: &[u8], state: &[NotifyState<'_>]) -> io::Result<()> {
    let address = match to.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(Path::new(std::ffi::OsStr::from_bytes(to)))?,
    };
    let message: String = state.iter().flat_map(|state| [state.to_string(), "\n".to_owned()]).collect();
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(message.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn the_beat_follows_a_shorter_watchdog() {
        for (watchdog_ms, beat_ms) in
            [(None, 25_000), (Some(20_000), 10_000), (Some(300_000), 25_000), (Some(1), 100)]
        {
            assert_eq!(
                beat(watchdog_ms.map(Duration::from_millis)),
                Duration::from_millis(beat_ms),
                "{watchdog_ms:?}"
            );
        }
    }

    /// True if the file was touched since its time was set back; sets the time back again.
    fn was_touched(path: &Path) -> bool {
        let Ok(file) = OpenOptions::new().write(true).open(path) else { return false };
        let touched = file.metadata().unwrap().modified().unwrap() != SystemTime::UNIX_EPOCH;
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        touched
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_loop_that_turns_is_alive() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("zedkube.touch");
        let liveness = Liveness::start(vec![path.clone()]);
        let a_beat = async || tokio::time::sleep(BEAT + Duration::from_millis(1)).await;

        a_beat().await;
        assert!(was_touched(&path), "at the start");
        a_beat().await;
        assert!(!was_touched(&path), "no progress");
        liveness.due().await;
        liveness.progress();
        a_beat().await;
        assert!(was_touched(&path), "progress");
        std::fs::remove_file(&path).unwrap();
        liveness.progress();
        a_beat().await;
        assert!(path.exists(), "created again");

        let agent = Arc::downgrade(&liveness.0);
        drop(liveness);
        assert!(agent.upgrade().is_none(), "the task does not keep the agent alive");
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_is_always_busy_is_alive() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("zedkube.touch");
        let liveness = Liveness::start(vec![path.clone()]);
        tokio::task::yield_now().await;
        assert!(was_touched(&path), "at the start");
        // Each wait is dropped, because another event always comes first.
        for _ in 0..60 {
            tokio::select! {
                biased;
                () = liveness.due() => liveness.progress(),
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
            }
        }
        assert!(was_touched(&path));
    }

    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path().join("target"), &link).unwrap();
        assert!(touch(&link).is_err());
        assert!(!folder.path().join("target").exists());
    }

    #[test]
    fn a_service_manager_that_does_not_read_stops_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let _manager = UnixDatagram::bind(&path).unwrap();
        let to = path.as_os_str().as_bytes();
        // The queue of a datagram socket has room for a few messages.
        let refused = (0..10_000).find_map(|_| send(to, &[NotifyState::Watchdog]).err()).unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn how_long_a_loop_is_silent() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        assert_eq!(silent_for(&root, "zedkube"), None, "no file");
        let path = root.touch("zedkube");
        touch(&path).unwrap();
        let is_short = |silent: Option<Duration>| silent.is_some_and(|silent| silent < HANGS_AFTER);
        assert!(is_short(silent_for(&root, "zedkube")));

        let file = OpenOptions::new().write(true).open(&path).unwrap();
        let old = SystemTime::UNIX_EPOCH;
        file.set_modified(old).unwrap();
        assert!(is_short(silent_for(&root, "zedkube")), "the wall clock jumped, or the device was suspended");
        file.write_all_at(b"00000000000000000000", 0).unwrap();
        file.set_modified(old).unwrap();
        let up = Duration::from_millis(clock::awake_millis());
        let silent = silent_for(&root, "zedkube").unwrap();
        assert!(up <= silent, "{silent:?}");
        let later = clock::wall() + Duration::from_hours(1);
        file.set_modified(later.into()).unwrap();
        assert!(
            silent_for(&root, "zedkube").is_some_and(|silent| up <= silent),
            "the wall clock was set back"
        );
        touch(&path).unwrap();
        assert!(is_short(silent_for(&root, "zedkube")));
    }
}
