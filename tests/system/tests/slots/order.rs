//! The order of the drains, from the audit log.

use control_plane::{AuditedRequest, Requests};

/// The time span of a node's drain: the numbers of requests, in the order in which the server received them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    first_eviction: usize,
    /// The last change of the node; after a drain that is the uncordon.
    uncordon: usize,
}

/// How many nodes were being drained at a time at most: between its first eviction and the moment it takes pods again.
pub(crate) fn most_at_once(requests: &Requests, nodes: &[String]) -> Result<usize, String> {
    let spans: Vec<(&String, Span)> =
        nodes.iter().filter_map(|node| Some((node, span(requests, node)?))).collect();
    if spans.len() != nodes.len() {
        return Err(format!("not all nodes were drained: {spans:?}"));
    }
    let is_open =
        |at: usize| move |(_, span): &&(&String, Span)| span.first_eviction <= at && at < span.uncordon;
    let at_once = spans.iter().map(|(_, span)| spans.iter().filter(is_open(span.first_eviction)).count());
    Ok(at_once.max().unwrap_or_default())
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
