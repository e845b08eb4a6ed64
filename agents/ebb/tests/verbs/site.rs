//! A cluster, a kubeconfig for it, and the program.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fake_cluster::{Controller, Effect, FakeCluster, Fault, Refusal, Reply, Settings, objects};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_ebb");

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_mins(5);

/// Three nodes and a folder.
pub(crate) struct Site {
    pub(crate) cluster: FakeCluster,
    pub(crate) folder: TempDir,
}

/// Output and exit code of the program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Site {
    /// With controllers that are quick, but without the one that would miss the owners of [`Site::pod`].
    pub(crate) fn quick() -> Result<Self> {
        let mut settings = Settings::quick();
        settings.controllers.remove(&Controller::GarbageCollector);
        Self::with(settings)
    }

    /// Nothing happens by itself: every change is the program's.
    pub(crate) fn passive() -> Result<Self> {
        Self::with(Settings::passive())
    }

    fn with(settings: Settings) -> Result<Self> {
        let cluster = FakeCluster::start_with(settings)?;
        for name in ["edge-a", "edge-b", "edge-c"] {
            let mut node = objects::node(name);
            put(
                &mut node,
                "/metadata/labels",
                "role",
                json!(if name == "edge-c" { "spare" } else { "edge" }),
            );
            cluster.apply(node)?;
        }
        let folder = tempfile::tempdir()?;
        let site = Self { cluster, folder };
        #[expect(clippy::disallowed_methods, reason = "a test's file need not survive a power cut")]
        std::fs::write(site.kubeconfig(), site.cluster.kubeconfig())?;
        Ok(site)
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// A pod in `shop` on the node, with an owner that nobody looks up, so that its name is known.
    pub(crate) fn pod(&self, name: &str, node: &str) -> Result<(), Refusal> {
        self.cluster.apply(owned_pod(name, node)).map(drop)
    }

    /// As [`Site::pod`], guarded by a budget of the same name that never allows an eviction.
    pub(crate) fn guarded_pod(&self, name: &str, node: &str) -> Result<(), Refusal> {
        let mut budget = objects::budget(name, fake_cluster::Limit::MinAvailable("1"));
        put(&mut budget, "/metadata", "namespace", json!("shop"));
        // A budget whose status nobody writes would be refused for another reason.
        put(
            &mut budget,
            "",
            "status",
            json!({"observedGeneration": 1, "expectedPods": 1, "currentHealthy": 1, "desiredHealthy": 1,
                   "disruptionsAllowed": 0}),
        );
        self.cluster.apply(budget)?;
        self.pod(name, node)
    }

    /// Runs `ebb` with these words, and the kubeconfig.
    pub(crate) async fn ebb(&self, words: &str) -> Result<Said> {
        self.finish(self.start(words)?).await
    }

    /// Starts `ebb`.
    pub(crate) fn start(&self, words: &str) -> Result<Child> {
        self.spawn(program(), words)
    }

    /// As [`Site::start`], as kubectl starts its plugin.
    pub(crate) fn start_plugin(&self, words: &str) -> Result<Child> {
        self.spawn(self.plugin_program("kubectl-ebb")?, words)
    }

    /// As [`program`], through a link of this name.
    pub(crate) fn plugin_program(&self, name: &str) -> Result<Command> {
        let link = self.folder.path().join(name);
        if !link.exists() {
            std::os::unix::fs::symlink(PROGRAM, &link)?;
        }
        Ok(program_at(&link))
    }

    fn spawn(&self, mut command: Command, words: &str) -> Result<Child> {
        command.args(words.split_whitespace()).arg("--kubeconfig").arg(self.kubeconfig());
        Ok(command.spawn()?)
    }

    /// Waits until this is so. Requests change nothing in the store, so nobody can be asked to tell.
    pub(crate) async fn until(&self, is_so: impl Fn(&FakeCluster) -> bool) -> Result<()> {
        let wait = async {
            while !is_so(&self.cluster) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(PATIENCE, wait).await.context("it never came to that")
    }

    /// Waits until so many evictions have been asked for.
    pub(crate) async fn until_tried(&self, times: u64) -> Result<()> {
        self.until(|cluster| cluster.requests().count("ebb/", "create", "pods/eviction") >= times).await
    }

    /// Sends the signal, and waits for the end.
    pub(crate) async fn stop(&self, child: Child, signal: Signal) -> Result<Said> {
        let id = i32::try_from(child.id().context("it has ended")?)?;
        kill(Pid::from_raw(id), signal)?;
        self.finish(child).await
    }

    /// Waits for its end.
    pub(crate) async fn finish(&self, child: Child) -> Result<Said> {
        said(timeout(PATIENCE, child.wait_with_output()).await.context("the program did not end")??)
    }

    pub(crate) fn is_cordoned(&self, node: &str) -> bool {
        self.node(node).pointer("/spec/unschedulable") == Some(&Value::Bool(true))
    }

    pub(crate) fn node(&self, name: &str) -> Value {
        self.cluster.get("nodes", "", name).unwrap_or_default()
    }

    /// Cordons as somebody with this name; an empty one writes no annotation.
    pub(crate) fn cordon(&self, node: &str, by: &str) -> Result<()> {
        let edited = self.cluster.edit("nodes", "", node, |node| {
            put(node, "/spec", "unschedulable", json!(true));
            if !by.is_empty() {
                put(node, "/metadata", "annotations", json!({"ebb.dev/cordoned-by": by}));
            }
        })?;
        ensure!(edited.is_some(), "no node {node}");
        Ok(())
    }

    /// The node is not Ready from now on.
    pub(crate) fn lose(&self, node: &str) -> Result<()> {
        let down = json!([{"type": "Ready", "status": "Unknown"}]);
        self.cluster.edit("nodes", "", node, |node| put(node, "/status", "conditions", down))?;
        Ok(())
    }

    /// The entry of the node, as it is now, in the ConfigMap of the slots.
    pub(crate) fn slot(&self, node: &str) -> Value {
        let uid = self.node(node).pointer("/metadata/uid").cloned().unwrap_or_default();
        json!({"Node": node, "NodeUID": uid, "BootID": "0f3c21aa-7c1e", "Renewal": 17})
    }

    /// These nodes have a slot of the group `default`.
    pub(crate) fn hold(&self, nodes: &[&str]) -> Result<()> {
        let entries: Vec<(&str, String)> =
            nodes.iter().map(|node| (*node, self.slot(node).to_string())).collect();
        self.put_slots("kube-system", "ebb-slots-default", &entries)
    }

    /// A ConfigMap of slots with these keys.
    pub(crate) fn put_slots(&self, namespace: &str, name: &str, entries: &[(&str, String)]) -> Result<()> {
        let data: std::collections::BTreeMap<_, _> = entries.iter().cloned().collect();
        self.cluster.apply(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace}, "data": data,
        }))?;
        Ok(())
    }

    /// The nodes that hold a slot of the group `default` now.
    pub(crate) fn holders(&self) -> Vec<String> {
        let map = self.cluster.get("configmaps", "kube-system", "ebb-slots-default").unwrap_or_default();
        let data = map.get("data").and_then(Value::as_object).cloned().unwrap_or_default();
        data.into_iter().map(|(node, _)| node).collect()
    }

    /// Requests that change something. Dry runs change nothing.
    pub(crate) fn changes(&self) -> Vec<String> {
        let requests = self.cluster.requests().recent();
        let changes = requests.into_iter().filter(|request| {
            let reads = ["get", "list", "watch"].contains(&request.verb.as_str());
            let body = String::from_utf8_lossy(&request.body).into_owned();
            !reads && !request.query.contains("dryRun=All") && !body.contains("\"dryRun\":[\"All\"]")
        });
        changes.map(|request| format!("{} {} {}", request.verb, request.resource, request.name)).collect()
    }

    /// The API server refuses these calls from now on, for lack of a right.
    pub(crate) fn forbid(&self, verb: &str, resource: &str) {
        let reply = Reply::forbidden("alice", verb, resource, "", "");
        self.cluster.faults().add(Fault::on(verb, resource, Effect::Answer(reply)).always());
    }
}

/// The program without anything of the person who runs the tests.
pub(crate) fn program() -> Command {
    program_at(Path::new(PROGRAM))
}

fn program_at(path: &Path) -> Command {
    let mut command = Command::new(path);
    command
        .env_remove("KUBECONFIG")
        .env_remove("HOME")
        .env_remove("EBB_LOG")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

pub(crate) fn said(output: Output) -> Result<Said> {
    Ok(Said {
        code: output.status.code().context("killed by a signal")?,
        out: String::from_utf8(output.stdout)?,
        err: String::from_utf8(output.stderr)?,
    })
}

/// A pod in `shop` of a StatefulSet that need not exist.
pub(crate) fn owned_pod(name: &str, node: &str) -> Value {
    let mut pod = objects::pod(name, node);
    put(&mut pod, "/metadata", "namespace", json!("shop"));
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": true});
    put(&mut pod, "/metadata", "ownerReferences", json!([owner]));
    put(
        &mut pod,
        "",
        "status",
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}),
    );
    pod
}

/// Sets a field of an object inside.
pub(crate) fn put(object: &mut Value, inside: &str, field: &str, value: Value) {
    if let Some(inside) = object.pointer_mut(inside).and_then(Value::as_object_mut) {
        inside.insert(field.to_owned(), value);
    }
}

/// The lines, sorted: pods are told to go side by side.
pub(crate) fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}
