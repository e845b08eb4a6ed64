//! `ebb metrics`: what all agents publish, and what they have counted, in the text format of Prometheus. No text that
//! anybody else has written gets into it: labels have a fixed set of values.

mod families;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use drain::Answer;
use drain::diagnosis::BlockedBy;
use jiff::Timestamp;
use pubsub::store::write_public;
use pubsub::{Persistence, Root, TopicKey, read_item};
use runtime::clock;
use schemas::{
    Agent, BootTotals, DrainStatus, DrainTotals, HeldBy, NodeDrainReport, Outcome, Progress, Topic,
    UndrainedCause, WindowState, agent,
};

use crate::operator::readable_root;
use crate::screen;
use crate::status::StatusView;

use families::Families;

const EXAMPLES: &str = "\
Examples:
  ebb metrics
  ebb metrics --file /run/ebb/metrics/ebb.prom   as ebb-metrics.timer does every 15 s";

/// Arguments of `ebb metrics`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MetricsArguments {
    /// File that gets the metrics, in the place of what it has now, for node_exporter's textfile collector; default: stdout
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Folder that is used as the root of the device's files (for tests and containers)
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

/// Prints the metrics, or writes them.
///
/// # Errors
/// A right is missing, or the file cannot be written.
pub(crate) fn run(arguments: &MetricsArguments) -> anyhow::Result<()> {
    let root = readable_root(&arguments.root)?;
    let text = Known::read(&root).text(clock::wall())?;
    let Some(file) = &arguments.file else {
        return screen::whole(&text).context("the metrics cannot be written to stdout");
    };
    let name = file.file_name().and_then(|name| name.to_str());
    let name = name.with_context(|| format!("{}: --file wants the name of a file", text::path(file)))?;
    let folder = file.parent().unwrap_or_else(|| Path::new(""));
    write_public(folder, name, text.as_bytes()).with_context(|| {
        let shown = text::path(file);
        format!("{shown}: the metrics cannot be written; name a file in a folder that you may write to")
    })
}

/// Everything from which metrics are made.
#[derive(Debug, Default)]
struct Known {
    seen: StatusView,
    /// `None` if its file is refused: then nothing is known.
    drains: Option<DrainTotals>,
    boots: Option<BootTotals>,
}

impl Known {
    fn read(root: &Root) -> Self {
        Self {
            seen: StatusView::now(root),
            drains: totals(root, agent::ZEDKUBE),
            boots: totals(root, agent::NODEAGENT),
        }
    }

    /// The metrics at this time.
    ///
    /// # Errors
    /// A name or a value is none that Prometheus takes: a mistake in this program.
    fn text(&self, now: Timestamp) -> anyhow::Result<String> {
        let mut all = Families::default();
        all.gauges(
            "ebb_build_info",
            "Version of ebb on this device; always 1.",
            "version",
            [(env!("CARGO_PKG_VERSION"), 1.0)],
        );
        self.agents(&mut all);
        // What a zedkube has reported that does not work now may be false now.
        if let Some(report) = self.seen.report.as_ref().filter(|_| self.seen.has_zedkube()) {
            let status = self.seen.status.map_or(DrainStatus::Unknown, |status| status.status);
            drain(&mut all, status, report, now);
        }
        self.window(&mut all);
        self.totals(&mut all);
        all.text().context("the metrics cannot be put into Prometheus' format")
    }

    fn agents(&self, all: &mut Families) {
        let name = |wire: &'static str| Agent::from_name(wire).map_or(wire, Agent::name);
        let agents = &self.seen.agents;
        all.gauges(
            "ebb_agent_up",
            "1 if this agent runs and its loop makes progress.",
            "agent",
            agents.iter().map(|agent| (name(agent.name), truth(agent.works()))),
        );
        let silent =
            agents.iter().filter_map(|agent| Some((name(agent.name), number(agent.silent_seconds?))));
        all.gauges(
            "ebb_agent_silent_seconds",
            "Seconds since the loop of this agent last showed progress; from 45 on it hangs.",
            "agent",
            silent,
        );
    }

    fn window(&self, all: &mut Families) {
        let works = self.seen.agents.iter().any(|agent| agent.name == agent::ZEDAGENT && agent.works());
        let status = self.seen.device_op.as_ref().filter(|_| works);
        let Some(window) = status.and_then(|status| status.window.as_ref()) else { return };
        let opens = match window.state {
            WindowState::Open => Some(0.0),
            WindowState::Closed => window.changes_at.set().map(seconds),
            WindowState::Never => Some(f64::INFINITY),
        };
        if let Some(opens) = opens {
            let help = "When the maintenance window opens next; 0 while it is open, +Inf if it never opens.";
            all.gauge("ebb_window_opens_timestamp_seconds", help, opens);
        }
    }

    fn totals(&self, all: &mut Families) {
        if let Some(totals) = &self.drains {
            let count = |name: &String| number(totals.drains.get(name).copied().unwrap_or_default());
            let names = Outcome::ALL.map(|outcome| format!("{outcome:?}"));
            all.counters(
                "ebb_drains_total",
                "Drains of this device by their outcome, over all boots; one that failed and was forced then counts for both.",
                "outcome",
                names.iter().map(|name| (name.as_str(), count(name))),
            );
            all.histogram(
                "ebb_drain_seconds",
                "How long the drains took that ended with outcome Drained, from the request on, over all boots.",
                DrainTotals::CLASSES.iter().map(|limit| number(*limit)).zip(totals.took.iter().copied().chain(std::iter::repeat(0))),
                totals.took.iter().fold(0, |sum, count| sum.saturating_add(*count)),
                number(totals.took_millis) / 1000.0,
            );
        }
        if let Some(totals) = &self.boots {
            let count = |name: &str| number(totals.undrained.get(name).copied().unwrap_or_default());
            all.counters(
                "ebb_undrained_total",
                "Boots before which this device went down WITHOUT a drain.",
                "cause",
                UndrainedCause::ALL.map(UndrainedCause::name).map(|name| (name, count(name))),
            );
        }
    }
}

/// What zedkube knows now.
fn drain(all: &mut Families, status: DrainStatus, report: &NodeDrainReport, now: Timestamp) {
    let is = |state: DrainStatus| (state.constant(), truth(state == status));
    all.gauges(
        "ebb_drain_state",
        "1 for the status of this node's drain.",
        "state",
        DrainStatus::ALL.map(is),
    );
    let held = HeldBy::ALL.map(|by| (format!("{by:?}"), truth(report.held_by == Some(by))));
    all.gauges(
        "ebb_held",
        "1 for what keeps this drain, or would keep the next one, from going on.",
        "by",
        held.iter().map(|(by, is)| (by.as_str(), *is)),
    );
    // The report keeps what a drain that is over has left.
    let is_of_now = status.is_in_progress() || status == DrainStatus::Complete;
    let progress = if is_of_now { report.progress } else { Progress::default() };
    let blockers = if is_of_now { report.blockers.as_slice() } else { &[] };
    all.gauges(
        "ebb_pods",
        "Pods that have to leave, by stage.",
        "stage",
        [
            ("waiting", f64::from(progress.waiting)),
            ("blocked", f64::from(progress.blocked)),
            ("terminating", f64::from(progress.terminating)),
            ("gone", f64::from(progress.gone)),
        ],
    );
    let blocked = BlockedBy::ALL.map(|by| {
        let of_kind = blockers.iter().filter(|blocker| blocker.by == by.name());
        (by.name(), f64::from(of_kind.fold(0, |sum: u32, blocker| sum.saturating_add(blocker.pods))))
    });
    all.gauges("ebb_blocked_pods", "Pods that do not leave, by the cause.", "cause", blocked);
    let answers = Answer::NAMES
        .map(|name| (name, number(report.eviction_answers.get(name).copied().unwrap_or_default())));
    all.counters(
        "ebb_eviction_answers_total",
        "Answers of the API server to evictions and deletions, since zedkube was started.",
        "code",
        answers,
    );
    let away = report.api_away_since.set().map_or(0.0, |since| now.duration_since(since).as_secs_f64());
    let help = "For how long the API server has not answered; 0 while it answers.";
    all.gauge("ebb_api_unreachable_seconds", help, away.max(0.0));
    let help = "1 if this node has a slot: the permission of its group to be down.";
    all.gauge("ebb_slot_held", help, truth(report.slot.held));
    let problems = report.preflight.iter().flat_map(|preflight| &preflight.problems);
    let problems: u32 = problems.map(|problem| u32::from(problem.stops_a_drain())).sum();
    all.gauge("ebb_preflight_problems", "Things with which a drain would fail now.", f64::from(problems));
}

/// What an agent has counted; zero before it has counted anything, `None` if the file is refused.
fn totals<T: Topic + Default>(root: &Root, agent: &str) -> Option<T> {
    match read_item(root, agent, Persistence::Persistent, &TopicKey::global()) {
        Ok(totals) => Some(totals.unwrap_or_default()),
        Err(refusal) => {
            screen::say(&format!("these metrics are left out: {refusal}"));
            None
        }
    }
}

/// Prometheus has one kind of number. Above 2^53 it is not exact.
#[expect(clippy::cast_precision_loss, reason = "no counter gets there")]
fn number(count: u64) -> f64 {
    count as f64
}

fn truth(is_true: bool) -> f64 {
    f64::from(u8::from(is_true))
}

fn seconds(at: Timestamp) -> f64 {
    at.as_duration().as_secs_f64()
}

#[cfg(test)]
mod tests;
