//! The settings that the decisions need.

use std::time::Duration;

/// Time limit of a means: if the device is still up after it, the means has failed.
pub(crate) const STILL_UP: Duration = Duration::from_mins(5);

/// The settings of nodeagent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policy {
    /// `device.pre` names at least one hook.
    pub has_hooks: bool,
    /// `device.dry-run`: the command is only written to a file.
    pub dry_run: bool,
    /// The time limit of a means: [`STILL_UP`].
    pub still_up: Duration,
}
