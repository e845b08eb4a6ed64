//! Reads a KubeVirt virtual machine and its migration.

use drain::findings::{MachineQuery, MachineView, Migration};
use serde_json::Value;

use super::{get, text};
use crate::wire::Cluster;

/// Reads the VirtualMachineInstance, as far as it shows whether the machine leaves the node.
pub(super) async fn ask(cluster: &Cluster, node: &str, query: &MachineQuery) -> Result<MachineView, String> {
    let MachineQuery { pod, namespace, name } = query;
    let machine = get(cluster, "/apis/kubevirt.io/v1", "virtualmachineinstances", namespace, name).await;
    let machine = machine.map_err(|failure| failure.text().to_owned())?;
    Ok(MachineView {
        pod: pod.clone(),
        name: format!("{namespace}/{name}"),
        evacuating: is_evacuating(&machine, node),
        migration: migration(&machine),
        not_migratable: not_migratable(&machine),
    })
}

fn is_evacuating(machine: &Value, node: &str) -> bool {
    machine.pointer("/status/evacuationNodeName").and_then(Value::as_str) == Some(node)
}

/// The state of the migration. KubeVirt sets `completed` for a failed migration as well.
fn migration(machine: &Value) -> Migration {
    let state = machine.pointer("/status/migrationState").filter(|state| state.is_object());
    let Some(state) = state else {
        return Migration::None;
    };
    let is = |field: &str| state.get(field).and_then(Value::as_bool).unwrap_or(false);
    if is("failed") {
        let reason = text(state, "/failureReason");
        return Migration::Failed(if reason.is_empty() { "no reason given".to_owned() } else { reason });
    }
    if is("completed") { Migration::Completed } else { Migration::Running(text(state, "/targetNode")) }
}

fn not_migratable(machine: &Value) -> String {
    let conditions = machine.pointer("/status/conditions").and_then(Value::as_array);
    let is_no = |condition: &&Value| {
        text(condition, "/type") == "LiveMigratable" && text(condition, "/status") == "False"
    };
    let Some(no) = conditions.into_iter().flatten().find(is_no) else {
        return String::new();
    };
    let said = [text(no, "/message"), text(no, "/reason"), "no reason given".to_owned()];
    said.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
