//! Lists the topics of a device: the folders and sockets below `/run` and `/persist/status`.

use std::collections::BTreeSet;
use std::fs::{self, DirEntry};
use std::io;
use std::path::Path;

use pubsub::{Persistence, Root, TopicKey, TopicPlace, TopicSocket};
use schemas::check_of;

/// The suffix of a socket's file name.
const SOCKET_SUFFIX: &str = ".sock";

/// The result of a search for topics.
#[derive(Debug, Default)]
pub struct Found {
    /// The topics, sorted by agent and name; the one in `/run` comes first.
    pub topics: Vec<FoundTopic>,
    /// Folders that could not be read, each with the reason.
    pub problems: Vec<String>,
}

/// A topic.
#[derive(Debug)]
pub struct FoundTopic {
    /// Its folder and socket.
    pub place: TopicPlace,
    /// Number of files with the name of an item; None if there is only a socket.
    pub items: Option<usize>,
    /// The state of its socket.
    pub socket: TopicSocket,
}

/// Lists all topics, or those of one agent.
///
/// `/run` has many folders that belong to no agent. A folder counts as a topic in any of these cases: its agent has a
/// lock, a touch file or persistent topics; the folder holds an item or a restart counter; its socket exists; or our
/// schemas know its name.
pub fn find(root: &Root, only: Option<&str>) -> Found {
    let mut found = Found::default();
    for agent in agents(root, &mut found.problems) {
        if only.is_none_or(|only| only == agent) {
            of_agent(root, &agent, only.is_some(), &mut found);
        }
    }
    found
}

/// The sockets of this agent that a process serves, with the process.
pub fn served_of(root: &Root, agent: &str) -> Vec<(TopicPlace, TopicSocket)> {
    let topics = find(root, Some(agent)).topics.into_iter();
    let served = topics.filter(|topic| matches!(topic.socket, TopicSocket::Served(_)));
    served.map(|topic| (topic.place, topic.socket)).collect()
}

/// The names of folders that may belong to an agent.
fn agents(root: &Root, problems: &mut Vec<String>) -> BTreeSet<String> {
    let mut agents = BTreeSet::new();
    for folder in ["/run", "/persist/status"] {
        agents.extend(names(&root.join(folder), problems).folders);
    }
    agents
}

fn of_agent(root: &Root, agent: &str, is_asked_for: bool, found: &mut Found) {
    let is_agent = is_agent(root, agent);
    let mut problems = Vec::new();
    let volatile = names(&root.agent_folder(agent, Persistence::Volatile), &mut problems);
    // Most folders that cannot be read belong to no agent.
    if is_agent || is_asked_for {
        found.problems.append(&mut problems);
    }
    let persistent = names(&root.agent_folder(agent, Persistence::Persistent), &mut found.problems);
    let topics: BTreeSet<&String> =
        volatile.folders.iter().chain(&persistent.folders).chain(&volatile.sockets).collect();
    for topic in topics {
        let place = |persistence| TopicPlace::named(root, agent, topic, persistence).ok();
        let (Some(volatile_place), Some(persistent_place)) =
            (place(Persistence::Volatile), place(Persistence::Persistent))
        else {
            continue;
        };
        // The locks are in the folder of agent `ebb`.
        if volatile_place.folder() == root.lock_folder() {
            continue;
        }
        let traces = Traces {
            is_sure: is_agent || check_of(topic).is_some(),
            folder: volatile.folders.contains(topic).then(|| contents(&volatile_place, &mut found.problems)),
            persistent: persistent
                .folders
                .contains(topic)
                .then(|| contents(&persistent_place, &mut found.problems)),
            socket: socket_at(&volatile_place),
        };
        found.topics.extend(traces.topics(volatile_place, persistent_place));
    }
}

/// The files of one possible topic.
struct Traces {
    /// The name alone shows that it is a topic.
    is_sure: bool,
    folder: Option<Contents>,
    persistent: Option<Contents>,
    socket: TopicSocket,
}

impl Traces {
    fn topics(self, volatile: TopicPlace, persistent: TopicPlace) -> Vec<FoundTopic> {
        let mut topics = Vec::new();
        if self.is_volatile() {
            let items = self.folder.map(|contents| contents.items);
            topics.push(FoundTopic { place: volatile, items, socket: self.socket.clone() });
        }
        if let Some(contents) = self.persistent {
            topics.push(FoundTopic { place: persistent, items: Some(contents.items), socket: self.socket });
        }
        topics
    }

    /// True if there is a topic of this name below /run.
    const fn is_volatile(&self) -> bool {
        let is_served = matches!(self.socket, TopicSocket::Served(_));
        let has_socket = !matches!(self.socket, TopicSocket::Absent);
        match &self.folder {
            Some(contents) => self.is_sure || contents.has_any || has_socket,
            // The socket of a persistent topic is below /run, too.
            None => self.persistent.is_none() && (is_served || self.is_sure && has_socket),
        }
    }
}

/// The socket of a topic. A file that is not a topic's socket counts as missing.
fn socket_at(place: &TopicPlace) -> TopicSocket {
    let socket = place.look_at_socket();
    if socket == TopicSocket::Foreign { TopicSocket::Absent } else { socket }
}

/// True if the folder has the files of an agent (lock, touch file or persistent topics), which other programs do not
/// create.
fn is_agent(root: &Root, agent: &str) -> bool {
    let status = root.agent_folder(agent, Persistence::Persistent);
    [root.lock(agent), root.touch(agent), status].iter().any(|path| may_exist(path))
}

/// The names in a folder.
#[derive(Default)]
struct Names {
    folders: BTreeSet<String>,
    /// The names of the sockets, without their suffix.
    sockets: BTreeSet<String>,
}

fn names(folder: &Path, problems: &mut Vec<String>) -> Names {
    let mut names = Names::default();
    each(folder, problems, |entry| {
        let Ok(name) = entry.file_name().into_string() else { return };
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            names.folders.insert(name);
        } else if let Some(topic) = name.strip_suffix(SOCKET_SUFFIX) {
            names.sockets.insert(topic.to_owned());
        }
    });
    names
}

/// The contents of a topic's folder.
#[derive(Default)]
struct Contents {
    items: usize,
    has_any: bool,
}

fn contents(place: &TopicPlace, problems: &mut Vec<String>) -> Contents {
    let mut contents = Contents::default();
    let restarted = place.restarted();
    each(&place.folder(), problems, |entry| {
        let name = entry.file_name();
        let is_item = TopicKey::of_file(&name).is_some();
        contents.items += usize::from(is_item);
        contents.has_any |= is_item || Some(name.as_os_str()) == restarted.file_name();
    });
    contents
}

/// Calls `visit` for each entry of a folder; a missing folder has no entries.
fn each(folder: &Path, problems: &mut Vec<String>, mut visit: impl FnMut(&DirEntry)) {
    let listed = fs::read_dir(folder).and_then(|entries| {
        for entry in entries {
            visit(&entry?);
        }
        Ok(())
    });
    if let Err(error) = listed
        && error.kind() != io::ErrorKind::NotFound
    {
        let hint = if error.kind() == io::ErrorKind::PermissionDenied { " (are you root?)" } else { "" };
        problems.push(format!("cannot list {}: {error}{hint}", text::path(folder)));
    }
}

/// True if the path exists, or if that cannot be found out.
pub fn may_exist(path: &Path) -> bool {
    match path.symlink_metadata() {
        Ok(_) => true,
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}
