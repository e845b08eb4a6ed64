//! A device for tests: agents as real processes below a root folder of their own.

mod agents;
mod api;
mod blocked;
mod controller;
mod device;
mod faulty;
mod proxy;
mod rights;
mod webhook;

pub use agents::Process;
pub use api::Api;
pub use blocked::create_blocked_pool;
pub use controller::Controller;
pub use device::{ACTIONS, Device};
pub use faulty::{Fault, FaultyServer};
pub use proxy::Proxy;
pub use rights::ZedkubeUser;
pub use webhook::Webhook;
