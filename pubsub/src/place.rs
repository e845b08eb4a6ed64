//! Where things are: every absolute path of the system, below one root.

use std::path::{Component, Path, PathBuf};

use schemas::Topic;

use crate::TopicKey;

/// Whether a topic survives a boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Persistence {
    /// Below `/run`, which every boot empties.
    Volatile,
    /// Below `/persist/status`, with a backup copy of each item.
    Persistent,
}

/// The value of `--root`. Tests and demos live below another folder; nothing outside it is touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Root {
    /// A root at `path`. Nothing is created.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The root itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Whether this is the real `/`, and so the running system.
    pub fn is_system(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// An absolute path of the system, below this root. `..` cannot leave it.
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

    /// The folder that holds the items of a topic.
    pub fn folder<T: Topic>(&self, agent: &str, persistence: Persistence) -> PathBuf {
        self.agent_folder(agent, persistence).join(T::NAME)
    }

    /// The file of one item.
    pub fn item<T: Topic>(&self, agent: &str, persistence: Persistence, key: &TopicKey) -> PathBuf {
        self.folder::<T>(agent, persistence).join(key.file_name())
    }

    /// The restart counter of a topic: a decimal, absent at 0.
    pub fn restarted<T: Topic>(&self, agent: &str, persistence: Persistence) -> PathBuf {
        self.folder::<T>(agent, persistence).join("restarted")
    }

    /// The socket of a topic, below `/run` also when the topic is persistent.
    pub fn socket<T: Topic>(&self, agent: &str) -> PathBuf {
        self.join(format!("/run/{agent}/{}.sock", T::NAME))
    }

    /// Touched by an agent's loop while it makes progress.
    pub fn touch(&self, agent: &str) -> PathBuf {
        self.join(format!("/run/{agent}.touch"))
    }

    /// The process id of an agent, decimal.
    pub fn pid(&self, agent: &str) -> PathBuf {
        self.join(format!("/run/{agent}.pid"))
    }

    /// Locked by an agent for its life.
    pub fn lock(&self, agent: &str) -> PathBuf {
        self.join(format!("/run/{agent}.lock"))
    }
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
        check(&Root::new("/").join("/run/zedkube.lock"), "/run/zedkube.lock");
        assert!(Root::new("/").is_system());
        assert!(!root.is_system());
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
            &root.restarted::<NodeDrainStatus>(agent::ZEDKUBE, volatile),
            "/r/run/zedkube/NodeDrainStatus/restarted",
        );
        check(&root.socket::<NodeDrainStatus>(agent::ZEDKUBE), "/r/run/zedkube/NodeDrainStatus.sock");
        check(&root.touch(agent::ZEDKUBE), "/r/run/zedkube.touch");
        check(&root.pid(agent::ZEDKUBE), "/r/run/zedkube.pid");
        check(&root.lock(agent::ZEDKUBE), "/r/run/zedkube.lock");
    }
}
