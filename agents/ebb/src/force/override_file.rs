//! The override file: written once, and taken by zedkube under another name.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use anyhow::{Context, bail};
use pubsub::store::{StoreError, create_folder, write_durably};
use pubsub::{Backup, Root};
use runtime::error_chain;
use schemas::{DrainOverride, to_bytes};
use serde::Serialize;

use crate::screen;

/// Where the file of one order goes.
#[derive(Debug)]
pub(super) struct OverrideFile {
    folder: PathBuf,
    /// Where it goes when the first folder cannot be written to.
    other_folder: PathBuf,
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
        let mut file = Self { folder, other_folder, name, applied_before: None, refused_before: None };
        file.note_what_is_there();
        Ok(file)
    }

    fn note_what_is_there(&mut self) {
        self.applied_before = self.identity(DrainOverride::APPLIED);
        self.refused_before = self.identity(DrainOverride::REFUSED);
    }

    /// Writes the order; by way of the folder that does not survive a boot where the other one is on a disk that is full,
    /// read-only or broken: a failing disk is when a device is to go down.
    ///
    /// # Errors
    /// Neither can be written to.
    pub(super) fn write(&mut self, order: &DrainOverride) -> anyhow::Result<()> {
        let Err(error) = self.try_write(order) else { return Ok(()) };
        // A failed write may have left it all the same, and it would count twice.
        self.take_back();
        let (broken, error) = (self.folder.clone(), error_chain(&error));
        self.folder.clone_from(&self.other_folder);
        self.note_what_is_there();
        let folder = self.folder.display();
        self.try_write(order).with_context(|| format!("{error}; nor does it go by way of {folder}"))?;
        screen::say(&format!(
            "{} cannot be written to ({error}): the order goes by way of {folder}",
            broken.display()
        ));
        Ok(())
    }

    fn try_write(&self, order: &DrainOverride) -> Result<(), StoreError> {
        create_folder(&self.folder)?;
        write_durably(&self.folder, self.name, &to_bytes(order), Backup::None)
    }

    /// Removes the file if nobody has taken it, so that an order that was told as failed does not count later. Says
    /// whether it was there.
    pub(super) fn take_back(&self) -> bool {
        fs::remove_file(self.path()).is_ok()
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
