//! Every path of the system, below one root.

use std::borrow::Cow;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use schemas::Topic;
use thiserror::Error;

use crate::TopicKey;
use crate::seqpacket::{self, TopicSocket};

/// Name of the restart counter in a topic's folder.
pub(crate) const RESTARTED: &str = "restarted";

/// Name of an agent's pid file in its folder of locks.
pub(crate) const PID: &str = "pid";

/// Whether a topic survives a boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Persistence {
    /// The topic is below `/run`, which every boot empties.
    Volatile,
    /// The topic is below `/persist/status`, with a backup of each item.
    Persistent,
}

/// The root folder: the value of `--root`. Tests and demos run below another folder than `/`; nothing outside of it is
/// touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Root {
    /// A root at `path`. The folder is not created.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Path of the root.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// True if this is the real `/`, and so the running system.
    pub fn is_system(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// Path of a system file below this root. `..` cannot leave the root.
    pub fn join(&self, absolute: impl AsRef<Path>) -> PathBuf {
        let mut inside = PathBuf::new();
        for component in absolute.as_ref().components() {
            match component {
                Component::Normal(name) => inside.push(name),
                Component::ParentDir => {
                    inside.pop();
                }
                Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
            }
        }
        self.0.join(inside)
    }

    /// The folder that holds the topics of an agent.
    pub fn agent_folder(&self, agent: &str, persistence: Persistence) -> PathBuf {
        self.join(match persistence {
            Persistence::Volatile => format!("/run/{agent}"),
            Persistence::Persistent => format!("/persist/status/{agent}"),
        })
    }

    /// The place of an agent's topic.
    pub fn topic<T: Topic>(&self, agent: &str, persistence: Persistence) -> TopicPlace {
        let (root, agent, topic) = (self.clone(), agent.to_owned(), Cow::Borrowed(T::NAME));
        TopicPlace { root, agent, topic, persistence }
    }

    /// The folder that holds the items of a topic.
    pub fn folder<T: Topic>(&self, agent: &str, persistence: Persistence) -> PathBuf {
        self.topic::<T>(agent, persistence).folder()
    }

    /// The file of one item.
    pub fn item<T: Topic>(&self, agent: &str, persistence: Persistence, key: &TopicKey) -> PathBuf {
        self.topic::<T>(agent, persistence).item(key)
    }

    /// The folder that has a folder for each agent, with its lock, pid and touch file.
    fn lock_folder(&self) -> PathBuf {
        self.join("/run/ebb/lock")
    }

    /// The folder of an agent's lock, pid and touch file. Only that agent writes there.
    pub fn lock_folder_of(&self, agent: &str) -> PathBuf {
        self.lock_folder().join(agent)
    }

    /// The touch file of an agent: its main loop touches the file while it makes progress.
    pub fn touch(&self, agent: &str) -> PathBuf {
        self.lock_folder_of(agent).join("touch")
    }

    /// The pid file of an agent: its process id as a decimal number.
    pub fn pid(&self, agent: &str) -> PathBuf {
        self.lock_folder_of(agent).join(PID)
    }

    /// The lock file of an agent, locked as long as the agent runs.
    pub fn lock(&self, agent: &str) -> PathBuf {
        self.lock_folder_of(agent).join("lock")
    }

    /// Path where EVE's watchdog expects the touch file of an agent; written only beside EVE's zedbox.
    pub fn eves_touch(&self, agent: &str) -> PathBuf {
        self.join(format!("/run/{agent}.touch"))
    }

    /// Path where EVE's watchdog expects the process id of an agent; written only beside EVE's zedbox.
    pub fn eves_pid(&self, agent: &str) -> PathBuf {
        self.join(format!("/run/{agent}.pid"))
    }
}

/// One topic of one agent: its name, and the place of its items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPlace {
    root: Root,
    agent: String,
    topic: Cow<'static, str>,
    persistence: Persistence,
}

/// The error for a text that cannot be the name of an agent or a topic.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{}` names no {what}: accepted are letters, digits, `-`, `_` and `.`, at most {MAX_NAME} bytes", text.escape_debug())]
pub struct NameError {
    text: String,
    what: &'static str,
}

/// The longest name of an agent or a topic, in bytes: together with `.sock` it fits into the address of a socket.
const MAX_NAME: usize = 64;

impl TopicPlace {
    /// The topic with this name, for tools that do not know the topic's type.
    pub fn named(root: &Root, agent: &str, topic: &str, persistence: Persistence) -> Result<Self, NameError> {
        let name = |text: &str, what| {
            is_name(text).then(|| text.to_owned()).ok_or_else(|| NameError { text: text.to_owned(), what })
        };
        let (agent, topic) = (name(agent, "agent")?, Cow::Owned(name(topic, "topic")?));
        Ok(Self { root: root.clone(), agent, topic, persistence })
    }

    /// The root below which the topic is.
    pub const fn root(&self) -> &Root {
        &self.root
    }

    /// Name of the agent that publishes the topic.
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// Name of the topic.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The folder of the items.
    pub fn folder(&self) -> PathBuf {
        self.root.agent_folder(&self.agent, self.persistence).join(&*self.topic)
    }

    /// The file of one item.
    pub fn item(&self, key: &TopicKey) -> PathBuf {
        self.folder().join(key.file_name())
    }

    /// The file of the restart counter: a decimal number; no file means 0.
    pub fn restarted(&self) -> PathBuf {
        self.folder().join(RESTARTED)
    }

    /// The state of the topic's socket now. If a process serves the socket, this connects to it and hangs up at once.
    pub fn look_at_socket(&self) -> TopicSocket {
        seqpacket::look_at(&self.socket())
    }

    /// Path of the topic's socket. It is below `/run` also if the topic is persistent.
    pub fn socket(&self) -> PathBuf {
        self.root.agent_folder(&self.agent, Persistence::Volatile).join(format!("{}.sock", self.topic))
    }
}

impl fmt::Display for TopicPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of {}", self.topic, self.agent)
    }
}

fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !text.is_empty() && text.len() <= MAX_NAME && !text.starts_with('.') && text.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use schemas::{NodeDrainStatus, agent};

    use super::*;

    #[track_caller]
    fn check(path: &Path, expected: &str) {
        assert_eq!(path, Path::new(expected));
    }

    #[test]
    fn every_path_is_below_the_root() {
        let root = Root::new("/srv/test");
        check(&root.join("/etc/ebb"), "/srv/test/etc/ebb");
        check(&root.join("etc/ebb"), "/srv/test/etc/ebb");
        check(&root.join("/../../etc/./ebb"), "/srv/test/etc/ebb");
        check(&root.join("/a/../../b"), "/srv/test/b");
        check(&Root::new("/").join("/run/zedkube"), "/run/zedkube");
        assert!(Root::new("/").is_system());
        assert!(!root.is_system());
    }

    #[test]
    fn a_topic_by_name_stays_in_its_folder() {
        let root = Root::new("/r");
        let named = |agent: &str, topic: &str| TopicPlace::named(&root, agent, topic, Persistence::Volatile);
        check(&named("zedclient", "Any-Topic_1.2").unwrap().folder(), "/r/run/zedclient/Any-Topic_1.2");
        let long = "t".repeat(65);
        for bad in ["", ".", "..", "a/b", "a b", "é", "a\0", &long] {
            assert!(named(bad, "Topic").is_err() && named("agent", bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn places_are_those_of_the_wire_contract() {
        let root = Root::new("/r");
        let key = TopicKey::global();
        let (volatile, persistent) = (Persistence::Volatile, Persistence::Persistent);
        check(
            &root.item::<NodeDrainStatus>(agent::ZEDKUBE, volatile, &key),
            "/r/run/zedkube/NodeDrainStatus/global.json",
        );
        check(
            &root.item::<NodeDrainStatus>(agent::ZEDKUBE, persistent, &key),
            "/r/persist/status/zedkube/NodeDrainStatus/global.json",
        );
        check(
            &root.topic::<NodeDrainStatus>(agent::ZEDKUBE, volatile).restarted(),
            "/r/run/zedkube/NodeDrainStatus/restarted",
        );
        for persistence in [volatile, persistent] {
            let topic = root.topic::<NodeDrainStatus>(agent::ZEDKUBE, persistence);
            check(&topic.socket(), "/r/run/zedkube/NodeDrainStatus.sock");
            assert_eq!(topic.to_string(), "NodeDrainStatus of zedkube");
        }
        check(&root.touch(agent::ZEDKUBE), "/r/run/ebb/lock/zedkube/touch");
        check(&root.pid(agent::ZEDKUBE), "/r/run/ebb/lock/zedkube/pid");
        check(&root.lock(agent::ZEDKUBE), "/r/run/ebb/lock/zedkube/lock");
        check(&root.eves_touch(agent::ZEDKUBE), "/r/run/zedkube.touch");
        check(&root.eves_pid(agent::ZEDKUBE), "/r/run/zedkube.pid");
    }
}
