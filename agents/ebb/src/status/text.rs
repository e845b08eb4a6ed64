//! The status as text. The most important line comes first; each problem comes with what to do about it.

use std::fmt::Write;

use jiff::Timestamp;
use runtime::liveness::{ENDED_AFTER, HANGS_AFTER};
use schemas::agent::shown;
use schemas::{
    BaseOsHold, BaseOsHoldState, Blocked, CommandFreeze, DeviceAction, DeviceActionState, DeviceOpState,
    DeviceOpStatus, Disabled, DrainStatus, Forcing, GoTime, Member, NodeDrainReport, Operation, Outcome,
    Preflight, PreflightProblem, RefusedInput, Slot, SpentOrder, agent,
};

use super::{AgentSeen, StatusView};
use crate::force::{left_words, whose};
use crate::freeze::summary;

/// Blocked pods that are shown; more are only counted.
const MOST_BLOCKED: usize = 10;

/// Refused files that are shown.
const MOST_REFUSED: usize = 10;

/// Preflight problems that are shown.
const MOST_PROBLEMS: usize = 5;

/// Holders of slots that are named.
const MOST_HOLDERS: usize = 5;

/// The text of `ebb status` at `now`.
pub(crate) fn render(seen: &StatusView, now: Timestamp) -> String {
    let mut lines = Vec::new();
    let report = seen.report.as_ref();
    // A hanging agent comes first, because all that it reported is out of date.
    lines.extend(seen.agents.iter().filter_map(hangs));
    lines.extend(report.and_then(|report| report.disabled.as_ref()).map(|by| disabled(by, now)));
    lines.extend(seen.freeze.as_ref().map(frozen));
    // A refused setting or request comes early: it may be the reason for everything below.
    lines.extend(refused(seen));
    lines.extend(report.and_then(|report| report.preflight.as_ref()).into_iter().flat_map(preflight));
    headline(seen, &mut lines);
    if let Some(report) = &seen.report {
        drain(report, now, &mut lines);
    }
    lines.extend(seen.device_op.as_ref().and_then(device_op));
    lines.extend(seen.device_action.as_ref().and_then(device_action));
    lines.extend(seen.base_os.as_ref().and_then(base_os));
    lines.push(agents(&seen.agents));
    lines.join("\n") + "\n"
}

fn headline(seen: &StatusView, lines: &mut Vec<String>) {
    let Some(status) = seen.status else {
        lines.push("No NodeDrainStatus: zedkube has not run in this boot.".to_owned());
        return;
    };
    let node = seen.report.as_ref().map(|report| report.node.as_str()).filter(|node| !node.is_empty());
    let member = seen.report.as_ref().map(|report| report.member);
    let outcome = seen.report.as_ref().and_then(|report| report.outcome);
    let is_cordoned = seen.report.as_ref().is_some_and(|report| report.cordoned);
    let is_working = |agent: &AgentSeen| agent.running && hangs(agent).is_none();
    let is_kept = seen.agents.iter().any(|agent| shown(agent.name) == agent::ZEDKUBE && is_working(agent));
    let what = match (status.status, outcome) {
        (DrainStatus::Complete, Some(Outcome::Drained)) if !is_kept => {
            "drained when zedkube last looked: nobody knows whether pods have come since"
        }
        (DrainStatus::Complete, Some(outcome)) => complete(outcome),
        (DrainStatus::NotRequested, _) if is_cordoned => "CORDONED: it takes no pods",
        (status, _) => status_words(status, member),
    };
    lines.push(format!("Node {}: {what} ({})", node.unwrap_or("of this device"), status.status.constant()));
}

fn hangs(agent: &AgentSeen) -> Option<String> {
    let silent = agent.silent_seconds.filter(|silent| HANGS_AFTER.as_secs() <= *silent)?;
    let (name, age) = (shown(agent.name), schemas::age(silent.saturating_mul(1000)));
    let process = agent.pid.map_or_else(String::new, |pid| format!(" (process {pid})"));
    let undrained = if name == agent::ZEDKUBE {
        "; if it cannot be ended, `ebb force complete` lets an operation go WITHOUT a drain"
    } else {
        ""
    };
    Some(format!(
        "{name} HANGS: its touch file is {age} old, and should be 25 s at most; its reports below are as old\n  do:    restart \
         {name}{process}; systemd and `ebb run` do so after {} min{undrained}",
        ENDED_AFTER.as_secs() / 60
    ))
}

/// Switched-off drains are the most dangerous state, so they head the screen.
fn disabled(disabled: &Disabled, now: Timestamp) -> String {
    let Disabled { since: time, by } = disabled;
    let time = since(*time, now);
    format!(
        "DRAINS ARE SWITCHED OFF since {time} (by {by}):\n  the device may go down undrained; `ebb force enable` switches \
         them on"
    )
}

/// Problems that would block the next drain, shown while there is time to fix them.
fn preflight(preflight: &Preflight) -> Vec<String> {
    let line = |problem: &PreflightProblem| {
        let PreflightProblem { what, text, hint } = problem;
        format!("CHECK {what}: {text}\n  do:    {hint}")
    };
    let mut lines: Vec<String> = preflight.problems.iter().take(MOST_PROBLEMS).map(line).collect();
    let more = preflight.problems.len().saturating_sub(MOST_PROBLEMS);
    if more > 0 {
        lines.push(format!("  and {more} more (ebb status --json)"));
    }
    lines
}

/// A freeze comes early, because it may be what the reader's command waits for.
fn frozen(freeze: &CommandFreeze) -> String {
    format!(
        "COMMANDS ARE FROZEN {}:\n  no command of any source begins; `ebb unfreeze` ends the freeze",
        summary(freeze)
    )
}

/// An order of an operator that applies to requests which have not come yet.
fn forcing(forcing: &Forcing) -> String {
    let Forcing { requested_by, until, by, .. } = forcing;
    let whose = whose(*requested_by, "anybody");
    let until =
        until.set().map_or_else(|| "it comes".to_owned(), |until| until.strftime("%FT%TZ").to_string());
    format!(
        "  force: waiting for {whose} request until {until},\n         to answer it COMPLETE without a drain (by {by})"
    )
}

fn slot(slot: &Slot, own: &str, now: Timestamp) -> Option<String> {
    let others: Vec<&str> = slot.holders.iter().map(String::as_str).filter(|holder| *holder != own).collect();
    let by: Vec<&str> = slot.passed_over_by.iter().map(String::as_str).collect();
    if slot.held {
        let besides =
            if others.is_empty() { String::new() } else { format!(", and so has {}", names(&others)) };
        let lie = if by.is_empty() {
            String::new()
        } else {
            format!(
                "\n         {} says that it was abandoned, which cannot be true: is that node still yours?",
                names(&by)
            )
        };
        return Some(format!("  slot:  this node has one{besides}{lie}"));
    }
    slot.waiting_since.set()?;
    let who = if others.is_empty() { String::new() } else { format!("; taken by {}", names(&others)) };
    let lost =
        if by.is_empty() { String::new() } else { format!("; its own was taken over by {}", names(&by)) };
    Some(format!("  slot:  waiting since {}{who}{lost}", since(slot.waiting_since, now)))
}

fn names(names: &[&str]) -> String {
    let named = names.iter().take(MOST_HOLDERS).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MOST_HOLDERS) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

fn status_words(status: DrainStatus, member: Option<Member>) -> &'static str {
    match status {
        DrainStatus::Unknown => "its state is not known",
        DrainStatus::NotSupported if member == Some(Member::No) => {
            "not in a cluster, so nothing has to be drained"
        }
        DrainStatus::NotSupported => "drains are switched off",
        DrainStatus::NotRequested => "in service",
        DrainStatus::Requested => "a drain is asked for and waits",
        DrainStatus::Starting => "the drain begins",
        DrainStatus::Cordoned => "draining",
        DrainStatus::FailedCordon => "the drain failed: the node could not be cordoned",
        DrainStatus::DrainRetrying => "draining, after an attempt that failed",
        DrainStatus::FailedDrain => "the drain failed",
        DrainStatus::Complete => "the node may go down",
    }
}

/// Words for COMPLETE. It has several meanings, and most of them are not "drained".
fn complete(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Drained => "drained: the node may go down",
        Outcome::ApiUnreachable => "NOT DRAINED, the API server was away: the node may go down all the same",
        Outcome::NoSchedulablePeer => {
            "NOT DRAINED, no node could take the pods: the node may go down all the same"
        }
        Outcome::NodeGone => "the node is not in the cluster any more: it may go down",
        Outcome::Forced => "NOT DRAINED, an operator forced it: the node may go down all the same",
        Outcome::CordonFailed | Outcome::DrainFailed | Outcome::Cancelled => "the node may go down",
    }
}

fn drain(report: &NodeDrainReport, now: Timestamp, lines: &mut Vec<String>) {
    lines.push(format!("  why:   {} (since {})", report.reason, since(report.since, now)));
    if let Some(deadline) = report.deadline.set() {
        lines.push(format!("  until: {}", deadline.strftime("%FT%TZ")));
    }
    if !report.hint.is_empty() {
        lines.push(format!("  do:    {}", report.hint));
    }
    lines.extend(report.forcing.as_ref().map(forcing));
    let spent = |SpentOrder { text, by, .. }: &SpentOrder| format!("  force: {text} (by {by})");
    lines.extend(report.spent_order.as_ref().map(spent));
    for request in &report.requests {
        let is_answered = request.answer != DrainStatus::Unknown;
        let answered = || format!("answered {}", request.answer.constant());
        let answer = if is_answered { answered() } else { "not answered yet".to_owned() };
        lines.push(format!("  asked: {} for {:?}, {answer}", shown(&request.publisher), request.context));
    }
    lines.extend(slot(&report.slot, &report.node, now));
    let progress = &report.progress;
    if progress.total > 0 {
        lines.push(format!(
            "  pods:  {} of {} gone, {} terminating, {} blocked, {} waiting",
            progress.gone, progress.total, progress.terminating, progress.blocked, progress.waiting
        ));
    }
    lines.extend(report.blocked.iter().take(MOST_BLOCKED).map(blocked));
    let more = report.blocked.len().saturating_sub(MOST_BLOCKED);
    if more > 0 {
        lines.push(format!("  and {more} more pods are blocked"));
    }
    // On the node of an answer that an operator forced: these pods go down with it.
    if report.pods.iter().any(|pod| pod.stage == "LeftBehind") {
        lines.push(format!("  left:  {}", left_words(report)));
    }
}

fn blocked(blocked: &Blocked) -> String {
    let mut line = format!("  held:  {}: {}", blocked.pod, blocked.cause);
    if !blocked.hint.is_empty() {
        // Writing to a String cannot fail.
        write!(line, "\n         {}", blocked.hint).unwrap_or_default();
    }
    line
}

fn device_op(status: &DeviceOpStatus) -> Option<String> {
    let name = status.operation.map_or("operation", Operation::name);
    let counter = status.counter;
    match status.state {
        // While nothing is pending this line still shows refused files.
        DeviceOpState::Idle => (!status.blocked_by.is_empty()).then(|| {
            with_release(format!("Operation: none is pending; {}", status.blocked_by), &status.release)
        }),
        DeviceOpState::Deferred => Some(with_release(
            format!("Operation: {name} {counter} is held back: {}", status.blocked_by),
            &status.release,
        )),
        DeviceOpState::HandedOver => Some(format!("Operation: {name} {counter} is handed over to nodeagent")),
        DeviceOpState::Failed => Some(with_release(
            format!("Operation: {name} {counter} cannot go on: {}", status.blocked_by),
            &status.release,
        )),
    }
}

fn device_action(action: &DeviceAction) -> Option<String> {
    let name = action.command.map_or("action", Operation::name);
    let counter = action.counter;
    match action.state {
        DeviceActionState::Idle => None,
        DeviceActionState::Taken if action.blocked_by.is_empty() => {
            Some(format!("Action: {name} {counter} is being prepared"))
        }
        DeviceActionState::Taken => Some(format!("Action: {name} {counter} waits: {}", action.blocked_by)),
        DeviceActionState::Acting => Some(format!("Action: {name} {counter} is being carried out")),
        DeviceActionState::Done => Some(format!("Action: {name} {counter} is done")),
        DeviceActionState::Failed => Some(format!("Action: {name} {counter} failed: {}", action.error)),
    }
}

fn base_os(hold: &BaseOsHold) -> Option<String> {
    let image = &hold.content_tree_uuid;
    match hold.state {
        BaseOsHoldState::Idle => (!hold.blocked_by.is_empty())
            .then(|| with_release(format!("Image: none is pending; {}", hold.blocked_by), &hold.release)),
        BaseOsHoldState::Deferred => {
            Some(with_release(format!("Image: {image} is held back: {}", hold.blocked_by), &hold.release))
        }
        BaseOsHoldState::Activating => Some(format!("Image: {image} is being activated")),
        BaseOsHoldState::Activated => Some(format!("Image: {image} is activated")),
        BaseOsHoldState::Failed => {
            Some(with_release(format!("Image: {image} cannot go on: {}", hold.blocked_by), &hold.release))
        }
    }
}

fn with_release(text: String, release: &str) -> String {
    if release.is_empty() { text } else { format!("{text}\n  do:    {release}") }
}

fn agents(agents: &[AgentSeen]) -> String {
    let agent = |agent: &AgentSeen| match (shown(agent.name), agent.running, agent.pid) {
        (name, true, pid) if hangs(agent).is_some() => {
            format!("{name} HANGS{}", pid.map_or_else(String::new, |pid| format!(" ({pid})")))
        }
        (name, true, Some(pid)) => format!("{name} runs ({pid})"),
        (name, true, None) => format!("{name} runs"),
        (name, false, _) => format!("{name} does NOT run"),
    };
    format!("Agents: {}", agents.iter().map(agent).collect::<Vec<_>>().join(", "))
}

fn refused(seen: &StatusView) -> Vec<String> {
    let report = seen.report.as_ref();
    let of_report: &[RefusedInput] = report.map_or(&[], |report| &report.refused);
    let unlisted = report.map_or(0, |report| usize::try_from(report.omitted.refused).unwrap_or(usize::MAX));
    let more = of_report.len().saturating_sub(MOST_REFUSED).saturating_add(unlisted);
    let mut lines: Vec<String> = of_report.iter().take(MOST_REFUSED).map(refused_line).collect();
    if more > 0 {
        lines.push(format!("Refused: {more} more, see Refused in the report and `ebb config check`"));
    }
    lines.extend(seen.refused.iter().map(|refusal| format!("Unreadable: {refusal}")));
    lines
}

/// Line about a refused file. The reason of a setting begins with its path already, followed by the line number.
fn refused_line(refused: &RefusedInput) -> String {
    let RefusedInput { path, reason } = refused;
    if reason.starts_with(path) { format!("Refused: {reason}") } else { format!("Refused: {path}: {reason}") }
}

/// A time with its age: `2026-11-21T14:03:11Z, 12 s ago`.
fn since(time: GoTime, now: Timestamp) -> String {
    let Some(time) = time.set() else { return "the start".to_owned() };
    let shown = time.strftime("%FT%TZ");
    match now.duration_since(time).as_secs() {
        seconds @ 0..=119 => format!("{shown}, {seconds} s ago"),
        seconds @ 120..=7199 => format!("{shown}, {} min ago", seconds / 60),
        seconds if seconds >= 7200 => format!("{shown}, {} h ago", seconds / 3600),
        _ => shown.to_string(),
    }
}

#[cfg(test)]
mod tests;
