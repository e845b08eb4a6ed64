//! `ebb drain NODE…`: `kubectl drain` with kubectl's flags and texts, done by our drain engine.
//!
//! All nodes are looked up, then cordoned, then drained. If a node cannot be cordoned or drained, it is named, and the
//! others go on. Intended differences from kubectl: each change is printed once, a blocked pod with the blocker and
//! what to do about it, and a node counts as drained only after a final check with fresh lists.

pub(crate) mod document;
mod dry_run;
mod ending;
pub(crate) mod forecast;
mod job;
pub(crate) mod options;
mod panel;
mod reporter;
#[cfg(test)]
pub(crate) mod testing;

use std::process::ExitCode;
use std::time::Duration;

use cluster::clock::boot_time;
use cluster::cordon::Marks;
use cluster::{Cluster, Drainer};
use drain::view::NodeView;
use futures::FutureExt;
use futures::future::select_all;

pub use ending::span;
pub use options::DrainArguments;

use crate::interrupts::{Interrupt, Interrupts};
use crate::kubectl::DryRun;
use crate::screen::{self, Print, Screen};
use document::{Document, of_job};
use job::{Change, Job};
use options::Options;
use panel::bars;
use reporter::{NodeReporter, ReportStyle};

/// Interval of screen updates without an event: they show the elapsed time and repeat the blocked pods.
const REFRESH: Duration = Duration::from_secs(1);

/// Drains the nodes. Exit code 0 when all nodes are drained, 130 after Ctrl-C, else 1.
pub fn run(arguments: &DrainArguments) -> anyhow::Result<ExitCode> {
    let options = Options::from("drain", arguments)?;
    crate::in_runtime(async {
        let mut interrupts = Interrupts::watch()?;
        let found = tokio::select! {
            found = arguments.nodes.find("drain", &options.nodes) => found?,
            signal = interrupts.next() => return Ok(nothing_was_changed(signal)),
        };
        match options.dry_run {
            DryRun::None => real(&options, found, interrupts).await,
            DryRun::Client | DryRun::Server => tokio::select! {
                ended = dry_run::run(&options, found) => ended,
                signal = interrupts.next() => Ok(nothing_was_changed(signal)),
            },
        }
    })
}

async fn real(
    options: &Options,
    (cluster, nodes): (Cluster, Vec<NodeView>),
    mut interrupts: Interrupts,
) -> anyhow::Result<ExitCode> {
    let mut command = Command::new(&cluster, &nodes, options, Screen::new(options.is_json));
    let signal = tokio::select! {
        () = command.work() => None,
        signal = interrupts.next() => Some(signal),
    };
    if signal.is_some() {
        command.interrupt();
        tokio::select! {
            () = command.run() => {}
            _ = interrupts.next() => screen::say("interrupted again: the results of the calls in flight are not known"),
        }
    }
    let all = command.sum_up();
    if options.is_json {
        print(&command.jobs().iter().map(of_job).collect::<Vec<_>>())?;
    }
    Ok(match signal {
        Some(signal) => signal.exit_code(),
        None if all => ExitCode::SUCCESS,
        None => ExitCode::FAILURE,
    })
}

fn print(document: &[Document]) -> anyhow::Result<()> {
    screen::json(document)
}

fn nothing_was_changed(signal: Interrupt) -> ExitCode {
    screen::say("interrupted: nothing has been changed");
    signal.exit_code()
}

/// One run of `ebb drain`: all its nodes and the screen.
#[derive(Debug)]
struct Command {
    drainer: Drainer,
    /// Owner whose cordon is lifted again when a drain fails; `None`: cordons stay.
    undo: Option<String>,
    parallel: usize,
    jobs: Vec<Job>,
    screen: Screen,
}

impl Command {
    /// Makes the command; sends nothing yet.
    fn new(cluster: &Cluster, nodes: &[NodeView], options: &Options, screen: Screen) -> Self {
        let policy = options.policy.clone();
        let style = ReportStyle {
            method: policy.method,
            retry: policy.retry,
            is_verbose: options.is_verbose,
            reminds: !screen.has_bars(),
        };
        Self {
            jobs: nodes.iter().map(|node| Job::new(cluster, node, NodeReporter::new(style))).collect(),
            drainer: Drainer::new(cluster.clone(), policy.clone())
                .owned_by(&options.owner, &options.reason)
                .marked(Marks::Wished),
            undo: options.uncordon_on_failure.then(|| options.owner.clone()),
            parallel: options.parallel,
            screen,
        }
    }

    /// Cordons all nodes, then drains them. May be dropped at any time; after that call [`Command::interrupt`].
    async fn work(&mut self) {
        for job in &mut self.jobs {
            let prints = job.cordon(&self.drainer, self.undo.as_deref()).await;
            self.screen.print(&prints);
        }
        self.run().await;
    }

    /// Stops all drains at once. Only cordons that must be lifted again are still to do: [`Command::run`] does that.
    fn interrupt(&mut self) {
        self.screen.leave_bars();
        for job in &mut self.jobs {
            let prints = job.interrupt(self.undo.as_deref());
            self.screen.print(&prints);
        }
    }

    /// Runs until no job has anything left to do.
    async fn run(&mut self) {
        loop {
            self.begin_more();
            if self.screen.has_bars() {
                self.screen.show(&bars(&self.jobs, boot_time()), self.foot());
            }
            let Some(next) = self.next() else { break };
            // This future borrows the jobs, so it must end before they are read again.
            let change = tokio::time::timeout(REFRESH, next).await;
            match change {
                Ok((place, change)) => self.apply(place, &change),
                Err(_) => (0..self.jobs.len()).for_each(|place| self.apply(place, &Change::Drain)),
            }
        }
        self.screen.show(&[], "");
    }

    /// Prints the nodes that are not drained. True if every node is drained.
    fn sum_up(&self) -> bool {
        let failed: Vec<&Job> = self.jobs.iter().filter(|job| !job.is_drained()).collect();
        let mut prints = Vec::new();
        if !failed.is_empty() {
            prints.push(Print::Err("There are pending nodes to be drained:".to_owned()));
            prints.extend(failed.iter().map(|job| Print::Err(format!(" {}", job.name))));
        }
        self.screen.print(&prints);
        failed.is_empty()
    }

    /// The jobs, for the JSON document.
    fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    fn foot(&self) -> &'static str {
        match self.undo {
            Some(_) => "Ctrl-C stops; cordons of this command are taken back",
            None => "Ctrl-C stops; the nodes stay cordoned",
        }
    }

    fn begin_more(&mut self) {
        let draining = self.jobs.iter().filter(|job| job.is_draining()).count();
        let free = self.parallel.saturating_sub(draining);
        for job in self.jobs.iter_mut().filter(|job| job.is_waiting()).take(free) {
            job.begin(&self.drainer);
        }
    }

    /// Waits for the next change of any busy job; returns the index of the job with it. `None` if no job is busy.
    fn next(&mut self) -> Option<impl Future<Output = (usize, Change)>> {
        let busy = self.jobs.iter_mut().enumerate().filter(|(_, job)| job.is_busy());
        let busy: Vec<_> =
            busy.map(|(place, job)| async move { (place, job.advance().await) }.boxed_local()).collect();
        (!busy.is_empty()).then(|| select_all(busy).map(|(change, ..)| change))
    }

    fn apply(&mut self, place: usize, change: &Change) {
        if let Some(job) = self.jobs.get_mut(place) {
            let prints = job.apply(change, self.undo.as_deref());
            self.screen.print(&prints);
        }
    }
}
