//! The whole command: all nodes are cordoned, then drained, some at a time.

use std::time::Duration;

use cluster::{Cluster, Drainer};
use drain::Moment;
use drain::view::NodeView;
use futures::FutureExt;
use futures::future::select_all;
use runtime::clock::boot_millis;

use super::job::{Change, Job};
use super::options::Options;
use super::panel::bars;
use super::story::{Manner, Story};
use crate::screen::{Print, Screen};

/// How often the screen is refreshed when nothing happens: it shows the time, and reminds of what blocks.
const REFRESH: Duration = Duration::from_secs(1);

/// Everything between the names and the exit code.
#[derive(Debug)]
pub(crate) struct Command {
    drainer: Drainer,
    /// Whose cordon is taken back when a drain fails.
    undo: Option<String>,
    parallel: usize,
    jobs: Vec<Job>,
    screen: Screen,
}

impl Command {
    /// Nothing has been changed.
    pub(crate) fn new(cluster: &Cluster, nodes: &[NodeView], options: &Options, screen: Screen) -> Self {
        let policy = options.policy.clone();
        let manner = Manner {
            method: policy.method,
            retry: policy.retry,
            is_verbose: options.is_verbose,
            reminds: !screen.has_bars(),
        };
        Self {
            jobs: nodes.iter().map(|node| Job::new(cluster, node, Story::new(manner))).collect(),
            drainer: Drainer::new(cluster.clone(), policy.clone()).owned_by(&options.owner, &options.reason),
            undo: options.uncordon_on_failure.then(|| options.owner.clone()),
            parallel: options.parallel,
            screen,
        }
    }

    /// Cordons all nodes, then drains them. May be dropped at any time; then [`Command::interrupt`] tidies up.
    pub(crate) async fn work(&mut self) {
        for job in &mut self.jobs {
            let prints = job.cordon(&self.drainer, self.undo.as_deref()).await;
            self.screen.print(&prints);
        }
        self.run().await;
    }

    /// Everything stops at once, but for cordons that are to be taken back: [`Command::run`] does that.
    pub(crate) fn interrupt(&mut self) {
        self.screen.leave_bars();
        for job in &mut self.jobs {
            let prints = job.interrupt(self.undo.as_deref());
            self.screen.print(&prints);
        }
    }

    /// Goes on until nothing is under way.
    pub(crate) async fn run(&mut self) {
        loop {
            self.begin_more();
            if self.screen.has_bars() {
                self.screen.show(&bars(&self.jobs, Moment(boot_millis())), self.foot());
            }
            let Some(next) = self.next() else { break };
            // Who waits must not hold on to the jobs while they are looked at.
            let change = tokio::time::timeout(REFRESH, next).await;
            match change {
                Ok((place, change)) => self.take_in(place, &change),
                Err(_) => (0..self.jobs.len()).for_each(|place| self.take_in(place, &Change::Drain)),
            }
        }
        self.screen.show(&[], "");
    }

    /// The last words of the command. Whether every node is drained.
    pub(crate) fn sum_up(&self) -> bool {
        let failed: Vec<&Job> = self.jobs.iter().filter(|job| !job.is_drained()).collect();
        let mut prints = Vec::new();
        if !failed.is_empty() {
            prints.push(Print::Err("There are pending nodes to be drained:".to_owned()));
            prints.extend(failed.iter().map(|job| Print::Err(format!(" {}", job.name))));
        }
        self.screen.print(&prints);
        failed.is_empty()
    }

    /// The nodes, for the document.
    pub(crate) fn jobs(&self) -> &[Job] {
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

    /// The next change of any job that is under way, and its place; `None` if none is.
    fn next(&mut self) -> Option<impl Future<Output = (usize, Change)>> {
        let busy = self.jobs.iter_mut().enumerate().filter(|(_, job)| job.is_busy());
        let busy: Vec<_> =
            busy.map(|(place, job)| async move { (place, job.advance().await) }.boxed_local()).collect();
        (!busy.is_empty()).then(|| select_all(busy).map(|(change, ..)| change))
    }

    fn take_in(&mut self, place: usize, change: &Change) {
        if let Some(job) = self.jobs.get_mut(place) {
            let prints = job.take_in(change, self.undo.as_deref());
            self.screen.print(&prints);
        }
    }
}
