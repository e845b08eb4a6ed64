//! A fixture: a place with a client of its own, and checks of its drains in addition to `contract::driving`.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use cluster::drainer::Drain;
use cluster::{Cordoned, Drainer};
use contract::driving::{clock, count};
pub(crate) use contract::driving::{end, expire, line, stage, told, turn, until};
use contract::{Change, Client, Place, Target};
use drain::Policy;
use drain::progress::VolumeLine;
use drain::state::{Stage, State};
use fake_cluster::{FakeCluster, Fault};
use serde_json::{Value, json};
use tokio::time::timeout;

/// Longer than the time after which an engine that hears nothing relists.
pub(crate) const LONG: Duration = Duration::from_secs(31);

/// How long a test waits to see that something does not happen.
pub(crate) const PASSING: Duration = Duration::from_millis(300);

/// A policy under which only the case ends a wait: every step may take an hour, and the attempt a day.
pub(crate) fn patient() -> Policy {
    let hour = Duration::from_hours(1);
    let device = Policy::device();
    Policy {
        settle: Duration::from_millis(50),
        volumes: drain::policy::Volumes { detach_timeout: hour, reattach_timeout: hour, ..device.volumes },
        ..device
    }
}

/// A drainer with this client, this policy and the clock that [`turn`] moves.
pub(crate) fn drainer_of(client: &Client<'_>, policy: Policy) -> Drainer {
    Drainer::new(client.cluster().clone(), policy).owned_by("zedkube", "test").with_clock(clock)
}

/// A place and a client of its own, for one drain after the other.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) target: &'a Target,
    pub(crate) place: Place<'a>,
    pub(crate) client: Client<'a>,
}

impl<'a> Scene<'a> {
    pub(crate) async fn new(target: &'a Target, prefix: &str) -> Result<Self> {
        let place = Place::new(target, prefix).await?;
        let client = target.client(&place.namespace).await?;
        Ok(Self { target, place, client })
    }

    /// A drainer with this policy and the clock that [`turn`] moves.
    pub(crate) fn drainer(&self, policy: Policy) -> Drainer {
        drainer_of(&self.client, policy)
    }

    /// Begins to drain the place's node.
    pub(crate) fn drain(&self, policy: Policy) -> Drain {
        self.drainer(policy).drain(&self.place.node)
    }

    /// Deletes a pod that its kubelet does not end, with grace 0.
    pub(crate) async fn kill(&self, pod: &str) -> Result<()> {
        let now = json!({"gracePeriodSeconds": 0});
        self.place.caller().delete(&self.place.path(&format!("pods/{pod}")), &now).await?.object()?;
        self.place.until_gone(&format!("pods/{pod}")).await
    }

    /// Sets labels of a pod; the budgets of [`Place::budget`] select `app=x`.
    pub(crate) async fn label(&self, pod: &str, labels: Value) -> Result<()> {
        self.place.patch(&format!("pods/{pod}"), &json!({"metadata": {"labels": labels}})).await.map(drop)
    }

    /// Deletes a budget.
    pub(crate) async fn free(&self, budget: &str) -> Result<()> {
        let path = self.place.path(&format!("poddisruptionbudgets/{budget}"));
        self.place.caller().delete(&path, &json!({})).await?.object().map(drop)
    }

    /// Cordons or uncordons a node as `kubectl` does: without a name of an owner.
    pub(crate) async fn cordon_by_hand(&self, node: &str, cordoned: bool) -> Result<()> {
        let patch = json!({"spec": {"unschedulable": cordoned}});
        let path = format!("/api/v1/nodes/{node}");
        self.place.caller().patch(&path, Change::Strategic, &patch).await?.object().map(drop)
    }

    /// True if the node is cordoned.
    pub(crate) async fn is_cordoned(&self) -> Result<bool> {
        let node = self.place.caller().get(&self.place.node_path()).await?.object()?;
        Ok(node["spec"]["unschedulable"] == true)
    }

    /// True if the pod exists and was not told to end.
    pub(crate) async fn is_untouched(&self, pod: &str) -> Result<bool> {
        let reply = self.place.caller().get(&self.place.path(&format!("pods/{pod}"))).await?;
        Ok(reply.code == 200 && reply.object()?["metadata"]["deletionTimestamp"].is_null())
    }

    /// Adds a fault for requests of this scene's drains only.
    pub(crate) fn fails(&self, fake: &FakeCluster, fault: Fault) {
        let agent = format!("ebb/{} {}", env!("CARGO_PKG_VERSION"), self.place.namespace);
        fake.faults().add(fault.from_agent(&agent));
    }

    /// Number of such requests that the client has sent.
    pub(crate) fn sent(&self, verb: &str, resource: &str) -> Result<usize> {
        count(&self.client, verb, resource)
    }
}

/// As [`until`], for a drain that may learn only by relists: time passes meanwhile.
pub(crate) async fn until_relisted<T>(
    drain: &mut Drain,
    what: &str,
    mut look: impl FnMut(&Drain) -> Option<T>,
) -> Result<T> {
    for _ in 0..100 {
        if let Ok(found) = timeout(PASSING, until(drain, what, &mut look)).await {
            return found;
        }
        turn(LONG);
    }
    bail!("until {what}: not after 100 relists; {}", told(drain))
}

/// Checks that the drain reports waiting for this, besides pods and volumes.
pub(crate) fn says(drain: &Drain, part: &str) -> Result<()> {
    let said = drain.wait_reason().map(|trouble| trouble.to_string()).unwrap_or_default();
    ensure!(said.contains(part), "the drain reports {said:?}; {}", told(drain));
    Ok(())
}

pub(crate) fn is_blocked(drain: &Drain, pod: &str) -> bool {
    matches!(stage(drain, pod), Some(Stage::Blocked { .. }))
}

pub(crate) fn is_terminating(drain: &Drain, pod: &str) -> bool {
    stage(drain, pod) == Some(Stage::Terminating)
}

/// True if it is not the pod's turn yet: no eviction was ever sent for it.
pub(crate) fn is_waiting(drain: &Drain, pod: &str) -> bool {
    line(drain, pod).is_some_and(|line| line.stage == Some(Stage::Waiting) && line.tries == 0)
}

/// The line of this volume, if the drain waits for it.
pub(crate) fn volume(drain: &Drain, volume: &str) -> Option<VolumeLine> {
    drain.volumes().into_iter().find(|line| line.volume == volume)
}

/// True if all pods have gone and this volume is still being detached.
pub(crate) fn is_detaching(drain: &Drain, name: &str) -> bool {
    drain.progress().left == 0 && volume(drain, name).is_some_and(|line| line.stage == "Detaching")
}

/// True if the first fresh list was empty, and another one has to follow.
pub(crate) fn is_half_proven(drain: &Drain) -> bool {
    matches!(drain.state(), State::Verifying(_, proof) if proof.is_half_done())
}

/// The drain's cordon.
pub(crate) fn cordon_of(drain: &Drain) -> Result<&Cordoned> {
    drain.cordoned().context("no cordon")
}
