//! The same test cases against the fake cluster and a real API server: they prove that the fake behaves like the real
//! one.
//!
//! A case is one function with a [`Target`]; the tests of this crate [`run`] it twice, as `fake::NAME` and
//! `real::NAME`. A case creates the objects that it needs through the HTTP API ([`Place`]), so that the set-up is the
//! same for both. It compares the significant parts of an answer ([`Said`]): code, reason, text, causes, `Retry-After`.
//!
//! ```text
//! control-plane run --ready-file plane.json &     # once; else each test process starts a plane of its own (8 s)
//! EBB_CONTROL_PLANE=plane.json cargo nextest run -p contract
//! ```

mod caller;
mod cases;
pub mod driving;
pub mod objects;
mod place;
mod reply;
mod target;
mod watch;

pub use caller::{Caller, Change};
pub use place::{Place, PodState};
pub use reply::{Reply, Said, failure};
pub use target::{Asked, Busy, Client, Held, Target, WEBHOOK};
pub use watch::{Objects, Watch};

use std::time::Duration;

use anyhow::{Context, Result};

/// Time limit of one wait, or of one case, for what hangs: far more than any of them takes on a busy machine.
const LIMIT: Duration = Duration::from_mins(10);

/// Runs one case on the target that `start` creates, with a runtime of its own.
pub fn run(
    start: impl FnOnce() -> Result<Target>,
    case: impl AsyncFnOnce(&Target) -> Result<()>,
) -> Result<()> {
    let target = start()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        tokio::time::timeout(LIMIT, case(&target)).await.with_context(|| format!("not within {LIMIT:?}"))?
    })
}
