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
mod bad_inputs;
mod device;
mod log;
mod random;
mod sim;

pub use bad_files::{BadFile, Input};
pub use bad_inputs::{DEVICE_ACTION, Holder, Promise, Row, WRONG_ACTIONS, check_bad_input, check_bad_inputs};
pub use device::{TOO_LONG, TestDevice, until};
pub use log::CapturedLog;
pub use random::{CommonEvent, any_common_event, explored, play_common_event};
pub use sim::{SimAgent, SimFaults, SimLoop, SimRecord, SimWrite, SimZedkube, Transition, window};
