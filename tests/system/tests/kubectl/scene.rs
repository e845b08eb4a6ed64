//! The pods on a real control plane.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use control_plane::{ControlPlane, Pool, objects, unique, until};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::manifests::{self, Placed};
use crate::pods::{self, Age, NAMESPACES, Wanted};

/// Time limit of a wait: far more than any step takes, for a busy machine.
const LIMIT: Duration = Duration::from_mins(2);

/// Overdue pods should have ended longer ago than this, in seconds: clearly more than the one second of
/// `--skip-wait-for-delete-timeout=1`.
const OVERDUE: i64 = 3;

/// Nodes whose pods do not change any more.
pub(crate) struct Scene {
    pub(crate) plane: ControlPlane,
    pub(crate) pool: Pool,
    namespaces: Vec<String>,
}

/// UID, phase and deletion time of each pod: these must not change during the comparison.
type Pods = BTreeMap<String, (String, String, String)>;

impl Scene {
    /// Creates the random pods; takes about ten seconds.
    pub(crate) fn new() -> Result<Self> {
        let nodes = pods::nodes()?;
        let suffixes: Vec<String> = (0..nodes.len()).map(|index| format!("n{index}")).collect();
        let scene = Self::empty(&suffixes.iter().map(String::as_str).collect::<Vec<_>>())?;
        let placed = scene.place(&nodes);
        scene.make(&placed)?;
        let with_sensor: Vec<&str> = nodes
            .iter()
            .zip(&scene.pool.nodes)
            .filter_map(|((needs, _), node)| needs.ignore_daemonsets.then_some(node.as_str()))
            .collect();
        scene.plane.apply(&[manifests::daemon_set(&scene.pool.name, "sensor", &with_sensor)])?;
        scene.until_as_wanted(&placed, with_sensor.len())?;
        Ok(scene)
    }

    /// Nodes without pods.
    pub(crate) fn empty(suffixes: &[&str]) -> Result<Self> {
        let plane = ControlPlane::shared()?;
        let pool = plane.create_pool(&unique("kubectl"), suffixes)?;
        let others = (1..NAMESPACES).map(|index| format!("{}-{index}", pool.name));
        let namespaces: Vec<String> = std::iter::once(pool.name.clone()).chain(others).collect();
        let mut needed = manifests::driver(&pool, &driver(&pool));
        for namespace in &namespaces {
            plane.create_namespace(namespace)?;
            needed.extend(manifests::namespace(namespace));
        }
        plane.apply(&needed)?;
        Ok(Self { plane, pool, namespaces })
    }

    /// All pods, including the DaemonSet's, by `namespace/name`.
    pub(crate) fn pods(&self) -> Result<Pods> {
        let text = |pod: &Value, pointer: &str| {
            pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let all = self.plane.list(&["pods", "--all-namespaces"])?;
        let ours = all.iter().filter(|pod| {
            let node = pod["spec"]["nodeName"].as_str();
            self.pool.nodes.iter().any(|own| Some(own.as_str()) == node)
        });
        let described = ours.map(|pod| {
            let path = format!("{}/{}", text(pod, "/metadata/namespace"), text(pod, "/metadata/name"));
            let facts = ["/metadata/uid", "/status/phase", "/metadata/deletionTimestamp"];
            let [uid, phase, deletion] = facts.map(|pointer| text(pod, pointer));
            (path, (uid, phase, deletion))
        });
        Ok(described.collect())
    }

    /// The nodes that are cordoned.
    pub(crate) fn cordoned_nodes(&self) -> Result<Vec<String>> {
        let selector = format!("--selector={}={}", objects::POOL, self.pool.name);
        let nodes = self.plane.list(&["nodes", &selector])?;
        ensure!(nodes.len() == self.pool.nodes.len(), "{} nodes", nodes.len());
        let cordoned = nodes.iter().filter(|node| node["spec"]["unschedulable"] == true);
        Ok(cordoned.map(|node| node["metadata"]["name"].to_string()).collect())
    }

    /// Creates the pods, sets their phases, and deletes those that have to be terminating.
    pub(crate) fn make(&self, pods: &[Placed<'_>]) -> Result<()> {
        let driver = driver(&self.pool);
        let made: Vec<Value> = pods.iter().flat_map(|pod| pod.objects(&driver)).collect();
        self.plane.apply(&made)?;
        let statuses: Vec<Value> = pods.iter().map(Placed::status).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": statuses}).to_string();
        let apply = ["apply", "--server-side", "--force-conflicts", "--subresource=status", "-f", "-"];
        self.plane.run_with_input(&apply, list.as_bytes())?;
        for (age, grace) in [(Age::Overdue, "--grace-period=1"), (Age::Young, "--grace-period=3600")] {
            for namespace in &self.namespaces {
                let ending = pods.iter().filter(|pod| pod.wanted.terminating == Some(age));
                let ending = ending.filter(|pod| pod.namespace == namespace);
                let names: Vec<&str> = ending.map(|pod| pod.name.as_str()).collect();
                if !names.is_empty() {
                    let delete = ["delete", "pods", "--wait=false", grace, "--namespace", namespace];
                    self.plane.run(&[&delete[..], &names].concat())?;
                }
            }
        }
        Ok(())
    }

    /// The place and the name of each pod.
    pub(crate) fn place<'a, T>(&'a self, nodes: &'a [(T, Vec<Wanted>)]) -> Vec<Placed<'a>> {
        let mut placed = Vec::new();
        for ((_, pods), node) in nodes.iter().zip(&self.pool.nodes) {
            for wanted in pods {
                let name = format!("pod-{}", placed.len());
                placed.push(Placed { wanted, namespace: &self.namespaces[wanted.namespace], name, node });
            }
        }
        placed
    }

    /// Waits until all pods have their wanted state. The time of a deletion shows how overdue the pod is.
    fn until_as_wanted(&self, placed: &[Placed<'_>], daemons: usize) -> Result<()> {
        until("the pods are as wanted", LIMIT, || {
            let pods = self.pods()?;
            ensure!(pods.len() == placed.len() + daemons, "{} pods", pods.len());
            for pod in placed {
                let (_, phase, deletion) = pods.get(&pod.path()).context(pod.path())?;
                ensure!(phase == pod.wanted.phase, "{} is {phase}", pod.path());
                ensure!(deletion.is_empty() == pod.wanted.terminating.is_none(), "{} {deletion}", pod.path());
                if pod.wanted.terminating == Some(Age::Overdue) {
                    ensure!(overdue_seconds(deletion)? > OVERDUE, "{} is due at {deletion}", pod.path());
                }
            }
            let running = pods.values().filter(|(_, phase, _)| phase == "Running").count();
            let wanted = placed.iter().filter(|pod| pod.wanted.phase == "Running").count();
            Ok((running == wanted + daemons).then_some(()))
        })
    }
}

fn driver(pool: &Pool) -> String {
    format!("{}.csi.test", pool.name)
}

fn overdue_seconds(deletion: &str) -> Result<i64> {
    let due: Timestamp = deletion.parse()?;
    #[expect(clippy::disallowed_methods, reason = "kubectl compares with the wall clock as well")]
    let now = Timestamp::now();
    Ok(now.as_second() - due.as_second())
}
