//! The order of the drains, from the audit log.

use control_plane::{AuditedRequest, Requests};

/// The time span of a node's drain: the numbers of requests, in the order in which the server received them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    first_eviction: usize,
    /// The last change of the node; after a drain that is the uncordon.
    uncordon: usize,
}

/// Checks that no pod left another node between a node's first eviction and the moment it takes pods again.
pub(crate) fn are_apart(requests: &Requests, nodes: &[String]) -> Result<(), String> {
    let spans: Vec<(&String, Span)> =
        nodes.iter().filter_map(|node| Some((node, span(requests, node)?))).collect();
    if spans.len() != nodes.len() {
        return Err(format!("not all nodes were drained: {spans:?}"));
    }
    for (node, turn) in &spans {
        let intruder = spans.iter().find(|(_, other)| {
            turn.first_eviction < other.first_eviction && other.first_eviction < turn.uncordon
        });
        if let Some(intruder) = intruder {
            return Err(format!("{intruder:?} in the turn of {node}, {turn:?}"));
        }
    }
    Ok(())
}

fn span(requests: &Requests, node: &str) -> Option<Span> {
    let numbers = |wanted: &dyn Fn(&AuditedRequest) -> bool| -> Vec<usize> {
        requests.iter().enumerate().filter(|(_, asked)| wanted(asked)).map(|(number, _)| number).collect()
    };
    let ours = |asked: &AuditedRequest| asked.user_agent.starts_with("ebb/");
    // The names of a node's pods begin with the node's name.
    let evictions = numbers(&|asked| {
        ours(asked) && asked.subresource == "eviction" && asked.name.starts_with(&format!("{node}-"))
    });
    // Excludes dry runs: each zedkube tries out whether it could change another node.
    let changes = numbers(&|asked| {
        let is_ours = ours(asked) && asked.verb == "patch" && !asked.uri.contains("dryRun=All");
        is_ours && asked.resource == "nodes" && asked.name == node
    });
    Some(Span { first_eviction: *evictions.first()?, uncordon: *changes.last()? })
}
