//! `ebb drain --dry-run`: shows what a drain would do, from one snapshot. Changes nothing.

use std::process::ExitCode;

use cluster::cordon::PriorCordon;
use cluster::{Cluster, Trial};
use drain::kubectl::warnings;
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
use crate::drain::forecast::{Forecast, Permits};
use crate::kubectl::DryRun;
use crate::screen::{Print, Screen};

/// Forecast for one node of the command.
#[derive(Debug, Default)]
pub(crate) struct NodeForecast {
    was_cordoned: bool,
    forecast: Forecast,
    warnings: Vec<String>,
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
    for forecast in all.iter_mut().filter(|one| one.forecast.goes()) {
        forecast.fill(&cluster, options).await;
        screen.print(&forecast.prints(options));
    }
    let failed: Vec<&NodeForecast> = all.iter().filter(|one| !one.forecast.goes()).collect();
    if !failed.is_empty() {
        let mut prints = vec![Print::Err("There are pending nodes to be drained:".to_owned())];
        prints.extend(failed.iter().map(|failed| Print::Err(format!(" {}", failed.forecast.node))));
        prints.extend(failed.iter().map(|failed| Print::Err(failed.forecast.verdict())));
        screen.print(&prints);
    }
    if options.is_json {
        super::print(&all.iter().map(NodeForecast::document).collect::<Vec<_>>())?;
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn cordon(cluster: &Cluster, node: NodeView, options: &Options) -> (NodeForecast, Print) {
    let mode = options.dry_run;
    let (forecast, cordon) = match mode {
        DryRun::Server => {
            let person = (options.owner.as_str(), options.reason.as_str());
            Forecast::begin(cluster, &node.name, person, Permits::Flags).await
        }
        DryRun::Client | DryRun::None => {
            let before = if node.cordoned { PriorCordon::Foreign } else { PriorCordon::Schedulable };
            (Forecast { node: node.name.clone(), ..Forecast::default() }, Ok(before))
        }
    };
    let print = match cordon {
        Ok(before) => Print::Out(cordoned(&node.name, before, mode)),
        Err(failure) => Print::Err(format!("error: unable to cordon node {:?}: {failure}", node.name)),
    };
    (NodeForecast { was_cordoned: node.cordoned, forecast, ..NodeForecast::default() }, print)
}

impl NodeForecast {
    async fn fill(&mut self, cluster: &Cluster, options: &Options) {
        let node = &self.forecast.node;
        let trial = match options.dry_run {
            DryRun::Server => Trial::ask(cluster, node, &options.policy).await,
            DryRun::Client | DryRun::None => Trial::judge(cluster, node, &options.policy).await,
        };
        match trial {
            Ok(trial) => self.forecast.trial = trial,
            Err(failure) => self.forecast.unseen = Some(failure.to_string()),
        }
        self.warnings = warnings(self.forecast.trial.lines.iter().map(judged));
    }

    fn prints(&self, options: &Options) -> Vec<Print> {
        let Forecast { node: name, trial, .. } = &self.forecast;
        let suffix = options.dry_run.suffix();
        let mut prints = Vec::new();
        if !self.warnings.is_empty() {
            prints.push(Print::Err(format!("Warning: {}", self.warnings.join("; "))));
        }
        prints.extend(self.forecast.notes().into_iter().map(|note| Print::Err(format!("Note: {note}"))));
        let is_refused = trial.lines.iter().any(|line| line.verdict == Verdict::Refuse);
        if !is_refused {
            prints.extend(trial.lines.iter().filter_map(|line| going(line, suffix)));
            prints.extend(problem_lines(
                &stuck_pods(&trial.lines, &trial.blocked),
                Moment(0),
                options.policy.retry,
            ));
        }
        prints.push(if self.forecast.goes() {
            Print::Out(format!("node/{name} drained{suffix}"))
        } else {
            Print::Err(unable(name, &self.forecast.failure()))
        });
        prints
    }

    fn document(&self) -> Document {
        let trial = &self.forecast.trial;
        let blocked = trial.blocked.iter().chain(&trial.returning);
        Document {
            name: self.forecast.node.clone(),
            outcome: if self.forecast.goes() { "WouldDrain" } else { "WouldFail" },
            failure: self.forecast.failure(),
            seconds: 0.0,
            cordoned_before: self.was_cordoned,
            uncordoned: false,
            pods: trial.lines.iter().map(|line| of_line(line, false)).collect(),
            blocked: blocked.map(of_blocked).collect(),
            warnings: self.warnings.clone(),
            verdict: Some(self.forecast.verdict()),
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
