//! Every decision of the device around a drain. Pure, like [`drain`], which it drives: `zedkube` feeds events in and
//! carries effects out.
//!
//! [`mod@step`] is the coordinator. Below it are parts that do not know each other:
//!
//! | module | what it owns |
//! |---|---|
//! | [`requests`] | who asks, and who was answered |
//! | [`membership`] | whether this device is in a cluster at all |
//! | [`api`] | whether the API server answers, and when it is asked next |
//! | [`slots`], [`slot_lease`] | how many nodes may be down, and our own entry |
//! | [`health`] | the site's own word |
//! | [`restoring`] | taking our cordon back |
//! | [`forcing`] | what an operator has ordered |
//! | [`shown`] | what NodeDrainStatus shows, and since when |
//! | `preconditions`, `cordoning`, `attempting`, `complete`, `forced` | one phase of the drain each ([`phase`]) |
//!
//! [`state`] has all of it and what follows from it together, [`mod@record`] what survives a restart, [`unrecorded`] what goes
//! on while that cannot be written, [`words`] what a person is told.

pub mod api;
pub mod effect;
pub mod event;
pub mod forcing;
pub mod health;
pub mod membership;
pub mod phase;
pub mod policy;
pub mod record;
pub mod requests;
pub mod restoring;
pub mod shown;
pub mod slot_lease;
pub mod slot_survey;
pub mod slots;
pub mod state;
pub mod step;
pub mod unrecorded;
pub mod words;

mod attempting;
mod complete;
mod cordoning;
mod forced;
mod next;
mod preconditions;
mod showing;
mod turn;
mod wants;

pub use effect::Effect;
pub use event::Event;
pub use phase::Phase;
pub use policy::Policy;
pub use record::{Record, resume};
pub use requests::{Answer, Request};
pub use state::State;
pub use step::step;

/// The name by which zedkube's cordon is known in annotation `ebb.dev/cordoned-by`.
pub const OWNER: &str = "zedkube";
