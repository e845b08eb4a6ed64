//! `ebb setup`: puts ebb into service on this machine. It looks at the host, says what it has found and what it would do,
//! and does it with `--yes`; `--check` only looks, `--remove` takes ebb out of service.

mod finding;
mod host;
mod remove;
mod steps;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use kubectl_ebb::screen;
use pubsub::{Persistence, Root};
use runtime::peers;
use schemas::{NodeDrainReport, agent};

use crate::operator::readable_root;
use crate::waiting::until;

use finding::{Finding, look};

pub(crate) use finding::away;
pub(crate) use host::Host;
pub(crate) use remove::{own_cordon, remove};
pub(crate) use steps::change;

/// Limit until zedkube has looked at its cluster, which normally takes a second or two.
const FIRST_REPORT: Duration = Duration::from_secs(30);

/// Arguments of `ebb setup`.
#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "flags that a person types")]
pub(crate) struct SetupArguments {
    /// Do what is missing, then show what a drain of this node would do now, and its status
    #[arg(long, conflicts_with = "check")]
    yes: bool,
    /// Only look
    #[arg(long)]
    check: bool,
    /// Take ebb out of service: take back what is commanded, give the node and its slot back, then stop and disable the
    /// units. The files stay
    #[arg(long, conflicts_with_all = ["check", "without_hold", "sentinel"])]
    remove: bool,
    #[command(flatten)]
    wanted: Wanted,
    /// Folder that is used as the root of the device's files (for tests and containers)
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// With --check: print the findings as JSON
    #[arg(long, requires = "check")]
    json: bool,
}

/// What is put into service beside the agents.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Leave ebb-hold.service alone: a `reboot` that somebody types does not wait for a drain
    #[arg(long)]
    without_hold: bool,
    /// Have this device rebooted, drained, when the package manager needs it (ebb-sentinel.service)
    #[arg(long)]
    sentinel: bool,
}

impl Wanted {
    /// The same as words of a command.
    pub(crate) fn words(self) -> impl Iterator<Item = &'static str> {
        let words = [(self.without_hold, "--without-hold"), (self.sentinel, "--sentinel")];
        words.into_iter().filter_map(|(is_set, word)| is_set.then_some(word))
    }
}

/// Exit code 0 if all is well afterwards, 1 if something is missing or wrong.
pub(crate) fn run(arguments: &SetupArguments) -> anyhow::Result<ExitCode> {
    let root = readable_root(&arguments.root)?;
    if arguments.remove {
        return if arguments.yes { remove(&root) } else { remove::show(&root) }.map(|()| ExitCode::SUCCESS);
    }
    if arguments.yes {
        return put_into_service(&root, arguments.wanted);
    }
    let found = kubectl_ebb::in_runtime(async { Ok(look(&root, arguments.wanted).await) })?;
    if arguments.json {
        screen::json(&found)?;
        return Ok(code(&found));
    }
    screen::lines(finding::lines(&found));
    let mut steps = found.iter().filter_map(|finding| finding.step.as_ref()).peekable();
    if !arguments.check && steps.peek().is_some() {
        screen::line("`ebb setup --yes` would do:");
        screen::lines(steps.map(|step| format!("  {step}")));
    }
    Ok(code(&found))
}

/// Does what is missing, and says what it does. Exit code 0 if all is well afterwards, 1 if not.
///
/// # Errors
/// A step fails.
pub(crate) fn put_into_service(root: &Root, wanted: Wanted) -> anyhow::Result<ExitCode> {
    let found = kubectl_ebb::in_runtime(async { Ok(look(root, wanted).await) })?;
    screen::lines(finding::lines(&found));
    for step in found.iter().filter_map(|finding| finding.step.as_ref()) {
        screen::line(&format!("$ {step}"));
        step.take(root)?;
    }
    trial(root, wanted)
}

/// Waits until zedkube has looked around, then shows the plan, the status, and what is still not well.
fn trial(root: &Root, wanted: Wanted) -> anyhow::Result<ExitCode> {
    let found = kubectl_ebb::in_runtime(async {
        let folder = root.folder::<NodeDrainReport>(agent::ZEDKUBE, Persistence::Volatile);
        let has_looked = || peers::report(root).filter(|report| report.preflight.is_some());
        until([folder], FIRST_REPORT, has_looked).await;
        Ok(look(root, wanted).await)
    })?;
    let is_in_cluster = found.iter().any(|finding| finding.what == finding::NODE && finding.is_good());
    for verb in is_in_cluster.then_some("plan").into_iter().chain(["status"]) {
        screen::line("");
        screen::line(&format!("$ ebb {verb}"));
        let root = root.path().as_os_str().to_owned();
        // What they find is among the findings, too.
        let _code: ExitCode =
            crate::run_verb(vec![OsString::from("ebb"), verb.into(), OsString::from("--root"), root]);
    }
    let bad: Vec<_> = found.into_iter().filter(|finding| !finding.is_good()).collect();
    screen::line("");
    if bad.is_empty() {
        screen::line("ebb is in service");
    }
    screen::lines(finding::lines(&bad));
    Ok(code(&bad))
}

fn code(found: &[Finding]) -> ExitCode {
    if found.iter().all(Finding::is_good) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
