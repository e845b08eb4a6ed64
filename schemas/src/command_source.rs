//! Sources of commands, and the freeze that holds all of them back.

use std::collections::BTreeSet;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{GoTime, Topic};

/// The source of a command. Each source has its own folder and its own recorded counters, and is compared with itself
/// only: the counter of one source says nothing about the commands of another one.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
pub enum Source {
    /// A person, by a verb on the device (`ebb reboot`).
    Person,
    /// The controller's program. Older versions of ours knew no other source: what they accepted counts as the
    /// controller's.
    #[default]
    Controller,
    /// The cluster, by annotations of the Node.
    Cluster,
    /// The host itself, for example when its package manager needs a reboot.
    Host,
}

impl Source {
    /// All sources. If two of them ask for the same image, the earlier one in this list counts.
    pub const ALL: [Self; 4] = [Self::Person, Self::Controller, Self::Cluster, Self::Host];

    /// The source's word in files, in flags and on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Controller => "controller",
            Self::Cluster => "cluster",
            Self::Host => "host",
        }
    }

    /// Name of the agent folder below `run` that holds the commands of this source.
    pub const fn agent(self) -> &'static str {
        match self {
            Self::Person => "ebb",
            Self::Controller => "controller",
            Self::Cluster => "zedkube",
            Self::Host => "sentinel",
        }
    }

    /// The folder that holds the recorded counters of this source. The controller's counters are EVE's own files.
    pub const fn counter_folder(self) -> &'static str {
        match self {
            Self::Person => "/persist/status/ebb",
            Self::Controller => "/persist/status",
            Self::Cluster => "/persist/status/cluster",
            Self::Host => "/persist/status/host",
        }
    }

    /// True if the field Reason counts in a command of this source: a person's own words, the text of the cluster's
    /// annotation, what asks at the host. A controller has none.
    pub const fn gives_reason(self) -> bool {
        matches!(self, Self::Person | Self::Cluster | Self::Host)
    }

    /// True if the first command of a kind that a device sees of this source is only recorded, because it may be an old
    /// one. The host's counter belongs to the boot in which it commands.
    pub const fn has_first_contact(self) -> bool {
        !matches!(self, Self::Host)
    }

    /// The source with this name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.name() == name)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Who gave a command and why, as the end of a sentence; empty if neither is known. It comes last because the reboot reason
/// is cut at its end if it is too long.
pub fn commanded_by(by: &str, reason: &str) -> String {
    let by = if by.is_empty() { String::new() } else { format!(" by {by}") };
    let why = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
    if by.is_empty() && why.is_empty() { String::new() } else { format!("; commanded{by}{why}") }
}

/// Holds back all commands of all sources: while the freeze is in force, no command begins. Persistent; publisher
/// `ebb`, key `global`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct CommandFreeze {
    /// [`crate::SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// When the freeze was set, by the wall clock.
    pub since: GoTime,
    /// When the freeze ends, by the wall clock; unset means: when a person lifts it.
    pub until: GoTime,
    /// The person who set the freeze.
    pub by: String,
    /// Reason of the freeze.
    pub reason: String,
}

impl CommandFreeze {
    /// True if the freeze is in force at this time of the wall clock.
    pub fn stands(&self, wall: GoTime) -> bool {
        self.until.is_zero() || wall < self.until
    }
}

impl Topic for CommandFreeze {
    const NAME: &'static str = "CommandFreeze";
}

/// The Node of this device, and the commands of source `cluster` that it was seen without. A text that stands on a Node
/// which was never seen without that command may be old, and is only recorded. Persistent; publisher zedkube, key
/// `global`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct UncommandedNode {
    /// [`crate::SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// UID of the Node: a Node of the same name with another UID is another Node.
    #[serde(rename = "NodeUID")]
    pub node_uid: String,
    /// The commands that the Node was seen without, such as `reboot`.
    pub commands: BTreeSet<String>,
}

impl Topic for UncommandedNode {
    const NAME: &'static str = "UncommandedNode";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freeze_ends_at_its_time_or_when_it_is_taken_off() {
        let time = |text: &str| text.parse::<GoTime>().unwrap();
        let (before, end, after) =
            (time("2026-11-30T05:59:59Z"), time("2026-11-30T06:00:00Z"), time("2026-11-30T06:00:01Z"));
        for (until, wall, stands) in
            [(end, before, true), (end, end, false), (end, after, false), (GoTime::ZERO, after, true)]
        {
            let freeze = CommandFreeze { until, ..CommandFreeze::default() };
            assert_eq!(freeze.stands(wall), stands, "until {until:?}, at {wall:?}");
        }
    }
}
