//! Support for the tests of agents: a device in a temporary folder, bad input files, the simulation of a state
//! machine with its device and zedkube, and state diagrams. Only with the feature `testing`, which only tests enable.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "it is part of tests, which fail by panicking"
)]

mod bad_files;
mod device;
mod inputs;
mod log;
mod random;
mod sim;

pub use bad_files::{BadFile, Input};
pub use device::{TOO_LONG, TestDevice, until};
pub use inputs::{DEVICE_ACTION, GATE_INPUTS, WRONG_ACTIONS, WRONG_REQUESTS};
pub use log::CapturedLog;
pub use random::{CommonEvent, any_common_event, any_run, explored, play_common_event};
pub use sim::{SimAgent, SimFaults, SimLoop, SimRecord, SimWrite, SimZedkube, Transition};
