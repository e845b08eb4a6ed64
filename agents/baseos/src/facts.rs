//! What one look at the device shows. Everything that is decided is decided from it.

use std::collections::BTreeMap;

use runtime::OwnRequest;
use schemas::{BaseOsConfig, DeviceAction, DeviceActionState, SwState, Verdict};

/// One look: every file read anew, those of nodeagent last.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The images of both configurations, by UUID.
    pub configs: BTreeMap<String, Configured>,
    /// A folder could not be listed: an image that is not in `configs` may be wanted all the same.
    pub is_partial: bool,
    /// The content of the images; [`Content::LOADED`] for all when nobody reports on content.
    pub contents: BTreeMap<String, Content>,
    /// Which image runs.
    pub running: Running,
    /// What the gate says; nothing when it was not asked.
    pub gate: Option<Gate>,
    /// The drain request that is ours.
    pub own: Option<OwnRequest>,
    /// A drain request that could be made now.
    pub next: OwnRequest,
    /// What nodeagent is doing.
    pub nodeagent: NodeAgentView,
}

/// The configuration of one image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Configured {
    /// It cannot be read, perhaps because it is just being written. It says nothing.
    Unreadable,
    /// It says this.
    Given(BaseOsConfig),
}

/// The content of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// How far it is.
    pub state: SwState,
    /// What went wrong.
    pub error: String,
}

impl Content {
    /// It can be activated.
    pub const LOADED: Self = Self { state: SwState::LOADED, error: String::new() };
}

/// Which image runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Running {
    /// This device cannot tell (`baseos.current` is not set): an image that was activated is taken as running.
    NotAsked,
    /// Not known now, and why.
    Unknown(String),
    /// This version.
    Version(String),
}

/// The gate's verdict and its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// May the device go down?
    pub verdict: Verdict,
    /// What blocks; empty when nothing does.
    pub blocked_by: String,
    /// What an operator can do about it.
    pub hint: String,
}

/// nodeagent as its files show it. Its lock is asked before its file is read: when the lock is free, nothing can be
/// written any more that the file does not show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAgentView {
    /// Its lock is held, or cannot be asked.
    pub is_running: bool,
    /// Its progress; nothing when the file cannot be read. Without a file it is idle.
    pub action: Option<DeviceAction>,
}

impl NodeAgentView {
    /// It has taken a command, or may have.
    pub(crate) fn is_busy(&self) -> bool {
        self.state().is_none_or(|state| match state {
            DeviceActionState::Taken | DeviceActionState::Acting => true,
            DeviceActionState::Idle | DeviceActionState::Done | DeviceActionState::Failed => false,
        })
    }

    pub(crate) fn is_acting(&self) -> bool {
        self.state() == Some(DeviceActionState::Acting)
    }

    /// Nothing that it has taken can lead to a reboot for us any more: our hold was cleared before this look.
    pub(crate) fn has_let_go(&self) -> bool {
        self.state().is_some_and(|state| match state {
            DeviceActionState::Idle | DeviceActionState::Done | DeviceActionState::Failed => true,
            // It begins anew when it comes back, and finds the hold cleared.
            DeviceActionState::Taken => !self.is_running,
            DeviceActionState::Acting => false,
        })
    }

    fn state(&self) -> Option<DeviceActionState> {
        self.action.as_ref().map(|action| action.state)
    }
}

impl Facts {
    /// How far the content of an image is; an image that nobody reports on has nothing yet.
    pub(crate) fn content(&self, uuid: &str) -> Content {
        let initial = || Content { state: SwState::INITIAL, error: String::new() };
        self.contents.get(uuid).cloned().unwrap_or_else(initial)
    }
}
