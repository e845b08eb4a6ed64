//! Starts this test program again as another process.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Environment variable that tells a test that it is the other process: its task there.
const ROLE: &str = "EBB_ROBUST_ROLE";
/// Environment variable: the root that both processes use.
const ROOT: &str = "EBB_ROBUST_ROOT";

/// The task of this process, if it was started by a test.
pub(crate) fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// The root that the starting test passed.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(std::env::var_os(ROOT).expect("started without a root"))
}

/// A command that runs one test, by its full name, in `role`.
pub(crate) fn command(test: &str, role: &str, root: &Path) -> Command {
    through(&[], test, role, root)
}

/// As [`command`], by way of another program, which gets this one as its last arguments.
pub(crate) fn through(program: &[&str], test: &str, role: &str, root: &Path) -> Command {
    let this = std::env::current_exe().unwrap();
    let mut words = program.iter().map(|word| (*word).into()).chain([this.into_os_string()]);
    let mut command = Command::new(words.next().unwrap());
    command.args(words).args([test, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, role).env(ROOT, root);
    command
}

/// Checks that the other process ended well and ran a test: with a wrong test name it would end well, too.
#[track_caller]
pub(crate) fn check(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{}\n{text}\n{errors}", output.status);
    text
}

/// Start of the lines that say what a test covered.
const MARK: &str = "robust: ";

/// Prints what a test covered, for people who read its output.
pub(crate) fn say(text: &str) {
    writeln!(std::io::stdout(), "{MARK}{text}").unwrap();
}

/// Prints the lines of another process that ended well.
#[track_caller]
pub(crate) fn relay(output: &Output) {
    // The test runner prints the name of the test in front of the first line.
    let text = check(output);
    text.lines().filter_map(|line| line.split_once(MARK)).for_each(|(_, text)| say(text));
}
