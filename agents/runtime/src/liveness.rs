//! Showing that an agent is alive, as long as its loop makes progress.
//!
//! EVE's watchdog reboots a device whose `ROOT/run/<agent>.touch` is older than 300 s; systemd restarts an agent
//! whose watchdog message is missing. Both are fed from here, and only while the loop itself says so: a loop that
//! hangs is to be found out.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::sys::stat::futimens;
use nix::sys::time::TimeSpec;
use sd_notify::NotifyState;
use tokio::time::Instant;

/// EVE's agents touch their file this often.
const BEAT: Duration = Duration::from_secs(25);
/// However short systemd's watchdog is.
const SHORTEST_BEAT: Duration = Duration::from_millis(100);

/// The handle of an agent's loop. Clones are the same agent.
#[derive(Clone, Debug)]
pub struct Liveness(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    touch: PathBuf,
    beat: Duration,
    steps: AtomicU64,
    began: Instant,
    /// When the loop last showed progress, in milliseconds since it began.
    shown_ms: AtomicU64,
}

impl Liveness {
    /// Touches the file now and from then on as long as the loop makes progress. Ends with its last handle.
    /// Call it in a tokio runtime.
    pub(crate) fn start(touch: PathBuf) -> Self {
        let beat = beat(sd_notify::watchdog_enabled());
        let shared = Arc::new(Shared {
            touch,
            beat,
            steps: AtomicU64::new(1),
            began: Instant::now(),
            shown_ms: AtomicU64::new(0),
        });
        tokio::spawn(feed(Arc::downgrade(&shared)));
        Self(shared)
    }

    /// The loop has done a step. Cheap; call it once per turn.
    pub fn progress(&self) {
        self.0.steps.fetch_add(1, Ordering::Relaxed);
        let now_ms = u64::try_from(self.0.began.elapsed().as_millis()).unwrap_or(0);
        self.0.shown_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Returns when a loop has to show that it still turns, idle or busy: wait for it beside the other events, then
    /// call [`Liveness::progress`]. How often the wait is begun anew does not matter.
    pub async fn due(&self) {
        let shown = self.0.began + Duration::from_millis(self.0.shown_ms.load(Ordering::Relaxed));
        tokio::time::sleep_until(shown + self.0.beat / 2).await;
    }

    /// Tells systemd that the agent has started. Without systemd nothing happens.
    pub fn ready(&self) {
        tell(&[NotifyState::Ready]);
    }

    /// The line that `systemctl status` shows.
    pub fn status(&self, text: &str) {
        // A line break would begin another message.
        let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        tell(&[NotifyState::Status(&line)]);
    }
}

/// Half of systemd's limit, so that one late beat does no harm.
fn beat(watchdog: Option<Duration>) -> Duration {
    watchdog.map_or(BEAT, |limit| (limit / 2).clamp(SHORTEST_BEAT, BEAT))
}

async fn feed(agent: Weak<Shared>) {
    let mut seen = 0;
    let mut failing = false;
    while let Some(shared) = agent.upgrade() {
        let steps = shared.steps.load(Ordering::Relaxed);
        if steps != seen {
            seen = steps;
            let failed = touch(&shared.touch);
            tell(&[NotifyState::Watchdog]);
            log_change(&shared.touch, failing, failed.as_ref().err());
            failing = failed.is_err();
        }
        let beat = shared.beat;
        drop(shared);
        tokio::time::sleep(beat).await;
    }
}

/// Makes the file if it is missing, and sets its times to now.
fn touch(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o644)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path)?;
    Ok(futimens(&file, &TimeSpec::UTIME_NOW, &TimeSpec::UTIME_NOW)?)
}

/// A full disk lasts: one line when it begins, one when it is over.
fn log_change(path: &Path, was_failing: bool, error: Option<&io::Error>) {
    match (was_failing, error) {
        (false, Some(error)) => {
            tracing::warn!("cannot touch {}: {error}; a watchdog may act on that", path.display());
        }
        (true, None) => tracing::info!("{} can be touched again", path.display()),
        (false, None) | (true, Some(_)) => {}
    }
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!("cannot tell the service manager: {error}");
    }
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

    /// Whether the file was touched since it was made old; it is made old again.
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
        let liveness = Liveness::start(path.clone());
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
        assert!(path.exists(), "made anew");

        let agent = Arc::downgrade(&liveness.0);
        drop(liveness);
        assert!(agent.upgrade().is_none(), "the task does not keep the agent alive");
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_is_always_busy_is_alive() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("zedkube.touch");
        let liveness = Liveness::start(path.clone());
        tokio::task::yield_now().await;
        assert!(was_touched(&path), "at the start");
        // Each turn waits anew, and something else always comes first.
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
}
