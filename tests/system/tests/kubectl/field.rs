//! Cases from public bug reports about drains, each beside the real `kubectl drain`: kubectl drains one node, and `ebb`
//! another one with the same objects.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use control_plane::{ControlPlane, Pool, objects, unique, until};
use serde_json::{Value, json};

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

    /// A pod on the program's node, without a controller, changed by the case.
    fn pod(&self, program: Program, name: &str, change: impl FnOnce(&mut Value)) -> Result<()> {
        let mut pod = objects::pod(&self.pool.name, name);
        pod["spec"]["nodeName"] = json!(self.node(program));
        change(&mut pod);
        self.plane.apply(&[pod])?;
        until("the pod runs", LIMIT, || {
            let pod = self.plane.get(&["pod", name, "--namespace", &self.pool.name])?;
            Ok((pod["status"]["phase"] == "Running").then_some(()))
        })
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

    /// Runs the command that a line of this text ends with, from `kubectl` on.
    fn do_as_told(&self, text: &str) -> Result<()> {
        let line = text.lines().find(|line| line.contains(": kubectl ")).with_context(|| text.to_owned())?;
        let (_, command) = line.rsplit_once(": kubectl ").with_context(|| line.to_owned())?;
        self.plane.run(&command.split(' ').collect::<Vec<_>>()).map(drop)
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

/// kubernetes/kubectl#1568: a policy forbids the cordon. kubectl drains all the same, and pods come back.
#[test]
fn a_cordon_that_a_policy_denies() -> Result<()> {
    let field = Field::new()?;
    let name = &field.pool.name;
    let (group, nodes) = ("admissionregistration.k8s.io", format!("request.name.startsWith('{name}-')"));
    field.plane.apply(&[
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes"]},
                ]},
                "matchConditions": [{"name": "ours", "expression": nodes}],
                "validations": [{
                    "expression": "has(object.spec.unschedulable) == has(oldObject.spec.unschedulable)",
                    "message": "nodes stay schedulable",
                }],
            },
        }),
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]},
        }),
    ])?;
    until("the policy counts", LIMIT, || {
        let cordon =
            Program::Ebb.run(&field.plane, &["cordon", field.node(Program::Ebb), "--dry-run=server"])?;
        Ok((cordon.0 == Some(1)).then_some(()))
    })?;
    for program in [Program::Kubectl, Program::Ebb] {
        field.pod(program, &format!("web-{program:?}").to_lowercase(), |_| {})?;
    }
    let (_, output) = field.drain(Program::Kubectl, &["--timeout=30s"])?;
    assert!(output.contains("nodes stay schedulable") && output.contains("evicting pod"), "{output}");
    let plan = field.forecast(1, "would fail: the cordon is refused", &[])?;
    let (code, output) = field.drain(Program::Ebb, &[])?;
    assert!(code == Some(1) && !output.contains("evicting pod"), "{output}");
    assert!(
        plan.contains("BLOCKED: the node cannot be cordoned: ") && plan.contains("nodes stay schedulable"),
        "{plan}"
    );
    field.plane.run(&["delete", "validatingadmissionpolicybinding", name])?;
    field.plane.run(&["delete", "validatingadmissionpolicy", name]).map(drop)
}
