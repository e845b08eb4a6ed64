//! The settings that the decisions need.

use runtime::settings::Retry;

/// The settings of baseos.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policy {
    /// `baseos.retry`.
    pub retry: Retry,
    /// `baseos.dry-run`: activations are only written to a file.
    pub dry_run: bool,
    /// `baseos.activate` is set.
    pub can_activate: bool,
}
