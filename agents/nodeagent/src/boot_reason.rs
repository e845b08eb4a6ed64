//! Files for the next boot, in EVE's form: the reason why the device goes down, as text (`/persist/reboot-reason`)
//! and as a name (`/persist/boot-reason`), and the number of boots (`restartcounter`, in a folder of nodeagent's
//! own).
//!
//! All of it is best effort: no decision depends on it.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use pubsub::store::{create_folder, remove_durably, write_durably};
use pubsub::{Backup, Owner, Persistence, Root, StoreError, read_checked};
use schemas::agent::NODEAGENT;
use schemas::{BootReason, GoTime, NodeAgentStatus, Operation};

use crate::current_command::Command;

const FOLDER: &str = "/persist";
const REASON: &str = "reboot-reason";
const NAME: &str = "boot-reason";
/// EVE's counter of boots. nodeagent continues its count.
const EVES_COUNTER: &str = "/persist/status/restartcounter";
const COUNTER: &str = "restartcounter";
/// Limit for the reason's file. EVE writes one sentence; a stack goes into another file.
const MAX_BYTES: u64 = 64 * 1024;
/// Limit in bytes for the reason that is published.
const MAX_SHOWN: usize = 1024;

/// The files that the last boot left behind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Left {
    /// The reason why the device went down; empty if none was written.
    pub(crate) reason: String,
    pub(crate) at: GoTime,
    /// The reason as EVE's number; None if there is none.
    pub(crate) boot_reason: Option<BootReason>,
}

/// Writes the reason of a command durably. The name is written before the text, so that a reader who finds the text
/// finds the name as well.
pub(crate) fn leave(root: &Root, command: &Command) -> Result<(), StoreError> {
    let folder = root.join(FOLDER);
    create_folder(&folder)?;
    write_durably(&folder, NAME, boot_reason(command).name().as_bytes(), Backup::None)?;
    let reason = format!("{}{}", NodeAgentStatus::NORMAL, command.reason);
    write_durably(&folder, REASON, reason.as_bytes(), Backup::None)
}

/// Writes the reason of a shutdown that does not come through nodeagent. The next boot has no number of EVE for it.
///
/// # Errors
/// The file cannot be written.
pub fn leave_reason(root: &Root, reason: &str) -> Result<(), StoreError> {
    let folder = root.join(FOLDER);
    create_folder(&folder)?;
    write_durably(&folder, REASON, reason.as_bytes(), Backup::None)
}

fn boot_reason(command: &Command) -> BootReason {
    match command.operation {
        Operation::Reboot if !command.image.is_empty() => BootReason::UPDATE,
        Operation::Reboot => BootReason::REBOOT_COMMAND,
        Operation::Poweroff => BootReason::POWEROFF_COMMAND,
        Operation::Shutdown => BootReason::NONE,
    }
}

/// Reads the reason. A file that cannot be read counts as missing.
pub(crate) fn read(root: &Root) -> Left {
    let path = root.join(FOLDER).join(REASON);
    let reason = text(&path).unwrap_or_default();
    let changed = std::fs::metadata(&path).and_then(|data| data.modified()).ok();
    let at = changed.filter(|_| !reason.is_empty()).and_then(|at| Timestamp::try_from(at).ok());
    let name = text(&root.join(FOLDER).join(NAME)).filter(|name| !name.is_empty());
    Left {
        reason,
        at: at.map_or(GoTime::ZERO, GoTime::from),
        boot_reason: name.map(|name| BootReason::from_name(&name)),
    }
}

/// The text of the reason without EVE's prefix; None if there is none.
pub(crate) fn reason(root: &Root) -> Option<String> {
    let reason = read(root).reason;
    let plain = reason.strip_prefix(NodeAgentStatus::NORMAL).map(str::to_owned);
    Some(plain.unwrap_or(reason)).filter(|reason| !reason.is_empty())
}

/// Removes the files of the reason.
pub(crate) fn forget(root: &Root) -> Result<(), StoreError> {
    let folder = root.join(FOLDER);
    remove_durably(&folder, REASON)?;
    remove_durably(&folder, NAME).map(|_| ())
}

/// The number of boots before this one; None if there is no counter.
pub(crate) fn boots_before(root: &Root) -> Option<u32> {
    let own = text(&counter_folder(root).join(COUNTER)).or_else(|| text(&root.join(EVES_COUNTER)));
    own.map(|count| count.parse().unwrap_or(0))
}

/// Counts this boot, unless it was counted already.
pub(crate) fn count(root: &Root, boots_before: u32) -> Result<(), StoreError> {
    let count = boots_before.saturating_add(1);
    if self::boots_before(root) == Some(count) {
        return Ok(());
    }
    let folder = counter_folder(root);
    create_folder(&folder)?;
    write_durably(&folder, COUNTER, count.to_string().as_bytes(), Backup::None)
}

fn counter_folder(root: &Root) -> PathBuf {
    root.agent_folder(NODEAGENT, Persistence::Persistent)
}

fn text(path: &Path) -> Option<String> {
    let bytes = read_checked(path, MAX_BYTES, Owner::RootOrSelf).unwrap_or_else(|refusal| {
        tracing::warn!("{refusal}");
        None
    })?;
    Some(String::from_utf8_lossy(&bytes).trim().chars().take(MAX_SHOWN).collect())
}
