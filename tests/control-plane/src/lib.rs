//! Starts a real control plane: etcd, kube-apiserver, controller-manager, scheduler, kwok.
//!
//! For tests and benchmarks on one machine: no containers, no root rights, loopback only. kwok plays the kubelet of
//! every node and the attacher of every CSI driver (`config/stages.yaml`); everything else is the released program.
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! let plane = control_plane::ControlPlane::shared()?;
//! let pool = plane.create_pool(&control_plane::unique("drain"), &["a", "b", "c"])?;
//! plane.apply(&[control_plane::objects::deployment(&pool.name, "web", 3)])?;
//! let mark = plane.audit_mark()?;
//! // ... run what is measured against plane.kubeconfig() ...
//! let requests = plane.audit_since(mark)?.of_agent("ebb/");
//! # drop(requests); Ok(())
//! # }
//! ```
//!
//! - The programs come from `KUBEBUILDER_ASSETS` or are built once with Go ([`binaries`]).
//! - A whole test run can share one plane: `control-plane run --ready-file F` in the background and
//!   `EBB_CONTROL_PLANE=F` in the environment of the tests. Each test then works in a pool of its own
//!   ([`ControlPlane::create_pool`]). Tests that stop or pause a component start their own plane.
//! - No process outlives its owner, not even one ended by SIGKILL ([`ControlPlane::start`]).

mod audit;
pub mod binaries;
mod components;
mod coordinates;
mod credentials;
mod kubectl;
mod node_users;
pub mod objects;
mod plane;
mod pool;
mod ports;
mod process;
mod processes;
mod users;
mod wait;

pub use audit::{AuditMark, AuditedRequest, Requests};
pub use components::Component;
pub use coordinates::{Coordinates, ENVIRONMENT};
pub use plane::ControlPlane;
pub use pool::Pool;
pub use wait::until;

/// A name that nothing else on a shared control plane has: `prefix-` and eight random hexadecimal digits.
///
/// Valid as the name of a namespace, a node or a label value if `prefix` is.
pub fn unique(prefix: &str) -> String {
    let random = uuid::Uuid::new_v4().simple().to_string();
    let digits: String = random.chars().take(8).collect();
    format!("{prefix}-{digits}")
}
