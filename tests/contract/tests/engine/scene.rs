//! A drain whose clock the case turns, and which it drives from stage to stage: nothing here waits for time to pass.

use std::cell::Cell;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use cluster::clock::boot_time;
use cluster::drainer::Drain;
use cluster::{Cordoned, Drainer};
use contract::{Change, Client, Place, Target};
use drain::progress::{Line, VolumeLine};
use drain::state::{Stage, State};
use drain::{Moment, Outcome, Policy};
use serde_json::{Value, json};
use tokio::time::timeout;

/// A case that hangs has failed.
const LIMIT: Duration = Duration::from_mins(1);

/// A drain that does not come where it should has failed, early enough to say where it stands.
const PATIENCE: Duration = Duration::from_secs(40);

/// Runs one case against the target that `start` makes, within its time.
pub(crate) fn run(
    start: impl FnOnce() -> Result<Target>,
    case: impl AsyncFnOnce(&Target) -> Result<()>,
) -> Result<()> {
    contract::run(start, async |target: &Target| {
        timeout(LIMIT, case(target)).await.with_context(|| format!("not within {LIMIT:?}"))?
    })
}

thread_local! {
    /// How far the drains' clock is ahead of the real one. Each test has a thread, and its runtime no other.
    static AHEAD: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

fn clock() -> Moment {
    boot_time() + AHEAD.get()
}

/// Time passes for drains. One that is waited for does not notice before its next event.
pub(crate) fn pass(time: Duration) {
    AHEAD.set(AHEAD.get() + time);
}

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

/// Drains with this client, by this policy and the clock that [`pass`] turns.
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

    /// Drains by this policy and the clock that [`pass`] turns.
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

    /// How often the client has sent such a request.
    pub(crate) fn sent(&self, verb: &str, resource: &str) -> Result<usize> {
        let asked = self.client.asked()?;
        Ok(asked.iter().filter(|asked| asked.verb == verb && asked.resource == resource).count())
    }
}

/// Drives the drain until `look` finds something in it. Fails if it ends before, or does not come there.
pub(crate) async fn until<T>(
    drain: &mut Drain,
    what: &str,
    mut look: impl FnMut(&Drain) -> Option<T>,
) -> Result<T> {
    let found = timeout(PATIENCE, async {
        loop {
            if let Some(found) = look(drain) {
                return Some(found);
            }
            drain.next().await?;
        }
    });
    match found.await {
        Ok(Some(found)) => Ok(found),
        Ok(None) => bail!("until {what}: it has ended before: {:?}; {}", drain.ended(), told(drain)),
        Err(_) => bail!("until {what}: not within {PATIENCE:?}; {}", told(drain)),
    }
}

/// Drives the drain to its end.
pub(crate) async fn end(drain: &mut Drain) -> Result<Outcome> {
    Ok(until(drain, "it ends", |drain| drain.ended().cloned()).await??)
}

/// Where it stands, for a failed case.
pub(crate) fn told(drain: &Drain) -> String {
    format!("pods {:#?}, volumes {:#?}, blocked {:#?}", drain.lines(), drain.volumes(), drain.blocked())
}

/// The line of this pod.
pub(crate) fn line(drain: &Drain, pod: &str) -> Option<Line> {
    drain.lines().into_iter().find(|line| line.id.name == pod)
}

/// Where this pod is on its way.
pub(crate) fn stage(drain: &Drain, pod: &str) -> Option<Stage> {
    line(drain, pod)?.stage
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
    matches!(drain.state(), State::Proving(_, proof) if proof.clean_since.is_some())
}

/// The cordon that a drain stands on.
pub(crate) fn cordon_of(drain: &Drain) -> Result<&Cordoned> {
    drain.cordoned().context("no cordon")
}
