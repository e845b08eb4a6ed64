//! An operator's override of a drain in progress. It is a file that zedkube renames when it takes it; if zedkube
//! does not run or hangs, it is a pass for the gate of each agent with a request.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pubsub::store::{Renamed, StoreError, create_folder, rename_judged, write_durably};
use pubsub::{
    AgentLock, Backup, MAX_FILE_BYTES, Owner, Persistence, Presence, Publisher, Root, TopicKey, presence,
    read_checked, read_item,
};
use schemas::{
    Agent, DrainOverride, DrainRequester, NodeDrainRequest, PassGate, SCHEMA_VERSION, agent, to_bytes,
};
use serde::Serialize;
use thiserror::Error;

use crate::boot::{BootIdError, boot_id};
use crate::error_chain;

/// The file of one override.
#[derive(Debug)]
pub struct OverrideFile {
    folder: PathBuf,
    /// The folder to use if the first one cannot be written.
    other_folder: PathBuf,
    name: &'static str,
    written: Vec<u8>,
    /// The files that earlier overrides left, to tell them from this one.
    applied_before: Option<Identity>,
    refused_before: Option<Identity>,
}

/// End of the name that a file has while it is taken back.
const WITHDRAWN: &str = ".withdrawn";

/// The answer of zedkube to the override.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Taken {
    /// zedkube applied it.
    Applied,
    /// zedkube refused it.
    Refused,
    /// zedkube has not read it yet.
    Not,
}

/// An earlier override, of any operator, waits for zedkube.
#[derive(Debug, Error)]
#[error("an override waits there already: {}; zedkube takes it within a second, else remove it", .0.display())]
pub struct OrderWaits(PathBuf);

/// The override can be written to neither folder.
#[derive(Debug, Error)]
#[error("{error}; it cannot be written by way of {} either", other_folder.display())]
pub struct CannotOrder {
    error: String,
    other_folder: PathBuf,
    source: StoreError,
}

/// The first folder could not be written, and the override was written by way of the second one.
#[derive(Debug)]
pub struct Detour {
    /// The first folder.
    pub broken: PathBuf,
    /// The error of the first folder.
    pub error: String,
    /// The second folder.
    pub folder: PathBuf,
}

/// Device and inode of a file: a rename keeps them, and an older file that still exists has others.
type Identity = (u64, u64);

impl OverrideFile {
    /// The place of the next override. Nothing is written.
    ///
    /// # Errors
    /// An earlier override, of any operator, waits for zedkube.
    pub fn new(root: &Root) -> Result<Self, OrderWaits> {
        let [folder, other_folder] = DrainOverride::FOLDERS.map(|folder| root.join(folder));
        let files = |folder: &PathBuf| DrainOverride::FILES.map(|name| folder.join(name));
        for path in [&folder, &other_folder].into_iter().flat_map(files) {
            if fs::symlink_metadata(&path).is_ok() {
                return Err(OrderWaits(path));
            }
        }
        let [name, _] = DrainOverride::FILES;
        let mut file =
            Self { folder, other_folder, name, written: vec![], applied_before: None, refused_before: None };
        file.note_earlier_files();
        Ok(file)
    }

    fn note_earlier_files(&mut self) {
        self.applied_before = self.identity(DrainOverride::APPLIED);
        self.refused_before = self.identity(DrainOverride::REFUSED);
    }

    /// Writes the override. If the first folder is on a disk that is full, read-only or broken, it is written by way
    /// of the second folder, which a boot empties, because a failing disk is a reason to take a device down.
    ///
    /// # Errors
    /// Neither folder can be written.
    pub fn write(&mut self, order: &DrainOverride) -> Result<Option<Detour>, CannotOrder> {
        self.written = to_bytes(order);
        let Err(error) = self.try_write() else { return Ok(None) };
        // A failed write may have left the file, and the override would count twice.
        self.take_back();
        let (broken, error) = (self.folder.clone(), error_chain(&error));
        self.folder.clone_from(&self.other_folder);
        self.note_earlier_files();
        let folder = self.folder.clone();
        match self.try_write() {
            Ok(()) => Ok(Some(Detour { broken, error, folder })),
            Err(source) => Err(CannotOrder { error, other_folder: folder, source }),
        }
    }

    fn try_write(&self) -> Result<(), StoreError> {
        create_folder(&self.folder)?;
        write_durably(&self.folder, self.name, &self.written, Backup::None)
    }

    /// Removes the file if zedkube has not taken it, so that an override that was reported as failed does not count
    /// later. Returns true if the file existed. The override of another operator, who has replaced it, stays.
    pub fn take_back(&self) -> bool {
        self.withdraw().unwrap_or(false)
    }

    /// As [`Self::take_back`], but tells if the file cannot be removed.
    ///
    /// # Errors
    /// The file cannot be removed: zedkube would still take it.
    pub fn withdraw(&self) -> io::Result<bool> {
        let withdrawn = self.folder.join(format!("{}{WITHDRAWN}", self.name));
        let is_ours = |renamed: &Path| {
            read_checked(renamed, MAX_FILE_BYTES, Owner::Anybody)
                .is_ok_and(|found| found.is_some_and(|found| found == self.written))
        };
        match rename_judged(&self.path(), &withdrawn, is_ours) {
            Ok(Renamed::Judged) => fs::remove_file(withdrawn).map(|()| true),
            Ok(Renamed::Another) => Ok(false),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Ok(Renamed::Lost(error)) | Err(error) => Err(error),
        }
    }

    /// The path of the file.
    pub fn path(&self) -> PathBuf {
        self.folder.join(self.name)
    }

    /// The folder of the file, to watch it.
    pub fn folder(&self) -> &PathBuf {
        &self.folder
    }

    /// The answer of zedkube to the override. A file that was removed by hand counts as not taken.
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

    /// The final answer to what zedkube did. If zedkube has not taken the file, the file is removed, because an
    /// override that is reported as not applied must not be applied later. If the file is gone at that moment,
    /// zedkube has just taken it.
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

/// The reason why requests could not be let pass.
#[derive(Debug, Error)]
pub enum CannotPass {
    /// The boot id is not known, and a pass counts in one boot only.
    #[error(transparent)]
    BootId(#[from] BootIdError),
    /// The agent's name is not a valid key.
    #[error(transparent)]
    Key(#[from] pubsub::KeyError),
    /// A pass cannot be written.
    #[error(transparent)]
    Publish(#[from] pubsub::PublishError),
}

/// Lets each pending request that the override covers pass the gate of its agent, once, without zedkube. Returns the
/// agents whose requests pass.
///
/// # Errors
/// A pass cannot be written.
pub fn let_pass(root: &Root, order: &DrainOverride, lock: &AgentLock) -> Result<Vec<Agent>, CannotPass> {
    let boot_id = boot_id(root)?;
    let mut passes = Publisher::<PassGate>::open(root, agent::EBB, Persistence::Volatile, lock)?;
    let mut agents = Vec::new();
    for (agent, requested_by, request) in pending_requests(root, order.requested_by) {
        let pass = PassGate {
            schema_version: SCHEMA_VERSION,
            boot_id: boot_id.clone(),
            requested_by,
            requested_at: request.requested_at,
            by: order.by.clone(),
            reason: order.reason.clone(),
        };
        passes.publish(&TopicKey::parse(agent.wire_name())?, &pass)?;
        agents.push(agent);
    }
    Ok(agents)
}

/// Takes all passes back. Returns true if there was one.
///
/// # Errors
/// A pass cannot be removed.
pub fn let_none_pass(root: &Root, lock: &AgentLock) -> Result<bool, CannotPass> {
    let mut passes = Publisher::<PassGate>::open(root, agent::EBB, Persistence::Volatile, lock)?;
    let mut was_there = false;
    for agent in [agent::ZEDAGENT, agent::BASEOSMGR] {
        was_there |= passes.unpublish(&TopicKey::parse(agent)?)?;
    }
    Ok(was_there)
}

/// The pending requests that an override for `covered` applies to, with their agents. EVE's agents, which are known by
/// their sockets alone, read no passes.
fn pending_requests(root: &Root, covered: DrainRequester) -> Vec<(Agent, DrainRequester, NodeDrainRequest)> {
    let is_covered = |by: &DrainRequester| covered == DrainRequester::None || covered == *by;
    let covered = [DrainRequester::DeviceOp, DrainRequester::Update].into_iter().filter(is_covered);
    let pending = covered.filter_map(|by| {
        let agent = by.agent()?;
        if matches!(presence(root, agent.wire_name()), Ok(Presence::Served(_))) {
            return None;
        }
        let item = read_item(root, agent.wire_name(), Persistence::Volatile, &TopicKey::global());
        Some((agent, by, item.ok().flatten()?))
    });
    pending.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_override_is_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let by = |name: &str| DrainOverride { by: name.to_owned(), ..DrainOverride::default() };
        let mut file = OverrideFile::new(&root).unwrap();
        file.write(&by("alice")).unwrap();
        // As `echo >` of somebody who does not ask `ebb`.
        write_durably(&file.folder, file.name, &to_bytes(&by("bob")), Backup::None).unwrap();
        assert!(!file.take_back());
        assert_eq!(fs::read(file.path()).unwrap(), to_bytes(&by("bob")));
        file.write(&by("alice")).unwrap();
        assert!(file.take_back());
        assert_eq!(fs::read_dir(&file.folder).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_request_of_eves_agent_is_not_let_pass() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let of_boot = folder.path().join("proc/sys/kernel/random");
        create_folder(&of_boot).unwrap();
        write_durably(&of_boot, "boot_id", b"boot-1", Backup::None).unwrap();
        let ours = AgentLock::acquire(&root, agent::ZEDAGENT).unwrap();
        let requests =
            Publisher::<NodeDrainRequest>::open(&root, agent::ZEDAGENT, Persistence::Volatile, &ours);
        let mut requests = requests.and_then(Publisher::served).unwrap();
        let requested_by = DrainRequester::DeviceOp;
        let request = NodeDrainRequest { requested_by, ..NodeDrainRequest::default() };
        requests.publish(&TopicKey::global(), &request).unwrap();
        let lock = AgentLock::acquire(&root, agent::EBB).unwrap();
        let order = DrainOverride { requested_by: DrainRequester::None, ..DrainOverride::default() };
        let pass = || let_pass(&root, &order, &lock).unwrap();
        assert_eq!(pass(), [Agent::DeviceOp]);
        assert!(let_none_pass(&root, &lock).unwrap() && !let_none_pass(&root, &lock).unwrap());
        // Without our lock and process it is EVE's, which reads no passes.
        fs::remove_file(root.lock(agent::ZEDAGENT)).unwrap();
        fs::remove_file(root.pid(agent::ZEDAGENT)).unwrap();
        assert_eq!(pass(), []);
    }
}
