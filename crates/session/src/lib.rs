//! Every decision of the device around a drain.
//!
//! Pure, like [`drain`], which it drives: who asks and who was answered ([`requests`]), whether this device is in a
//! cluster at all ([`membership`]), what has to be true before the cordon, how many attempts, what is shown and
//! when ([`showing`]), how many nodes may be down ([`slots`]), what an operator may force ([`forcing`]), the way back
//! ([`returning`]), what survives a restart ([`mod@record`]), and what goes on while that cannot be written
//! ([`unrecorded`]). `zedkube` feeds events in and carries effects out.

pub mod effect;
pub mod event;
pub mod forcing;
pub mod health;
pub mod leasing;
pub mod membership;
pub mod policy;
pub mod record;
pub mod requests;
pub mod returning;
pub mod showing;
pub mod slot_survey;
pub mod slots;
pub mod state;
pub mod step;
pub mod unrecorded;
pub mod waiting;
pub mod words;

mod attempting;
mod complete;
mod cordoning;
mod looking;

pub use effect::Effect;
pub use event::Event;
pub use membership::Member;
pub use policy::Policy;
pub use record::{Record, resume};
pub use requests::{Answer, Request, Requester};
pub use showing::Status;
pub use state::{Outcome, Phase, State};
pub use step::step;
