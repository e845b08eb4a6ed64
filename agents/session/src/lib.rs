//! Every decision of the device around a drain.
//!
//! Pure, like [`drain`], which it drives: who asks and who was answered ([`requests`]), whether this device is in a
//! cluster at all ([`membership`]), what has to be true before the cordon, how many attempts, what is shown and
//! when ([`showing`]), and the way back ([`returning`]). `zedkube` feeds events in and carries effects out.
//!
//! Slots, override and resume have their place between [`step()`] and these modules; see ARCHITECTURE.md.

pub mod membership;
pub mod policy;
pub mod requests;
pub mod returning;
pub mod showing;
pub mod state;
pub mod step;
pub mod words;

mod attempting;
mod complete;
mod cordoning;
mod looking;
mod waiting;

pub use membership::Member;
pub use policy::Policy;
pub use requests::{Answer, Request, Requester};
pub use showing::Status;
pub use state::{Outcome, Phase, State};
pub use step::{Effect, Event, step};
