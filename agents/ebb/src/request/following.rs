//! `ebb request --wait`: until zedkube has answered.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use pubsub::{Persistence, Root, Subscription, TopicKey};
use schemas::{DrainStatus, NodeDrainReport, NodeDrainRequest, Outcome, agent};
use serde::Serialize;

use crate::interrupt::Interrupts;
use crate::place::Place;
use crate::{peers, screen};

/// zedkube's lock makes no event.
const LOOK_AT_LOCK: Duration = Duration::from_secs(2);

/// The answer as JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Document<'a> {
    #[serde(flatten)]
    request: &'a NodeDrainRequest,
    answer: DrainStatus,
    outcome: Option<Outcome>,
    reason: &'a str,
    hint: &'a str,
}

/// Waits for the answer to the request and prints it; on the way each new phase is told on stderr. Exit code 0 for
/// COMPLETE, 130 after Ctrl-C: then the request still stands.
///
/// # Errors
/// The drain failed; somebody withdrew the request.
pub(super) async fn follow(
    root: &Root,
    request: &NodeDrainRequest,
    place: &Place,
) -> anyhow::Result<ExitCode> {
    let mut interrupts = Interrupts::watch().context("cannot watch signals")?;
    let mut reports: Subscription<NodeDrainReport> =
        Subscription::open(root, agent::ZEDKUBE, Persistence::Volatile);
    let mut requests: Subscription<NodeDrainRequest> =
        Subscription::open(root, agent::EBB, Persistence::Volatile);
    let key = TopicKey::global();
    let mut told = String::new();
    loop {
        if let Some(report) = reports.get(&key) {
            let answer = report.line_of(agent::EBB, request.requested_at).map(|line| line.answer);
            if let Some(answer) = answer.filter(|answer| *answer != DrainStatus::Unknown) {
                return tell(request, answer, report, place);
            }
        }
        if requests.get(&key).map(|standing| standing.requested_at) != Some(request.requested_at) {
            bail!("somebody has withdrawn the request, or put another one in its place: see `ebb status`");
        }
        tell_progress(root, reports.get(&key), &mut told);
        tokio::select! {
            () = reports.changed() => {}
            () = requests.changed() => {}
            () = tokio::time::sleep(LOOK_AT_LOCK) => {}
            interrupt = interrupts.next() => {
                screen::say("not waiting any more: the request stands, `ebb cancel` withdraws it");
                return Ok(interrupt.exit_code());
            }
        }
    }
}

fn tell(
    request: &NodeDrainRequest,
    answer: DrainStatus,
    report: &NodeDrainReport,
    place: &Place,
) -> anyhow::Result<ExitCode> {
    let NodeDrainReport { outcome, reason, hint, .. } = report;
    let document = Document { request, answer, outcome: *outcome, reason, hint };
    if answer.is_failed() {
        place.answer(&format!("the drain failed ({}): {reason}", answer.constant()), &document)?;
        let hint = if hint.is_empty() { "`ebb status` says more" } else { hint };
        bail!(
            "this node is not drained; {hint}; `ebb request` tries again, `ebb cancel` withdraws the request"
        );
    }
    let line = match outcome {
        Some(Outcome::Drained) => {
            format!("this node is drained ({reason}), and is held so until `ebb cancel` or the next boot")
        }
        Some(_) | None => format!("COMPLETE, but NOT drained: {reason}"),
    };
    place.answer(&line, &document)?;
    Ok(ExitCode::SUCCESS)
}

/// One line for each phase, and one for a zedkube that went away.
fn tell_progress(root: &Root, report: Option<&NodeDrainReport>, told: &mut String) {
    let phase = if peers::runs(root, agent::ZEDKUBE) {
        report.map_or("", |report| &report.phase)
    } else {
        "zedkube does not run"
    };
    if phase == told || phase.is_empty() {
        return;
    }
    phase.clone_into(told);
    match report.filter(|report| report.phase == phase) {
        Some(report) => screen::say(&format!("{phase}: {}", report.reason)),
        None => screen::say(&format!("{phase}: waiting until somebody starts it with `ebb zedkube`")),
    }
}
