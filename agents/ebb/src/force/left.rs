//! What is left on a node that is not drained.

use schemas::NodeDrainReport;

/// Pods that are named one by one.
const MOST: usize = 10;

/// The pods that have not left and should have, as `namespace/name`.
pub(super) fn pods(report: &NodeDrainReport) -> Vec<String> {
    let has_to_leave = report.pods.iter().filter(|pod| pod.verdict != "Leave");
    has_to_leave.map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect()
}

/// The same in words. A report that lists none proves nothing: nobody may have looked.
pub(super) fn words(report: &NodeDrainReport) -> String {
    let pods = pods(report);
    let unlisted = usize::try_from(report.omitted.pods).unwrap_or(usize::MAX);
    let total = pods.len().saturating_add(unlisted);
    if total == 0 {
        return "which pods are left on it is not known".to_owned();
    }
    let named = pods.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
    match total.saturating_sub(pods.len().min(MOST)) {
        0 => format!("{total} pods are left on it: {named}"),
        more => format!("{total} pods are left on it: {named} and {more} more"),
    }
}
