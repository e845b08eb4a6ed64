//! `ebb drain --dry-run`: what would happen, in one pass. Nothing is changed.

use std::process::ExitCode;

use cluster::cordon::Before;
use cluster::{Cluster, fresh_look, full_look, would_cordon};
use drain::progress::Line;
use drain::state::Stage;
use drain::view::NodeView;
use drain::{Moment, Picture, Policy, Verdict, plan};

use super::document::{Document, of_blocked, of_line};
use super::ending::unable;
use super::options::Options;
use super::sight::Sight;
use super::story::judged;
use super::trouble::{told, troubles};
use crate::cordon::cordoned;
use crate::kubectl::flags::DryRun;
use crate::kubectl::words::{aggregate, refusals, warnings};
use crate::screen::{Print, Screen};
use crate::trial::trial;

/// What would happen to one node.
#[derive(Debug, Default)]
pub(crate) struct Foreseen {
    name: String,
    was_cordoned: bool,
    sight: Sight,
    warnings: Vec<String>,
    /// Why it would not be drained; empty if it would be.
    failure: String,
}

/// Looks at all nodes. Exit code 0 when all of them would be drained, else 1.
pub(crate) async fn run(
    options: &Options,
    (cluster, nodes): (Cluster, Vec<NodeView>),
) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(options.is_json);
    let mut all = Vec::new();
    for node in nodes {
        let (foreseen, print) = cordon(&cluster, node, options).await;
        screen.print(&[print]);
        all.push(foreseen);
    }
    for foreseen in all.iter_mut().filter(|foreseen| foreseen.failure.is_empty()) {
        foreseen.look(&cluster, options).await;
        screen.print(&foreseen.prints(options));
    }
    let failed: Vec<&Foreseen> = all.iter().filter(|foreseen| !foreseen.failure.is_empty()).collect();
    if !failed.is_empty() {
        let mut prints = vec![Print::Err("There are pending nodes to be drained:".to_owned())];
        prints.extend(failed.iter().map(|failed| Print::Err(format!(" {}", failed.name))));
        screen.print(&prints);
    }
    if options.is_json {
        super::print(&all.iter().map(Foreseen::document).collect::<Vec<_>>())?;
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn cordon(cluster: &Cluster, node: NodeView, options: &Options) -> (Foreseen, Print) {
    let mode = options.dry_run;
    let mut foreseen =
        Foreseen { name: node.name.clone(), was_cordoned: node.cordoned, ..Foreseen::default() };
    let before = if node.cordoned { Before::Foreign } else { Before::Schedulable };
    let before = match mode {
        DryRun::Server => would_cordon(cluster, &node.name, &options.owner, &options.reason).await,
        DryRun::Client | DryRun::None => Ok(before),
    };
    let print = match before {
        Ok(before) => Print::Out(cordoned(&node.name, before, mode)),
        Err(failure) => {
            foreseen.failure = failure.to_string();
            Print::Err(format!("error: unable to cordon node {:?}: {failure}", node.name))
        }
    };
    (foreseen, print)
}

impl Foreseen {
    async fn look(&mut self, cluster: &Cluster, options: &Options) {
        let sight = match options.dry_run {
            DryRun::Server => self.ask(cluster, &options.policy).await,
            DryRun::Client | DryRun::None => self.judge(cluster, &options.policy).await,
        };
        match sight {
            Ok(sight) => self.sight = sight,
            Err(failure) => self.failure = failure.to_string(),
        }
        let lines = || self.sight.lines.iter().map(judged);
        let refusals = refusals(lines());
        self.warnings = warnings(lines());
        if !refusals.is_empty() {
            self.failure = aggregate(&refusals);
        } else if self.failure.is_empty() {
            self.failure = blocked(&self.sight);
        }
    }

    /// One look, and what follows from it. Budgets do not count, so nobody needs the right to see them.
    async fn judge(&self, cluster: &Cluster, policy: &Policy) -> Result<Sight, cluster::ApiFailure> {
        let picture = fresh_look(cluster, &self.name, Some(&Picture::default()), false).await?;
        let lines = picture.pods.iter().zip(plan(&picture, policy)).map(|(pod, planned)| Line {
            id: planned.id,
            owner: pod.owner(),
            verdict: planned.verdict,
            reasons: planned.reasons,
            stage: None,
            since: Moment::default(),
            tries: 0,
            detail: String::new(),
        });
        Ok(Sight { lines: lines.collect(), ..Sight::default() })
    }

    /// The same, and the server's word on each pod.
    async fn ask(&self, cluster: &Cluster, policy: &Policy) -> Result<Sight, cluster::ApiFailure> {
        let trial = trial(cluster, full_look(cluster, &self.name).await?, policy).await;
        Ok(Sight { lines: trial.lines, blocked: trial.blocked, ..Sight::default() })
    }

    fn prints(&self, options: &Options) -> Vec<Print> {
        let (name, suffix) = (&self.name, options.dry_run.suffix());
        let mut prints = Vec::new();
        if !self.warnings.is_empty() {
            prints.push(Print::Err(format!("Warning: {}", self.warnings.join("; "))));
        }
        let is_refused = self.sight.lines.iter().any(|line| line.verdict == Verdict::Refuse);
        if !is_refused {
            prints.extend(self.sight.lines.iter().filter_map(|line| going(line, suffix)));
            prints.extend(told(&troubles(&self.sight), self.sight.now, options.policy.retry));
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
            pods: self.sight.lines.iter().map(|line| of_line(line, false)).collect(),
            blocked: self.sight.blocked.iter().map(of_blocked).collect(),
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

/// Pods that the server would not let go now.
fn blocked(sight: &Sight) -> String {
    let is_held =
        |stage: &Stage| matches!(stage, Stage::Blocked { .. } | Stage::Paused { .. } | Stage::Final { .. });
    let known = sight.blocked_by_uid();
    // One that is terminating for too long as well: a drain would wait for it, and `ebb plan` says so.
    let is_in_the_way =
        |line: &Line| known.contains_key(line.id.uid.as_str()) || line.stage.as_ref().is_some_and(is_held);
    let held = sight.lines.iter().filter(|line| is_in_the_way(line));
    let held: Vec<String> = held.map(|line| line.id.to_string()).collect();
    if held.is_empty() { String::new() } else { format!("these pods would not go now: {}", held.join(", ")) }
}
