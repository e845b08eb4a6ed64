//! Cases from public bug reports about drains, each beside the real `kubectl drain`: kubectl drains one node, and `ebb`
//! another one with the same objects.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use control_plane::{ControlPlane, Pool, objects, unique, until};
use serde_json::{Value, json};
use system::Webhook;

use crate::said::Program;

const LIMIT: Duration = Duration::from_mins(1);

/// Two nodes, one for each program.
struct Field {
    plane: ControlPlane,
    pool: Pool,
}

impl Field {
    fn new() -> Result<Self> {
        let plane = ControlPlane::shared()?;
        let pool = plane.create_pool(&unique("field"), &["kubectl", "ebb"])?;
        plane.create_namespace(&pool.name)?;
        Ok(Self { plane, pool })
    }

    fn node(&self, program: Program) -> &str {
        let [kubectl, ebb] = self.pool.nodes.as_slice() else { return "" };
        match program {
            Program::Kubectl => kubectl,
            Program::Ebb => ebb,
        }
    }

    /// Creates a pod on the program's node, without a controller, changed by the case.
    fn create(&self, program: Program, name: &str, change: impl FnOnce(&mut Value)) -> Result<()> {
        let mut pod = objects::pod(&self.pool.name, name);
        pod["spec"]["nodeName"] = json!(self.node(program));
        change(&mut pod);
        self.plane.apply(&[pod])
    }

    /// As [`Self::create`], and waits until it runs.
    fn pod(&self, program: Program, name: &str, change: impl FnOnce(&mut Value)) -> Result<()> {
        self.create(program, name, change)?;
        until("the pod runs", LIMIT, || {
            let pod = self.plane.get(&["pod", name, "--namespace", &self.pool.name])?;
            Ok((pod["status"]["phase"] == "Running").then_some(()))
        })
    }

    /// Pods that have failed.
    fn failed_pods(&self, program: Program, number: u32) -> Result<()> {
        let names = (0..number).map(|number| format!("failed-{program:?}-{number}").to_lowercase());
        let pods: Vec<Value> = names
            .map(|name| {
                let mut pod = objects::pod(&self.pool.name, &name);
                pod["metadata"]["annotations"] = json!({objects::READY_DELAY: "1000h"});
                pod["spec"]["nodeName"] = json!(self.node(program));
                pod
            })
            .collect();
        self.plane.apply(&pods)?;
        let failed = pods.iter().map(|pod| {
            json!({
                "apiVersion": "v1", "kind": "Pod", "status": {"phase": "Failed"},
                "metadata": {"name": pod["metadata"]["name"], "namespace": self.pool.name},
            })
        });
        let list =
            json!({"apiVersion": "v1", "kind": "List", "items": failed.collect::<Vec<_>>()}).to_string();
        let apply = ["apply", "--server-side", "--force-conflicts", "--subresource=status", "-f", "-"];
        self.plane.run_with_input(&apply, list.as_bytes()).map(drop)
    }

    /// `drain NODE --force FLAGS…`, for real.
    fn drain(&self, program: Program, flags: &[&str]) -> Result<(Option<i32>, String)> {
        program.really_drain(&self.plane, &[&[self.node(program), "--force"], flags].concat())
    }

    /// Both forecasts have this exit code, and the last line of both is the verdict if it is not 0. Returns the plan.
    fn forecast(&self, code: i32, verdict: &str, flags: &[&str]) -> Result<String> {
        let node = self.node(Program::Ebb);
        let (plan_code, plan) =
            Program::Ebb.run(&self.plane, &[&["plan", node, "--force"], flags].concat())?;
        let (dry_code, dry_run) = self.drain(Program::Ebb, &[flags, &["--dry-run=server"]].concat())?;
        ensure!(
            (plan_code, dry_code) == (Some(code), Some(code)),
            "{plan_code:?} {plan}{dry_code:?} {dry_run}"
        );
        let verdict = format!("node/{node} {verdict}\n");
        ensure!(plan.ends_with(&verdict) && (code == 0 || dry_run.ends_with(&verdict)), "{plan}{dry_run}");
        Ok(plan)
    }

    /// Runs the command in this text, from `kubectl` to the end of its part of the line. Returns what it prints.
    fn do_as_told(&self, text: &str) -> Result<String> {
        let (_, command) = text.split_once(": kubectl ").with_context(|| text.to_owned())?;
        let command = command.split([';', '\n']).next().unwrap_or_default();
        self.plane.run(&command.split(' ').collect::<Vec<_>>())
    }
}

/// kubernetes-sigs/karpenter#2169: an attachment is left behind, and its PersistentVolume is gone.
#[test]
fn an_attachment_that_nothing_detaches() -> Result<()> {
    let field = Field::new()?;
    for program in [Program::Kubectl, Program::Ebb] {
        let name = format!("{}-left", field.node(program));
        field.plane.apply(&[json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name},
            "spec": {
                "attacher": "csi.field.test", "nodeName": field.node(program),
                "source": {"persistentVolumeName": format!("{name}-gone")},
            },
        })])?;
        let attached = r#"{"status":{"attached":true}}"#;
        let patch =
            ["patch", "volumeattachment", &name, "--subresource=status", "--type=merge", "-p", attached];
        field.plane.run(&patch)?;
        field.pod(program, &format!("web-{program:?}").to_lowercase(), |_| {})?;
    }
    let (code, output) = field.drain(Program::Kubectl, &["--timeout=30s"])?;
    assert_eq!(code, Some(0), "{output}");
    let plan = field.forecast(1, "would fail: 1 attached volume", &[])?;
    let (code, output) = field.drain(Program::Ebb, &["--detach-timeout=3s"])?;
    let told = "its PersistentVolume does not exist, so no driver ever detaches it";
    assert!(code == Some(1) && output.contains(told) && plan.contains(told), "{output}{plan}");
    field.do_as_told(&plan)?;
    field.forecast(0, "would be drained", &[])?;
    let (code, output) = field.drain(Program::Ebb, &[])?;
    assert_eq!(code, Some(0), "{output}");
    Ok(())
}

/// kubernetes-sigs/karpenter#1684, kubernetes-csi/external-attacher#215: an attachment that has never become attached.
#[test]
fn an_attachment_that_was_never_attached() -> Result<()> {
    let field = Field::new()?;
    let driver = "attach-90000s.csi.field.test";
    for program in [Program::Kubectl, Program::Ebb] {
        let claim = format!("never-{program:?}").to_lowercase();
        let name = format!("{}-{claim}", field.pool.name);
        field.plane.apply(&objects::volume(&field.pool.name, &claim, driver))?;
        field.plane.apply(&[json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name},
            "spec": {
                "attacher": driver, "nodeName": field.node(program), "source": {"persistentVolumeName": name},
            },
        })])?;
        let failed = r#"{"status":{"attached":false,"attachError":{"message":"no such disk"}}}"#;
        let patch =
            ["patch", "volumeattachment", &name, "--subresource=status", "--type=merge", "-p", failed];
        field.plane.run(&patch)?;
        field.pod(program, &format!("web-{program:?}").to_lowercase(), |_| {})?;
    }
    let (code, output) = field.drain(Program::Kubectl, &["--timeout=30s"])?;
    assert_eq!(code, Some(0), "{output}");
    let plan = field.forecast(0, "would be drained", &[])?;
    let (code, output) = field.drain(Program::Ebb, &["--detach-timeout=3s"])?;
    let told = "the storage driver has never attached it: no such disk";
    assert!(code == Some(1) && output.contains(told) && plan.contains(told), "{output}{plan}");
    assert!(!output.contains("is attached") && !plan.contains("is attached"), "{output}{plan}");
    field.do_as_told(&plan)?;
    let (code, output) = field.drain(Program::Ebb, &[])?;
    assert_eq!(code, Some(0), "{output}");
    Ok(())
}

/// foriequal0/pod-graceful-drain#13, #34: a webhook makes a dry run of each eviction: the server takes it, and the pod lives on.
#[test]
fn evictions_that_a_webhook_turns_into_dry_runs() -> Result<()> {
    let field = Field::new()?;
    let patch = json!([{"op": "add", "path": "/deleteOptions", "value": {"dryRun": ["All"]}}]).to_string();
    let patch = BASE64_STANDARD.encode(patch);
    let answer = json!({"allowed": true, "patchType": "JSONPatch", "patch": patch});
    let webhook = Webhook::start(&field.plane, answer)?;
    webhook.decide_evictions(&field.plane, &field.pool.name)?;
    for (program, timeout) in [(Program::Kubectl, "--timeout=5s"), (Program::Ebb, "--timeout=20s")] {
        field.pod(program, &format!("web-{program:?}").to_lowercase(), |_| {})?;
        let (code, output) = field.drain(program, &[timeout])?;
        assert_eq!(code, Some(1), "{program:?}: {output}");
        if matches!(program, Program::Ebb) {
            let told =
                "the server accepts the eviction but does not delete the pod: a webhook changes evictions";
            assert!(output.contains(told), "{output}");
            assert!(field.do_as_told(&output)?.contains(&field.pool.name), "{output}");
        }
    }
    Webhook::leave(&field.plane, &field.pool.name)?;
    // The server learns of it a little later. `ebb` asks again; kubectl does not, so it is called when the server knows.
    for program in [Program::Ebb, Program::Kubectl] {
        let (code, output) = field.drain(program, &["--timeout=60s"])?;
        assert_eq!(code, Some(0), "{program:?}: {output}");
    }
    Ok(())
}

/// kubernetes#70958, kubernetes/kubectl#534: the credentials end while a budget holds the pod.
#[test]
fn credentials_that_end_in_mid_drain() -> Result<()> {
    let field = Field::new()?;
    field.budget("web", &json!({"minAvailable": 2}))?;
    let rules = json!([{
        "apiGroups": ["", "apps", "policy", "storage.k8s.io"],
        "resources": [
            "nodes", "pods", "pods/eviction", "daemonsets", "poddisruptionbudgets", "volumeattachments",
        ],
        "verbs": ["get", "list", "watch", "patch", "create"],
    }]);
    let user = format!("system:serviceaccount:default:{}", field.pool.name);
    let kubeconfig = field.plane.create_service_user(&field.pool.name, &rules)?.display().to_string();
    for program in [Program::Kubectl, Program::Ebb] {
        let name = format!("web-{program:?}").to_lowercase();
        field.pod(program, &name, |pod| pod["metadata"]["labels"]["app"] = json!("web"))?;
    }
    field.until_budget("web", |status| status["currentHealthy"] == 2)?;
    let mark = field.plane.audit_mark()?;
    let flags = ["--timeout=90s", "--kubeconfig", &kubeconfig];
    let ends = thread::scope(|scope| {
        let drains = [Program::Kubectl, Program::Ebb].map(|program| {
            let (field, flags) = (&field, &flags);
            scope.spawn(move || field.drain(program, flags))
        });
        until("the budget has refused both", LIMIT, || {
            let asked = field.plane.audit_since(mark)?.of_user(&user);
            let is_refused = |agent| asked.of_agent(agent).iter().any(|request| request.code == Some(429));
            Ok((is_refused("kubectl/") && is_refused("ebb/")).then_some(()))
        })?;
        field.plane.run(&["delete", "serviceaccount", &field.pool.name, "--namespace=default"])?;
        let ends = drains.map(|drain| drain.join().map_err(|_| anyhow!("a drain has panicked"))?);
        ends.into_iter().collect::<Result<Vec<_>>>()
    })?;
    let told = [
        ("Unauthorized", "Unauthorized"),
        ("does not accept our credentials", "Failed: the API server does not accept our credentials"),
    ];
    for ((code, output), (first, last)) in ends.iter().zip(told) {
        let (before, after) = output.split_once(first).with_context(|| output.clone())?;
        assert!(*code == Some(1) && before.contains("disruption budget") && after.contains(last), "{output}");
        assert!(!after.contains("disruption budget"), "{output}");
    }
    Ok(())
}

impl Field {
    /// Lets only those changes of our nodes through that this CEL expression allows.
    fn allow(&self, expression: &str, message: &str) -> Result<()> {
        let name = &self.pool.name;
        let (group, ours) = ("admissionregistration.k8s.io", format!("request.name.startsWith('{name}-')"));
        self.plane.apply(&[
            json!({
                "apiVersion": format!("{group}/v1"), "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
                "spec": {
                    "failurePolicy": "Fail",
                    "matchConstraints": {"resourceRules": [
                        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes"]},
                    ]},
                    "matchConditions": [{"name": "ours", "expression": ours}],
                    "validations": [{"expression": expression, "message": message}],
                },
            }),
            json!({
                "apiVersion": format!("{group}/v1"), "kind": "ValidatingAdmissionPolicyBinding",
                "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]},
            }),
        ])?;
        let patch = r#"{"spec":{"unschedulable":true},"metadata":{"annotations":{"a":"b"}}}"#;
        let words =
            ["patch", "node", self.node(Program::Ebb), "--dry-run=server", "--type=merge", "-p", patch];
        until("the policy counts", LIMIT, || {
            let refusal = self.plane.run(&words).err();
            Ok(refusal.filter(|refusal| format!("{refusal:#}").contains(message)).map(drop))
        })
    }

    fn allow_all(&self) -> Result<()> {
        for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
            self.plane.run(&["delete", kind, &self.pool.name])?;
        }
        Ok(())
    }
}

/// kubernetes/kubectl#1568: a policy forbids the cordon. kubectl drains all the same, and pods come back.
#[test]
fn a_cordon_that_a_policy_denies() -> Result<()> {
    let field = Field::new()?;
    let told = "nodes stay schedulable";
    field.allow("has(object.spec.unschedulable) == has(oldObject.spec.unschedulable)", told)?;
    for program in [Program::Kubectl, Program::Ebb] {
        field.pod(program, &format!("web-{program:?}").to_lowercase(), |_| {})?;
    }
    let (_, output) = field.drain(Program::Kubectl, &["--timeout=30s"])?;
    assert!(output.contains(told) && output.contains("evicting pod"), "{output}");
    let plan = field.forecast(1, "would fail: the cordon is refused", &[])?;
    let (code, output) = field.drain(Program::Ebb, &[])?;
    assert!(code == Some(1) && !output.contains("evicting pod"), "{output}");
    assert!(plan.contains("BLOCKED: the node cannot be cordoned: ") && plan.contains(told), "{plan}");
    field.allow_all()
}

/// The same: only `spec.unschedulable` may change, so our annotations are refused.
#[test]
fn a_cordon_without_annotations() -> Result<()> {
    let field = Field::new()?;
    field.allow("object.metadata.?annotations == oldObject.metadata.?annotations", "no annotations")?;
    for program in [Program::Kubectl, Program::Ebb] {
        field.pod(program, &format!("web-{program:?}").to_lowercase(), |_| {})?;
        let (code, output) = field.drain(program, &["--timeout=30s"])?;
        assert_eq!(code, Some(0), "{program:?}: {output}");
        let is_told =
            output.contains("cordoned without ebb's annotations") && output.contains("no annotations");
        assert_eq!(is_told, matches!(program, Program::Ebb), "{output}");
    }
    field.allow_all()
}

/// A kind without a controller, for owners: `apps.NAME.test/v1`.
fn kind(pool: &Pool, kind: &str) -> (String, Value) {
    let group = format!("{}.test", pool.name);
    let plural = format!("{}s", kind.to_lowercase());
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    (format!("{group}/v1"), definition)
}

impl Field {
    /// Creates an object of a kind of its own, and returns a reference to it as a controller.
    fn owner(&self, of_kind: &str, name: &str) -> Result<Value> {
        let (version, definition) = kind(&self.pool, of_kind);
        self.plane.apply(&[definition])?;
        let namespace = &self.pool.name;
        let object = json!({
            "apiVersion": version, "kind": of_kind, "metadata": {"name": name, "namespace": namespace},
        });
        until("the kind is served", LIMIT, || Ok(self.plane.apply(std::slice::from_ref(&object)).ok()))?;
        let resource = format!("{}s.{}.test", of_kind.to_lowercase(), namespace);
        let uid = self.plane.get(&[&resource, name, "--namespace", namespace])?["metadata"]["uid"].clone();
        Ok(json!({"apiVersion": version, "kind": of_kind, "name": name, "controller": true, "uid": uid}))
    }

    fn budget(&self, name: &str, spec: &Value) -> Result<()> {
        let mut budget = objects::disruption_budget(&self.pool.name, name, ("minAvailable", 1));
        budget["spec"] = spec.clone();
        budget["spec"]["selector"] = json!({"matchLabels": {"app": name}});
        self.plane.apply(&[budget])
    }

    /// Waits until the status of the budget says this.
    fn until_budget(&self, name: &str, is: impl Fn(&Value) -> bool) -> Result<()> {
        until("the budget is worked out", LIMIT, || {
            let budget = self.plane.get(&["pdb", name, "--namespace", &self.pool.name])?;
            Ok(is(&budget["status"]).then_some(()))
        })
    }
}

/// openkruise/kruise#1831: an owner that is called DaemonSet, of another group, creates its pod again at once.
#[test]
fn a_daemon_set_of_another_group() -> Result<()> {
    let field = Field::new()?;
    let owner = field.owner("DaemonSet", "ingress")?;
    let made = AtomicUsize::new(0);
    let make = |program: Program| {
        let name = format!("ingress-{}", made.fetch_add(1, Ordering::SeqCst));
        field.create(program, &name, |pod| {
            pod["metadata"]["ownerReferences"] = json!([owner]);
            pod["metadata"]["labels"] = json!({"on": format!("{program:?}")});
            pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
        })
    };
    make(Program::Kubectl)?;
    let (code, output) = field.drain(Program::Kubectl, &["--timeout=30s"])?;
    assert_eq!(code, Some(0), "{output}");
    make(Program::Ebb)?;
    field.forecast(1, "would fail: 1 pod that comes back", &[])?;
    made.store(10, Ordering::SeqCst);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let controller = scope.spawn(|| {
            let namespace = &field.pool.name;
            until("the drain is over", LIMIT, || {
                if field.plane.list(&["pods", "--namespace", namespace, "--selector=on=Ebb"])?.is_empty() {
                    make(Program::Ebb)?;
                }
                Ok(is_over.load(Ordering::SeqCst).then_some(()))
            })
        });
        let drained = (|| {
            let (code, output) = field.drain(Program::Ebb, &["--timeout=25s"])?;
            let told = "it is not evicted again in this attempt";
            ensure!(code == Some(1) && output.contains(told), "{output}");
            let made = made.load(Ordering::SeqCst) - 10;
            ensure!(made <= 3, "{made} pods were made: {output}");
            let label =
                output.lines().rev().find_map(|line| line.split_once("kubectl ")?.1.split("; or ").next());
            let label: Vec<&str> = label.with_context(|| output.clone())?.split(' ').collect();
            field.plane.run(&label)?;
            let (code, output) = field.drain(Program::Ebb, &["--timeout=25s"])?;
            ensure!(code == Some(0), "{output}");
            Ok(())
        })();
        is_over.store(true, Ordering::SeqCst);
        controller.join().map_err(|_| anyhow!("the controller has panicked"))??;
        drained
    })
}

/// devantler-tech/platform#1880, tektoncd/pipeline#3774: budgets that can never allow anything, each with its own remedy.
#[test]
fn budgets_that_never_allow_anything() -> Result<()> {
    let field = Field::new()?;
    let namespace = &field.pool.name;
    let cases = [
        ("whole", true, json!({"minAvailable": "100%"}), "scaling up does not help"),
        ("none", true, json!({"maxUnavailable": 0}), "scaling up does not help"),
        ("both", true, json!({"minAvailable": 2}), "up to 3, or change the budget"),
        ("half", false, json!({"minAvailable": "50%"}), "use an integer minAvailable"),
        ("bare", false, json!({"minAvailable": 2}), "delete the pod by hand"),
    ];
    for (name, is_owned, budget, _) in &cases {
        field.budget(name, budget)?;
        if *is_owned {
            let mut deployment = objects::deployment(namespace, name, 2);
            deployment["spec"]["template"]["spec"]["topologySpreadConstraints"] = json!([{
                "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": name}},
            }]);
            field.plane.apply(&[deployment])?;
        } else {
            for program in [Program::Kubectl, Program::Ebb] {
                let pod = format!("{name}-{program:?}").to_lowercase();
                field.pod(program, &pod, |pod| pod["metadata"]["labels"]["app"] = json!(name))?;
            }
        }
    }
    for (name, is_owned, ..) in &cases {
        field.until_budget(name, |status| {
            if *is_owned { status["currentHealthy"] == 2 } else { !status["observedGeneration"].is_null() }
        })?;
    }
    for (name, .., hint) in &cases {
        let selector = format!("--pod-selector=app={name}");
        for program in [Program::Kubectl, Program::Ebb] {
            let (code, output) = field.drain(program, &[&selector, "--timeout=2s"])?;
            assert_eq!(code, Some(1), "{name} {program:?}: {output}");
            assert!(output.contains(hint) || matches!(program, Program::Kubectl), "{name}: {output}");
        }
    }
    Ok(())
}

/// strimzi/strimzi-kafka-operator#12310: a budget over the pods of a kind without scale. kubectl hangs beyond its time-out.
#[test]
fn a_budget_that_cannot_be_worked_out() -> Result<()> {
    let field = Field::new()?;
    let owner = field.owner("Widget", "w")?;
    field.budget("w", &json!({"maxUnavailable": 1}))?;
    field.pod(Program::Ebb, "w", |pod| pod["metadata"]["ownerReferences"] = json!([owner]))?;
    field.until_budget("w", |status| status["conditions"][0]["reason"] == "SyncFailed")?;
    let (code, output) = field.drain(Program::Ebb, &["--timeout=3s"])?;
    assert_eq!(code, Some(1), "{output}");
    assert!(
        output.contains("cannot be worked out") && output.contains("give the kind of its pods' owner"),
        "{output}"
    );
    Ok(())
}

/// nklmilojevic/sofka#637, kubernetes#133543: empty texts in kubeconfigs, and a token beside a token file.
#[test]
fn kubeconfigs_are_read_alike() -> Result<()> {
    let field = Field::new()?;
    let folder = tempfile::tempdir()?;
    let file = |name: &str, text: &str| -> Result<String> {
        let path = folder.path().join(name);
        #[expect(clippy::disallowed_methods, reason = "a test's file need not survive a power cut")]
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        Ok(path.display().to_string())
    };
    let (good, bad, token) = (file("good", field.plane.token())?, file("bad", "wrong")?, field.plane.token());
    let node = field.node(Program::Ebb);
    let masters = ["--as=somebody", "--as-group=system:masters"];
    let users: [(Value, &[&str], i32); 9] = [
        (json!({"token": "", "tokenFile": good}), &[], 0),
        (json!({"token": "wrong", "tokenFile": good}), &[], 0),
        (json!({"token": token, "tokenFile": bad}), &[], 1),
        (json!({"token": token, "tokenFile": ""}), &[], 0),
        (json!({"username": "", "password": "", "token": token}), &[], 0),
        (json!({"token": token, "client-certificate": "", "as": ""}), &["--context", "", "--user="], 0),
        (json!({"token": token}), &["--as=somebody"], 1),
        (json!({"token": token}), &masters, 0),
        (json!({"token": token}), &["--user=nobody"], 1),
    ];
    for (number, (user, flags, expected)) in users.iter().enumerate() {
        let cluster =
            json!({"server": field.plane.server(), "insecure-skip-tls-verify": true, "proxy-url": ""});
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": ""}}],
        });
        let path = file(&number.to_string(), &kubeconfig.to_string())?;
        for program in [Program::Kubectl, Program::Ebb] {
            let arguments = [&[node][..], flags].concat();
            let (said, output) = program.drain(&field.plane, path.as_ref(), &arguments)?;
            assert_eq!(said.code, Some(*expected), "{program:?} {number} {flags:?}: {output}");
        }
    }
    Ok(())
}

type Change<'a> = Box<dyn Fn() -> Result<()> + 'a>;

/// Cases in which the program was right: somebody changes what holds the pod while `ebb` waits, or there is much to do.
#[test]
fn what_ends_while_a_drain_waits_for_it() -> Result<()> {
    let field = Field::new()?;
    let namespace = &field.pool.name;
    let delete = |kind: &str, name: &str| -> Result<()> {
        field.plane.run(&["delete", kind, name, "--namespace", namespace, "--wait=false"]).map(drop)
    };
    // What holds the pod `web`, and how that ends.
    let one = || field.budget("web", &json!({"minAvailable": 1}));
    let cases: [(&str, Change<'_>, Change<'_>); 3] = [
        // kubernetes#119731
        (
            "one of two budgets is deleted",
            Box::new(|| {
                one()?;
                let mut all = objects::disruption_budget(namespace, "all", ("minAvailable", 0));
                all["spec"]["selector"] = json!({});
                field.plane.apply(&[all])
            }),
            Box::new(|| delete("pdb", "web")),
        ),
        // rook/rook#12375
        (
            "an operator replaces the budget",
            Box::new(one),
            Box::new(|| {
                delete("pdb", "web")?;
                field.budget("web", &json!({"minAvailable": 0}))
            }),
        ),
        // kubernetes/kops#5988
        ("the namespace is deleted", Box::new(one), Box::new(|| delete("namespace", namespace))),
    ];
    for (what, holds, ends) in cases {
        field.pod(Program::Ebb, "web", |_| {})?;
        holds()?;
        field.until_budget("web", |status| status["currentHealthy"] == 1)?;
        let (code, output) = thread::scope(|scope| {
            let drain = scope.spawn(|| field.drain(Program::Ebb, &["--timeout=90s", "--retry=1s"]));
            until("the drain has begun", LIMIT, || {
                let node = field.plane.get(&["node", field.node(Program::Ebb)])?;
                Ok((node["spec"]["unschedulable"] == true).then_some(()))
            })?;
            ends()?;
            drain.join().map_err(|_| anyhow!("the drain has panicked"))?
        })?;
        assert_eq!(code, Some(0), "{what}: {output}");
        field.plane.run(&["uncordon", field.node(Program::Ebb)])?;
        if what != "the namespace is deleted" {
            field.plane.run(&["delete", "pdb", "--all", "--namespace", namespace])?;
        }
    }
    Ok(())
}

/// rancher/rancher#25999, kubernetes#98012: a time-out is kept, and many finished pods are no burden.
#[test]
fn a_time_out_and_many_finished_pods() -> Result<()> {
    let field = Field::new()?;
    for program in [Program::Kubectl, Program::Ebb] {
        field.failed_pods(program, 40)?;
        let held = format!("held-{program:?}").to_lowercase();
        field.pod(program, &held, |pod| pod["metadata"]["finalizers"] = json!(["example.org/hold"]))?;
        let (code, output) = field.drain(program, &["--timeout=5s"])?;
        assert_eq!(code, Some(1), "{output}");
        assert!(output.contains(&held), "{output}");
        let free = r#"{"metadata":{"finalizers":null}}"#;
        field.plane.run(&[
            "patch",
            "pod",
            &held,
            "--namespace",
            &field.pool.name,
            "--type=merge",
            "-p",
            free,
        ])?;
        let (code, output) = field.drain(program, &["--timeout=60s"])?;
        assert_eq!(code, Some(0), "{output}");
    }
    Ok(())
}

/// k8up-io/k8up#554: a finished pod that a finalizer keeps. Both wait for it; a device does not (`pods.wait-finished`).
#[test]
fn a_finished_pod_that_a_finalizer_keeps() -> Result<()> {
    let field = Field::new()?;
    for program in [Program::Kubectl, Program::Ebb] {
        field.failed_pods(program, 1)?;
        let name = format!("failed-{program:?}-0").to_lowercase();
        let patch = |finalizers: &str| {
            let patch = format!(r#"{{"metadata":{{"finalizers":{finalizers}}}}}"#);
            field.plane.run(&[
                "patch",
                "pod",
                &name,
                "--namespace",
                &field.pool.name,
                "--type=merge",
                "-p",
                &patch,
            ])
        };
        patch(r#"["example.org/hold"]"#)?;
        let (code, output) = field.drain(program, &["--timeout=4s"])?;
        assert_eq!(code, Some(1), "{program:?}: {output}");
        patch("null")?;
    }
    Ok(())
}

/// kube-rs/kube#1767: the kubeconfig gives the server's own certificate, without the CA that has signed it.
#[test]
fn a_server_certificate_that_is_given_itself() -> Result<()> {
    let field = Field::new()?;
    let folder = tempfile::tempdir()?;
    let all = fs::read_to_string(&field.plane.coordinates().certificate)?;
    let end = "-----END CERTIFICATE-----";
    let (own, _) = all.split_once(end).context("no certificate")?;
    let own = format!("{own}{end}\n");
    assert_ne!(own.len(), all.trim_end().len() + 1, "the CA is in the file as well");
    let cluster =
        json!({"server": field.plane.server(), "certificate-authority-data": BASE64_STANDARD.encode(own)});
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": field.plane.token()}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    });
    let path = folder.path().join("config");
    #[expect(clippy::disallowed_methods, reason = "a test's file need not survive a power cut")]
    fs::write(&path, kubeconfig.to_string())?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    for program in [Program::Kubectl, Program::Ebb] {
        let (said, output) = program.drain(&field.plane, &path, &[field.node(Program::Ebb)])?;
        assert_eq!(said.code, Some(0), "{program:?}: {output}");
    }
    Ok(())
}

/// kubevirt/kubevirt#13523: a pod that holds the disk of a machine belongs to the machine's pod.
#[test]
fn a_pod_that_belongs_to_a_pod_of_the_node() -> Result<()> {
    let field = Field::new()?;
    field.budget("machine", &json!({"maxUnavailable": 0}))?;
    for program in [Program::Kubectl, Program::Ebb] {
        let (machine, disk) =
            (format!("machine-{program:?}").to_lowercase(), format!("disk-{program:?}").to_lowercase());
        field.pod(program, &machine, |pod| pod["metadata"]["labels"]["app"] = json!("machine"))?;
        let namespace = ["--namespace", &field.pool.name];
        let uid = field.plane.get(&[&["pod", &machine][..], &namespace].concat())?["metadata"]["uid"].clone();
        let owner =
            json!({"apiVersion": "v1", "kind": "Pod", "name": machine, "uid": uid, "controller": true});
        field.pod(program, &disk, |pod| pod["metadata"]["ownerReferences"] = json!([owner]))?;
        let (code, output) = field.drain(program, &["--timeout=4s"])?;
        assert_eq!(code, Some(1), "{output}");
        let is_there = field.plane.get(&[&["pod", &disk][..], &namespace].concat()).is_ok();
        assert_eq!(is_there, matches!(program, Program::Ebb), "{output}");
    }
    Ok(())
}
