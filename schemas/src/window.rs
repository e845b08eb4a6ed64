//! The maintenance window as statuses show it.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{GoTime, Source};

/// The maintenance window (settings `window.*`) at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct WindowStatus {
    /// The state.
    pub state: WindowState,
    /// While it is open, the last time at which a drain may begin; while it is closed, the next opening. Unset if it
    /// never opens.
    #[serde(default)]
    pub changes_at: GoTime,
    /// The sources whose commands wait for it.
    #[serde(default)]
    pub sources: BTreeSet<Source>,
    /// The window in words, and why it never opens.
    #[serde(default)]
    pub reason: String,
}

impl WindowStatus {
    /// Why a command of this source may not begin now; None if it may.
    pub fn holds(&self, source: Source) -> Option<&str> {
        let is_held = self.state != WindowState::Open && self.sources.contains(&source);
        is_held.then_some(self.reason.as_str())
    }
}

/// Whether commands that are not urgent may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WindowState {
    /// They may: a drain fits into what is left of the window.
    Open,
    /// They wait for the next opening.
    Closed,
    /// They wait until a person changes something: settings, or this device's clock.
    Never,
}
