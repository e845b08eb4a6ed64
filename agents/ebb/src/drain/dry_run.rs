//! `ebb drain --dry-run`: shows what a drain would do, from one snapshot. Changes nothing.

use std::process::ExitCode;

use cluster::cordon::PriorCordon;
use cluster::{Cluster, Trial, would_cordon};
use drain::kubectl::{aggregate, refusals, warnings};
use drain::progress::Line;
use drain::stuck_pods::stuck_pods;
use drain::view::NodeView;
use drain::{Moment, Verdict};

use super::document::{Document, of_blocked, of_line};
use super::ending::problem_lines;
use super::ending::unable;
use super::options::Options;
use super::reporter::judged;
use crate::cordon::cordoned;
use crate::kubectl::DryRun;
use crate::screen::{Print, Screen};

/// Forecast for one node.
#[derive(Debug, Default)]
pub(crate) struct NodeForecast {
    name: String,
    was_cordoned: bool,
    trial: Trial,
    warnings: Vec<String>,
    /// Why the node would not be drained; empty if it would be.
    failure: String,
}

/// Makes the forecast for all nodes. Exit code 0 when all of them would be drained, else 1.
pub(crate) async fn run(
    options: &Options,
    (cluster, nodes): (Cluster, Vec<NodeView>),
) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(options.is_json);
    let mut all = Vec::new();
    for node in nodes {
        let (forecast, print) = cordon(&cluster, node, options).await;
        screen.print(&[print]);
        all.push(forecast);
    }
    for forecast in all.iter_mut().filter(|forecast| forecast.failure.is_empty()) {
        forecast.fill(&cluster, options).await;
        screen.print(&forecast.prints(options));
    }
    let failed: Vec<&NodeForecast> = all.iter().filter(|forecast| !forecast.failure.is_empty()).collect();
    if !failed.is_empty() {
        let mut prints = vec![Print::Err("There are pending nodes to be drained:".to_owned())];
        prints.extend(failed.iter().map(|failed| Print::Err(format!(" {}", failed.name))));
        screen.print(&prints);
    }
    if options.is_json {
        super::print(&all.iter().map(NodeForecast::document).collect::<Vec<_>>())?;
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn cordon(cluster: &Cluster, node: NodeView, options: &Options) -> (NodeForecast, Print) {
    let mode = options.dry_run;
    let mut forecast =
        NodeForecast { name: node.name.clone(), was_cordoned: node.cordoned, ..NodeForecast::default() };
    let before = if node.cordoned { PriorCordon::Foreign } else { PriorCordon::Schedulable };
    let before = match mode {
        DryRun::Server => would_cordon(cluster, &node.name, &options.owner, &options.reason).await,
        DryRun::Client | DryRun::None => Ok(before),
    };
    let print = match before {
        Ok(before) => Print::Out(cordoned(&node.name, before, mode)),
        Err(failure) => {
            forecast.failure = failure.to_string();
            Print::Err(format!("error: unable to cordon node {:?}: {failure}", node.name))
        }
    };
    (forecast, print)
}

impl NodeForecast {
    async fn fill(&mut self, cluster: &Cluster, options: &Options) {
        let trial = match options.dry_run {
            DryRun::Server => Trial::ask(cluster, &self.name, &options.policy).await,
            DryRun::Client | DryRun::None => Trial::judge(cluster, &self.name, &options.policy).await,
        };
        match trial {
            Ok(trial) => self.trial = trial,
            Err(failure) => self.failure = failure.to_string(),
        }
        let lines = || self.trial.lines.iter().map(judged);
        let refusals = refusals(lines());
        self.warnings = warnings(lines());
        if !refusals.is_empty() {
            self.failure = aggregate(&refusals);
        } else if self.failure.is_empty() {
            self.failure = held(&self.trial);
        }
    }

    fn prints(&self, options: &Options) -> Vec<Print> {
        let (name, suffix) = (&self.name, options.dry_run.suffix());
        let mut prints = Vec::new();
        if !self.warnings.is_empty() {
            prints.push(Print::Err(format!("Warning: {}", self.warnings.join("; "))));
        }
        let is_refused = self.trial.lines.iter().any(|line| line.verdict == Verdict::Refuse);
        if !is_refused {
            prints.extend(self.trial.lines.iter().filter_map(|line| going(line, suffix)));
            prints.extend(problem_lines(
                &stuck_pods(&self.trial.lines, &self.trial.blocked),
                Moment(0),
                options.policy.retry,
            ));
        }
        prints.push(if self.failure.is_empty() {
            Print::Out(format!("node/{name} drained{suffix}"))
        } else {
            Print::Err(unable(name, &self.failure))
        });
        prints
    }

    fn document(&self) -> Document {
        Document {
            name: self.name.clone(),
            outcome: if self.failure.is_empty() { "WouldDrain" } else { "WouldFail" },
            failure: self.failure.clone(),
            seconds: 0.0,
            cordoned_before: self.was_cordoned,
            uncordoned: false,
            pods: self.trial.lines.iter().map(|line| of_line(line, false)).collect(),
            blocked: self.trial.blocked.iter().map(of_blocked).collect(),
            warnings: self.warnings.clone(),
        }
    }
}

fn going(line: &Line, suffix: &str) -> Option<Print> {
    let pod = &line.id;
    match line.verdict {
        Verdict::Evict => Some(Print::Out(format!("evicting pod {pod}{suffix}"))),
        Verdict::Await => Some(Print::Err(format!("waiting for pod {pod} to finish by itself{suffix}"))),
        Verdict::Leave | Verdict::Refuse => None,
    }
}

/// Text about the pods that the API server would not let go now; empty if there are none.
fn held(trial: &Trial) -> String {
    let held: Vec<String> = trial.held().into_iter().map(|line| line.id.to_string()).collect();
    if held.is_empty() {
        String::new()
    } else {
        format!("these pods would not be evicted now: {}", held.join(", "))
    }
}
