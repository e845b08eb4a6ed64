//! The controller of a device: it publishes its commands and images, and does so again after each boot.

use std::collections::BTreeMap;

use anyhow::Result;
use pubsub::{AgentLock, Persistence, Publisher, Root, TopicKey};
use schemas::{BaseOsConfig, DeviceOpsCmd, Operation, agent};

/// The controller's commands and images, and its topics below the device's root while they are open.
#[derive(Debug)]
pub struct Controller {
    commands: BTreeMap<&'static str, DeviceOpsCmd>,
    images: BTreeMap<String, BaseOsConfig>,
    topics: Topics,
}

#[derive(Debug)]
struct Topics {
    commands: Publisher<DeviceOpsCmd>,
    images: Publisher<BaseOsConfig>,
    /// The lock is held as long as the topics are published.
    _lock: AgentLock,
}

impl Topics {
    fn open(root: &Root) -> Result<Self> {
        let lock = AgentLock::acquire(root, agent::CONTROLLER)?;
        Ok(Self {
            commands: Publisher::open(root, agent::CONTROLLER, Persistence::Volatile, &lock)?,
            images: Publisher::open(root, agent::CONTROLLER, Persistence::Volatile, &lock)?,
            _lock: lock,
        })
    }
}

impl Controller {
    /// A controller without commands and images.
    pub fn open(root: &Root) -> Result<Self> {
        Ok(Self { commands: BTreeMap::new(), images: BTreeMap::new(), topics: Topics::open(root)? })
    }

    /// Commands the operation, or withdraws the command.
    pub fn command(&mut self, operation: Operation, counter: u32, desired_state: bool) -> Result<()> {
        let ops_time = "2026-01-01T00:00:00Z".into();
        let command = DeviceOpsCmd { counter, desired_state, ops_time, ..DeviceOpsCmd::default() };
        self.topics.commands.publish(&TopicKey::parse(operation.name())?, &command)?;
        self.commands.insert(operation.name(), command);
        Ok(())
    }

    /// Publishes that the image shall be active, or that it shall not.
    pub fn image(&mut self, uuid: &str, activate: bool) -> Result<()> {
        let config = BaseOsConfig {
            base_os_version: "2.0".into(),
            content_tree_uuid: uuid.into(),
            activate,
            ..BaseOsConfig::default()
        };
        self.topics.images.publish(&TopicKey::parse(uuid)?, &config)?;
        self.images.insert(uuid.to_owned(), config);
        Ok(())
    }

    /// Publishes everything again after a boot, when `run` is empty: a real device fetches its configuration again.
    pub fn reopen(&mut self, root: &Root) -> Result<()> {
        self.topics = Topics::open(root)?;
        for (name, command) in &self.commands {
            self.topics.commands.publish(&TopicKey::parse(name)?, command)?;
        }
        for (uuid, config) in &self.images {
            self.topics.images.publish(&TopicKey::parse(uuid)?, config)?;
        }
        Ok(())
    }
}
