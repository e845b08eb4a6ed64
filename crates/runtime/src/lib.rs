//! The parts that all agents share: settings, clock, signals, logs, liveness, the main loop, and the request for a
//! drain.
//!
//! The binary calls [`logs::init`], then for each agent [`Agent::start`], and hands the [`AgentContext`] and a
//! [`Stop`] to the agent's `run`. Only the log is global to the process, so `ebb demo` runs four agents in one.

pub mod activation_lock;
mod agent;
pub mod agent_loop;
pub mod agent_state;
pub mod boot;
pub mod clock;
pub mod device_actions;
pub mod drain_history;
pub mod drain_order;
mod error_chain;
pub mod flags;
pub mod freeze;
mod item;
mod late_publisher;
pub mod liveness;
pub mod logs;
pub mod machine;
pub mod peers;
pub mod process;
pub mod program;
pub mod refused;
pub mod regular_file;
pub mod requester;
pub mod retry;
pub mod settings;
pub mod shown_try;
pub mod signals;
pub mod supervisor;
mod task;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod window;
pub mod zedbox;

pub use agent::{Agent, AgentContext, StartError};
pub use error_chain::{error_chain, shortened};
pub use flags::{AgentFlags, LogFormat};
pub use item::{read_or_none, write_persistent};
pub use late_publisher::{LatePublisher, NotWritten};
pub use liveness::Liveness;
pub use requester::{Gate, OwnRequest, Requester};
pub use settings::{Loaded, Settings, SettingsWatch};
pub use signals::Stop;
pub use task::Task;
