//! The control plane behaves as a cluster, and leaves nothing behind.
//!
//! One control plane serves all cases, because each start costs 8 s.
#![expect(clippy::indexing_slicing, reason = "tests may; in JSON a missing field is null")]

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use control_plane::{Component, ControlPlane, Coordinates, Pool, objects, unique, until};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Config,
    api::{ListParams, PostParams, WatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};

/// Time limit of a wait: far more than any case takes, for a busy machine.
const LIMIT: Duration = Duration::from_mins(5);

type Case = (&'static str, fn(&ControlPlane) -> Result<()>);

/// These cases change only their own pool, so they run at the same time.
const QUIET: [Case; 5] = [
    ("nodes are Ready", nodes_are_ready),
    ("a deployment's pods run and an evicted one goes away", workload_runs_and_leaves),
    ("annotations change a pod's life", annotations_change_a_pods_life),
    ("requests are counted exactly", requests_are_counted_exactly),
    ("a driver's name and an annotation change a volume's life", volume_delays_can_be_changed),
];

#[test]
fn plane_behaves_as_a_cluster() -> Result<()> {
    let mut plane = ControlPlane::start()?;
    thread::scope(|scope| {
        let plane = &plane;
        let running = QUIET.map(|(name, case)| (name, scope.spawn(move || case(plane))));
        for (name, case) in running {
            case.join().expect("the case's own panic was printed").context(name)?;
        }
        anyhow::Ok(())
    })?;
    paused_component_stands_still(&plane).context("a paused component stands still")?;
    api_server_comes_back(&mut plane).context("the API server comes back")?;

    let coordinates = plane.coordinates().clone();
    ensure!(!processes_of(&coordinates.folder)?.is_empty(), "the search for processes finds nothing at all");
    drop(plane);
    nothing_is_left(&coordinates, Duration::ZERO)
}

/// `control-plane run` ends in both ways: its owner is killed, or its input ends. The first control plane is also used
/// from here, as a shared one.
#[test]
fn plane_goes_with_its_owner() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let ready_file = folder.path().join("plane.json");

    let mut owner = run_plane(&ready_file)?;
    let mut plane = ControlPlane::attach(&ready_file)?;
    nodes_are_ready(&plane)?;
    ensure!(plane.stop_api_server().is_err(), "a shared plane was stopped");
    ensure!(plane.pause(Component::Etcd).is_err(), "a shared plane was paused");
    owner.kill()?;
    owner.wait()?;
    nothing_is_left(plane.coordinates(), LIMIT).context("after SIGKILL of the owner")?;
    fs::remove_file(&ready_file)?;

    let mut owner = run_plane(&ready_file)?;
    let coordinates = Coordinates::read(&ready_file)?;
    drop(owner.stdin.take());
    ensure!(owner.wait()?.success(), "`control-plane run` failed at the end of its input");
    ensure!(!ready_file.exists(), "the ready file of an ended plane is still there");
    nothing_is_left(&coordinates, Duration::ZERO).context("after the end of the owner's input")
}

fn nodes_are_ready(plane: &ControlPlane) -> Result<()> {
    let pool = plane.create_pool(&unique("nodes"), &["a", "b", "c"])?;
    let ready = r#"jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}"#;
    let selector = format!("--selector={}={}", objects::POOL, pool.name);
    assert_eq!(plane.run(&["get", "nodes", &selector, "--output", ready])?, "True True True");
    Ok(())
}

fn workload_runs_and_leaves(plane: &ControlPlane) -> Result<()> {
    let pool = plane.create_pool(&unique("workload"), &["a", "b"])?;
    plane.apply(&[
        objects::deployment(&pool.name, "web", 3),
        objects::disruption_budget(&pool.name, "web", ("minAvailable", 2)),
    ])?;
    let namespace = format!("--namespace={}", pool.name);
    let budget = || plane.get(&["poddisruptionbudget", "web", &namespace]);
    until("the budget counts three running pods", LIMIT, || {
        let status = budget()?["status"].clone();
        let counts = ["expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed"]
            .map(|key| &status[key]);
        Ok((counts == [3, 3, 2, 1]).then_some(()))
    })?;

    let pods = plane.list(&["pods", &namespace])?;
    for pod in &pods {
        let node = pod["spec"]["nodeName"].as_str().context("a running pod has no node")?;
        ensure!(pool.nodes.iter().any(|own| own == node), "a pod runs on `{node}`, outside of its pool");
    }
    let evicted = &pods[0]["metadata"];
    evict(plane, &pool, &evicted["name"])?;
    let uid_is_gone = || {
        let pods = plane.list(&["pods", &namespace])?;
        Ok((pods.iter().all(|pod| pod["metadata"]["uid"] != evicted["uid"]) && pods.len() == 3).then_some(()))
    };
    until("the evicted pod is gone and replaced", LIMIT, uid_is_gone)
}

fn annotations_change_a_pods_life(plane: &ControlPlane) -> Result<()> {
    let pool = plane.create_pool(&unique("annotated"), &["a"])?;
    let annotated = |name: &str, annotation: &str, value: &str| {
        let mut pod = objects::pod(&pool.name, name);
        pod["metadata"]["annotations"] = json!({ annotation: value });
        pod
    };
    plane.apply(&[
        annotated("slow", objects::READY_DELAY, "1h"),
        annotated("stuck", objects::DELETE_DELAY, "1h"),
        annotated("job", objects::COMPLETE_AFTER, "10ms"),
    ])?;
    let namespace = format!("--namespace={}", pool.name);
    let phase = |name: &str, phase: &str| {
        let condition = format!("--for=jsonpath={{.status.phase}}={phase}");
        plane.run(&["wait", &format!("pod/{name}"), &condition, &namespace, "--timeout=5m"])
    };
    phase("job", "Succeeded")?;
    phase("stuck", "Running")?;
    phase("slow", "Pending")?;
    let bound = plane.get(&["pod", "slow", &namespace])?;
    assert_eq!(bound["spec"]["nodeName"], json!(pool.nodes[0]));

    plane.run(&["delete", "pod", "stuck", "slow", &namespace, "--wait=false"])?;
    plane.run(&["wait", "pod/slow", "--for=delete", &namespace, "--timeout=5m"])?;
    let stuck = plane.get(&["pod", "stuck", &namespace])?;
    ensure!(stuck["metadata"]["deletionTimestamp"].is_string(), "`stuck` is not terminating");
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn requests_are_counted_exactly(plane: &ControlPlane) -> Result<()> {
    let agent = unique("counted") + "/1.0";
    let pods: Api<Pod> = Api::namespaced(client(plane.kubeconfig(), &agent).await?, "default");
    pods.list(&ListParams::default()).await?;
    let mark = plane.audit_mark()?;
    pods.list(&ListParams::default()).await?;
    for _ in 0..25 {
        ensure!(pods.get_opt("nobody").await?.is_none());
    }
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    pods.create(&dry_run, &serde_json::from_value(objects::pod("default", "nobody"))?).await?;
    drop(pods.watch(&WatchParams::default(), "0").await?);
    drop(pods.watch(&WatchParams::default(), "0").await?);

    let requests = plane.audit_since(mark)?;
    ensure!(requests.by_agent_and_verb().len() > 4, "no other client sent a request");
    let own = requests.of_agent(&agent);
    let counts = own.tally(|request| (request.verb.as_str(), request.code.unwrap_or_default()));
    let expected = [(("create", 201), 1), (("get", 404), 25), (("list", 200), 1), (("watch", 200), 2)];
    assert_eq!(counts, BTreeMap::from(expected));
    Ok(())
}

fn volume_delays_can_be_changed(plane: &ControlPlane) -> Result<()> {
    let pool = plane.create_pool(&unique("delays"), &["a"])?;
    let drivers = ["attach-3600s.", "detach-3600s.", ""].map(|delay| format!("{delay}{}.test", pool.name));
    let [attaches_late, detaches_late, plain] = drivers.each_ref().map(String::as_str);
    let start = |name: &str, driver: &str| {
        let [volume, claim] = objects::volume(&pool.name, &format!("data-{name}-0"), driver);
        plane.apply(&[objects::csi_driver(driver), volume, claim, objects::stateful_set(&pool.name, name, 1)])
    };
    let stop = |name: &str| {
        plane.run(&["scale", "statefulset", name, "--replicas=0", &format!("--namespace={}", pool.name)])
    };
    plane.apply(&[objects::csi_node(&pool.nodes[0], &[attaches_late, detaches_late, plain])])?;

    start("late", attaches_late)?;
    let late = || attachment(plane, &pool, "data-late-0");
    until("the late volume is to be attached", LIMIT, late)?;
    start("kept", detaches_late)?;
    start("plain", plain)?;
    let kept = || attachment(plane, &pool, "data-kept-0");
    let plain = || attachment(plane, &pool, "data-plain-0");
    until("the kept volume is attached", LIMIT, || Ok(kept()?.filter(is_attached)))?;
    until("the plain volume is attached", LIMIT, || Ok(plain()?.filter(is_attached)))?;
    ensure!(!late()?.is_some_and(|late| is_attached(&late)), "the late volume is attached like the others");

    stop("kept")?;
    let leaving = || Ok(kept()?.filter(|kept| kept["metadata"]["deletionTimestamp"].is_string()));
    let leaving = until("the kept volume is to be detached", LIMIT, leaving)?;
    stop("plain")?;
    until("the plain volume is detached", LIMIT, || Ok(plain()?.is_none().then_some(())))?;
    ensure!(kept()?.is_some(), "the kept volume was detached like the plain one");

    let name = leaving["metadata"]["name"].as_str().context("the attachment has no name")?;
    plane.run(&["annotate", "volumeattachment", name, &format!("{}=10ms", objects::DETACH_DELAY)])?;
    until("the kept volume is detached", LIMIT, || Ok(kept()?.is_none().then_some(())))
}

/// Ends with all components running again.
fn paused_component_stands_still(plane: &ControlPlane) -> Result<()> {
    let pid = plane.coordinates().pids[&Component::ControllerManager];
    plane.pause(Component::ControllerManager)?;
    // The signal is sent when `pause` returns; the process state changes a little later.
    until("the process is stopped", LIMIT, || Ok((state(pid)? == 'T').then_some(())))?;
    plane.resume(Component::ControllerManager)?;
    plane.create_namespace(&unique("resumed"))
}

fn api_server_comes_back(plane: &mut ControlPlane) -> Result<()> {
    let name = unique("kept");
    plane.create_namespace(&name)?;
    let before = plane.coordinates().pids[&Component::ApiServer];
    plane.stop_api_server()?;
    ensure!(plane.run(&["get", "namespace", &name]).is_err(), "a stopped API server answered");
    ensure!(plane.stop_api_server().is_err(), "an API server was stopped twice");
    plane.start_api_server()?;
    ensure!(plane.start_api_server().is_err(), "an API server was started twice");
    plane.get(&["namespace", &name])?;
    ensure!(plane.coordinates().pids[&Component::ApiServer] != before, "the process id is the old one");
    // The controller-manager reconnects.
    plane.create_namespace(&unique("after"))
}

/// A client that uses rustls, as our agents do, and so checks the server's certificate. Without retries, which would
/// count twice.
async fn client(kubeconfig: &Path, agent: &str) -> Result<Client> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    config.headers.push((http::header::USER_AGENT, agent.parse()?));
    Ok(Client::try_from(config)?)
}

/// The `VolumeAttachment` of a claim's volume.
fn attachment(plane: &ControlPlane, pool: &Pool, claim: &str) -> Result<Option<Value>> {
    let volume = format!("{}-{claim}", pool.name);
    let all = plane.list(&["volumeattachments"])?;
    Ok(all.into_iter().find(|one| one["spec"]["source"]["persistentVolumeName"] == volume.as_str()))
}

fn is_attached(attachment: &Value) -> bool {
    attachment["status"]["attached"] == true
}

fn evict(plane: &ControlPlane, pool: &Pool, pod: &Value) -> Result<()> {
    let name = pod.as_str().context("a pod without a name")?;
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": pool.name},
    });
    let path = format!("/api/v1/namespaces/{}/pods/{name}/eviction", pool.name);
    plane.run_with_input(&["create", "--raw", &path, "-f", "-"], eviction.to_string().as_bytes()).map(drop)
}

/// Starts the crate's program and waits until its plane is ready.
fn run_plane(ready_file: &Path) -> Result<Child> {
    let mut owner = Command::new(env!("CARGO_BIN_EXE_control-plane"))
        .args(["run", "--ready-file"])
        .arg(ready_file)
        .stdin(Stdio::piped())
        .spawn()?;
    until("the plane is ready", 2 * LIMIT, || {
        if let Some(status) = owner.try_wait()? {
            return Ok(Some(Err(anyhow::anyhow!("`control-plane run` ended: {status}"))));
        }
        Ok(ready_file.exists().then_some(Ok(())))
    })??;
    Ok(owner)
}

/// Waits until no process has the control plane's folder among its arguments, and the folder is gone. Children of kwok
/// would be found too.
fn nothing_is_left(coordinates: &Coordinates, limit: Duration) -> Result<()> {
    until("no process and no folder is left", limit, || {
        let left = processes_of(&coordinates.folder)?;
        ensure!(left.is_empty(), "still running: {left:?}");
        ensure!(!coordinates.folder.exists(), "`{}` is still there", coordinates.folder.display());
        Ok(Some(()))
    })
}

/// The command lines that name `folder`: every component and every watcher has it among its arguments.
fn processes_of(folder: &Path) -> Result<Vec<String>> {
    let folder = folder.to_str().context("a folder with a strange name")?;
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        // A process may end while it is looked at. A zombie has no command line.
        let command = fs::read(entry?.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        if command.contains(folder) {
            found.push(command);
        }
    }
    Ok(found)
}

/// The state letter of `/proc/<pid>/stat`: `T` is stopped.
fn state(pid: u32) -> Result<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(") ").context("an unknown format of /proc/PID/stat")?;
    fields.chars().next().context("no state in /proc/PID/stat")
}
