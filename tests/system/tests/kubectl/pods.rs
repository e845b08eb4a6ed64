//! Random pods. The seeds are fixed: every run has the same pods.

use std::collections::BTreeSet;

use anyhow::{Result, anyhow};
use proptest::prelude::{Just, Strategy, any};
use proptest::sample::{select, subsequence};
use proptest::strategy::{Union, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, RngSeed, TestRunner};
use proptest::{option, prop_oneof};

/// The seeds. For each seed there is one node for each kind of [`Needs`].
const SEEDS: [u64; 3] = [20_260_822, 43, 1_729];

/// Number of pods on a node.
const PER_NODE: usize = 9;

/// Number of namespaces over which the pods are spread.
pub(crate) const NAMESPACES: usize = 4;

/// The flags that a node's pods may need before they can be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    /// `--force`
    pub(crate) force: bool,
    /// `--ignore-daemonsets`
    pub(crate) ignore_daemonsets: bool,
    /// `--delete-emptydir-data`
    pub(crate) delete_emptydir_data: bool,
}

impl Needs {
    /// All eight combinations.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..8_u8).map(|bits| Self {
            force: bits & 1 != 0,
            ignore_daemonsets: bits & 2 != 0,
            delete_emptydir_data: bits & 4 != 0,
        })
    }
}

/// The owner of a pod. Only for a DaemonSet it matters whether the owner exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    Nobody,
    ReplicaSet,
    StatefulSet,
    Job,
    /// An existing DaemonSet.
    DaemonSet,
    /// A DaemonSet that does not exist.
    MissingDaemonSet,
    /// A kind called DaemonSet, but of another group.
    ForeignDaemonSet,
    /// A ReplicaSet that owns the pod without being its controller.
    NotController,
    /// A DaemonSet that owns the pod without being its controller.
    NotControllingDaemonSet,
    /// The node, as for a static pod.
    Node,
}

/// A volume of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Volume {
    EmptyDir,
    Memory,
    /// A claim of its own, bound to a volume of a CSI driver.
    BoundClaim,
    UnboundClaim,
    MissingClaim,
    Ephemeral,
    HostPath,
    ConfigMap,
}

/// How long ago a terminating pod should have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Age {
    /// The pod should have ended some seconds ago.
    Overdue,
    /// The pod has one hour left.
    Young,
}

/// A pod to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) namespace: usize,
    pub(crate) owner: Owner,
    pub(crate) phase: &'static str,
    pub(crate) volumes: Vec<Volume>,
    pub(crate) mirror: bool,
    pub(crate) terminating: Option<Age>,
    pub(crate) app: Option<&'static str>,
    pub(crate) tier: Option<&'static str>,
    /// Value of the label `ebb.dev/drain`. kubectl does not know the label, so the random pods do not have it.
    pub(crate) drain: Option<&'static str>,
}

/// The pods of each node, and the flags that they may need.
pub(crate) fn nodes() -> Result<Vec<(Needs, Vec<Wanted>)>> {
    let mut nodes = Vec::new();
    for seed in SEEDS {
        let config = Config {
            rng_algorithm: RngAlgorithm::ChaCha,
            rng_seed: RngSeed::Fixed(seed),
            ..Config::default()
        };
        let mut runner = TestRunner::new(config);
        for needs in Needs::all() {
            let pods = proptest::collection::vec(pod(needs), PER_NODE);
            let tree = pods.new_tree(&mut runner).map_err(|reason| anyhow!("no pods: {reason}"))?;
            nodes.push((needs, tree.current()));
        }
    }
    Ok(nodes)
}

fn pod(needs: Needs) -> impl Strategy<Value = Wanted> {
    let nature = prop_oneof![
        6 => live(needs),
        2 => finished(),
        1 => mirror(needs),
    ];
    let age = option::weighted(0.2, select(vec![Age::Overdue, Age::Young]));
    let app = option::of(select(vec!["web", "db", "queue", "csi-attacher"]));
    let tier = option::of(select(vec!["front", "back"]));
    (nature, 0..NAMESPACES, age, app, tier).prop_map(|(nature, namespace, terminating, app, tier)| Wanted {
        namespace,
        terminating,
        app,
        tier,
        ..nature
    })
}

/// A pod that may need only these flags.
fn live(needs: Needs) -> impl Strategy<Value = Wanted> {
    let phase = prop_oneof![
        6 => Just("Running"),
        2 => Just("Pending"),
        1 => Just("Unknown"),
    ];
    (select(owners(needs)), phase, volumes(needs.delete_emptydir_data))
        .prop_map(|(owner, phase, volumes)| new(owner, phase, volumes, false))
}

/// A finished pod, which needs no flag whatever it has.
fn finished() -> impl Strategy<Value = Wanted> {
    let all = Needs { force: true, ignore_daemonsets: true, delete_emptydir_data: true };
    (select(owners(all)), select(vec!["Succeeded", "Failed"]), volumes(true), any::<bool>())
        .prop_map(|(owner, phase, volumes, mirror)| new(owner, phase, volumes, mirror))
}

/// A static pod, which needs no flag unless it names a DaemonSet as its owner.
fn mirror(needs: Needs) -> impl Strategy<Value = Wanted> {
    let mut owners = owners(needs);
    owners.extend([Owner::Node, Owner::Node, Owner::Node, Owner::Nobody]);
    (select(owners), volumes(true)).prop_map(|(owner, volumes)| new(owner, "Running", volumes, true))
}

fn owners(needs: Needs) -> Vec<Owner> {
    let mut owners = vec![Owner::ReplicaSet, Owner::StatefulSet, Owner::Job, Owner::ForeignDaemonSet];
    if needs.force {
        owners.extend([Owner::Nobody, Owner::NotController, Owner::NotControllingDaemonSet]);
        owners.push(Owner::MissingDaemonSet);
    }
    if needs.ignore_daemonsets {
        owners.extend([Owner::DaemonSet, Owner::DaemonSet]);
    }
    owners
}

/// The volumes of a pod: often none, seldom three.
fn volumes(local_data: bool) -> impl Strategy<Value = Vec<Volume>> {
    let mut kinds = vec![
        Volume::BoundClaim,
        Volume::UnboundClaim,
        Volume::MissingClaim,
        Volume::Ephemeral,
        Volume::HostPath,
        Volume::ConfigMap,
    ];
    if local_data {
        kinds.extend([Volume::EmptyDir, Volume::Memory]);
    }
    let count = |weight, size| (weight, subsequence(kinds.clone(), size).boxed());
    Union::new_weighted(vec![count(3, 0), count(3, 1), count(2, 2), count(1, 3)])
}

/// A pod in the first namespace without labels, not terminating.
pub(crate) fn new(owner: Owner, phase: &'static str, volumes: Vec<Volume>, mirror: bool) -> Wanted {
    let (terminating, app, tier, drain) = (None, None, None, None);
    Wanted { namespace: 0, owner, phase, volumes, mirror, terminating, app, tier, drain }
}

/// There are many pods, of all kinds, and they are the same each time.
#[test]
fn the_pods_are_varied() -> Result<()> {
    let nodes = nodes()?;
    assert_eq!(nodes, self::nodes()?);
    let pods: Vec<&Wanted> = nodes.iter().flat_map(|(_, pods)| pods).collect();
    assert!(pods.len() >= 200, "{}", pods.len());
    let owners: BTreeSet<Owner> = pods.iter().map(|pod| pod.owner).collect();
    let volumes: BTreeSet<Volume> = pods.iter().flat_map(|pod| pod.volumes.clone()).collect();
    let phases: BTreeSet<&str> = pods.iter().map(|pod| pod.phase).collect();
    let ages: BTreeSet<Option<Age>> = pods.iter().map(|pod| pod.terminating).collect();
    let namespaces: BTreeSet<usize> = pods.iter().map(|pod| pod.namespace).collect();
    let kinds = [owners.len(), volumes.len(), phases.len(), ages.len(), namespaces.len()];
    assert_eq!(kinds, [10, 8, 5, 3, NAMESPACES], "{owners:?} {volumes:?} {phases:?}");
    Ok(())
}
