//! Runs programs that the settings name.

use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

use command_fds::{CommandFdExt, FdMapping};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process;
use trust::Trust;

use crate::settings::Command;

/// Limit in bytes for the output that is kept: the first of stdout, the last of stderr.
const MOST_OUTPUT: usize = 2048;
/// A program that says more is told to stop, by a closed pipe: reading without end takes a whole core.
const MOST_READ: usize = 16 * 1024 * 1024;
/// File descriptor of the file that a program inherits: a number that no shell script uses.
const INHERITED: i32 = 99;
/// The environment that a program gets, beside the variables of its call. An agent may have been started with anything.
const PASSED_ON: [&str; 12] = [
    "PATH",
    "HOME",
    "LANG",
    "TZ",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
];
/// Time to read the rest of the output after the program has ended: its children may hold the pipes open for ever.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Runs a program until it ends, for at most `limit`, and returns the beginning of its stdout. The error names the
/// program, its exit status and the end of its stderr. A program that another user may have written, or may replace, is
/// not run.
///
/// If the time is over or the future is dropped, the program is killed with all processes that it started, because a
/// second attempt must not run beside processes of the first. If the program ends by itself, the processes that it
/// leaves are its own matter.
pub async fn run(
    command: &Command,
    environment: &[(&str, String)],
    limit: Duration,
) -> Result<String, String> {
    run_with(command, environment, limit, Files::default()).await
}

/// Runs a program as [`run`] does, with `input` as its stdin: a file in memory, so nothing waits for a program that does
/// not read it.
pub async fn run_with_input(
    command: &Command,
    environment: &[(&str, String)],
    limit: Duration,
    input: &[u8],
) -> Result<String, String> {
    let stdin = in_memory(input)
        .map_err(|error| format!("{}: its input cannot be kept in memory: {error}", command.program))?;
    run_with(command, environment, limit, Files { stdin: Some(stdin), held: None }).await
}

/// Runs a program as [`run`] does. The program inherits `file` and its lock: the lock is held until the program and
/// all processes that it started have ended.
pub async fn run_holding(
    command: &Command,
    environment: &[(&str, String)],
    limit: Duration,
    file: File,
) -> Result<String, String> {
    run_with(command, environment, limit, Files { stdin: None, held: Some(file) }).await
}

/// Runs a program as [`run`] does, and returns its exit code. A program that a signal has ended has none.
pub async fn exit_code(command: &Command, limit: Duration) -> Result<i32, String> {
    let Ended { status, .. } = run_to_end(command, &[], limit, Files::default()).await?;
    status.code().ok_or_else(|| format!("{}: {status}", command.program))
}

/// The open files that a program gets, beside the pipes for its output.
#[derive(Default)]
struct Files {
    /// None is `/dev/null`.
    stdin: Option<File>,
    /// See [`run_holding`].
    held: Option<File>,
}

/// A file in memory that is read from its beginning.
fn in_memory(bytes: &[u8]) -> std::io::Result<File> {
    let mut file = File::from(memfd_create("stdin", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

async fn run_with(
    command: &Command,
    environment: &[(&str, String)],
    limit: Duration,
    files: Files,
) -> Result<String, String> {
    #[cfg(feature = "program-stand-in")]
    if let Some(run) = stand_in::installed() {
        let ended = tokio::time::timeout(limit, run(command, environment, files.held)).await;
        return ended
            .unwrap_or_else(|_| Err(format!("still running after {} s, killed", limit.as_secs())))
            .map_err(|error| format!("{}: {error}", command.program));
    }
    let Ended { status, first, last } = run_to_end(command, environment, limit, files).await?;
    if status.success() {
        return Ok(text(&first));
    }
    let (name, said) = (&command.program, text(&last));
    Err(if said.is_empty() { format!("{name}: {status}") } else { format!("{name}: {status}: {said}") })
}

/// How a program ended, and what it said.
struct Ended {
    status: std::process::ExitStatus,
    first: Vec<u8>,
    last: Vec<u8>,
}

async fn run_to_end(
    command: &Command,
    environment: &[(&str, String)],
    limit: Duration,
    files: Files,
) -> Result<Ended, String> {
    let named = |error: String| format!("{}: {error}", command.program);
    let checked = Trust::RootOrSelf.check_program(&command.program);
    checked.map_err(|error| named(format!("is not run: {error}")))?;
    let started = start(command, environment, files);
    let mut child = started.map_err(|error| named(format!("cannot be started: {error}")))?;
    let mut group = Group(child.id());
    let (mut first, mut last) = (Vec::new(), Vec::new());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let reading =
        async { tokio::join!(keep(stdout, &mut first, Keep::First), keep(stderr, &mut last, Keep::Last)) };
    let status = tokio::time::timeout(limit, wait_and_read(&mut child, reading))
        .await
        .map_err(|_| named(format!("still running after {} s, killed", limit.as_secs())))?
        .map_err(|error| named(error.to_string()))?;
    group.0 = None;
    Ok(Ended { status, first, last })
}

fn start(command: &Command, environment: &[(&str, String)], files: Files) -> std::io::Result<process::Child> {
    let mut starting = std::process::Command::new(&command.program);
    starting
        .args(&command.arguments)
        .env_clear()
        .envs(PASSED_ON.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(files.stdin.map_or_else(Stdio::null, Stdio::from))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    if let Some(file) = files.held {
        let mapping = FdMapping { parent_fd: OwnedFd::from(file), child_fd: INHERITED };
        starting.fd_mappings(vec![mapping]).map_err(std::io::Error::other)?;
    }
    // `starting` holds this process's copies of the files. Dropping it here leaves them to the program alone.
    process::Command::from(starting).kill_on_drop(true).spawn()
}

/// The process group of a running command; killed when dropped.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0.and_then(|id| i32::try_from(id).ok())
            && let Err(error) = killpg(Pid::from_raw(leader), Signal::SIGKILL)
        {
            tracing::debug!("cannot kill the command's process group {leader}: {error}");
        }
    }
}

/// Reads the output while the program runs, because a full pipe would block it, and for a short time after its end.
async fn wait_and_read(
    child: &mut process::Child,
    reading: impl Future,
) -> std::io::Result<std::process::ExitStatus> {
    tokio::pin!(reading);
    let ended = tokio::select! {
        ended = child.wait() => ended?,
        _ = &mut reading => return child.wait().await,
    };
    // Output that comes later is lost.
    if tokio::time::timeout(LAST_WORDS, reading).await.is_err() {
        tracing::debug!("a child of the command still holds its pipes");
    }
    Ok(ended)
}

#[derive(Clone, Copy)]
enum Keep {
    First,
    Last,
}

async fn keep(from: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>, which: Keep) {
    let Some(mut from) = from else { return };
    let mut buffer = vec![0; 16 * 1024];
    let mut read = 0;
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        read += count;
        if MOST_READ < read {
            return;
        }
        kept.extend(buffer.iter().take(count));
        match which {
            Keep::First => kept.truncate(MOST_OUTPUT),
            Keep::Last => {
                kept.drain(..kept.len().saturating_sub(MOST_OUTPUT));
            }
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

/// A function that runs in the place of programs, where no process can be started: in the simulator.
#[cfg(feature = "program-stand-in")]
pub mod stand_in {
    use std::fs::File;
    use std::path::Path;
    use std::pin::Pin;
    use std::sync::OnceLock;

    use crate::settings::Command;

    /// What a program does: its stdout, or its exit status and the end of its stderr. It holds the file until it ends.
    /// Dropping the future kills it.
    pub type Program = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;
    /// Begins a program with this environment, which inherits this file.
    pub type Run = fn(&Command, &[(&str, String)], Option<File>) -> Program;

    /// Kills the programs that have inherited this file, and returns their number.
    pub type Kill = fn(&Path) -> usize;

    static INSTALLED: OnceLock<(Run, Kill)> = OnceLock::new();

    /// From now on this process runs and kills all programs so. The first call counts.
    pub fn install(run: Run, kill: Kill) {
        INSTALLED.get_or_init(|| (run, kill));
    }

    pub(super) fn installed() -> Option<Run> {
        INSTALLED.get().map(|(run, _)| *run)
    }

    pub(crate) fn kill() -> Option<Kill> {
        INSTALLED.get().map(|(_, kill)| *kill)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    async fn sh(script: &str, limit: Duration) -> Result<String, String> {
        let command =
            Command { program: "sh".to_owned(), arguments: vec!["-c".to_owned(), script.to_owned()] };
        run(&command, &[("EBB_VERSION", "2.0".to_owned())], limit).await
    }

    #[tokio::test]
    async fn how_a_command_ended() {
        let minute = Duration::from_mins(1);
        assert_eq!(sh("echo \"$EBB_VERSION\"; echo more", minute).await, Ok("2.0\nmore".to_owned()));
        let failed = sh("echo no space >&2; exit 3", minute).await.unwrap_err();
        assert!(failed.contains("exit status: 3") && failed.ends_with("no space"), "{failed}");
        let missing = Command { program: "/nowhere/activate".to_owned(), arguments: Vec::new() };
        let missing = run(&missing, &[], minute).await.unwrap_err();
        assert!(missing.starts_with("/nowhere/activate: cannot be started"), "{missing}");
    }

    #[tokio::test]
    async fn a_long_input_reaches_it_whole_and_need_not_be_read() {
        let minute = Duration::from_mins(1);
        let input: Vec<u8> = (0..250).cycle().take(1024 * 1024).collect();
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("copy");
        for script in [format!("cat > {}", copy.display()), ":".to_owned()] {
            let command = Command { program: "sh".to_owned(), arguments: vec!["-c".to_owned(), script] };
            assert_eq!(run_with_input(&command, &[], minute, &input).await, Ok(String::new()));
        }
        assert!(std::fs::read(&copy).unwrap() == input);
    }

    #[tokio::test]
    async fn it_gets_nothing_that_the_agent_was_started_with() {
        let env = Command { program: "env".to_owned(), arguments: Vec::new() };
        let minute = Duration::from_mins(1);
        let said = run(&env, &[("EBB_VERSION", "2.0".to_owned())], minute).await.unwrap();
        let names = said.lines().filter_map(|line| Some(line.split_once('=')?.0));
        let other: Vec<&str> = names.filter(|name| !PASSED_ON.contains(name)).collect();
        assert_eq!(other, ["EBB_VERSION"], "cargo has set many more");

        let inherited = tempfile::tempfile().unwrap();
        nix::fcntl::fcntl(&inherited, nix::fcntl::F_SETFD(nix::fcntl::FdFlag::empty())).unwrap();
        let script = format!("[ -e /proc/self/fd/{} ] && echo open; ulimit -c", inherited.as_raw_fd());
        assert!(sh(&script, minute).await.unwrap().starts_with("open"));
        crate::process::begin();
        assert_eq!(sh(&script, minute).await.unwrap(), "0");
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "a test file need not be durable")]
    async fn what_another_user_may_write_is_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("activate");
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        let command = Command { program: path.display().to_string(), arguments: Vec::new() };
        for (mode, expected) in [(0o755, ""), (0o777, "is not run: it is writable by others")] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let said = run(&command, &[], Duration::from_mins(1)).await.err().unwrap_or_default();
            assert!(said.contains(expected) && said.is_empty() == expected.is_empty(), "{said}");
        }
    }

    #[tokio::test]
    async fn a_command_that_does_not_end_is_killed() {
        let late = sh("exec sleep 600", Duration::from_millis(1)).await.unwrap_err();
        assert!(late.contains("still running"), "{late}");
    }

    #[tokio::test]
    async fn its_children_are_killed_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let script = format!("sleep 600 & echo $! > {0}.new; mv {0}.new {0}; wait", file.display());
        let began = async {
            while !file.exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            ended = sh(&script, Duration::from_mins(1)) => panic!("{ended:?}"),
            () = began => {}
        }
        let pid = std::fs::read_to_string(&file).unwrap();
        let stat = std::path::PathBuf::from(format!("/proc/{}/stat", pid.trim()));
        // A zombie that is not reaped yet is dead, too.
        while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn a_child_that_stays_does_not_hold_the_command() {
        assert_eq!(sh("sleep 3 & exit 0", Duration::from_mins(1)).await, Ok(String::new()));
    }

    #[tokio::test]
    async fn a_program_that_talks_without_end_is_ended() {
        for script in ["exec cat /dev/zero", "exec cat /dev/zero >&2"] {
            let ended = sh(script, Duration::from_mins(10)).await.unwrap_err();
            assert!(ended.contains("signal: 13"), "{script}");
        }
    }

    #[tokio::test]
    async fn much_talk_is_cut() {
        let talk = "head -c 300000 /dev/zero | tr '\\0' x; echo end";
        let first = sh(talk, Duration::from_mins(1)).await.unwrap();
        assert_eq!((first.len(), first.ends_with('x')), (MOST_OUTPUT, true));
        let failed = sh(&format!("{{ {talk}; }} >&2; exit 1"), Duration::from_mins(1)).await.unwrap_err();
        assert!(failed.ends_with("xend") && failed.len() < 2 * MOST_OUTPUT, "{}", failed.len());
    }
}
