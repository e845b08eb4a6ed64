//! Pods about which the programs have to disagree, and real drains of terminating pods, in which they must agree.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use control_plane::unique;
use serde_json::json;

use crate::manifests::Placed;
use crate::pods::{Age, Owner, Volume, Wanted, new};
use crate::said::{Program, Said};
use crate::scene::Scene;

const PERMITTED: [&str; 3] = ["--force", "--ignore-daemonsets", "--delete-emptydir-data"];

/// A node with these pods.
fn scene(pods: &[(&str, Wanted)]) -> Result<Scene> {
    let scene = Scene::empty(&["a"])?;
    let placed: Vec<Placed<'_>> = pods
        .iter()
        .map(|(name, wanted)| Placed {
            wanted,
            namespace: &scene.pool.name,
            name: (*name).to_owned(),
            node: &scene.pool.nodes[0],
        })
        .collect();
    scene.make(&placed)?;
    Ok(scene)
}

fn paths(scene: &Scene, names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| format!("{}/{name}", scene.pool.name)).collect()
}

/// An unreadable DaemonSet is an error for kubectl, whatever its flags are (K16).
#[test]
fn a_daemon_set_that_cannot_be_read_counts_as_present() -> Result<()> {
    let scene = scene(&[
        ("web", new(Owner::ReplicaSet, "Running", vec![], false)),
        ("sensor", new(Owner::DaemonSet, "Running", vec![], false)),
    ])?;
    let all = json!([
        {"apiGroups": ["", "policy", "storage.k8s.io"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["get"]},
    ]);
    let kubeconfig = scene.plane.create_service_user(&unique("no-apps"), &all)?;
    let arguments = [&[scene.pool.nodes[0].as_str()], &PERMITTED[..]].concat();

    let (kubectl, output) = Program::Kubectl.drain(&scene.plane, &kubeconfig, &arguments)?;
    assert_eq!((kubectl.code, &kubectl.evicted), (Some(1), &BTreeSet::new()), "{output}");
    assert!(kubectl.refused.keys().eq(&paths(&scene, &["sensor"])), "{output}");
    assert!(output.contains("daemonsets.apps \"present\" is forbidden"), "{output}");

    let (ebb, output) = Program::Ebb.drain(&scene.plane, &kubeconfig, &arguments)?;
    let expected = Said { code: Some(0), evicted: paths(&scene, &["web"]), refused: BTreeMap::new() };
    assert_eq!(ebb, expected, "{output}");

    let refusing = [arguments[0], "--force"];
    let (ebb, output) = Program::Ebb.drain(&scene.plane, &kubeconfig, &refusing)?;
    assert_eq!((ebb.code, &ebb.evicted), (Some(1), &BTreeSet::new()), "{output}");
    assert!(ebb.refused.keys().eq(&paths(&scene, &["sensor"])), "{output}");
    Ok(())
}

/// kubectl does not know the label.
#[test]
fn a_pod_can_ask_to_stay() -> Result<()> {
    let labelled = |value| {
        let plain = new(Owner::ReplicaSet, "Running", vec![], false);
        Wanted { drain: Some(value), ..plain }
    };
    let scene = scene(&[
        ("web", new(Owner::ReplicaSet, "Running", vec![], false)),
        ("skipped", labelled("skip")),
        ("awaited", labelled("wait-completed")),
        ("odd", labelled("odd")),
    ])?;
    let arguments = [scene.pool.nodes[0].as_str()];
    for (program, evicted) in
        [(Program::Kubectl, &["web", "skipped", "awaited", "odd"][..]), (Program::Ebb, &["web", "odd"])]
    {
        let (said, output) = program.drain(&scene.plane, scene.plane.kubeconfig(), &arguments)?;
        let expected = Said { code: Some(0), evicted: paths(&scene, evicted), refused: BTreeMap::new() };
        assert_eq!(said, expected, "{program:?} {output}");
    }
    Ok(())
}

fn ending(owner: Owner, volumes: Vec<Volume>, age: Age) -> Wanted {
    Wanted { terminating: Some(age), ..new(owner, "Running", volumes, false) }
}

/// A pod that the flags do not permit forbids the drain although it is terminating: nothing is evicted.
#[test]
fn a_terminating_pod_forbids_a_real_drain() -> Result<()> {
    for (owner, volumes, flags) in [
        (Owner::Nobody, vec![], &["--ignore-daemonsets", "--delete-emptydir-data"]),
        (Owner::DaemonSet, vec![], &["--force", "--delete-emptydir-data"]),
        (Owner::ReplicaSet, vec![Volume::EmptyDir], &["--force", "--ignore-daemonsets"]),
    ] {
        let scene = scene(&[
            ("web", new(Owner::ReplicaSet, "Running", vec![], false)),
            ("ending", ending(owner, volumes, Age::Young)),
        ])?;
        let before = scene.pods()?;
        let arguments = [scene.pool.nodes[0].as_str(), "--timeout=20s", flags[0], flags[1]];
        for program in [Program::Kubectl, Program::Ebb] {
            let (code, output) = program.really_drain(&scene.plane, &arguments)?;
            assert_eq!(code, Some(1), "{program:?} {owner:?}: {output}");
            let path = format!("{}/ending", scene.pool.name);
            assert!(output.contains("cannot delete ") && output.contains(&path), "{program:?}: {output}");
            assert!(!output.contains("evicting pod"), "{program:?}: {output}");
            assert_eq!(scene.pods()?, before, "{program:?} {owner:?}");
        }
    }
    Ok(())
}

/// Both programs request the shorter grace for a pod that is already terminating, and both fail, because a finalizer
/// holds it.
#[test]
fn a_shorter_grace_counts_for_a_terminating_pod() -> Result<()> {
    for flags in [&["--grace-period=2"][..], &["--grace-period=2", "--disable-eviction"]] {
        for program in [Program::Kubectl, Program::Ebb] {
            let scene = scene(&[("ending", ending(Owner::ReplicaSet, vec![], Age::Young))])?;
            let arguments = [&[scene.pool.nodes[0].as_str(), "--timeout=3s"], flags].concat();
            let (code, output) = program.really_drain(&scene.plane, &arguments)?;
            assert_eq!(code, Some(1), "{program:?} {flags:?}: {output}");
            let pods = scene.plane.list(&["pods", "--namespace", &scene.pool.name])?;
            let grace = &pods[0]["metadata"]["deletionGracePeriodSeconds"];
            assert_eq!(grace, 2, "{program:?} {flags:?}: {output}");
        }
    }
    Ok(())
}

/// A pod that a finalizer holds is given up by both programs, although nothing changes any more.
#[test]
fn a_pod_that_terminates_for_too_long_is_left_by_a_real_drain() -> Result<()> {
    for program in [Program::Kubectl, Program::Ebb] {
        let scene = scene(&[("ending", ending(Owner::ReplicaSet, vec![], Age::Overdue))])?;
        let arguments = [scene.pool.nodes[0].as_str(), "--skip-wait-for-delete-timeout=5", "--timeout=25s"];
        let (code, output) = program.really_drain(&scene.plane, &arguments)?;
        assert_eq!(code, Some(0), "{program:?}: {output}");
    }
    Ok(())
}
