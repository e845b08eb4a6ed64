//! `ebb request`: asks zedkube to drain this node and to keep it drained, for maintenance of the machine.
//!
//! The verb writes topic NodeDrainRequest of agent `ebb`, which zedkube answers. `ebb cancel` withdraws it.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use pubsub::{Persistence, Publisher, Root, Subscription, TopicKey, read_item};
use runtime::peers;
use runtime::requester::new_request;
use schemas::{
    Agent, DrainRequester, DrainStatus, Member, NodeDrainReport, NodeDrainRequest, Outcome, agent,
};
use serde::Serialize;

use crate::operator::{OperatorFlags, journal, reason};
use kubectl_ebb::interrupts::Interrupts;
use kubectl_ebb::screen;

/// Interval of checks whether zedkube runs: a change of its lock makes no event.
pub(crate) const LOOK_AT_LOCK: Duration = Duration::from_secs(2);

/// Arguments of `ebb request`.
#[derive(Args, Debug)]
pub(crate) struct RequestArguments {
    /// Reason, shown by `ebb status`
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: Option<String>,
    /// Wait for the answer; exit code 1 if the drain fails
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    place: OperatorFlags,
}

/// JSON form of the answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Document<'a> {
    #[serde(flatten)]
    request: &'a NodeDrainRequest,
    by: String,
}

/// Publishes the request; with `--wait` waits for the answer.
pub(crate) fn run(arguments: &RequestArguments) -> anyhow::Result<ExitCode> {
    let root = arguments.place.root()?;
    let context = arguments.reason.clone().unwrap_or_else(|| format!("ebb:{}", peers::user()));
    let request = ask(&root, context)?;
    journal(
        &root,
        &format!(
            "NodeDrainRequest published: {} for {}, {}",
            request.context,
            peers::user(),
            request.requested_at
        ),
    );
    if arguments.wait {
        return kubectl_ebb::in_runtime(follow(&root, &request, &arguments.place));
    }
    let line = format!(
        "drain requested ({}): zedkube drains this node and holds it drained until `ebb cancel` or the next boot, which \
         give the node back; `ebb status` follows it",
        request.context
    );
    arguments.place.answer(&line, &Document { request: &request, by: peers::user() })?;
    Ok(ExitCode::SUCCESS)
}

/// Publishes the request.
///
/// # Errors
/// zedkube does not run, or would not drain; a request is active already; the file cannot be written.
fn ask(root: &Root, context: String) -> anyhow::Result<NodeDrainRequest> {
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
    if let Some(current) = &current {
        refuse_current(current, report.as_ref())?;
    }
    let request = new_request(context, current.as_ref());
    let mut requests = Publisher::open(root, agent::EBB, Persistence::Volatile, &lock)?;
    requests.publish(&TopicKey::global(), &request)?;
    Ok(request)
}

/// Our active request, if there is one.
///
/// # Errors
/// The file cannot be read.
fn current(root: &Root) -> anyhow::Result<Option<NodeDrainRequest>> {
    read_item(root, agent::EBB, Persistence::Volatile, &TopicKey::global()).context(
        "cannot tell whether a drain is requested; remove that file: without it no drain is requested",
    )
}

/// Withdraws the request.
///
/// # Errors
/// No request is active, or it is not a person's; the file cannot be removed.
pub(crate) fn withdraw(place: &OperatorFlags) -> anyhow::Result<ExitCode> {
    let root = place.root()?;
    let Some(request) = current(&root)? else {
        bail!(
            "no drain is requested from here; `ebb cancel reboot` (shutdown, poweroff, update) takes back a command, and \
             `ebb status` says who asks"
        );
    };
    let NodeDrainRequest { requested_at, requested_by, context } = &request;
    if *requested_by != DrainRequester::None {
        bail!(
            "the request in our folder is not a person's (RequestedBy {}); remove it by hand",
            requested_by.code()
        );
    }
    let lock = peers::speak_as(&root, agent::EBB)?;
    let mut requests: Publisher<NodeDrainRequest> =
        Publisher::open(&root, agent::EBB, Persistence::Volatile, &lock)?;
    requests.unpublish(&TopicKey::global())?;
    journal(&root, &format!("NodeDrainRequest withdrawn: {context} of {requested_at} by {}", peers::user()));
    let follows = if peers::runs(&root, Agent::Zedkube) {
        "zedkube returns the node to service unless another drain is requested: see `ebb status`"
    } else {
        "zedkube does not run, and returns the node to service when it starts"
    };
    let line = format!("the drain request ({context}) is withdrawn: {follows}");
    place.answer(&line, &Document { request: &request, by: peers::user() })?;
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

/// Refuses if a request is active already. After a failed drain it is allowed: the new time makes it a new request.
fn refuse_current(current: &NodeDrainRequest, report: Option<&NodeDrainReport>) -> anyhow::Result<()> {
    let NodeDrainRequest { requested_at, requested_by, context } = current;
    if *requested_by != DrainRequester::None {
        bail!(
            "a file that is not a request of a person is in our folder (RequestedBy {}); remove it first",
            requested_by.code()
        );
    }
    let line = report.and_then(|report| report.line_of(agent::EBB, *requested_at));
    let answer = line.map(|line| line.answer).unwrap_or_default();
    if answer.is_failed() {
        return Ok(());
    }
    let answered = if answer == DrainStatus::Unknown { "not answered yet" } else { "answered COMPLETE" };
    bail!(
        "a drain is requested already ({context}, {requested_at}), {answered}; `ebb status` follows it, `ebb cancel` \
         withdraws it"
    );
}

/// JSON form of the answer of `--wait`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct AnswerDocument<'a> {
    #[serde(flatten)]
    request: &'a NodeDrainRequest,
    answer: DrainStatus,
    outcome: Option<Outcome>,
    reason: &'a str,
    hint: &'a str,
}

/// Waits for the answer to the request and prints it; prints each new phase on stderr. Exit code 0 for COMPLETE, 130
/// after Ctrl-C (the request stays active).
///
/// # Errors
/// The drain failed, or the request was withdrawn or replaced.
async fn follow(root: &Root, request: &NodeDrainRequest, place: &OperatorFlags) -> anyhow::Result<ExitCode> {
    let mut interrupts = Interrupts::watch().context("cannot watch signals")?;
    let mut reports: Subscription<NodeDrainReport> =
        Subscription::open(root, agent::ZEDKUBE, Persistence::Volatile);
    let mut requests: Subscription<NodeDrainRequest> =
        Subscription::open(root, agent::EBB, Persistence::Volatile);
    let key = TopicKey::global();
    let mut printed = String::new();
    loop {
        if let Some(report) = reports.get(&key) {
            let answer = report.line_of(agent::EBB, request.requested_at).map(|line| line.answer);
            if let Some(answer) = answer.filter(|answer| *answer != DrainStatus::Unknown) {
                return print_answer(request, answer, report, place);
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
            interrupt = interrupts.next() => {
                screen::say("not waiting any more: the request stays active, `ebb cancel` withdraws it");
                return Ok(interrupt.exit_code());
            }
        }
    }
}

fn print_answer(
    request: &NodeDrainRequest,
    answer: DrainStatus,
    report: &NodeDrainReport,
    place: &OperatorFlags,
) -> anyhow::Result<ExitCode> {
    let NodeDrainReport { outcome, reason, hint, .. } = report;
    let document = AnswerDocument { request, answer, outcome: *outcome, reason, hint };
    if answer.is_failed() {
        place.answer(&format!("the drain failed ({}): {reason}", answer.constant()), &document)?;
        let hint = if hint.is_empty() { "`ebb status` says more" } else { hint };
        bail!(
            "this node is not drained; {hint}; `ebb request` tries again, `ebb cancel` withdraws the request"
        );
    }
    let line = match outcome {
        Some(Outcome::Drained) => {
            format!("this node is drained ({reason}), and stays drained until `ebb cancel` or the next boot")
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
