//! The status as text: first what is wrong and what to type, then where the node is.

use jiff::SignedDuration;
use schemas::agent::{shown, shown_asker};
use schemas::{
    BaseOsHold, BaseOsHoldState, DeviceAction, DeviceActionState, DeviceOpState, DeviceOpStatus, DrainStatus,
    Member, NodeAgentStatus, NodeDrainReport, Operation, Outcome, PodLine, SentinelState, SentinelStatus,
    Slot, SpentOrder, WindowState, WindowStatus, age,
};

use super::head::{self, Code, Trouble, operation};
use super::times::Clock;
use super::{AgentSeen, StatusView};
use crate::force::left_words;
use crate::history::Told;
use kubectl_ebb::screen::{Page, Tone};

/// Holders of slots that are named.
const MOST_HOLDERS: usize = 5;

const MOST_REQUESTS: usize = 3;

/// Fills the page of `ebb status`; with `all_pods` it ends with a line for each pod.
pub(super) fn render(
    seen: &StatusView,
    troubles: Vec<Trouble>,
    clock: &Clock,
    mut page: Page,
    all_pods: bool,
) -> Page {
    show(troubles, &mut page);
    node(seen, clock, &mut page);
    if let Some(report) = &seen.report {
        drain(seen, report, clock, &mut page);
    }
    let own = seen.report.as_ref().map(|report| report.reason.as_str()).unwrap_or_default();
    let rest = [
        seen.device_op.as_ref().and_then(|status| device_op(status, own)),
        seen.device_action.as_ref().and_then(|action| device_action(action, seen.is_dry_run())),
        seen.base_os.as_ref().and_then(|hold| base_os(hold, own)),
        seen.device_op.as_ref().and_then(window),
        seen.sentinel.as_ref().and_then(sentinel),
    ];
    for (text, release) in rest.into_iter().flatten() {
        page.line(&text);
        if !release.is_empty() && seen.report.as_ref().is_none_or(|report| report.hint != release) {
            page.field("do", &release);
        }
    }
    if let Some(last) = seen.last_drain.as_ref().filter(|_| is_at_rest(seen)) {
        page.line(&last_drain(last, clock));
    }
    // How it went down for a command is in the journal, and of no interest here.
    let is_special = |why: &&String| !why.is_empty() && !why.starts_with(NodeAgentStatus::NORMAL);
    if let Some(why) = seen.reboot_reason.as_ref().filter(is_special) {
        // A soft reboot is no boot: the kernel runs on.
        let start = if why.starts_with("soft-reboot.target") { "start" } else { "boot" };
        page.line(&format!("Before this {start}: {why}"));
    }
    page.line(&agents(&seen.agents));
    show(head::remarks(seen, clock, all_pods), &mut page);
    let pods = seen.report.iter().flat_map(|report| &report.pods).filter(|_| all_pods);
    pods.for_each(|pod| page.line(&pod_line(pod)));
    page
}

fn show(troubles: Vec<Trouble>, page: &mut Page) {
    for Trouble { code, text, todo } in troubles {
        page.toned(tone(code), &text);
        if !todo.is_empty() {
            page.field("do", &todo);
        }
    }
}

const fn tone(code: Code) -> Tone {
    match code {
        Code::Fine | Code::InProgress => Tone::Usual,
        Code::Unknown | Code::NoRights => Tone::Warning,
        Code::Blocked | Code::Failed | Code::Undrained => Tone::Alarm,
    }
}

/// The line about the node.
fn node(seen: &StatusView, clock: &Clock, page: &mut Page) {
    let Some(status) = seen.status else { return };
    let report = seen.report.as_ref();
    let name = report.map(|report| report.node.as_str()).filter(|node| !node.is_empty());
    let is_cordoned = report.is_some_and(|report| report.cordoned);
    let what = match (status.status, report.and_then(|report| report.outcome)) {
        (DrainStatus::Complete, Some(Outcome::Drained)) if !seen.has_zedkube() => {
            "drained, and nobody knows whether pods have come since"
        }
        (DrainStatus::Complete, Some(outcome)) => complete(outcome),
        (DrainStatus::NotRequested, _) if is_cordoned => "CORDONED: it takes no pods",
        (DrainStatus::NotRequested, _) if report.is_some_and(|report| report.phase == "Returning") => {
            "on its way back to service"
        }
        (status, _) => status_words(status, report.map(|report| report.member)),
    };
    let is_old = report.is_some() && !seen.has_zedkube();
    let old = if is_old { ", when zedkube last looked" } else { "" };
    let since = report.map(|report| format!(" since {}", clock.since(report.since))).unwrap_or_default();
    page.line(&format!(
        "Node {}: {what}{old} ({}{since})",
        name.unwrap_or("of this device"),
        status.status.constant()
    ));
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
        Outcome::Drained => "drained: it may go down",
        Outcome::NodeGone => "not in the cluster any more: it may go down",
        Outcome::ApiUnreachable | Outcome::NoSchedulablePeer | Outcome::Forced => {
            "NOT DRAINED, it may go down"
        }
        Outcome::CordonFailed | Outcome::DrainFailed | Outcome::Cancelled => "it may go down",
    }
}

/// The details of the drain.
fn drain(seen: &StatusView, report: &NodeDrainReport, clock: &Clock, page: &mut Page) {
    let is_kept = seen.has_zedkube();
    let is_said = is_kept && is_reason_said(report);
    if !is_said {
        page.field("why", &report.reason);
    }
    if let Some((name, text)) = deadline(report, clock) {
        page.field(name, &text);
    }
    if !report.hint.is_empty() && is_kept && report.held_by.is_none() && !is_said {
        page.field("do", &report.hint);
    }
    if let Some(SpentOrder { text, by, .. }) = &report.spent_order {
        page.field("force", &format!("{text} (by {by})"));
    }
    for request in report.requests.iter().take(MOST_REQUESTS) {
        let answered = || format!("answered {}", request.answer.constant());
        let is_answered = request.answer != DrainStatus::Unknown;
        let answer = if is_answered { answered() } else { "not answered yet".to_owned() };
        let kept = if request.kept { ", kept over boots" } else { "" };
        page.field(
            "asked",
            &format!("{} for {:?}{kept}, {answer}", shown_asker(&request.publisher), request.context),
        );
    }
    if let Some(text) = usual(&seen.took_millis, report, clock) {
        page.field("usual", &text);
    }
    if let Some(text) = slot(&report.slot, &report.node, clock) {
        page.field("slot", &text);
    }
    let progress = &report.progress;
    let is_draining = matches!(report.phase.as_str(), "Attempting" | "Pausing" | "Complete");
    if progress.total > 0 && is_draining {
        let is_old = !is_kept || report.api_away_since.set().is_some();
        let old = if is_old { ", when they were last seen" } else { "" };
        page.field(
            "pods",
            &format!(
                "{} of {} gone, {} terminating, {} blocked, {} waiting{old}",
                progress.gone, progress.total, progress.terminating, progress.blocked, progress.waiting
            ),
        );
    }
    // On the node of an answer that an operator forced: these pods go down with it.
    if report.pods.iter().any(|pod| pod.stage == "LeftBehind") {
        page.field("left", &left_words(report));
    }
}

/// Pods leave, or will in a moment, so that a time can be foretold.
pub(super) fn is_draining(report: Option<&NodeDrainReport>) -> bool {
    report.is_some_and(|report| matches!(report.phase.as_str(), "Cordoning" | "Attempting" | "Pausing"))
}

/// No drain goes on, and none waits.
fn is_at_rest(seen: &StatusView) -> bool {
    seen.report.as_ref().is_none_or(|report| matches!(report.phase.as_str(), "Idle" | "Returning"))
}

fn last_drain(last: &Told, clock: &Clock) -> String {
    let at = last.began_at.set().map(|at| format!(", {}", clock.shown(at))).unwrap_or_default();
    format!("Last drain{at}: {}; ebb history {}", last.end(), last.number)
}

/// When this drain will be done if it takes as long as the last ones: the median of their times counts.
fn usual(took_millis: &[u64], report: &NodeDrainReport, clock: &Clock) -> Option<String> {
    let mut took = took_millis.to_vec();
    took.sort_unstable();
    let usual = *took.get(took.len() / 2)?;
    let started = report.started_at.set().filter(|_| is_draining(Some(report)))?;
    let end = started.checked_add(SignedDuration::from_millis(i64::try_from(usual).ok()?)).ok()?;
    let drains = match took.len() {
        1 => "the last drain".to_owned(),
        more => format!("the last {more} drains"),
    };
    let took = format!("{drains} took {}", age(usual));
    Some(if clock.is_ahead(end) {
        format!("done by {}, as {took}", clock.until(end))
    } else {
        format!("{took}; this one takes longer")
    })
}

/// True if the head has said the reason.
fn is_reason_said(report: &NodeDrainReport) -> bool {
    let is_late = report.phase == "Waiting" && report.deadline.set().is_some();
    let problems = report.preflight.iter().flat_map(|preflight| &preflight.problems);
    let is_foreseen = problems.into_iter().any(|problem| problem.hint == report.hint);
    is_late
        || is_foreseen
        || report.phase == "Failed"
        || report.held_by.is_some_and(|by| by != schemas::HeldBy::Pods)
}

/// What happens next, and when.
fn deadline(report: &NodeDrainReport, clock: &Clock) -> Option<(&'static str, String)> {
    let at = clock.until(report.deadline.set()?);
    match report.phase.as_str() {
        "Attempting" => Some(("until", format!("{at}; then attempt {} has failed", report.drain_attempt))),
        "Pausing" => Some(("next", format!("{at}: the next attempt"))),
        _ => None,
    }
}

fn slot(slot: &Slot, own: &str, clock: &Clock) -> Option<String> {
    let others: Vec<&str> = slot.holders.iter().map(String::as_str).filter(|holder| *holder != own).collect();
    let by: Vec<&str> = slot.passed_over_by.iter().map(String::as_str).collect();
    if slot.held {
        let besides =
            if others.is_empty() { String::new() } else { format!(", and so has {}", names(&others)) };
        let lie = if by.is_empty() {
            String::new()
        } else {
            format!(
                "; {} says that it was abandoned, which cannot be true: is that node still yours?",
                names(&by)
            )
        };
        return Some(format!("this node has one{besides}{lie}"));
    }
    slot.waiting_since.set()?;
    let who = if others.is_empty() { String::new() } else { format!("; taken by {}", names(&others)) };
    let lost =
        if by.is_empty() { String::new() } else { format!("; its own was taken over by {}", names(&by)) };
    Some(format!("waiting since {}{who}{lost}", clock.since(slot.waiting_since)))
}

fn names(names: &[&str]) -> String {
    let named = names.iter().take(MOST_HOLDERS).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MOST_HOLDERS) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// The operation that is pending, and what to do. `own` is the reason in zedkube's report, which need not be said twice.
fn device_op(status: &DeviceOpStatus, own: &str) -> Option<(String, String)> {
    let name = operation(status);
    let DeviceOpStatus { blocked_by, release, .. } = status;
    match status.state {
        // While nothing is pending this line still shows refused files.
        DeviceOpState::Idle if blocked_by.is_empty() || status.stuck => None,
        DeviceOpState::Idle => Some((format!("Operation: none is pending; {blocked_by}"), release.clone())),
        DeviceOpState::Deferred if status.undrained_in_seconds.is_some() => {
            Some((format!("Operation: {name} waits for zedkube"), String::new()))
        }
        DeviceOpState::Deferred if status.stuck => {
            Some((format!("Operation: {name} is held back by that"), String::new()))
        }
        DeviceOpState::Deferred if blocked_by == own => {
            Some((format!("Operation: {name} waits for the drain"), String::new()))
        }
        DeviceOpState::Deferred => {
            Some((format!("Operation: {name} is held back: {blocked_by}"), release.clone()))
        }
        DeviceOpState::HandedOver => {
            Some((format!("Operation: {name} is handed over to nodeagent"), String::new()))
        }
        // The head says it.
        DeviceOpState::Failed => None,
    }
}

fn device_action(action: &DeviceAction, is_dry_run: bool) -> Option<(String, String)> {
    let name = action.command.map_or("action", Operation::name);
    let counter = action.counter;
    let text = match action.state {
        // The head says what has failed.
        DeviceActionState::Idle | DeviceActionState::Failed => return None,
        DeviceActionState::Taken if action.blocked_by.is_empty() => "is being prepared".to_owned(),
        DeviceActionState::Taken => format!("waits: {}", action.blocked_by),
        DeviceActionState::Acting => "is being carried out".to_owned(),
        DeviceActionState::Done if is_dry_run => "is written down; the device stays up (dry run)".to_owned(),
        DeviceActionState::Done => "is done".to_owned(),
    };
    Some((format!("Action: {name} {counter} {text}"), String::new()))
}

fn base_os(hold: &BaseOsHold, own: &str) -> Option<(String, String)> {
    let image = head::image(hold).replacen("image", "Image:", 1);
    let BaseOsHold { blocked_by, release, .. } = hold;
    match hold.state {
        BaseOsHoldState::Idle if blocked_by.is_empty() || hold.stuck => None,
        BaseOsHoldState::Idle => Some((format!("Image: none is pending; {blocked_by}"), release.clone())),
        BaseOsHoldState::Deferred if hold.undrained_in_seconds.is_some() => {
            Some((format!("{image} waits for zedkube"), String::new()))
        }
        BaseOsHoldState::Deferred if hold.stuck => {
            Some((format!("{image} is held back by that"), String::new()))
        }
        BaseOsHoldState::Deferred if blocked_by == own => {
            Some((format!("{image} waits for the drain"), String::new()))
        }
        BaseOsHoldState::Deferred => Some((format!("{image} is held back: {blocked_by}"), release.clone())),
        BaseOsHoldState::Activating => Some((format!("{image} is being activated"), String::new())),
        BaseOsHoldState::Activated => Some((format!("{image} is activated"), String::new())),
        // The head says it.
        BaseOsHoldState::Failed => None,
    }
}

/// The maintenance window, unless it is said already.
fn window(status: &DeviceOpStatus) -> Option<(String, String)> {
    let WindowStatus { state, reason, .. } = status.window.as_ref()?;
    let is_said = *state == WindowState::Never || status.blocked_by.starts_with(reason);
    (!is_said).then(|| (format!("Window: {reason}"), String::new()))
}

/// What the host asks for, and what to do where that leads to nothing.
fn sentinel(status: &SentinelStatus) -> Option<(String, String)> {
    let reason = &status.reason;
    let (text, todo) = match status.state {
        SentinelState::Off | SentinelState::NotNeeded => return None,
        SentinelState::Commanded => (format!("the host asks for a reboot ({reason})"), ""),
        SentinelState::TakenBack => (
            format!("the host asks for a reboot again ({reason}), but the one of this boot was taken back"),
            "`ebb reboot`; after any boot the host may command one again",
        ),
        SentinelState::StillAsks => (
            format!("the host still asks for a reboot after the one that it has caused ({reason})"),
            "find out what asks, and remove that: the host commands no reboot until it has asked for none, or for another",
        ),
        SentinelState::Unknown => (
            format!("it is not known whether the host needs a reboot: {reason}"),
            "mend that, or setting sentinel.path or sentinel.command",
        ),
    };
    Some((format!("Sentinel: {text}"), todo.to_owned()))
}

fn agents(agents: &[AgentSeen]) -> String {
    let agent = |agent: &AgentSeen| match (shown(agent.name), agent.running, agent.pid) {
        (name, true, pid) if head::hangs(agent).is_some() => {
            format!("{name} HANGS{}", pid.map_or_else(String::new, |pid| format!(" ({pid})")))
        }
        (name, true, Some(pid)) => format!("{name} ({pid})"),
        (name, true, None) => format!("{name} runs"),
        (name, false, _) => format!("{name} does NOT run"),
    };
    format!("Agents: {}", agents.iter().map(agent).collect::<Vec<_>>().join(", "))
}

/// `  shop/db-0 (ReplicaSet/db): Blocked, 4 tries: text`.
fn pod_line(pod: &PodLine) -> String {
    let owner = if pod.owner.is_empty() { String::new() } else { format!(" ({})", pod.owner) };
    let tries = if pod.tries == 0 { String::new() } else { format!(", {} tries", pod.tries) };
    let detail = if pod.detail.is_empty() { String::new() } else { format!(": {}", pod.detail) };
    format!("{}/{}{owner}: {}{tries}{detail}", pod.namespace, pod.name, pod.stage)
}

#[cfg(test)]
mod tests;
