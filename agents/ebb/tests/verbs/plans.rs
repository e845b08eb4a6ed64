//! `ebb plan`.

use anyhow::Result;
use fake_cluster::{Effect, Fault, Reply};
use serde_json::{Value, json};

use crate::site::{PROGRAM, Site, owned_pod, put};

fn words(site: &Site, more: &str) -> String {
    format!("plan --root {} {more}", site.folder.path().display())
}

#[tokio::test]
async fn a_plan_names_what_is_in_the_way_and_changes_nothing() -> Result<()> {
    let site = Site::passive()?;
    site.pod("web-0", "edge-a")?;
    site.guarded_pod("db-0", "edge-a")?;
    // The agents' policy permits what `ebb drain` does not.
    site.cluster.pod("bare", "edge-a")?;
    let said = site.ebb(&words(&site, "--node edge-a")).await?;
    let expected = "
BLOCKED: budget shop/db-0: 1 of 1 healthy, needs 1; 1 pod: shop/db-0
  do: budget shop/db-0 never allows a disruption: scale ReplicaSet/db-0, or the Deployment that made it, up to 2, or change the budget: kubectl -n shop edit pdb db-0
node/edge-a would fail: 1 budget
";
    assert_eq!((said.code, said.err.as_str()), (1, ""), "{said:?}");
    assert!(said.out.starts_with("Node edge-a (not cordoned): 3 of 3 pods have to leave\n"), "{said:?}");
    assert!(said.out.ends_with(expected), "{said:?}");
    let said = site.ebb(&words(&site, "--node edge-a --json")).await?;
    let document: Value = serde_json::from_str(&said.out)?;
    assert_eq!((&document["name"], &document["goes"]), (&json!("edge-a"), &json!(false)));
    assert_eq!(document["verdict"], "node/edge-a would fail: 1 budget");
    assert_eq!(document["pods"][1]["stage"], "Blocked");
    assert_eq!(document["blocked"][0]["budgets"][0]["name"], "db-0");
    assert_eq!(site.changes(), [""; 0]);
    Ok(())
}

#[tokio::test]
async fn the_policy_and_the_node_are_those_of_the_settings() -> Result<()> {
    let site = Site::passive()?;
    site.cluster.pod("bare", "edge-b")?;
    let said = site.ebb(&words(&site, "--set node.name=edge-b")).await?;
    assert!(said.code == 0 && said.out.starts_with("Node edge-b (not cordoned): 1 of 1 pods"), "{said:?}");
    let said = site.ebb(&words(&site, "--node edge-b --set pods.force=false")).await?;
    assert!(said.code == 1 && said.out.contains("default/bare  Refuse"), "{said:?}");
    Ok(())
}

/// One settings file that was copied over a fleet must not make every device drain one node.
#[tokio::test]
async fn a_node_name_of_another_machine_is_refused() -> Result<()> {
    let site = Site::passive()?;
    let root = site.folder.path();
    for (path, text) in [("etc/machine-id", "ours"), ("proc/sys/kernel/random/boot_id", "this-boot")] {
        std::fs::create_dir_all(root.join(path).parent().unwrap())?;
        #[expect(clippy::disallowed_methods, reason = "a test's file need not survive a power cut")]
        std::fs::write(root.join(path), text)?;
    }
    let theirs = json!({"machineID": "theirs", "bootID": "another-boot"});
    site.cluster.edit("nodes", "", "edge-b", |node| node["status"]["nodeInfo"] = theirs)?;
    let said = site.ebb(&words(&site, "--set node.name=edge-b")).await?;
    let part = "Node edge-b, found by node.name, has machine ID theirs";
    assert!(said.code == 1 && said.err.contains(part), "{said:?}");
    Ok(())
}

#[tokio::test]
async fn what_a_plan_cannot_do() -> Result<()> {
    let site = Site::passive()?;
    for (more, part) in [
        ("nosuch", "--root is about this device's own drain"),
        ("--set node.name=nosuch", "node.name nosuch"),
        ("--set pods.force=maybe", "pods.force"),
        ("--ignore-daemonsets", "the flags of `ebb drain` need a NODE"),
        ("--context other", "the flags of `ebb drain` need a NODE"),
        ("--as somebody", "the flags of `ebb drain` need a NODE"),
        ("edge-a --nonsense", "unexpected argument '--nonsense'"),
    ] {
        let said = site.ebb(&words(&site, more)).await?;
        assert!(said.code == 1 && said.err.contains(part), "{more}: {said:?}");
        assert_eq!(said.out, "", "{more}");
    }
    Ok(())
}

/// The same flags and the same kubeconfig: no setting of a device counts, and both name the same pods.
#[tokio::test]
async fn a_plan_of_a_node_judges_as_a_drain_of_it() -> Result<()> {
    let site = Site::passive()?;
    site.pod("web-0", "edge-a")?;
    site.cluster.pod("bare", "edge-a")?;
    for (flags, code) in
        [("", 1), ("--force --disable-eviction", 0), ("--force --pod-selector=app=nosuch", 0)]
    {
        let drain = site.ebb(&format!("drain edge-a --dry-run=server -o json {flags}")).await?;
        let plan = site.ebb(&format!("plan edge-a --json {flags}")).await?;
        assert_eq!((drain.code, plan.code), (code, code), "{flags}: {drain:?} {plan:?}");
        let (drain, plan): (Value, Value) =
            (serde_json::from_str(&drain.out)?, serde_json::from_str(&plan.out)?);
        let verdicts = |pods: &Value| -> Vec<(Value, Value)> {
            pods.as_array().unwrap().iter().map(|pod| (pod["name"].clone(), pod["verdict"].clone())).collect()
        };
        assert_eq!(verdicts(&drain[0]["pods"]), verdicts(&plan["pods"]), "{flags}");
    }
    let both = site.ebb("plan edge-a edge-b --force --json").await?;
    let both: Value = serde_json::from_str(&both.out)?;
    assert_eq!((&both[0]["name"], &both[1]["name"]), (&json!("edge-a"), &json!("edge-b")));
    let said = site.ebb("plan nosuch").await?;
    assert!(said.code == 1 && said.err.contains("nodes \"nosuch\" not found"), "{said:?}");
    assert_eq!(site.changes(), [""; 0]);
    Ok(())
}

/// An admission policy refuses our annotations: a person's cordon goes without them, an agent's does not.
#[tokio::test]
async fn a_plan_knows_whose_cordon_needs_annotations() -> Result<()> {
    let site = Site::passive()?;
    let denied = Reply::policy_denial("nodes", "edge-a", "only spec.unschedulable may change");
    for (of_device, verdict) in
        [(false, "node/edge-a would be drained\n"), (true, "node/edge-a would fail: the cordon is refused\n")]
    {
        site.cluster.faults().clear();
        site.cluster.faults().add(Fault::on("patch", "nodes", Effect::Answer(denied.clone())));
        let of_node = "plan edge-a".to_owned();
        let said = site.ebb(&if of_device { words(&site, "--node edge-a") } else { of_node }).await?;
        assert!(said.out.ends_with(verdict), "{said:?}");
    }
    assert_eq!(site.changes(), [""; 0]);
    Ok(())
}

/// What comes before the pods (the cordon) and after them (volumes) fails a drain too, and so the forecast.
#[tokio::test]
async fn a_forecast_is_about_more_than_pods() -> Result<()> {
    let site = Site::passive()?;
    let verdicts = async |code| -> Result<String> {
        let plan = site.ebb("plan edge-a").await?;
        let dry_run = site.ebb("drain edge-a --dry-run=server").await?;
        let drain = site.ebb("drain edge-a --detach-timeout=100ms --timeout=20s").await?;
        let codes = (plan.code, dry_run.code, drain.code);
        assert_eq!(codes, (code, code, code), "{plan:?} {dry_run:?} {drain:?}");
        let last = plan.out.lines().last().unwrap_or_default().to_owned();
        assert!(code == 0 || dry_run.err.ends_with(&format!("{last}\n")), "{plan:?} {dry_run:?}");
        Ok(last)
    };
    site.forbid("patch", "nodes");
    assert_eq!(verdicts(1).await?, "node/edge-a would fail: the cordon is refused");
    site.cluster.faults().clear();
    site.cluster.apply(json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "csi-1"},
        "spec": {"attacher": "csi.example", "nodeName": "edge-a", "source": {"persistentVolumeName": "gone"}},
        "status": {"attached": true},
    }))?;
    assert_eq!(verdicts(1).await?, "node/edge-a would fail: 1 attached volume");
    let said = site.ebb("drain edge-a --dry-run=client").await?;
    assert!(said.code == 1 && said.err.contains("kubectl delete volumeattachment csi-1"), "{said:?}");
    site.cluster.delete("volumeattachments", "", "csi-1");
    assert_eq!(verdicts(0).await?, "node/edge-a would be drained");

    let mut ingress = owned_pod("ingress", "edge-a");
    let owner = json!({"apiVersion": "apps.kruise.io/v1", "kind": "DaemonSet", "name": "i", "uid": "u", "controller": true});
    put(&mut ingress, "/metadata", "ownerReferences", json!([owner]));
    site.cluster.apply(ingress)?;
    let plan = site.ebb("plan edge-a").await?;
    assert!(
        plan.code == 1 && plan.out.ends_with("node/edge-a would fail: 1 pod that comes back\n"),
        "{plan:?}"
    );
    // kubectl's dry runs know nothing of it, and that of a client says what kubectl's says.
    for (mode, code, told) in
        [("client", 0, "Note: these pods may come back"), ("server", 1, "would come back")]
    {
        let said = site.ebb(&format!("drain edge-a --dry-run={mode}")).await?;
        assert!(said.code == code && said.err.contains(told), "{mode}: {said:?}");
    }
    Ok(())
}

#[tokio::test]
async fn as_a_plugin_of_kubectl_it_says_so() -> Result<()> {
    let site = Site::passive()?;
    let plugin = site.folder.path().join("kubectl-ebb");
    std::os::unix::fs::symlink(PROGRAM, &plugin)?;
    for (program, expected) in
        [(plugin.as_path(), "Usage: kubectl ebb drain "), (PROGRAM.as_ref(), "Usage: ebb drain ")]
    {
        let output = std::process::Command::new(program).args(["drain", "--help"]).output()?;
        let help = String::from_utf8(output.stdout)?;
        assert!(output.status.success() && help.contains(expected), "{help}");
    }
    for (words, code, part) in [
        (&["--help"][..], 0, "kubectl ebb plan NODE"),
        (&["status"], 2, "a verb about one device is typed on it: `ebb VERB`"),
        (&["nosuch"], 2, "unrecognized subcommand 'nosuch'"),
        (&["plan"], 1, "USAGE: plan NODE [flags]; see 'kubectl ebb plan --help'"),
    ] {
        let output = std::process::Command::new(&plugin).args(words).output()?;
        let said = String::from_utf8([output.stdout, output.stderr].concat())?;
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(part) && !said.contains("nodeagent"), "{said}");
    }
    Ok(())
}
