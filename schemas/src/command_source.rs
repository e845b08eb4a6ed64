//! Where a command comes from, and the brake on all of them.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{GoTime, Topic};

/// Where a command comes from. Each source has its own folder and its own recorded counters, and is compared with
/// itself only: one source's counter says nothing of another's.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
pub enum Source {
    /// An operator's verb on the device (`ebb reboot`).
    Person,
    /// The controller's program. Also what an older version of ours accepted, when there was no other source.
    #[default]
    Controller,
    /// The Node's annotations.
    Cluster,
    /// The host itself, such as a pending reboot of its package manager.
    Host,
}

impl Source {
    /// All of them. Where two ask for the same image, the one that stands first here counts.
    pub const ALL: [Self; 4] = [Self::Person, Self::Controller, Self::Cluster, Self::Host];

    /// The word in files, flags and on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Controller => "controller",
            Self::Cluster => "cluster",
            Self::Host => "host",
        }
    }

    /// The agent folder below `run` that holds this source's commands.
    pub const fn agent(self) -> &'static str {
        match self {
            Self::Person => "ebb",
            Self::Controller => "controller",
            Self::Cluster => "zedkube",
            Self::Host => "sentinel",
        }
    }

    /// The folder below which this source's recorded counters are. The controller's are EVE's own files.
    pub const fn counter_folder(self) -> &'static str {
        match self {
            Self::Person => "/persist/status/ebb",
            Self::Controller => "/persist/status",
            Self::Cluster => "/persist/status/cluster",
            Self::Host => "/persist/status/host",
        }
    }

    /// The source with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.name() == name)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The brake on all commands of all sources: while it stands, none begins. Persistent, publisher `ebb`, key `global`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct CommandFreeze {
    /// [`crate::SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// Since when, by the wall clock.
    pub since: GoTime,
    /// Until when, by the wall clock; unset = until it is taken away.
    pub until: GoTime,
    /// Who put it on.
    pub by: String,
    /// Why.
    pub reason: String,
}

impl CommandFreeze {
    /// It is in force at this time of the wall clock.
    pub fn stands(&self, wall: GoTime) -> bool {
        self.until.is_zero() || wall < self.until
    }
}

impl Topic for CommandFreeze {
    const NAME: &'static str = "CommandFreeze";
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
