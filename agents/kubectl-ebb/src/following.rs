//! `--wait`: follows what becomes of commands in the annotations of Nodes, each Node by a watch of its own.

mod next;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use cluster::{ApiFailure, Cluster, NodeFacts, NodeWatch};
use futures::stream::{self, FuturesUnordered};
use futures::{Stream, StreamExt};
use tokio::time::sleep;

use crate::interrupts::{Interrupt, Interrupts};
use crate::kubectl::nodes::Done;
use crate::kubectl::{go_bool, go_duration, is_on};
use crate::screen::{Print, Screen, say};
pub(crate) use next::{Followed, Goal, answer_to, too_late, words};
use next::{Next, next};

/// Time without an answer after which the person is told what to look at.
const SILENCE: Duration = Duration::from_secs(30);

/// Flags of the verbs that command devices.
#[derive(Args, Debug)]
#[expect(clippy::option_option, reason = "clap's form of pflag's switches: absent, `--wait`, `--wait=false`")]
pub(crate) struct Waiting {
    /// Wait for the devices, and print how far they are
    #[arg(long, value_name = "BOOL", require_equals = true, value_parser = go_bool)]
    wait: Option<Option<bool>>,
    /// With --wait: time to wait before giving up, such as 1h30m; 0 = no limit. What was commanded stays so
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = go_duration, requires = "wait")]
    timeout: Duration,
}

impl Waiting {
    /// True if the verb waits.
    pub(crate) fn is_on(&self) -> bool {
        is_on(self.wait)
    }

    /// Waits for these nodes if it is asked for, and returns the exit code of the verb.
    ///
    /// # Errors
    /// The process may not watch signals.
    pub(crate) async fn end(&self, mut done: Done, followed: Vec<Followed>) -> anyhow::Result<ExitCode> {
        if let Some(Followed { goal, .. }) = followed.first().filter(|_| self.is_on()) {
            let (not_reached, signal) = self.follow_all(&done.cluster, &followed).await?;
            if let Some(signal) = signal {
                let remedy = match goal {
                    Goal::Done(..) => {
                        format!("; `kubectl ebb cancel {}` takes it back", not_reached.join(" "))
                    }
                    Goal::TakenBack => String::new(),
                };
                say(&format!("interrupted: {}{remedy}", goal.stays()));
                return Ok(signal.exit_code());
            }
            done.failed.extend(not_reached);
            let Done { total, failed, .. } = &done;
            if *total > 1 && !failed.is_empty() {
                let (count, names) = (failed.len(), failed.join(", "));
                say(&format!("{count} of {total} nodes are not {}: {names}", goal.reached()));
            }
        }
        Ok(done.exit_code())
    }

    /// Follows all nodes. Returns those that have not reached their goal; after a signal those that might still.
    async fn follow_all(
        &self,
        cluster: &Cluster,
        followed: &[Followed],
    ) -> anyhow::Result<(Vec<String>, Option<Interrupt>)> {
        let mut interrupts = Interrupts::watch()?;
        let limit = if self.timeout.is_zero() { Duration::MAX } else { self.timeout };
        let (screen, is_failure_told) = (Screen::new(false), Cell::new(false));
        let print = |line| screen.print(&[line]);
        let follow_one = async |node: &Followed| {
            let watch = NodeWatch::start(cluster, &node.name);
            let seen = stream::unfold(watch, async |mut watch| Some((watch.changed().await, watch)));
            (node.name.clone(), follow(node, seen, limit, &is_failure_told, &print).await)
        };
        let mut running: FuturesUnordered<_> = followed.iter().map(follow_one).collect();
        let mut open: BTreeSet<String> = followed.iter().map(|node| node.name.clone()).collect();
        let mut failed = Vec::new();
        loop {
            tokio::select! {
                ended = running.next() => {
                    let Some((name, is_reached)) = ended else { return Ok((failed, None)) };
                    open.remove(&name);
                    if !is_reached {
                        failed.push(name);
                    }
                }
                signal = interrupts.next() => return Ok((open.into_iter().collect(), Some(signal))),
            }
        }
    }
}

/// Follows one node to its end. True if the goal is reached.
async fn follow(
    node: &Followed,
    seen: impl Stream<Item = Result<Option<NodeFacts>, ApiFailure>>,
    limit: Duration,
    is_failure_told: &Cell<bool>,
    print: &impl Fn(Print),
) -> bool {
    let Followed { name, goal, .. } = node;
    let (mut seen, mut silence, mut limit) = (pin!(seen), pin!(sleep(SILENCE)), pin!(sleep(limit)));
    let (mut last, mut is_silence_told) = (None, false);
    let why = loop {
        tokio::select! {
            Some(facts) = seen.next() => match facts.map(|facts| next(node, facts.as_ref())) {
                Ok(Next::Done) => {
                    print(Print::Out(format!("node/{name} {}", goal.reached())));
                    return true;
                }
                Ok(Next::Failed(why)) => break why,
                Ok(Next::Wait(Some(answer))) if last.as_ref() != Some(&answer) => {
                    print(Print::Out(format!("node/{name} {answer}")));
                    last = Some(answer);
                }
                Err(failure) if !is_failure_told.replace(true) => print(Print::Err(format!(
                    "Warning: the API server does not answer ({failure}); {}, and this goes on waiting",
                    goal.stays()
                ))),
                Ok(Next::Wait(_)) | Err(_) => {}
            },
            () = &mut silence, if !is_silence_told && last.is_none() => {
                is_silence_told = true;
                print(Print::Err(format!(
                    "no answer from node/{name} yet: does ebb run on it, with commands.from-cluster = true?"
                )));
            }
            () = &mut limit => {
                let answer = last.as_deref().unwrap_or("none");
                break format!("--timeout is over; {}; the last answer: {answer}", goal.stays());
            }
        }
    };
    print(Print::Err(format!("error: unable to {} node {name:?}: {why}", goal.verb())));
    false
}

#[cfg(test)]
mod tests;
