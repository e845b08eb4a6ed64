//! Pods that a disruption budget keeps on a node.

use anyhow::Result;
use control_plane::{ControlPlane, Pool, objects, unique};

/// Two nodes. Budget `web` lets none of the two pods of deployment `web` leave, and both are on the first node.
pub fn create_blocked_pool(plane: &ControlPlane, name: &str) -> Result<Pool> {
    let pool = plane.create_pool(&unique(name), &["a", "b"])?;
    let namespace = pool.name.as_str();
    for node in pool.nodes.iter().skip(1) {
        plane.run(&["cordon", node])?;
    }
    plane.apply(&[
        objects::deployment(namespace, "web", 2),
        objects::disruption_budget(namespace, "web", ("minAvailable", 2)),
    ])?;
    plane.run(&["rollout", "status", "deployment/web", "--namespace", namespace, "--timeout=5m"])?;
    for node in pool.nodes.iter().skip(1) {
        plane.run(&["uncordon", node])?;
    }
    Ok(pool)
}
