//! The settings that the decisions need.

use runtime::settings::Retry;

/// The settings of device-op, and the id of this boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Policy {
    /// `device-op.retry`.
    pub retry: Retry,
    pub boot_id: String,
}
