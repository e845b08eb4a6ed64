//! The output of a program's dry run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use control_plane::ControlPlane;

use crate::PROGRAM;

/// The two programs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Program {
    Kubectl,
    Ebb,
}

/// The result of a dry run: those parts that both programs print. A pod is `namespace/name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// The exit code; `None` for a program that was killed.
    pub(crate) code: Option<i32>,
    /// The pods that would be evicted.
    pub(crate) evicted: BTreeSet<String>,
    /// The pods that forbid the drain, each with the messages that name it.
    pub(crate) refused: BTreeMap<String, BTreeSet<String>>,
}

impl Program {
    /// Runs `drain` with these arguments as a dry run. Returns the parts that are compared, and the whole output.
    pub(crate) fn drain(
        self,
        plane: &ControlPlane,
        kubeconfig: &Path,
        arguments: &[&str],
    ) -> Result<(Said, String)> {
        let mut command = match self {
            Self::Kubectl => plane.kubectl(),
            Self::Ebb => Command::new(PROGRAM),
        };
        if let Self::Kubectl = self {
            // If a flag is repeated, the last one counts.
            command.arg("--kubeconfig").arg(kubeconfig);
        }
        let output = command
            .env("KUBECONFIG", kubeconfig)
            .args(["drain", "--dry-run=client"])
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot run {self:?}"))?;
        let (out, err) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
        let said = Said { code: output.status.code(), evicted: evicted(&out), refused: refused(&err) };
        Ok((said, format!("exit code {:?}\n{out}{err}", output.status.code())))
    }
}

impl Program {
    /// Runs `drain` with these arguments, not as a dry run. Returns the exit code and the whole output.
    pub(crate) fn really_drain(
        self,
        plane: &ControlPlane,
        arguments: &[&str],
    ) -> Result<(Option<i32>, String)> {
        self.run(plane, &[&["drain"], arguments].concat())
    }

    /// Runs the program with these arguments. Returns the exit code and the whole output.
    pub(crate) fn run(self, plane: &ControlPlane, arguments: &[&str]) -> Result<(Option<i32>, String)> {
        let mut command = match self {
            Self::Kubectl => plane.kubectl(),
            Self::Ebb => Command::new(PROGRAM),
        };
        let output = command
            .env("KUBECONFIG", plane.kubeconfig())
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot run {self:?}"))?;
        let (out, err) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
        Ok((output.status.code(), format!("{out}{err}")))
    }
}

/// The pods in lines such as `evicting pod shop/web (dry run)`.
fn evicted(out: &str) -> BTreeSet<String> {
    let pods = out.lines().filter_map(|line| line.strip_prefix("evicting pod ")?.strip_suffix(" (dry run)"));
    pods.map(str::to_owned).collect()
}

/// The pods and messages in texts such as `cannot delete Pods that are special: shop/web, shop/db`, alone in a line or
/// several as `[…, …]`. The words `cannot delete` are doubled in one of kubectl's messages.
fn refused(err: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut refused = BTreeMap::<String, BTreeSet<String>>::new();
    for text in err.lines().flat_map(|line| line.split("cannot delete ").skip(1)) {
        let Some((message, pods)) = text.rsplit_once(": ") else { continue };
        let pods = pods.split_once(']').map_or(pods, |(pods, _)| pods);
        for pod in pods.split(", ").filter(|word| word.contains('/')) {
            refused.entry(pod.to_owned()).or_default().insert(message.to_owned());
        }
    }
    refused
}

#[test]
fn both_forms_of_output_are_understood() {
    let out = "node/n cordoned (dry run)\nevicting pod shop/a (dry run)\nnode/n drained (dry run)\n";
    assert_eq!(evicted(out), BTreeSet::from(["shop/a".to_owned()]));
    let err = "Warning: ignoring DaemonSet-managed Pods: shop/d\n\
        error: unable to drain node \"n\" due to error: [cannot delete daemonsets.apps \"x\" not found: shop/a, \
        shop/b, cannot delete cannot delete Pods alone: shop/c], continuing command...\n\
        error: unable to drain node \"m\" due to error: cannot delete Pods alone: shop/e, continuing command...\n\
        There are pending nodes to be drained:\n n\n m\n\
        cannot delete daemonsets.apps \"x\" not found: shop/a, shop/b\n\
        error: cannot delete Pods with local storage (use it): shop/b\n";
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<BTreeSet<_>>();
    let (orphan, alone) = ("daemonsets.apps \"x\" not found", texts(&["Pods alone"]));
    let expected = [
        ("shop/a", texts(&[orphan])),
        ("shop/b", texts(&[orphan, "Pods with local storage (use it)"])),
        ("shop/c", alone.clone()),
        ("shop/e", alone),
    ];
    assert_eq!(refused(err), expected.map(|(pod, texts)| (pod.to_owned(), texts)).into());
}
