//! Scenes of the demonstration: what holds a drain up in this cluster, and what an operator can type then.

use std::fs::File;
use std::io::Write;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use clap::ValueEnum;
use fake_cluster::{Limit, Refusal, objects};
use jiff::SignedDuration;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pubsub::{Root, lock_holder};
use runtime::clock;
use schemas::agent;
use serde_json::{Value, json};

use super::fixture::{Fixture, NODE, SLOTS};

/// What holds the drain up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scene {
    /// A budget allows none of its pods to leave
    Blocked,
    /// The budget belongs to an operator (CloudNativePG) that has to move its primary first
    OperatorBudget,
    /// The API server is away in the middle of the drain
    ApiAway,
    /// No other node takes pods
    NoPeer,
    /// Another node has the only slot, and is down
    Slot,
    /// All attempts of the drain have failed
    Failed,
    /// An operator has let the device go down although its node is not drained
    Forced,
    /// zedkube hangs
    Hung,
}

/// A command that an operator can type: `ebb` with the verb, `kubectl`, or `kill` with zedkube's process id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Typed {
    Ebb(&'static str),
    Kubectl(&'static str),
    Kill(&'static str),
}

use Typed::{Ebb, Kill, Kubectl};

/// The text of a scene.
#[derive(Debug)]
pub(super) struct Script {
    /// What is wrong, in one sentence.
    pub(super) story: &'static str,
    /// Lines of the device's settings.
    pub(super) settings: &'static str,
    /// Exit code of `ebb status` as soon as the drain hangs.
    pub(super) code: i32,
    /// Each way out, and what it does.
    pub(super) ways: &'static [(Typed, &'static str)],
    /// What would help in life, and happens here when a person presses Enter; None if there is nothing left to help.
    pub(super) relief: Option<&'static str>,
}

/// A way out of every scene in which a reboot waits.
const TAKE_BACK: (Typed, &str) = (Ebb("cancel reboot"), "takes the reboot back: the node takes pods again");

/// The last resort.
const FORCE: (Typed, &str) =
    (Ebb("force complete --reason 'disk fails'"), "lets the device go down although the node is NOT drained");

/// Changes the budget of the shop for good.
const RELAX: (Typed, &str) = (
    Kubectl("patch pdb web --type=merge -p '{\"spec\":{\"minAvailable\":null,\"maxUnavailable\":1}}'"),
    "changes the budget, as its owner would",
);

const BLOCKED: Script = Script {
    story: "budget \"web\" wants all pods of the shop at all times, so none may leave",
    settings: "",
    code: 5,
    ways: &[RELAX, TAKE_BACK, FORCE],
    relief: Some("the shop's owner changes the budget: one pod may be missing"),
};

const OPERATOR_BUDGET: Script = Script {
    story: "pod pg-1 is the primary of a database that CloudNativePG runs; its budget lets no primary leave",
    settings: "",
    code: 5,
    ways: &[
        (
            Kubectl("describe cluster.postgresql.cnpg.io pg"),
            "shows what the operator waits for; a change of the budget would not last",
        ),
        TAKE_BACK,
        FORCE,
    ],
    relief: Some("CloudNativePG makes pg-2 the primary"),
};

const API_AWAY: Script = Script {
    story: "the API server goes away in the middle of the drain",
    settings: "",
    code: 5,
    ways: &[TAKE_BACK, FORCE],
    relief: Some("the API server comes back; the last look of the drain is a minute later"),
};

const NO_PEER: Script = Script {
    story: "edge-b and edge-c are cordoned: nobody could take this node's pods",
    settings: "",
    code: 5,
    ways: &[(Kubectl("uncordon edge-b"), "lets edge-b take pods again"), TAKE_BACK, FORCE],
    relief: Some("edge-b takes pods again"),
};

const SLOT: Script = Script {
    story: "one node may be down at a time, and edge-b is: it has the slot, and does not come back",
    settings: "",
    code: 5,
    ways: &[
        (Ebb("slots list"), "shows who has a slot, and since when"),
        (Ebb("slots release edge-b --force"), "takes the slot away from edge-b: only if it stays down"),
        TAKE_BACK,
        FORCE,
    ],
    relief: Some("edge-b comes back, and gives its slot back"),
};

const FAILED: Script = Script {
    story: "budget \"web\" allows nothing, and the only attempt of the drain ends after 5 s",
    settings: "# One short attempt, so that you need not wait for days until the drain has failed.\n\
               drain.attempts = 1\n\
               drain.attempt-timeout = \"5s\"\n",
    code: 6,
    ways: &[RELAX, (Ebb("reboot --reason 'second try'"), "then: a new command is a new drain"), TAKE_BACK],
    relief: Some("the shop's owner changes the budget: one pod may be missing"),
};

const FORCED: Script = Script {
    story: "a budget allows nothing, and somebody does not wait for it",
    settings: "",
    code: 7,
    ways: &[
        (Ebb("history last"), "tells the drain, and who let it end so"),
        (Ebb("cancel reboot"), "a dry run goes down only on paper: the node takes pods again"),
    ],
    relief: None,
};

const HUNG: Script = Script {
    story: "zedkube hangs (SIGSTOP) when the reboot is commanded",
    settings: "",
    code: 7,
    ways: &[
        (
            Kill("-KILL"),
            "ends it, and `ebb run` starts it again; with systemd: systemctl restart ebb-zedkube",
        ),
        TAKE_BACK,
        FORCE,
    ],
    relief: Some("zedkube goes on (SIGCONT)"),
};

impl Scene {
    pub(super) fn script(self) -> &'static Script {
        match self {
            Self::Blocked => &BLOCKED,
            Self::OperatorBudget => &OPERATOR_BUDGET,
            Self::ApiAway => &API_AWAY,
            Self::NoPeer => &NO_PEER,
            Self::Slot => &SLOT,
            Self::Failed => &FAILED,
            Self::Forced => &FORCED,
            Self::Hung => &HUNG,
        }
    }

    /// Makes the cluster as the story tells, before the reboot is commanded.
    pub(super) fn begin(self, fixture: &Fixture) -> anyhow::Result<()> {
        let cluster = &fixture.cluster;
        match self {
            Self::Blocked | Self::Failed | Self::Forced => {
                cluster.budget("web", Limit::MinAvailable("100%"))?;
            }
            Self::OperatorBudget => add_database(fixture)?,
            Self::ApiAway => {}
            Self::NoPeer => {
                for node in ["edge-b", "edge-c"] {
                    set_unschedulable(fixture, node, true)?;
                }
            }
            Self::Slot => {
                take_slot(fixture)?;
                cluster.faults().stop_kubelet("edge-b");
                set_ready(fixture, "edge-b", "Unknown")?;
            }
            Self::Hung => hang(fixture.root())?,
        }
        Ok(())
    }

    /// Does what would help.
    pub(super) fn relieve(self, fixture: &Fixture) -> anyhow::Result<()> {
        let cluster = &fixture.cluster;
        match self {
            Self::Blocked | Self::Failed => {
                cluster.budget("web", Limit::MaxUnavailable("1"))?;
            }
            Self::OperatorBudget => {
                set_role(fixture, "pg-2", "primary")?;
                set_role(fixture, "pg-1", "replica")?;
            }
            Self::ApiAway => cluster.faults().api_up()?,
            Self::NoPeer => set_unschedulable(fixture, "edge-b", false)?,
            Self::Slot => {
                cluster.faults().start_kubelet("edge-b");
                set_ready(fixture, "edge-b", "True")?;
                set_slots(fixture, json!({}))?;
            }
            Self::Forced => {}
            Self::Hung => kill(zedkube(fixture.root())?, Signal::SIGCONT).context("cannot wake zedkube")?,
        }
        Ok(())
    }
}

/// The process of zedkube.
pub(super) fn zedkube(root: &Root) -> anyhow::Result<Pid> {
    let holder = lock_holder(root, agent::ZEDKUBE)?.context("zedkube does not run")?;
    let pid = holder.pid.context("zedkube's process id is not known")?;
    Ok(Pid::from_raw(i32::try_from(pid)?))
}

/// Stops zedkube, and makes its touch file so old that nobody has to wait until it says that zedkube hangs.
fn hang(root: &Root) -> anyhow::Result<()> {
    kill(zedkube(root)?, Signal::SIGSTOP).context("cannot stop zedkube")?;
    let path = root.touch(agent::ZEDKUBE);
    let cannot = || format!("cannot change {}", path.display());
    // The clock since the boot is in the file, the wall clock is its time.
    let silent = u64::try_from(SILENT.as_millis()).unwrap_or(u64::MAX);
    let beat = clock::awake_millis().saturating_sub(silent);
    let mut file = File::options().write(true).truncate(true).open(&path).with_context(cannot)?;
    file.write_all(beat.to_string().as_bytes()).with_context(cannot)?;
    let past = SystemTime::from(clock::wall()).checked_sub(SILENT).unwrap_or(SystemTime::UNIX_EPOCH);
    file.set_modified(past).with_context(cannot)
}

/// How old the touch file of the scene's zedkube is: it hangs from 45 s on.
const SILENT: Duration = Duration::from_mins(1);

/// For how long the node that has the slot is down. After `slots.down-max` (30 min) it counts as one that does not come
/// back by itself, and keeps others waiting by its slot alone.
const DOWN_FOR: SignedDuration = SignedDuration::from_hours(1);

/// A database of CloudNativePG: the primary on this node, its replica on another, and the budget of the primary.
fn add_database(fixture: &Fixture) -> anyhow::Result<()> {
    let cluster = &fixture.cluster;
    let stored = cluster.apply(json!({
        "apiVersion": "postgresql.cnpg.io/v1", "kind": "Cluster", "metadata": {"name": "pg"},
        "spec": {"instances": 2},
        "status": {"phase": "Waiting for a replica", "currentPrimary": "pg-1", "readyInstances": 2},
    }))?;
    let owner = json!([{
        "apiVersion": "postgresql.cnpg.io/v1", "kind": "Cluster", "name": "pg", "controller": true,
        "uid": stored.pointer("/metadata/uid"),
    }]);
    for (name, node) in [("pg-1", NODE), ("pg-2", "edge-b")] {
        cluster.pod(name, node)?;
        cluster
            .edit("pods", "default", name, |pod| put(pod, "/metadata", "ownerReferences", owner.clone()))?;
    }
    set_role(fixture, "pg-1", "primary")?;
    set_role(fixture, "pg-2", "replica")?;
    let mut budget = objects::budget("pg-primary", Limit::MinAvailable("1"));
    put(&mut budget, "/metadata", "ownerReferences", owner);
    put(&mut budget, "/spec/selector", "matchLabels", json!({"role": "primary"}));
    cluster.apply(budget)?;
    Ok(())
}

fn set_role(fixture: &Fixture, pod: &str, role: &str) -> Result<(), Refusal> {
    fixture.cluster.edit("pods", "default", pod, |pod| put(pod, "/metadata/labels", "role", json!(role)))?;
    Ok(())
}

fn set_unschedulable(fixture: &Fixture, node: &str, is_cordoned: bool) -> Result<(), Refusal> {
    fixture
        .cluster
        .edit("nodes", "", node, |node| put(node, "/spec", "unschedulable", json!(is_cordoned)))?;
    Ok(())
}

fn set_ready(fixture: &Fixture, node: &str, status: &str) -> anyhow::Result<()> {
    let since = clock::wall().checked_sub(DOWN_FOR)?.to_string();
    let conditions = json!([{"type": "Ready", "status": status, "lastTransitionTime": since}]);
    fixture.cluster.edit("nodes", "", node, |node| put(node, "/status", "conditions", conditions))?;
    Ok(())
}

/// The slot of edge-b, as its zedkube has written it before edge-b went down.
fn take_slot(fixture: &Fixture) -> Result<(), Refusal> {
    let node = fixture.cluster.get("nodes", "", "edge-b").unwrap_or_default();
    let entry = json!({
        "Node": "edge-b", "NodeUID": node.pointer("/metadata/uid"),
        "BootID": "5d0c7a52-3c4e-4d6b-9f0e-2f1a8b7c6d5e", "Renewal": 1,
    });
    set_slots(fixture, json!({"edge-b": entry.to_string()}))
}

fn set_slots(fixture: &Fixture, slots: Value) -> Result<(), Refusal> {
    fixture.cluster.edit("configmaps", "kube-system", SLOTS, |map| put(map, "", "data", slots))?;
    Ok(())
}

/// Sets a field of an object inside.
fn put(object: &mut Value, inside: &str, field: &str, value: Value) {
    if let Some(inside) = object.pointer_mut(inside).and_then(Value::as_object_mut) {
        inside.insert(field.to_owned(), value);
    }
}
