//! The head of `ebb status`: what is wrong now, the worst first, each with what to type; and the exit code.

use std::process::ExitCode;

use runtime::liveness::{ENDED_AFTER, HANGS_AFTER};
use schemas::agent::shown;
use schemas::{
    BaseOsHold, BaseOsHoldState, Blocker, DeviceActionState, DeviceOpState, DeviceOpStatus, DrainStatus,
    HeldBy, NodeDrainReport, Operation, Outcome, PreflightProblem, Source, WindowState, WindowStatus, age,
    agent,
};

use super::times::Clock;
use super::{AgentSeen, StatusView};
use crate::force::whose;
use crate::freeze::summary;

/// Troubles of one kind that are shown.
const MOST: usize = 3;

/// What `ebb status` says with its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// Idle or drained, or all that waits only waits for the maintenance window to open.
    Fine = 0,
    /// The files do not tell: an agent does not run or hangs, or a file is refused.
    Unknown = 1,
    /// A drain, an operation or an image is in progress.
    InProgress = 3,
    /// The files may not be read.
    NoRights = 4,
    /// Something holds the drain up, or would hold the next one up.
    Blocked = 5,
    /// A drain, an operation or an image failed.
    Failed = 6,
    /// The device goes down without a drain, or will.
    Undrained = 7,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

/// One thing that is wrong, or that the reader has to know before everything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    /// What it means for the exit code.
    pub(super) code: Code,
    /// What is wrong.
    pub(super) text: String,
    /// What to type; empty if nothing helps but to wait.
    pub(super) todo: String,
}

impl Trouble {
    fn new(code: Code, text: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { code, text: text.into(), todo: todo.into() }
    }
}

/// Everything that is wrong, the worst first; of each kind a few, or with `is_whole` all.
pub(super) fn troubles(seen: &StatusView, clock: &Clock, is_whole: bool) -> Vec<Trouble> {
    let most = if is_whole { usize::MAX } else { MOST };
    let report = seen.report.as_ref();
    // What a zedkube has reported that does not work now may be false now.
    let kept = report.filter(|_| seen.has_zedkube());
    let mut all = undrained_by_agents(seen);
    all.extend(agents(seen, !all.is_empty()));
    all.extend(kept.and_then(|report| undrained_soon(seen, report, clock)));
    all.extend(report.and_then(|report| switched_off(report, clock)));
    all.extend(kept.and_then(|report| standing_order(report, clock)));
    all.extend(seen.status.and_then(|status| undrained(status.status, report?.outcome?)));
    all.extend(failures(seen, clock, most));
    all.extend(stuck(seen));
    all.extend(kept.into_iter().flat_map(|report| held(report, clock, most)));
    all.extend(frozen(seen));
    all.extend(no_window(seen));
    all.extend(refused(seen, most));
    all.extend(kept.into_iter().flat_map(|report| preflight(report, clock, most, true)));
    all.extend(dry_run(seen));
    all
}

/// What is worth a look and stops no drain: shown last.
pub(super) fn remarks(seen: &StatusView, clock: &Clock, is_whole: bool) -> Vec<Trouble> {
    let report = seen.report.as_ref().filter(|_| seen.has_zedkube());
    let most = if is_whole { usize::MAX } else { MOST };
    report.map(|report| preflight(report, clock, most, false)).unwrap_or_default()
}

/// What the exit code says.
pub(super) fn code(seen: &StatusView, troubles: &[Trouble]) -> Code {
    let worst = troubles.iter().map(|trouble| trouble.code).find(|code| *code != Code::Fine);
    worst.unwrap_or_else(|| if in_progress(seen) { Code::InProgress } else { Code::Fine })
}

fn in_progress(seen: &StatusView) -> bool {
    let drains = seen.status.is_some_and(|status| match status.status {
        DrainStatus::Requested
        | DrainStatus::Starting
        | DrainStatus::Cordoned
        | DrainStatus::DrainRetrying => true,
        DrainStatus::Unknown
        | DrainStatus::NotSupported
        | DrainStatus::NotRequested
        | DrainStatus::FailedCordon
        | DrainStatus::FailedDrain
        | DrainStatus::Complete => false,
    });
    let returns = seen.report.as_ref().is_some_and(|report| report.phase == "Returning");
    let acts = seen.device_action.as_ref().is_some_and(|action| match action.state {
        DeviceActionState::Taken | DeviceActionState::Acting => true,
        DeviceActionState::Idle | DeviceActionState::Done | DeviceActionState::Failed => false,
    });
    let activates = seen.base_os.as_ref().is_some_and(|hold| hold.state == BaseOsHoldState::Activating);
    // Until the window opens, perhaps for a week, nothing happens.
    let closed = window(seen).filter(|window| window.state == WindowState::Closed);
    let waits = waiting(seen).any(|why| closed.is_none_or(|window| !why.starts_with(&window.reason)));
    drains || returns || acts || activates || waits
}

fn window(seen: &StatusView) -> Option<&WindowStatus> {
    seen.device_op.as_ref()?.window.as_ref()
}

/// Why the next operation waits, and the next image.
fn waiting(seen: &StatusView) -> impl Iterator<Item = &str> {
    let op = seen.device_op.iter().filter(|status| status.state == DeviceOpState::Deferred);
    let image = seen.base_os.iter().filter(|hold| hold.state == BaseOsHoldState::Deferred);
    op.map(|status| status.blocked_by.as_str()).chain(image.map(|hold| hold.blocked_by.as_str()))
}

/// An operation, or an image, that will not wait for zedkube much longer. An agent that does not run lets nothing go.
fn undrained_by_agents(seen: &StatusView) -> Vec<Trouble> {
    let line = |what: &str, seconds: u64, why: &str, stop: String| {
        let left = age(seconds.saturating_mul(1000));
        // The text of the agent counts the time as well.
        let why = why.split_once(" (").map_or(why, |(why, _)| why);
        Trouble::new(
            Code::Undrained,
            format!("{what} goes on WITHOUT a drain in {left}: {why}"),
            format!("{}; or take it back: {stop}", start(agent::ZEDKUBE)),
        )
    };
    let op = seen.device_op.as_ref().filter(|_| runs(seen, agent::ZEDAGENT)).and_then(|status| {
        let seconds = status.undrained_in_seconds?;
        Some(line(&operation(status), seconds, &status.blocked_by, cancel(Some(status))))
    });
    let image = seen.base_os.as_ref().filter(|_| runs(seen, agent::BASEOSMGR)).and_then(|hold| {
        let seconds = hold.undrained_in_seconds?;
        Some(line(&self::image(hold), seconds, &hold.blocked_by, "ebb cancel update".to_owned()))
    });
    op.into_iter().chain(image).collect()
}

/// The agents that do not work. That zedkube does not run may be said already.
fn agents(seen: &StatusView, is_zedkube_said: bool) -> Vec<Trouble> {
    let is_fresh = seen.report.is_none() && seen.device_op.is_none() && seen.status.is_none();
    if is_fresh && seen.agents.iter().all(|agent| !agent.running) {
        return vec![Trouble::new(
            Code::Unknown,
            "ebb has not run since the boot: this node is not drained before the device goes down",
            "systemctl enable --now ebb.target (without systemd: ebb run)",
        )];
    }
    let zedkube = seen.agents.iter().find(|agent| agent.name == agent::ZEDKUBE);
    let mut all = Vec::new();
    if zedkube.is_some_and(|agent| !agent.running) && !is_zedkube_said {
        let text = "zedkube does NOT run: nobody drains this node, and what it has reported is old";
        all.push(Trouble::new(Code::Unknown, text, start(agent::ZEDKUBE)));
    }
    all.extend(seen.agents.iter().filter_map(hangs));
    if seen.status.is_none() && zedkube.is_some_and(|agent| agent.running) {
        let text = "zedkube has published no NodeDrainStatus yet: it starts, or its file is refused";
        all.push(Trouble::new(Code::Unknown, text, "ebb status again in a few seconds"));
    }
    let away = |agent: &&AgentSeen| !agent.running && agent.name != agent::ZEDKUBE;
    let names: Vec<&str> = seen.agents.iter().filter(away).map(|agent| shown(agent.name)).collect();
    if !names.is_empty() {
        let does = if names.len() == 1 { "does NOT run" } else { "do NOT run" };
        let text =
            format!("{} {does}: a reboot, shutdown, poweroff or image is not carried out", names.join(", "));
        all.push(Trouble::new(Code::Unknown, text, "systemctl start ebb.target (without systemd: ebb run)"));
    }
    all
}

/// An agent that runs and makes no progress: all that it has reported is out of date.
pub(super) fn hangs(agent: &AgentSeen) -> Option<Trouble> {
    let silent = agent.silent_seconds.filter(|silent| HANGS_AFTER.as_secs() <= *silent)?;
    let (name, age) = (shown(agent.name), age(silent.saturating_mul(1000)));
    let process = agent.pid.map_or_else(String::new, |pid| format!(" (process {pid})"));
    let undrained = if name == agent::ZEDKUBE {
        "; if it cannot be ended, `ebb force complete` lets an operation go WITHOUT a drain"
    } else {
        ""
    };
    let text = format!(
        "{name} HANGS: its touch file is {age} old, and should be 25 s at most; its reports are as old{process}"
    );
    let todo = format!(
        "{}; systemd and `ebb run` do so after {} min{undrained}",
        start(agent.name),
        ENDED_AFTER.as_secs() / 60
    );
    Some(Trouble::new(Code::Unknown, text, todo))
}

fn start(name: &str) -> String {
    format!("systemctl restart ebb-{} (without systemd: ebb run)", shown(name))
}

/// The way to take back what waits for the drain.
fn cancel(status: Option<&DeviceOpStatus>) -> String {
    let pending = status.filter(|status| status.state != DeviceOpState::Idle);
    let Some((status, operation)) = pending.and_then(|status| Some((status, status.operation?))) else {
        return "ebb cancel".to_owned();
    };
    match status.source {
        Source::Person => format!("ebb cancel {operation}"),
        Source::Controller | Source::Cluster | Source::Host => {
            format!("ebb cancel {operation} --source {}", status.source)
        }
    }
}

/// The node waits, and at a known time it counts as complete without a drain.
fn undrained_soon(seen: &StatusView, report: &NodeDrainReport, clock: &Clock) -> Option<Trouble> {
    let at = report.deadline.set().filter(|_| report.phase == "Waiting")?;
    let image = seen.base_os.as_ref().filter(|hold| hold.state == BaseOsHoldState::Deferred);
    let status = seen.device_op.as_ref().filter(|status| status.state == DeviceOpState::Deferred);
    let stop = match (status, image) {
        (None, Some(_)) => "ebb cancel update".to_owned(),
        (status, _) => cancel(status),
    };
    let text = format!("GOING DOWN WITHOUT A DRAIN in {}: {}", clock.left(at), report.reason);
    Some(Trouble::new(Code::Undrained, text, format!("take it back: {stop}; or: {}", report.hint)))
}

/// Switched-off drains are dangerous until the next boot, also while nothing happens.
fn switched_off(report: &NodeDrainReport, clock: &Clock) -> Option<Trouble> {
    let disabled = report.disabled.as_ref()?;
    let text = format!(
        "DRAINS ARE SWITCHED OFF since {} (by {}): the device goes down undrained",
        clock.since(disabled.since),
        disabled.by
    );
    Some(Trouble::new(Code::Undrained, text, "ebb force enable --reason WHY switches them on"))
}

/// An order of an operator that waits for a request which has not come yet.
fn standing_order(report: &NodeDrainReport, clock: &Clock) -> Option<Trouble> {
    let standing_order = report.standing_order.as_ref()?;
    let whose = whose(standing_order.requested_by, "anybody");
    let until = standing_order.until.set().map_or_else(|| "until it comes".to_owned(), |at| clock.until(at));
    let text = format!("{whose} next request goes WITHOUT a drain until {until} (by {})", standing_order.by);
    Some(Trouble::new(Code::Undrained, text, "ebb force enable --reason WHY takes that back"))
}

/// The node may go down, and it was not drained.
fn undrained(status: DrainStatus, outcome: Outcome) -> Option<Trouble> {
    let is_let_go =
        status == DrainStatus::Complete && !matches!(outcome, Outcome::Drained | Outcome::NodeGone);
    let why = match outcome {
        Outcome::ApiUnreachable => "NOT DRAINED, the API server was away",
        Outcome::NoSchedulablePeer => "NOT DRAINED, no node could take the pods",
        Outcome::Forced => "NOT DRAINED, an operator forced it",
        Outcome::Drained
        | Outcome::NodeGone
        | Outcome::CordonFailed
        | Outcome::DrainFailed
        | Outcome::Cancelled => "NOT DRAINED",
    };
    is_let_go.then(|| Trouble::new(Code::Undrained, format!("{why}: the node may go down all the same"), ""))
}

fn runs(seen: &StatusView, name: &str) -> bool {
    seen.agents.iter().all(|agent| agent.running || agent.name != name)
}

/// An agent that cannot write or do what it has decided.
fn stuck(seen: &StatusView) -> impl Iterator<Item = Trouble> {
    let op = seen.device_op.iter().filter(|status| status.stuck && runs(seen, agent::ZEDAGENT)).map(|status| {
        let todo = "make room on /persist, or mend what the text names: it goes on by itself; a reboot goes without a record \
                    by `ebb reboot --without-record`, and is drained for all the same";
        (&status.blocked_by, todo)
    });
    let image = seen.base_os.iter().filter(|hold| hold.stuck && runs(seen, agent::BASEOSMGR)).map(|hold| {
        (&hold.blocked_by, "make room on /persist, or mend what the text names: it goes on by itself")
    });
    op.chain(image).map(|(why, todo)| Trouble::new(Code::Blocked, format!("BLOCKED: {why}"), todo))
}

/// Everything that has failed.
fn failures(seen: &StatusView, clock: &Clock, most: usize) -> Vec<Trouble> {
    let again = |next: schemas::GoTime| {
        next.set().map_or_else(String::new, |at| format!("; tried again at {}", clock.until(at)))
    };
    let failed = |what: String, why: &str, next, todo: &str| {
        Trouble::new(Code::Failed, format!("{what} FAILED: {why}{}", again(next)), todo)
    };
    let op = seen.device_op.as_ref().filter(|status| status.state == DeviceOpState::Failed);
    let op = op.map(|op| failed(operation(op), &op.blocked_by, op.next_try, &op.release));
    let action = seen.device_action.as_ref().filter(|action| action.state == DeviceActionState::Failed);
    let action = action.map(|action| {
        let name = action.command.map_or("the action", Operation::name);
        let what = format!("{name} {}", action.counter);
        failed(what, &action.error, schemas::GoTime::ZERO, "")
    });
    let image = seen.base_os.as_ref().filter(|hold| hold.state == BaseOsHoldState::Failed);
    let image = image.map(|hold| failed(self::image(hold), &hold.blocked_by, hold.next_try, &hold.release));
    let report = seen.report.as_ref().filter(|report| report.phase == "Failed");
    // The operation's failure is this one, seen by its agent.
    let drain = report
        .filter(|_| op.is_none() && image.is_none())
        .map(|report| failed("the drain".to_owned(), &report.reason, schemas::GoTime::ZERO, &report.hint));
    let mut all: Vec<Trouble> = op.into_iter().chain(action).chain(image).chain(drain).collect();
    let blockers = seen.report.iter().filter(|report| report.outcome == Some(Outcome::DrainFailed));
    let mut left = blockers.flat_map(|report| &report.blockers).take(most).peekable();
    if let Some(first) = all.first_mut().filter(|_| left.peek().is_some()) {
        first.todo = format!("mend what held it, below; {}", first.todo);
        all.extend(left.map(|blocker| Trouble { code: Code::Failed, ..blocked("It was held by", blocker) }));
    }
    all
}

/// What holds the drain up, or would hold the next one up.
fn held(report: &NodeDrainReport, clock: &Clock, most: usize) -> Vec<Trouble> {
    // At the deadline it goes down undrained, which was said already.
    let is_said = report.phase == "Waiting" && report.deadline.set().is_some();
    let Some(by) = report.held_by.filter(|_| !is_said) else { return Vec::new() };
    if by == HeldBy::Pods {
        let more = report.blockers.len().saturating_sub(most);
        let more = (more > 0).then(|| {
            let text = format!("and {more} more troubles with pods");
            Trouble::new(Code::Blocked, text, "ebb status --pods lists all")
        });
        let shown = report.blockers.iter().take(most).map(|blocker| blocked("BLOCKED", blocker));
        return shown.chain(more).collect();
    }
    let since = report.api_away_since.set().filter(|_| by == HeldBy::ApiServer);
    let since = since.map(|_| format!(" since {}", clock.since(report.api_away_since))).unwrap_or_default();
    vec![Trouble::new(Code::Blocked, format!("BLOCKED{since}: {}", report.reason), report.hint.clone())]
}

fn blocked(head: &str, blocker: &Blocker) -> Trouble {
    let Blocker { what, hint, pods, examples, by: _ } = blocker;
    let more = usize::try_from(*pods).unwrap_or(usize::MAX).saturating_sub(examples.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let pods = if *pods == 1 { "1 pod".to_owned() } else { format!("{pods} pods") };
    let text = format!("{head}: {what}; {pods}: {}{more}", examples.join(", "));
    Trouble::new(Code::Blocked, text, hint.clone())
}

/// A freeze may be what the reader's command waits for.
fn frozen(seen: &StatusView) -> Option<Trouble> {
    let freeze = seen.freeze.as_ref()?;
    let waits = seen.device_op.as_ref().is_some_and(|status| status.state == DeviceOpState::Deferred);
    let code = if waits { Code::Blocked } else { Code::Fine };
    let text = format!("COMMANDS ARE FROZEN {}: no command of any source begins", summary(freeze));
    Some(Trouble::new(code, text, "ebb unfreeze ends the freeze"))
}

/// A window that never opens holds commands for good, also those of tomorrow.
fn no_window(seen: &StatusView) -> Option<Trouble> {
    let window = window(seen).filter(|window| window.state == WindowState::Never)?;
    let waits = waiting(seen).any(|why| why.starts_with(&window.reason));
    let code = if waits { Code::Blocked } else { Code::Fine };
    let sources: Vec<&str> = window.sources.iter().map(|source| source.name()).collect();
    let text = format!("COMMANDS OF {} DO NOT BEGIN: {}", sources.join(", "), window.reason);
    Some(Trouble::new(code, text, "mend that; `ebb reboot --now` does not wait for the window"))
}

/// Files that were refused. What they say is not in effect, and that may be the reason for everything else.
fn refused(seen: &StatusView, most: usize) -> Vec<Trouble> {
    let unreadable = seen.refused.iter().map(|refusal| format!("Unreadable: {refusal}"));
    let report = seen.report.iter().flat_map(|report| &report.refused);
    let all: Vec<String> = unreadable
        .chain(report.map(|refused| {
            let schemas::RefusedInput { path, reason } = refused;
            // The reason of a setting begins with its path already, followed by the line number.
            let is_named = reason.starts_with(path.as_str());
            if is_named { format!("Refused: {reason}") } else { format!("Refused: {path}: {reason}") }
        }))
        .collect();
    let unlisted = seen.report.as_ref().map_or(0, |report| report.omitted.refused);
    let more = all.len().saturating_sub(most).saturating_add(usize::try_from(unlisted).unwrap_or(usize::MAX));
    let more = (more > 0).then(|| format!("Refused: {more} more, see Refused in the report"));
    let shown = all.into_iter().take(most).chain(more);
    shown.map(|text| Trouble::new(Code::Unknown, text, "")).collect()
}

/// What the preflight has found: what would stop the next drain, or else what would not.
fn preflight(report: &NodeDrainReport, clock: &Clock, most: usize, stops: bool) -> Vec<Trouble> {
    let said = match report.held_by {
        Some(HeldBy::ApiServer) => "API",
        Some(HeldBy::Rights) => "Rights",
        Some(HeldBy::Identity) => "Identity",
        Some(HeldBy::SlotTable) => "Slots",
        _ => "",
    };
    let is_meant = |problem: &&PreflightProblem| problem.what != said && problem.stops_a_drain() == stops;
    let problems = report.preflight.iter().flat_map(|preflight| &preflight.problems);
    let problems: Vec<&PreflightProblem> = problems.filter(is_meant).collect();
    let at = report.preflight.as_ref().map(|preflight| preflight.at).filter(|at| !at.is_zero());
    let tried = at.map(|at| format!(" (zedkube looked {})", clock.since(at))).unwrap_or_default();
    let code = if stops { Code::Blocked } else { Code::Fine };
    let line = |problem: &&PreflightProblem| {
        let PreflightProblem { what, text, hint } = problem;
        // These two are looked at all the time.
        let tried = if matches!(what.as_str(), "Means" | "Node") { "" } else { tried.as_str() };
        Trouble::new(code, format!("CHECK {what}: {text}"), format!("{hint}{tried}"))
    };
    let more = problems.len().saturating_sub(most);
    let more = (more > 0).then(|| Trouble::new(code, format!("CHECK: {more} more"), "ebb status --json"));
    problems.iter().take(most).map(line).chain(more).collect()
}

/// In a dry run everything looks as if the device went down.
fn dry_run(seen: &StatusView) -> Option<Trouble> {
    let text = "DRY RUN: a reboot, shutdown or poweroff is only written to /persist/device-actions.jsonl";
    let todo = "set device.dry-run = false when the device shall really go down";
    seen.is_dry_run().then(|| Trouble::new(Code::Fine, text, todo))
}

/// `reboot 8 (by alice: fan swap)`.
pub(super) fn operation(status: &DeviceOpStatus) -> String {
    let name = status.operation.map_or("operation", Operation::name);
    format!("{name} {}{}", status.counter, by(&status.by, &status.reason))
}

/// `image 6ba7b810-9dad-11d1-80b4-000000000002 (by alice: fan swap)`.
pub(super) fn image(hold: &BaseOsHold) -> String {
    format!("image {}{}", hold.content_tree_uuid, by(&hold.by, &hold.reason))
}

fn by(by: &str, why: &str) -> String {
    match (by, why) {
        ("", "") => String::new(),
        (by, "") => format!(" (by {by})"),
        // The host, or the cluster.
        ("", why) => format!(" ({why})"),
        (by, why) => format!(" (by {by}: {why})"),
    }
}
