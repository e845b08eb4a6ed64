//! The controller of a device: it publishes its commands, and does so again after each boot.

use std::collections::BTreeMap;

use anyhow::Result;
use pubsub::{AgentLock, Persistence, Publisher, Root, TopicKey};
use schemas::{DeviceOpsCmd, Operation, agent};

/// The controller's commands, and its topic below the device's root while it is open.
#[derive(Debug)]
pub struct Controller {
    commands: BTreeMap<&'static str, DeviceOpsCmd>,
    topics: Topics,
}

#[derive(Debug)]
struct Topics {
    commands: Publisher<DeviceOpsCmd>,
    /// The lock is held as long as the topic is published.
    _lock: AgentLock,
}

impl Topics {
    fn open(root: &Root) -> Result<Self> {
        let lock = AgentLock::acquire(root, agent::CONTROLLER)?;
        Ok(Self {
            commands: Publisher::open(root, agent::CONTROLLER, Persistence::Volatile, &lock)?,
            _lock: lock,
        })
    }
}

impl Controller {
    /// A controller without commands.
    pub fn open(root: &Root) -> Result<Self> {
        Ok(Self { commands: BTreeMap::new(), topics: Topics::open(root)? })
    }

    /// Commands the operation, or withdraws the command.
    pub fn command(&mut self, operation: Operation, counter: u32, desired_state: bool) -> Result<()> {
        let ops_time = "2026-01-01T00:00:00Z".into();
        let command = DeviceOpsCmd { counter, desired_state, ops_time, ..DeviceOpsCmd::default() };
        self.topics.commands.publish(&TopicKey::of_operation(operation), &command)?;
        self.commands.insert(operation.name(), command);
        Ok(())
    }

    /// Publishes everything again after a boot, when `run` is empty: a real device fetches its configuration again.
    pub fn reopen(&mut self, root: &Root) -> Result<()> {
        self.topics = Topics::open(root)?;
        for (name, command) in &self.commands {
            self.topics.commands.publish(&TopicKey::parse(name)?, command)?;
        }
        Ok(())
    }
}
