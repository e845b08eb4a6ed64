//! The DaemonSet of `packaging/image`, on a real API server with its real controllers: which nodes get a pod, and that a
//! host removes ebb when its pod is gone, by the kubelet's own credentials.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use control_plane::{ControlPlane, Pool, unique, until};
use serde_json::{Value, json};
use system::ZedkubeUser;

use crate::PROGRAM;

const MANIFEST: &str = include_str!("../../../../packaging/image/daemonset.yaml");

const LIMIT: Duration = Duration::from_mins(5);

/// Applies the manifest in the pool's namespace, and for its nodes only.
fn install(plane: &ControlPlane, pool: &Pool) -> Result<()> {
    let text = plane.run_with_input(
        &["create", "--dry-run=client", "--output=json", "-f", "-"],
        MANIFEST.replace("ebb-system", &pool.name).as_bytes(),
    )?;
    let mut objects =
        serde_json::Deserializer::from_str(&text).into_iter::<Value>().collect::<Result<Vec<_>, _>>()?;
    for object in &mut objects {
        if let Some(terms) = object.pointer_mut("/spec/template/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchExpressions") {
            let here = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": pool.nodes});
            terms.as_array_mut().into_iter().for_each(|all| all.push(here.clone()));
        }
    }
    for node in &pool.nodes {
        plane.run(&[
            "label",
            "node",
            node,
            "kubernetes.io/os=linux",
            "kubernetes.io/arch=arm64",
            "--overwrite",
        ])?;
    }
    plane.apply(&objects)
}

/// How many nodes have a pod of the DaemonSet.
fn pods(plane: &ControlPlane, pool: &Pool) -> Result<usize> {
    let pods = plane.list(&["pods", "--namespace", &pool.name, "--selector=app.kubernetes.io/name=ebb"])?;
    Ok(pods.iter().filter(|pod| pod["spec"]["nodeName"].is_string()).count())
}

#[test]
fn a_host_removes_what_the_daemonset_has_brought_when_its_pod_is_gone() -> Result<()> {
    let plane = ControlPlane::shared()?;
    let pool = plane.create_pool(&unique("daemonset"), &["a", "b"])?;
    install(&plane, &pool)?;
    until("both nodes have a pod", LIMIT, || Ok((pods(&plane, &pool)? == 2).then_some(())))?;

    let host = tempfile::tempdir()?;
    let folder = host.path().to_owned();
    #[expect(clippy::disallowed_methods, reason = "nobody reads it meanwhile")]
    let file = |path: &str, text: &str| -> Result<()> {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap_or(&folder))?;
        Ok(fs::write(path, text)?)
    };
    let user = ZedkubeUser::of_node(&plane, &pool.name, &pool.nodes[0])?;
    file(
        "etc/ebb/ebb.d/site.toml",
        &format!("cluster.kubeconfig = {:?}\n", user.kubeconfig.display().to_string()),
    )?;
    let record = json!({
        "Version": "1", "Node": pool.nodes[0], "Namespace": pool.name, "IsStarted": true,
        "Files": ["/usr/bin/ebb", "/usr/share/ebb/page"],
    });
    file("usr/bin/ebb", "")?;
    file("usr/share/ebb/page", "")?;
    file("var/lib/ebb/daemonset.json", &record.to_string())?;
    let mut follow = Command::new(PROGRAM);
    follow.args(["daemonset", "follow", "--every=20ms", "--absent=0s", "--root"]).arg(host.path());
    let mark = plane.audit_mark()?;
    let mut follow = follow.spawn()?;
    until("it has seen the pod three times", LIMIT, || {
        let asked = plane.audit_since(mark)?.of_user(&user.name);
        Ok((asked.iter().filter(|asked| asked.resource == "pods").count() >= 3).then_some(()))
    })?;
    assert!(follow.try_wait()?.is_none() && host.path().join("usr/bin/ebb").exists());

    plane.run(&["label", "node", &pool.nodes[0], "ebb.dev/install=false"])?;
    let code = until("it has ended", LIMIT, || Ok(follow.try_wait()?))?;
    assert!(code.success());
    assert_eq!(pods(&plane, &pool)?, 1, "the other node keeps its pod");
    let left = ["usr/bin/ebb", "usr/share/ebb", "var/lib/ebb"].map(|path| host.path().join(path).exists());
    assert_eq!(left, [false; 3]);
    Ok(())
}
