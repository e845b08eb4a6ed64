//! A place with a client of its own, and what is to be seen of its drains, beside what `contract::driving` has for all.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use cluster::drainer::Drain;
use cluster::{Cordoned, Drainer};
use contract::driving::{clock, count};
pub(crate) use contract::driving::{end, line, run, stage, told, turn, until};
use contract::{Change, Client, Place, Target};
use drain::Policy;
use drain::progress::VolumeLine;
use drain::state::{Stage, State};
use fake_cluster::{FakeCluster, Fault};
use serde_json::{Value, json};
use tokio::time::timeout;

/// More than the time after which an engine that hears nothing takes a fresh look.
pub(crate) const LONG: Duration = Duration::from_secs(31);

/// What takes no longer than this is seen; that something does not happen takes time to see.
pub(crate) const PASSING: Duration = Duration::from_millis(300);

/// A policy under which only the case ends a wait: everything may take an hour, and the attempt a day.
pub(crate) fn patient() -> Policy {
    let hour = Duration::from_hours(1);
    let device = Policy::device();
    Policy {
        settle: Duration::from_millis(50),
        volumes: drain::policy::Volumes { detach_timeout: hour, reattach_timeout: hour, ..device.volumes },
        ..device
    }
}

/// Drains with this client, by this policy and the clock that [`turn`] turns.
pub(crate) fn drainer_of(client: &Client<'_>, policy: Policy) -> Drainer {
    Drainer::new(client.cluster().clone(), policy).owned_by("zedkube", "test").with_clock(clock)
}

/// A place, and a client that nobody else is, for one drain after the other.
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

    /// Drains by this policy and the clock that [`turn`] turns.
    pub(crate) fn drainer(&self, policy: Policy) -> Drainer {
        drainer_of(&self.client, policy)
    }

    /// Begins to drain the place's node.
    pub(crate) fn drain(&self, policy: Policy) -> Drain {
        self.drainer(policy).drain(&self.place.node)
    }

    /// Ends a pod that its kubelet does not end.
    pub(crate) async fn kill(&self, pod: &str) -> Result<()> {
        let now = json!({"gracePeriodSeconds": 0});
        self.place.caller().delete(&self.place.path(&format!("pods/{pod}")), &now).await?.object()?;
        self.place.until_gone(&format!("pods/{pod}")).await
    }

    /// Sets labels of a pod; the budgets of [`Place::budget`] select `app=x`.
    pub(crate) async fn label(&self, pod: &str, labels: Value) -> Result<()> {
        self.place.patch(&format!("pods/{pod}"), &json!({"metadata": {"labels": labels}})).await.map(drop)
    }

    /// Takes a budget away.
    pub(crate) async fn free(&self, budget: &str) -> Result<()> {
        let path = self.place.path(&format!("poddisruptionbudgets/{budget}"));
        self.place.caller().delete(&path, &json!({})).await?.object().map(drop)
    }

    /// Cordons or uncordons a node as `kubectl` does: nobody's name is written down.
    pub(crate) async fn cordon_by_hand(&self, node: &str, cordoned: bool) -> Result<()> {
        let patch = json!({"spec": {"unschedulable": cordoned}});
        let path = format!("/api/v1/nodes/{node}");
        self.place.caller().patch(&path, Change::Strategic, &patch).await?.object().map(drop)
    }

    /// Whether the node takes no pods.
    pub(crate) async fn is_cordoned(&self) -> Result<bool> {
        let node = self.place.caller().get(&self.place.node_path()).await?.object()?;
        Ok(node["spec"]["unschedulable"] == true)
    }

    /// The pod is there and nobody has told it to go.
    pub(crate) async fn is_untouched(&self, pod: &str) -> Result<bool> {
        let reply = self.place.caller().get(&self.place.path(&format!("pods/{pod}"))).await?;
        Ok(reply.code == 200 && reply.object()?["metadata"]["deletionTimestamp"].is_null())
    }

    /// Adds a fault that only this scene's drains run into.
    pub(crate) fn fails(&self, fake: &FakeCluster, fault: Fault) {
        let agent = format!("ebb/{} {}", env!("CARGO_PKG_VERSION"), self.place.namespace);
        fake.faults().add(fault.from_agent(&agent));
    }

    /// How often the client has sent such a request.
    pub(crate) fn sent(&self, verb: &str, resource: &str) -> Result<usize> {
        count(&self.client, verb, resource)
    }
}

/// As [`until`], for a drain that may see only by its fresh looks: time passes meanwhile.
pub(crate) async fn until_looked<T>(
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
    bail!("until {what}: not after 100 looks; {}", told(drain))
}

/// What the drain waits for besides pods and volumes, as it says itself.
pub(crate) fn says(drain: &Drain, part: &str) -> Result<()> {
    let said = drain.trouble().map(|trouble| trouble.to_string()).unwrap_or_default();
    ensure!(said.contains(part), "it says {said:?}; {}", told(drain));
    Ok(())
}

pub(crate) fn is_blocked(drain: &Drain, pod: &str) -> bool {
    matches!(stage(drain, pod), Some(Stage::Blocked { .. }))
}

pub(crate) fn is_terminating(drain: &Drain, pod: &str) -> bool {
    stage(drain, pod) == Some(Stage::Terminating)
}

/// The pod's turn has not come: nothing was ever sent for it.
pub(crate) fn is_waiting(drain: &Drain, pod: &str) -> bool {
    line(drain, pod).is_some_and(|line| line.stage == Some(Stage::Waiting) && line.tries == 0)
}

/// The line of this volume, if there is something to wait for.
pub(crate) fn volume(drain: &Drain, volume: &str) -> Option<VolumeLine> {
    drain.volumes().into_iter().find(|line| line.volume == volume)
}

/// All pods have gone and this volume is still being detached.
pub(crate) fn is_detaching(drain: &Drain, name: &str) -> bool {
    drain.progress().left == 0 && volume(drain, name).is_some_and(|line| line.stage == "Detaching")
}

/// The first fresh list was clean, and another one has to follow.
pub(crate) fn is_half_proven(drain: &Drain) -> bool {
    matches!(drain.state(), State::Proving(_, proof) if proof.is_half_done())
}

/// The cordon that a drain stands on.
pub(crate) fn cordon_of(drain: &Drain) -> Result<&Cordoned> {
    drain.cordoned().context("no cordon")
}
