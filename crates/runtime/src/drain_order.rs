//! An operator's order about a drain on its way: as a file that zedkube takes under another name, or, beside a zedkube that
//! hangs, as a pass for the gate of each agent that asks.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use pubsub::store::{StoreError, create_folder, write_durably};
use pubsub::{Backup, Persistence, Publisher, Root, TopicKey, read_item};
use schemas::{
    Agent, DrainOverride, DrainRequester, NodeDrainRequest, PassGate, SCHEMA_VERSION, agent, to_bytes,
};
use serde::Serialize;
use thiserror::Error;

use crate::AgentFlags;
use crate::boot::{BootIdError, boot_id};
use crate::error_chain;
use crate::liveness::silent_for;
use crate::peers::{CannotSpeak, speak_as};
use crate::settings::load;

/// The file of one order.
#[derive(Debug)]
pub struct OverrideFile {
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
pub enum Taken {
    /// It acts on it.
    Applied,
    /// It does not.
    Refused,
    /// It has not looked yet.
    Not,
}

/// Another order waits to be taken, whoever gave it.
#[derive(Debug, Error)]
#[error("an override waits there already: {}; zedkube takes it within a second, else remove it", .0.display())]
pub struct OrderWaits(PathBuf);

/// The order can be written to neither of the two folders.
#[derive(Debug, Error)]
#[error("{error}; nor does it go by way of {}", other_folder.display())]
pub struct CannotOrder {
    error: String,
    other_folder: PathBuf,
    source: StoreError,
}

/// The first folder could not be written to, and the order went by way of the other one.
#[derive(Debug)]
pub struct Detour {
    /// The first folder.
    pub broken: PathBuf,
    /// Why it could not be written to.
    pub error: String,
    /// The other one.
    pub folder: PathBuf,
}

/// Device and inode: a rename keeps them, and an older file that still exists has others.
type Identity = (u64, u64);

impl OverrideFile {
    /// Where the next order goes; nothing is written.
    ///
    /// # Errors
    /// An order waits to be taken, whoever gave it.
    pub fn new(root: &Root) -> Result<Self, OrderWaits> {
        let [folder, other_folder] = DrainOverride::FOLDERS.map(|folder| root.join(folder));
        let files = |folder: &PathBuf| DrainOverride::FILES.map(|name| folder.join(name));
        for path in [&folder, &other_folder].into_iter().flat_map(files) {
            if fs::symlink_metadata(&path).is_ok() {
                return Err(OrderWaits(path));
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
    pub fn write(&mut self, order: &DrainOverride) -> Result<Option<Detour>, CannotOrder> {
        let Err(error) = self.try_write(order) else { return Ok(None) };
        // A failed write may have left it all the same, and it would count twice.
        self.take_back();
        let (broken, error) = (self.folder.clone(), error_chain(&error));
        self.folder.clone_from(&self.other_folder);
        self.note_what_is_there();
        let folder = self.folder.clone();
        match self.try_write(order) {
            Ok(()) => Ok(Some(Detour { broken, error, folder })),
            Err(source) => Err(CannotOrder { error, other_folder: folder, source }),
        }
    }

    fn try_write(&self, order: &DrainOverride) -> Result<(), StoreError> {
        create_folder(&self.folder)?;
        write_durably(&self.folder, self.name, &to_bytes(order), Backup::None)
    }

    /// Removes the file if nobody has taken it, so that an order that was told as failed does not count later. Says
    /// whether it was there.
    pub fn take_back(&self) -> bool {
        fs::remove_file(self.path()).is_ok()
    }

    /// The file itself.
    pub fn path(&self) -> PathBuf {
        self.folder.join(self.name)
    }

    /// The folder, to watch it.
    pub fn folder(&self) -> &PathBuf {
        &self.folder
    }

    /// What has become of it. A file that somebody removed was not taken.
    pub fn taken(&self) -> Taken {
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

    /// What became of it, for good: what is told as not done must not be done later. A file that is gone when it is to be
    /// taken back was taken in this moment.
    pub fn settle(&self) -> Taken {
        match self.taken() {
            Taken::Not if !self.take_back() => self.taken(),
            taken @ (Taken::Applied | Taken::Refused | Taken::Not) => taken,
        }
    }

    fn identity(&self, end: &str) -> Option<Identity> {
        let metadata = fs::symlink_metadata(self.folder.join(format!("{}{end}", self.name))).ok()?;
        Some((metadata.dev(), metadata.ino()))
    }
}

/// Why requests could not be let pass.
#[derive(Debug, Error)]
pub enum CannotPass {
    /// The override would count a second time, for a later request, when zedkube goes on.
    #[error("cannot take the override back that zedkube does not take")]
    TakeBack(#[source] std::io::Error),
    /// Somebody else writes as the operator just now.
    #[error(transparent)]
    Speak(#[from] CannotSpeak),
    /// The boot in which it counts is not known.
    #[error(transparent)]
    BootId(#[from] BootIdError),
    /// The agent's name is no key.
    #[error(transparent)]
    Key(#[from] pubsub::KeyError),
    /// A pass cannot be written.
    #[error(transparent)]
    Publish(#[from] pubsub::PublishError),
}

/// Since when zedkube's loop has shown no progress, if that is as long as the gate calls hung.
pub fn zedkube_hung_for(root: &Root) -> Option<Duration> {
    let flags = AgentFlags { root: root.path().to_owned(), ..AgentFlags::default() };
    let limit = load(root, &flags, None).settings.drain.start_timeout;
    silent_for(root, agent::ZEDKUBE).filter(|silent| limit <= *silent)
}

/// Lets each request that stands now and that the order is for pass the gate of its agent, once, without zedkube. First
/// the file is taken back that zedkube has not taken. Gives the agents whose requests pass; nothing is changed when there
/// are none.
///
/// # Errors
/// The order cannot be taken back or written: then the file stays, and counts when zedkube looks.
pub fn let_pass(root: &Root, order: &DrainOverride, file: &OverrideFile) -> Result<Vec<Agent>, CannotPass> {
    let lock = speak_as(root, agent::EBB)?;
    let requests = standing(root, order.requested_by);
    if requests.is_empty() {
        return Ok(Vec::new());
    }
    match fs::remove_file(file.path()) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(CannotPass::TakeBack(error)),
        Ok(()) | Err(_) => {}
    }
    let boot_id = boot_id(root)?;
    let mut passes = Publisher::<PassGate>::open(root, agent::EBB, Persistence::Volatile, &lock)?;
    let mut whose = Vec::new();
    for (agent, requested_by, request) in requests {
        let pass = PassGate {
            schema_version: SCHEMA_VERSION,
            boot_id: boot_id.clone(),
            requested_by,
            requested_at: request.requested_at,
            by: order.by.clone(),
            reason: order.reason.clone(),
        };
        passes.publish(&TopicKey::parse(agent.wire_name())?, &pass)?;
        whose.push(agent);
    }
    Ok(whose)
}

/// The requests that stand now and that an order for `covered` is for, with their agents.
fn standing(root: &Root, covered: DrainRequester) -> Vec<(Agent, DrainRequester, NodeDrainRequest)> {
    let is_covered = |by: &DrainRequester| covered == DrainRequester::None || covered == *by;
    let standing = [DrainRequester::DeviceOp, DrainRequester::Update].into_iter().filter(is_covered);
    let standing = standing.filter_map(|by| {
        let agent = by.agent()?;
        let item = read_item(root, agent.wire_name(), Persistence::Volatile, &TopicKey::global());
        Some((agent, by, item.ok().flatten()?))
    });
    standing.collect()
}
