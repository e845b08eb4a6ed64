//! Every decision of the device around a drain. The crate is pure, like [`drain`], which it drives: `zedkube` feeds
//! events in and carries effects out.
//!
//! [`mod@step`] is the coordinator. The parts below it do not know each other:
//!
//! | module | what it owns |
//! |---|---|
//! | [`requests`] | who requests a drain, and what each requester was answered |
//! | [`membership`] | whether this device is in a cluster at all |
//! | [`api`] | whether the API server answers, and when it is asked next |
//! | [`slots`], [`slot_lease`] | how many nodes may be down, and this node's entry |
//! | [`health`] | the result of the site's health command |
//! | [`restoring`] | uncordoning the node again |
//! | [`elsewhere`] | in which cluster a drain is finished |
//! | [`orders`] | what an operator has ordered |
//! | [`published`] | what NodeDrainStatus shows, and since when |
//! | `preconditions`, `cordoning`, `attempting`, `complete`, `forced` | one phase of the drain each ([`phase`]) |
//!
//! [`state`] holds all of them and what follows from several of them together; [`mod@record`] is the part that survives
//! a restart; [`unrecorded`] says what goes on while that part cannot be written; [`words`] has the texts for people, [`held`] what
//! holds a drain up, for programs.

pub mod api;
pub mod effect;
pub mod elsewhere;
pub mod event;
pub mod health;
pub mod held;
pub mod membership;
pub mod orders;
pub mod phase;
pub mod policy;
pub mod published;
pub mod record;
pub mod requests;
pub mod restoring;
pub mod slot_lease;
pub mod slot_survey;
pub mod slots;
pub mod state;
pub mod step;
pub mod unrecorded;
pub mod words;

mod attempting;
mod complete;
mod context;
mod cordoning;
mod drain_status;
mod next;
mod order_taken;
mod preconditions;
mod wants;

pub use effect::Effect;
pub use event::Event;
pub use phase::Phase;
pub use policy::Policy;
pub use record::{Record, resume};
pub use requests::{Answer, Request};
pub use state::State;
pub use step::step;

/// The name in annotation `ebb.dev/cordoned-by` that marks a cordon as zedkube's.
pub const OWNER: &str = "zedkube";
