//! Asks the host whether it needs a reboot: by a file that stands while it does, and by a program.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pubsub::{Owner, PathWatch, read_checked};
use runtime::settings::{Command, SentinelSettings};
use runtime::{AgentContext, SettingsWatch, Task, program};
use text::one_line;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::decide::Answer;
use crate::first_32_bits;

/// Limit in bytes for the file, and for the one beside it that names packages.
const MOST_BYTES: u64 = 64 * 1024;
/// Limit in bytes for the reason.
const MOST_REASON: usize = 300;
/// How many packages the reason names.
const MOST_PACKAGES: usize = 12;
/// How long after a change the file is read: a package manager writes it, then the names of packages, and one that is
/// replaced is gone for a moment.
const SETTLE: Duration = Duration::from_secs(5);
/// Limit for one run of the program. One that looks through all packages needs a minute on a slow device.
const PROGRAM_LIMIT: Duration = Duration::from_mins(5);

/// What is asked, as the settings say.
pub(crate) struct HostQuestion {
    root: pubsub::Root,
    settings: SettingsWatch,
    followed: Option<SentinelSettings>,
    file: Option<File>,
    program: Option<Program>,
}

/// The file, and what it said when it was read last.
struct File {
    path: PathBuf,
    watch: PathWatch,
    answer: Answer,
    /// When it has to be read again; None until it changes.
    due: Option<Instant>,
}

/// The task that runs the program again and again, and its last answer.
struct Program {
    _task: Task,
    answers: watch::Receiver<Answer>,
}

impl HostQuestion {
    /// Nothing is asked yet. Has to be called in a tokio runtime.
    pub(crate) fn new(context: &AgentContext) -> Self {
        let (root, settings) = (context.root().clone(), context.settings());
        Self { root, settings, followed: None, file: None, program: None }
    }

    /// The host's answer now.
    pub(crate) fn answer(&mut self) -> Answer {
        self.follow();
        let file = self.file.as_mut().map_or(Answer::Off, File::answer);
        let program = self.program.as_ref().map_or(Answer::Off, |program| program.answers.borrow().clone());
        file.or(program)
    }

    /// Returns when the answer may be another one. Can be dropped and called again.
    pub(crate) async fn changed(&mut self) {
        tokio::select! {
            () = changed_file(self.file.as_mut()) => {}
            () = changed_program(self.program.as_mut()) => {}
            () = self.settings.changed() => {}
        }
    }

    fn follow(&mut self) {
        let settings = self.settings.current().sentinel.clone();
        if self.followed.as_ref() == Some(&settings) {
            return;
        }
        let SentinelSettings { path, command, exit, interval } = settings.clone();
        self.file = path.map(|path| File::new(self.root.join(path)));
        self.program = command.map(|command| Program::start(command, exit, interval));
        self.followed = Some(settings);
    }
}

impl File {
    fn new(path: PathBuf) -> Self {
        let watch = PathWatch::new([&path, &packages_of(&path)]);
        Self { watch, answer: Answer::NotNeeded, due: Some(Instant::now()), path }
    }

    fn answer(&mut self) -> Answer {
        if self.due.is_some_and(|due| due <= Instant::now()) {
            (self.answer, self.due) = (read(&self.path), None);
        }
        self.answer.clone()
    }
}

async fn changed_file(file: Option<&mut File>) {
    let Some(file) = file else { return std::future::pending().await };
    if let Some(due) = file.due {
        return sleep_until(due).await;
    }
    file.watch.changed().await;
    file.due = Some(Instant::now() + SETTLE);
}

async fn changed_program(program: Option<&mut Program>) {
    let Some(program) = program else { return std::future::pending().await };
    if program.answers.changed().await.is_err() {
        // The task has panicked. Its last answer stays.
        std::future::pending::<()>().await;
    }
}

/// The file beside it that names packages, as Debian's `/run/reboot-required.pkgs`.
fn packages_of(path: &Path) -> PathBuf {
    let mut packages = OsString::from(path);
    packages.push(".pkgs");
    packages.into()
}

fn read(path: &Path) -> Answer {
    let file = match read_checked(path, MOST_BYTES, Owner::RootOrSelf) {
        Ok(None) => return Answer::NotNeeded,
        Ok(Some(bytes)) => bytes,
        Err(refusal) => return Answer::Unknown(refusal.to_string()),
    };
    // Without the packages a reboot is needed, too.
    let packages =
        read_checked(&packages_of(path), MOST_BYTES, Owner::RootOrSelf).ok().flatten().unwrap_or_default();
    let mark = first_32_bits(&[&file[..], &[0], &packages[..]].concat()).to_string();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Answer::Needed { reason: one_line(&format!("{name}: {}", reason(&file, &packages)), MOST_REASON), mark }
}

/// The packages that need the reboot; if there are none, what the file says.
fn reason(file: &[u8], packages: &[u8]) -> String {
    let (file, packages) = (String::from_utf8_lossy(file), String::from_utf8_lossy(packages));
    let names: BTreeSet<&str> = packages.lines().map(str::trim).filter(|name| !name.is_empty()).collect();
    let said = || {
        file.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("a reboot is needed").to_owned()
    };
    if names.is_empty() {
        return said();
    }
    let shown: Vec<&str> = names.iter().take(MOST_PACKAGES).copied().collect();
    let more = names.len().saturating_sub(MOST_PACKAGES);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more}", shown.join(", "))
}

impl Program {
    fn start(command: Command, exit: u32, interval: Duration) -> Self {
        let name = command.program.clone();
        let (sender, answers) = watch::channel(Answer::Unknown(format!("{name} has not ended yet")));
        let task = Task::spawn(async move {
            loop {
                let code = program::exit_code(&command, PROGRAM_LIMIT).await;
                sender.send_replace(answer_of(&name, code, exit));
                sleep(interval).await;
            }
        });
        Self { _task: task, answers }
    }
}

/// What an exit code says. `needed` is the one that asks for a reboot; the other one of 0 and 1 says that
/// none is needed.
fn answer_of(name: &str, code: Result<i32, String>, needed: u32) -> Answer {
    match code {
        Ok(code) if u32::try_from(code) == Ok(needed) => Answer::Needed {
            reason: one_line(&format!("{name}: exit code {code}"), MOST_REASON),
            mark: "program".to_owned(),
        },
        Ok(0 | 1) => Answer::NotNeeded,
        Ok(code) => Answer::Unknown(one_line(&format!("{name}: exit code {code} says neither"), MOST_REASON)),
        Err(error) => Answer::Unknown(one_line(&error, MOST_REASON)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_code_asks_for_a_reboot_or_not_or_says_nothing() {
        let needed =
            |code: i32| Answer::Needed { reason: format!("p: exit code {code}"), mark: "program".to_owned() };
        let neither = |code: i32| Answer::Unknown(format!("p: exit code {code} says neither"));
        for (code, exit, answer) in [
            (Ok(0), 0, needed(0)),
            (Ok(1), 0, Answer::NotNeeded),
            (Ok(0), 1, Answer::NotNeeded),
            (Ok(1), 1, needed(1)),
            (Ok(102), 102, needed(102)),
            (Ok(0), 102, Answer::NotNeeded),
            (Ok(2), 1, neither(2)),
            (Ok(-1), 255, neither(-1)),
            (Err("p: killed".to_owned()), 0, Answer::Unknown("p: killed".to_owned())),
        ] {
            assert_eq!(answer_of("p", code.clone(), exit), answer, "{code:?} {exit}");
        }
    }

    #[test]
    fn the_reason_names_the_packages() {
        let many: Vec<String> = (10..30).map(|number| format!("p{number}")).collect();
        for (file, packages, said) in [
            ("", "", "a reboot is needed"),
            ("\n*** System restart required ***\nmore\n", "", "*** System restart required ***"),
            ("x", "libc6\nlinux-base\nlibc6\n\n", "libc6, linux-base"),
            ("x", &many.join("\n"), "p10, p11, p12, p13, p14, p15, p16, p17, p18, p19, p20, p21 and 8 more"),
        ] {
            assert_eq!(reason(file.as_bytes(), packages.as_bytes()), said);
        }
    }
}
