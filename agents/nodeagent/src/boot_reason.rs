//! The reason that a device leaves behind for its next boot, as EVE does: `/persist/reboot-reason`.

use pubsub::store::{create_folder, remove_durably, write_durably};
use pubsub::{Backup, Owner, Root, StoreError, read_checked};

const FOLDER: &str = "/persist";
const FILE_NAME: &str = "reboot-reason";
/// EVE writes a sentence, at most with a stack in another file.
const MAX_BYTES: u64 = 64 * 1024;
/// So much of it is told on.
const MAX_SHOWN: usize = 1024;

/// Leaves a reason behind, durably.
pub(crate) fn leave(root: &Root, reason: &str) -> Result<(), StoreError> {
    let folder = root.join(FOLDER);
    create_folder(&folder)?;
    write_durably(&folder, FILE_NAME, reason.as_bytes(), Backup::None)
}

/// The reason that was left, if any. One that cannot be read is none.
pub(crate) fn read(root: &Root) -> Option<String> {
    let path = root.join(FOLDER).join(FILE_NAME);
    match read_checked(&path, MAX_BYTES, Owner::RootOrSelf) {
        Ok(bytes) => bytes.map(|bytes| shown(&bytes)),
        Err(refusal) => {
            tracing::warn!("{refusal}");
            None
        }
    }
}

/// Removes it.
pub(crate) fn forget(root: &Root) -> Result<(), StoreError> {
    remove_durably(&root.join(FOLDER), FILE_NAME).map(|_| ())
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().chars().take(MAX_SHOWN).collect()
}
