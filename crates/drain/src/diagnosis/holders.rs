//! Systems that hold a pod with a budget or a webhook until they have moved its content.

use crate::findings::{Findings, LonghornView, MachineView, Migration, is_instance_manager, machine};
use crate::view::PodView;

/// The holder of a pod, and a hint.
pub(super) struct Held {
    pub(super) holder: String,
    pub(super) hint: String,
}

/// The holder: KubeVirt for a virtual machine, Longhorn for an instance manager.
pub(super) fn of(pod: &PodView, findings: &Findings) -> Option<Held> {
    if let Some(query) = machine(pod) {
        let name = format!("{}/{}", query.namespace, query.name);
        let found = findings.machines.iter().find(|view| view.pod == pod.id.uid);
        return Some(of_machine(&name, found));
    }
    is_instance_manager(pod).then(|| of_longhorn(findings.longhorn.as_ref()))
}

/// KubeVirt as holder. While a machine migrates, its budget refuses: that is normal, not a misconfiguration.
fn of_machine(name: &str, found: Option<&MachineView>) -> Held {
    let held = |holder: String, hint: &str| Held { holder, hint: hint.to_owned() };
    let Some(machine) = found else {
        return held(
            format!("KubeVirt: virtual machine {name}"),
            "it has to be migrated or stopped; `kubectl describe vmi` says how far it is",
        );
    };
    match &machine.migration {
        Migration::Running(target) => held(
            format!("KubeVirt: virtual machine {name} is being migrated to {target}"),
            "wait: the pod leaves when the migration has ended",
        ),
        _ if !machine.not_migratable.is_empty() => held(
            format!("KubeVirt: virtual machine {name} cannot be migrated: {}", machine.not_migratable),
            "stop the virtual machine, or give it an eviction strategy that allows to",
        ),
        Migration::Failed(why) => held(
            format!("KubeVirt: the migration of virtual machine {name} failed: {why}"),
            "fix the cause; KubeVirt tries again by itself",
        ),
        Migration::None | Migration::Completed if machine.evacuating => held(
            format!("KubeVirt: virtual machine {name} waits for its migration"),
            "wait: KubeVirt migrates a few machines at a time; if it stays so, look whether another node has room",
        ),
        Migration::None | Migration::Completed => held(
            format!("KubeVirt: virtual machine {name}"),
            "KubeVirt has not begun to move it: look at virt-controller and virt-api",
        ),
    }
}

/// Longhorn as holder, with a hint for its setting `node-drain-policy`.
fn of_longhorn(found: Option<&LonghornView>) -> Held {
    let Some(LonghornView { drain_policy, evicting }) = found else {
        return Held {
            holder: "Longhorn: this pod serves volumes of this node".to_owned(),
            hint: "look at Longhorn's setting node-drain-policy and at the replicas on this node".to_owned(),
        };
    };
    let hint = match (drain_policy.as_str(), evicting) {
        (_, true) => {
            "wait: Longhorn is moving replicas away; if it stays so, no other node has room for them"
        }
        ("block-if-contains-last-replica", _) => {
            "this node has the last healthy replica of a volume: add a replica elsewhere, or change node-drain-policy"
        }
        ("allow-if-replica-is-stopped", _) => {
            "a volume with its last replica here is in use: stop what uses it, or add a replica elsewhere"
        }
        ("block-for-eviction" | "block-for-eviction-if-contains-last-replica", _) => {
            "Longhorn has to move replicas away first and has not begun: look at longhorn-manager and at disk space \
             elsewhere"
        }
        _ => "volumes are still attached here: they have to be detached first",
    };
    Held { holder: format!("Longhorn: node-drain-policy {drain_policy}"), hint: hint.to_owned() }
}
