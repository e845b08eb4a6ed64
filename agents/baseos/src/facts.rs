//! What one look at the device shows. Everything that is decided is decided from it.

use std::collections::BTreeMap;

use runtime::requester::GateReading;
use runtime::siblings::NodeAgentView;
use schemas::{BaseOsConfig, Source, SwState};

/// One look: every file read anew, those of nodeagent last.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The images of both configurations, by UUID.
    pub configs: BTreeMap<String, Configured>,
    /// Who wants each of them.
    pub sources: BTreeMap<String, Source>,
    /// A folder could not be listed: an image that is not in `configs` may be wanted all the same.
    pub is_partial: bool,
    /// The content of the images; [`Content::LOADED`] for all when nobody reports on content.
    pub contents: BTreeMap<String, Content>,
    /// Which image runs.
    pub running: Running,
    /// An activate command lives that this process has not started, or of which it does not know how it ends: until when
    /// it has time, in milliseconds of this boot's clock.
    pub left_running: Option<u64>,
    /// A freeze of all commands stands: which, in words.
    pub frozen: Option<String>,
    /// The way to a drain.
    pub drain: GateReading,
    /// What nodeagent is doing.
    pub nodeagent: NodeAgentView,
    /// Input files that are refused, and why; only shown.
    pub refused: Vec<String>,
}

/// The configuration of one image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Configured {
    /// It cannot be read, perhaps because it is just being written. It says nothing.
    Unreadable,
    /// It says what nothing can be made of, and why. It counts for nothing, but that is shown.
    Refused(String),
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
    /// The device does not say: `baseos.current` is not set, and its files name no version of an image. The version of
    /// its system, if they name one, may be that of the image or not.
    Untold {
        /// `VERSION_ID` of os-release; empty without one.
        system: String,
    },
    /// Not known now, and why.
    Unknown(String),
    /// This version.
    Version(String),
}

impl Configured {
    /// What it says, if that can be used.
    pub(crate) const fn given(&self) -> Option<&BaseOsConfig> {
        match self {
            Self::Given(config) => Some(config),
            Self::Unreadable | Self::Refused(_) => None,
        }
    }
}

impl Facts {
    /// How far the content of an image is; an image that nobody reports on has nothing yet.
    pub(crate) fn content(&self, uuid: &str) -> Content {
        let initial = || Content { state: SwState::INITIAL, error: String::new() };
        self.contents.get(uuid).cloned().unwrap_or_else(initial)
    }
}
