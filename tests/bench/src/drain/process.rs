//! Runs a program to its end and measures its peak memory.

use std::fs::{self, OpenOptions};
use std::io::{Read, Seek, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// Interval at which a program's memory is read. A peak in its last moments may be missed.
const LOOK: Duration = Duration::from_millis(5);

/// Time and memory that a program used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needed {
    /// Time from the program's start to its end.
    pub(crate) time: Duration,
    /// The largest `VmHWM` seen, KiB.
    pub(crate) peak: u64,
}

/// Runs the command to its end. If its exit code is not 0, the error contains its output.
pub(crate) fn run(command: &mut Command) -> Result<Needed> {
    // A file, not a pipe: a pipe would have to be read meanwhile.
    let mut output = tempfile::tempfile()?;
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output.try_clone()?);
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
    let began = Instant::now();
    let name = command.get_program().display().to_string();
    let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
    let (id, ended) = (child.id(), AtomicBool::new(false));
    let (status, time, peak) = thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(id, &ended));
        let status = child.wait();
        let time = began.elapsed();
        ended.store(true, Ordering::Relaxed);
        (status, time, watcher.join().unwrap_or_default())
    });
    let mut written = String::new();
    output.rewind()?;
    output.read_to_string(&mut written)?;
    ensure!(status?.success(), "{command:?} failed:\n{}", written.trim());
    Ok(Needed { time, peak })
}

/// The peak memory of a running process so far, in KiB.
pub(super) fn peak(id: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// Resets the peak memory of a running process.
pub(super) fn forget_peak(id: u32) -> Result<()> {
    let mut file = OpenOptions::new().write(true).open(format!("/proc/{id}/clear_refs"))?;
    Ok(file.write_all(b"5")?)
}

#[expect(clippy::disallowed_methods, reason = "this thread has nothing else to do")]
fn watch(id: u32, ended: &AtomicBool) -> u64 {
    let mut most = 0;
    while !ended.load(Ordering::Relaxed) {
        most = most.max(peak(id).unwrap_or(0));
        thread::sleep(LOOK);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_programs_memory_is_seen_and_its_failure_told() {
        let needed = run(Command::new("sleep").arg("0.1")).unwrap();
        assert!(needed.peak > 100, "{needed:?}");
        let failure = run(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).unwrap_err();
        assert!(failure.to_string().ends_with("failed:\nwhy"), "{failure}");
        assert!(run(&mut Command::new("/nowhere")).is_err());
        let own = std::process::id();
        forget_peak(own).unwrap();
        assert!(peak(own).is_some_and(|peak| peak > 100));
    }
}
