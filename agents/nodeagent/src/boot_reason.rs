//! What a device leaves behind for its next boot, in EVE's files: why it goes down, in words (`/persist/reboot-reason`) and
//! by name (`/persist/boot-reason`); and in a folder of its own how often it has booted (`restartcounter`).
//!
//! All of it is best effort: nothing is decided by it.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use pubsub::store::{create_folder, remove_durably, write_durably};
use pubsub::{Backup, Owner, Persistence, Root, StoreError, read_checked};
use schemas::agent::NODEAGENT;
use schemas::{BootReason, GoTime, Operation};

use crate::standing::Command;

const FOLDER: &str = "/persist";
const REASON: &str = "reboot-reason";
const NAME: &str = "boot-reason";
/// Where EVE counts boots: what it has counted goes on.
const EVES_COUNTER: &str = "/persist/status/restartcounter";
const COUNTER: &str = "restartcounter";
/// EVE writes a sentence, at most with a stack in another file.
const MAX_BYTES: u64 = 64 * 1024;
/// So much of it is told on.
const MAX_SHOWN: usize = 1024;
/// How EVE begins the reason of a reboot that was wanted.
const NORMAL: &str = "NORMAL: ";

/// What the last boot left behind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Left {
    /// Why it went down; empty when nobody has said so.
    pub(crate) reason: String,
    /// When that was written.
    pub(crate) at: GoTime,
    /// The same as a number; nothing without one.
    pub(crate) boot_reason: Option<BootReason>,
}

/// Leaves the reason of a command behind, durably: its name first, for whoever finds the words finds the name as well.
pub(crate) fn leave(root: &Root, command: &Command) -> Result<(), StoreError> {
    let folder = root.join(FOLDER);
    create_folder(&folder)?;
    write_durably(&folder, NAME, boot_reason(command).name().as_bytes(), Backup::None)?;
    write_durably(&folder, REASON, format!("{NORMAL}{}", command.reason).as_bytes(), Backup::None)
}

fn boot_reason(command: &Command) -> BootReason {
    match command.operation {
        Operation::Reboot if !command.image.is_empty() => BootReason::UPDATE,
        Operation::Reboot => BootReason::REBOOT_COMMAND,
        Operation::Poweroff => BootReason::POWEROFF_COMMAND,
        Operation::Shutdown => BootReason::NONE,
    }
}

/// What was left. What cannot be read is as if it were not there.
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

/// The reason that was left, without the word of EVE's before it; nothing if there is none.
pub(crate) fn reason(root: &Root) -> Option<String> {
    let reason = read(root).reason;
    let plain = reason.strip_prefix(NORMAL).map(str::to_owned);
    Some(plain.unwrap_or(reason)).filter(|reason| !reason.is_empty())
}

/// Removes all of it.
pub(crate) fn forget(root: &Root) -> Result<(), StoreError> {
    let folder = root.join(FOLDER);
    remove_durably(&folder, REASON)?;
    remove_durably(&folder, NAME).map(|_| ())
}

/// How often this device has booted before this boot; nothing when nobody has counted.
pub(crate) fn boots_before(root: &Root) -> Option<u32> {
    let own = text(&counter_folder(root).join(COUNTER)).or_else(|| text(&root.join(EVES_COUNTER)));
    own.map(|count| count.parse().unwrap_or(0))
}

/// Counts this boot, unless that was done.
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
