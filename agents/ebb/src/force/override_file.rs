//! The override file: written once, and taken by zedkube under another name.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use anyhow::bail;
use pubsub::store::{create_folder, write_durably};
use pubsub::{Backup, Root};
use schemas::{DrainOverride, to_bytes};
use serde::Serialize;

/// Where the file of one order goes.
#[derive(Debug)]
pub(super) struct OverrideFile {
    folder: PathBuf,
    name: &'static str,
    /// The files that earlier orders left, to tell ours from them.
    applied_before: Option<Identity>,
    refused_before: Option<Identity>,
}

/// What zedkube did with the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum Taken {
    /// It acts on it.
    Applied,
    /// It does not.
    Refused,
    /// It has not looked yet.
    Not,
}

/// Device and inode: a rename keeps them, and an older file that still exists has others.
type Identity = (u64, u64);

impl OverrideFile {
    /// # Errors
    /// An order waits to be taken, whoever gave it.
    pub(super) fn new(root: &Root) -> anyhow::Result<Self> {
        let [folder, other_folder] = DrainOverride::FOLDERS.map(|folder| root.join(folder));
        for path in [&folder, &other_folder]
            .into_iter()
            .flat_map(|folder| DrainOverride::FILES.map(|name| folder.join(name)))
        {
            if fs::symlink_metadata(&path).is_ok() {
                bail!(
                    "an override waits there already: {}; zedkube takes it within a second, else remove it",
                    path.display()
                );
            }
        }
        let [name, _] = DrainOverride::FILES;
        let mut file = Self { folder, name, applied_before: None, refused_before: None };
        file.applied_before = file.identity(DrainOverride::APPLIED);
        file.refused_before = file.identity(DrainOverride::REFUSED);
        Ok(file)
    }

    /// # Errors
    /// It cannot be written.
    pub(super) fn write(&self, order: &DrainOverride) -> anyhow::Result<()> {
        create_folder(&self.folder)?;
        write_durably(&self.folder, self.name, &to_bytes(order), Backup::None)?;
        Ok(())
    }

    /// The file itself.
    pub(super) fn path(&self) -> PathBuf {
        self.folder.join(self.name)
    }

    /// The folder, to watch it.
    pub(super) fn folder(&self) -> &PathBuf {
        &self.folder
    }

    /// What has become of it. A file that somebody removed was not taken.
    pub(super) fn taken(&self) -> Taken {
        let is_ours = |end, before: Option<Identity>| {
            let now = self.identity(end);
            now.is_some() && now != before
        };
        if is_ours(DrainOverride::APPLIED, self.applied_before) {
            Taken::Applied
        } else if is_ours(DrainOverride::REFUSED, self.refused_before) {
            Taken::Refused
        } else {
            Taken::Not
        }
    }

    fn identity(&self, end: &str) -> Option<Identity> {
        let metadata = fs::symlink_metadata(self.folder.join(format!("{}{end}", self.name))).ok()?;
        Some((metadata.dev(), metadata.ino()))
    }
}
