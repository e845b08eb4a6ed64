//! `ebb request`: asks zedkube to drain this node and to keep it drained, for maintenance of the machine.
//!
//! The verb writes topic NodeDrainRequest of agent `ebb`, which zedkube answers: below `/run`, or with `--keep` below
//! `/persist`, where it outlasts boots. `ebb cancel` withdraws it.

use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use pubsub::{AgentLock, Persistence, Publisher, Root, Subscription, TopicKey, read_item};
use runtime::peers;
use runtime::requester::new_request;
use schemas::{
    Agent, DrainRequester, DrainStatus, Member, NodeDrainReport, NodeDrainRequest, Outcome, agent,
};
use serde::Serialize;

use crate::operator::{OperatorFlags, journal, reason};
use crate::waiting::over;
use kubectl_ebb::interrupts::Interrupts;
use kubectl_ebb::kubectl::go_duration;
use kubectl_ebb::screen;

/// Interval of checks whether zedkube runs: a change of its lock makes no event.
pub(crate) const LOOK_AT_LOCK: Duration = Duration::from_secs(2);

/// Arguments of `ebb request`.
#[derive(Args, Debug)]
pub(crate) struct RequestArguments {
    /// Reason, shown by `ebb status`
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: Option<String>,
    /// Keep the node drained over boots too, until `ebb cancel`: for work that needs a power cycle. Once it is drained it
    /// holds up no other node; if the drain fails it stays cordoned. If a drain is requested already, that request is
    /// kept
    #[arg(long)]
    keep: bool,
    /// Wait for the answer; exit code 1 if the drain fails
    #[arg(long)]
    wait: bool,
    /// With --wait: time to wait before giving up, such as 1h30m; 0 = no limit. The request stays
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = go_duration, requires = "wait")]
    timeout: Duration,
    #[command(flatten)]
    place: OperatorFlags,
}

/// JSON form of the answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Document<'a> {
    #[serde(flatten)]
    request: &'a NodeDrainRequest,
    kept: bool,
    by: String,
}

/// A request of ours that stands.
#[derive(Debug)]
struct Standing {
    request: NodeDrainRequest,
    /// Where its file is.
    persistence: Persistence,
}

impl Standing {
    /// It outlasts boots.
    const fn is_kept(&self) -> bool {
        matches!(self.persistence, Persistence::Persistent)
    }

    /// Until when the node stays drained.
    const fn lasting(&self) -> &'static str {
        if self.is_kept() {
            "over boots too, until `ebb cancel`"
        } else {
            "until `ebb cancel` or the next boot"
        }
    }
}

/// Publishes the request; with `--wait` waits for the answer.
pub(crate) fn run(arguments: &RequestArguments) -> anyhow::Result<ExitCode> {
    let root = arguments.place.root()?;
    let context = arguments.reason.clone().unwrap_or_else(|| format!("ebb:{}", peers::user()));
    let standing = ask(&root, context, arguments.keep)?;
    let NodeDrainRequest { context, requested_at, .. } = &standing.request;
    let kept = if standing.is_kept() { ", kept over boots" } else { "" };
    journal(
        &root,
        &format!("NodeDrainRequest published: {context} for {}, {requested_at}{kept}", peers::user()),
        arguments.reason.as_deref().unwrap_or_default(),
    );
    if arguments.wait {
        return kubectl_ebb::in_runtime(follow(&root, &standing, arguments.timeout, &arguments.place));
    }
    let line = format!(
        "drain requested ({context}): zedkube drains this node and holds it drained {}, which gives the node back; `ebb \
         status` follows it",
        standing.lasting()
    );
    arguments.place.answer(&line, &document(&standing))?;
    Ok(ExitCode::SUCCESS)
}

fn document(standing: &Standing) -> Document<'_> {
    Document { request: &standing.request, kept: standing.is_kept(), by: peers::user() }
}

/// Publishes the request. With `keep`, one that stands is kept from now on.
///
/// # Errors
/// zedkube does not run, or would not drain; a request is active already; the file cannot be written.
fn ask(root: &Root, context: String, keep: bool) -> anyhow::Result<Standing> {
    peers::require(root, Agent::Zedkube)?;
    // A report that cannot be read is no obstacle: zedkube writes it again, and can be asked all the same.
    let report: Result<Option<NodeDrainReport>, _> =
        read_item(root, agent::ZEDKUBE, Persistence::Volatile, &TopicKey::global());
    let report = report.ok().flatten();
    if let Some(report) = &report {
        refuse_what_would_not_drain(report)?;
    }
    let lock = peers::speak_as(root, agent::EBB)?;
    let current = current(root)?;
    let goes_on = current.as_ref().map_or(Ok(false), |current| goes_on(current, report.as_ref()))?;
    let request = match current {
        Some(current) if goes_on && keep && !current.is_kept() => current.request,
        Some(current) if goes_on => return Err(requested_already(&current, report.as_ref())),
        last => new_request(context, last.as_ref().map(|last| &last.request)),
    };
    let (persistence, other) = if keep {
        (Persistence::Persistent, Persistence::Volatile)
    } else {
        (Persistence::Volatile, Persistence::Persistent)
    };
    let mut requests = Publisher::open(root, agent::EBB, persistence, &lock)?;
    requests.publish(&TopicKey::global(), &request)?;
    remove(root, &lock, other)?;
    Ok(Standing { request, persistence })
}

/// Removes the file of a request of ours, if it is there.
fn remove(root: &Root, lock: &AgentLock, persistence: Persistence) -> anyhow::Result<()> {
    // Without the file a backup of it would come back for a moment.
    if root.item::<NodeDrainRequest>(agent::EBB, persistence, &TopicKey::global()).exists() {
        let mut requests: Publisher<NodeDrainRequest> = Publisher::open(root, agent::EBB, persistence, lock)?;
        requests.unpublish(&TopicKey::global())?;
    }
    Ok(())
}

/// Our active request, if there is one.
///
/// # Errors
/// A file cannot be read.
fn current(root: &Root) -> anyhow::Result<Option<Standing>> {
    let found = peers::request_of(root, agent::EBB).context(
        "cannot tell whether a drain is requested; remove that file: without it no drain is requested",
    )?;
    Ok(found.map(|(request, persistence)| Standing { request, persistence }))
}

/// True if a request of ours is active.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn is_requested(root: &Root) -> anyhow::Result<bool> {
    Ok(current(root)?.is_some())
}

/// Withdraws the request.
///
/// # Errors
/// No request is active, or it is not a person's; the file cannot be removed.
pub(crate) fn withdraw(place: &OperatorFlags) -> anyhow::Result<ExitCode> {
    let root = place.root()?;
    let Some(standing) = current(&root)? else {
        bail!(
            "no drain is requested from here; `ebb cancel reboot` (shutdown, poweroff, update) takes back a command, and \
             `ebb status` says who asks"
        );
    };
    let NodeDrainRequest { requested_at, requested_by, context } = &standing.request;
    if *requested_by != DrainRequester::None {
        bail!(
            "the request in our folder is not a person's (RequestedBy {}); remove it by hand",
            requested_by.code()
        );
    }
    let lock = peers::speak_as(&root, agent::EBB)?;
    // The kept one last: a command that is killed here must not leave the other one to count.
    remove(&root, &lock, Persistence::Volatile)?;
    remove(&root, &lock, Persistence::Persistent)?;
    journal(
        &root,
        &format!("NodeDrainRequest withdrawn: {context} of {requested_at} by {}", peers::user()),
        "",
    );
    let follows = if peers::runs(&root, Agent::Zedkube) {
        "zedkube returns the node to service unless another drain is requested: see `ebb status`"
    } else {
        "zedkube does not run, and returns the node to service when it starts"
    };
    let line = format!("the drain request ({context}) is withdrawn: {follows}");
    place.answer(&line, &document(&standing))?;
    Ok(ExitCode::SUCCESS)
}

fn refuse_what_would_not_drain(report: &NodeDrainReport) -> anyhow::Result<()> {
    if let Some(disabled) = &report.disabled {
        bail!("drains are switched off ({}); `ebb force enable` switches them on", disabled.by);
    }
    if report.member == Member::No {
        bail!(
            "this device is in no cluster, so there is nothing to drain; setting `cluster.mode` says otherwise"
        );
    }
    Ok(())
}

/// True if the request asks for a drain that has not failed. After a failed drain another one may be asked for: its time
/// makes it a new request.
///
/// # Errors
/// It is not a person's.
fn goes_on(current: &Standing, report: Option<&NodeDrainReport>) -> anyhow::Result<bool> {
    let requested_by = current.request.requested_by;
    if requested_by != DrainRequester::None {
        bail!(
            "a file that is not a request of a person is in our folder (RequestedBy {}); remove it first",
            requested_by.code()
        );
    }
    Ok(!answer_to(&current.request, report).is_failed())
}

fn answer_to(request: &NodeDrainRequest, report: Option<&NodeDrainReport>) -> DrainStatus {
    let line = report.and_then(|report| report.line_of(agent::EBB, request.requested_at));
    line.map(|line| line.answer).unwrap_or_default()
}

fn requested_already(current: &Standing, report: Option<&NodeDrainReport>) -> anyhow::Error {
    let NodeDrainRequest { requested_at, context, .. } = &current.request;
    let is_unanswered = answer_to(&current.request, report) == DrainStatus::Unknown;
    let answered = if is_unanswered { "not answered yet" } else { "answered COMPLETE" };
    let kept = if current.is_kept() { ", kept over boots" } else { "" };
    anyhow!(
        "a drain is requested already ({context}, {requested_at}{kept}), {answered}; `ebb status` follows it, `ebb cancel` \
         withdraws it"
    )
}

/// JSON form of the answer of `--wait`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct AnswerDocument<'a> {
    #[serde(flatten)]
    request: &'a NodeDrainRequest,
    kept: bool,
    answer: DrainStatus,
    outcome: Option<Outcome>,
    reason: &'a str,
    hint: &'a str,
}

/// Waits for the answer to the request and prints it; prints each new phase on stderr. Exit code 0 for COMPLETE, 130
/// after Ctrl-C. `limit` zero is none. The request stays active whatever ends the waiting.
///
/// # Errors
/// The drain failed, the request was withdrawn or replaced, or the time is over.
async fn follow(
    root: &Root,
    standing: &Standing,
    limit: Duration,
    place: &OperatorFlags,
) -> anyhow::Result<ExitCode> {
    const STAYS: &str = "the request stays active, `ebb cancel` withdraws it";
    let request = &standing.request;
    let mut interrupts = Interrupts::watch().context("cannot watch signals")?;
    let mut reports: Subscription<NodeDrainReport> =
        Subscription::open(root, agent::ZEDKUBE, Persistence::Volatile);
    let mut requests: Subscription<NodeDrainRequest> =
        Subscription::open(root, agent::EBB, standing.persistence);
    let key = TopicKey::global();
    let mut printed = String::new();
    let mut over = pin!(over(limit));
    loop {
        if let Some(report) = reports.get(&key) {
            let answer = report.line_of(agent::EBB, request.requested_at).map(|line| line.answer);
            if let Some(answer) = answer.filter(|answer| *answer != DrainStatus::Unknown) {
                return print_answer(standing, answer, report, place);
            }
        }
        if requests.get(&key).map(|current| current.requested_at) != Some(request.requested_at) {
            bail!("the request was withdrawn, or replaced by another one: see `ebb status`");
        }
        print_phase(root, reports.get(&key), &mut printed);
        tokio::select! {
            () = reports.changed() => {}
            () = requests.changed() => {}
            () = tokio::time::sleep(LOOK_AT_LOCK) => {}
            () = &mut over => bail!("not waiting any more after {} s: {STAYS}", limit.as_secs()),
            interrupt = interrupts.next() => {
                screen::say(&format!("not waiting any more: {STAYS}"));
                return Ok(interrupt.exit_code());
            }
        }
    }
}

fn print_answer(
    standing: &Standing,
    answer: DrainStatus,
    report: &NodeDrainReport,
    place: &OperatorFlags,
) -> anyhow::Result<ExitCode> {
    let NodeDrainReport { outcome, reason, hint, .. } = report;
    let document = AnswerDocument {
        request: &standing.request,
        kept: standing.is_kept(),
        answer,
        outcome: *outcome,
        reason,
        hint,
    };
    if answer.is_failed() {
        place.answer(&format!("the drain failed ({}): {reason}", answer.constant()), &document)?;
        let hint = if hint.is_empty() { "`ebb status` says more" } else { hint };
        let cordoned = if standing.is_kept() { ", and stays cordoned until `ebb cancel`" } else { "" };
        bail!(
            "this node is not drained{cordoned}; {hint}; `ebb request` tries again, `ebb cancel` withdraws the request"
        );
    }
    let line = match outcome {
        Some(Outcome::Drained) => {
            format!("this node is drained ({reason}), and stays drained {}", standing.lasting())
        }
        Some(_) | None => format!("COMPLETE, but NOT drained: {reason}"),
    };
    place.answer(&line, &document)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints one line for each new phase, and one when zedkube stops running.
pub(crate) fn print_phase(root: &Root, report: Option<&NodeDrainReport>, printed: &mut String) {
    let phase = if peers::runs(root, Agent::Zedkube) {
        report.map_or("", |report| &report.phase)
    } else {
        "zedkube does not run"
    };
    if phase == printed || phase.is_empty() {
        return;
    }
    phase.clone_into(printed);
    match report.filter(|report| report.phase == phase) {
        Some(report) => screen::say(&format!("{phase}: {}", report.reason)),
        None => screen::say(&format!("{phase}: waiting until it is started with `ebb zedkube`")),
    }
}
