//! The events of the shell: a snapshot of all files that baseos decides by, or the end of the activate command.

use std::collections::BTreeMap;

use runtime::agent_state::NodeAgentView;
use runtime::requester::GateReading;
use schemas::{BaseOsConfig, Source, SwState, WindowStatus};

/// An event of the shell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    /// A snapshot of all files.
    Looked(Box<Facts>),
    /// The activate command has ended.
    Ended {
        /// The effect's serial.
        serial: u32,
        /// Success, or the reason of the failure.
        result: Result<(), String>,
    },
}

/// Snapshot of the files: each is read again for every step, those of nodeagent last.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Facts {
    /// The configurations of the images, by UUID.
    pub configs: BTreeMap<String, Configured>,
    /// The source of each configuration.
    pub sources: BTreeMap<String, Origin>,
    /// Setting `commands.from-cluster`.
    pub obeys_cluster: bool,
    /// The configurations of other sources that do not count, because one in `configs` is of the same image.
    pub outranked: Vec<(Source, BaseOsConfig)>,
    /// A folder could not be listed, so an image that is missing in `configs` may be wanted nevertheless.
    pub is_partial: bool,
    /// The content of each image; [`Content::LOADED`] for all if no agent reports on content.
    pub contents: BTreeMap<String, Content>,
    /// The version that is running.
    pub running: Running,
    /// An activate command runs whose result this process will not receive, such as one of an earlier baseos: the end
    /// of its time limit, in milliseconds of this boot's clock.
    pub left_running: Option<u64>,
    /// The reason for an operator's freeze of all commands; None while there is none.
    pub frozen: Option<String>,
    /// The maintenance window; None if none is set.
    pub window: Option<WindowStatus>,
    /// zedkube pauses between two attempts of a drain. Known only while the window is not open.
    pub is_pausing: bool,
    /// zedkube's answer to the drain request.
    pub drain: GateReading,
    pub nodeagent: NodeAgentView,
    /// Input files that are refused, with the reason; for display only.
    pub refused: Vec<String>,
}

/// Who wants an image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    pub source: Source,
    /// The person, for display; empty for the other sources.
    pub by: String,
    /// The reason of a person or of the cluster, for display; empty for the other sources.
    pub reason: String,
}

/// The configuration of one image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Configured {
    /// The file cannot be read, perhaps because it is being written. Ignored.
    Unreadable,
    /// The file is valid JSON, but its contents are refused, with the reason. Ignored, and shown in BaseOsHold and
    /// BaseOsStatus.
    Refused(String),
    /// The file holds this configuration.
    Given(BaseOsConfig),
}

/// The content of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Content {
    /// The progress of the download.
    pub state: SwState,
    /// The error of the download.
    pub error: String,
}

impl Content {
    /// Content that can be activated.
    pub(crate) const LOADED: Self = Self { state: SwState::LOADED, error: String::new() };

    /// True if the whole image is on the device. As in EVE nothing is drained before that, because loading may fail: the
    /// LOADING, LOADED or INSTALLED at which EVE asks is that of BaseOsStatus, beside a content that is LOADED.
    fn is_loaded(&self) -> bool {
        [SwState::LOADED, SwState::INSTALLED].contains(&self.state)
    }
}

/// The version of the image that is running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Running {
    /// The device does not name it: `baseos.current` is not set, and neither EVE's file nor os-release names an image
    /// version. The version of the system in os-release may be that of the image or not.
    Untold {
        /// `VERSION_ID` of os-release; empty without one.
        system: String,
    },
    /// Not known now, for this reason.
    Unknown(String),
    Version(String),
}

impl Configured {
    /// The configuration, if it can be used.
    pub(crate) const fn given(&self) -> Option<&BaseOsConfig> {
        match self {
            Self::Given(config) => Some(config),
            Self::Unreadable | Self::Refused(_) => None,
        }
    }
}

impl Facts {
    /// Who wants an image; the default if that is not known.
    pub(crate) fn origin(&self, uuid: &str) -> Origin {
        self.sources.get(uuid).cloned().unwrap_or_default()
    }

    /// The content of an image; SwState INITIAL if no agent reports on it.
    pub(crate) fn content(&self, uuid: &str) -> Content {
        let initial = || Content { state: SwState::INITIAL, error: String::new() };
        self.contents.get(uuid).cloned().unwrap_or_else(initial)
    }

    /// The reason why an image has to wait for its content. None if the content is loaded.
    pub(crate) fn content_obstacle(&self, uuid: &str) -> Option<String> {
        let Some(content) = self.contents.get(uuid) else {
            return Some("volumemgr knows nothing of its content".to_owned());
        };
        let error = if content.error.is_empty() { String::new() } else { format!(": {}", content.error) };
        (!content.is_loaded()).then(|| format!("its content is not loaded yet: {}{error}", content.state))
    }
}
