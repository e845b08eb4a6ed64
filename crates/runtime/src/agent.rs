//! Starts an agent: all checks before its first step.

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use nix::errno::Errno;
use nix::unistd::{AccessFlags, access};
use pubsub::{AgentLock, Kept, LockError, Persistence, Root, common_moment};
use schemas::agent::shown;
use thiserror::Error;

use crate::boot::{BootIdError, boot_id, machine_id};
use crate::error_chain;
use crate::flags::AgentFlags;
use crate::liveness::{BEAT, Liveness};
use crate::settings::{Problem, SettingsWatch};
use crate::signals::{Overdue, Stop};
use crate::zedbox::{ZedboxError, check_zedbox};

/// A started agent, which holds its lock. Dropping the last handle of its context releases the lock.
#[derive(Debug)]
pub struct Agent {
    context: AgentContext,
}

/// The context of an agent, for its `run`. Clones share it.
#[derive(Clone, Debug)]
pub struct AgentContext(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    name: String,
    root: Root,
    lock: AgentLock,
    boot_id: String,
    machine_id: Option<String>,
    settings: SettingsWatch,
    liveness: Liveness,
    is_beside_zedbox: bool,
    /// The folders that the agent needs in order to run.
    folders: Vec<PathBuf>,
}

/// The reason why an agent does not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// EVE's zedbox is running, and `--beside-zedbox` was not given.
    #[error("cannot start {}", shown(agent))]
    Zedbox {
        /// Wire name of the agent.
        agent: String,
        /// The error of the check.
        source: ZedboxError,
    },
    /// Another process runs as this agent, or the lock cannot be taken.
    #[error("cannot start {}", shown(agent))]
    Lock {
        /// Wire name of the agent.
        agent: String,
        /// The error of the lock.
        source: LockError,
    },
    /// The boot id is not known, so no record can be assigned to a boot.
    #[error("cannot start {}", shown(agent))]
    BootId {
        /// Wire name of the agent.
        agent: String,
        /// The error of the read.
        source: BootIdError,
    },
    /// All mistakes on the command line.
    #[error("cannot start {}: {}", shown(agent), Lines(problems))]
    Flags {
        /// Wire name of the agent.
        agent: String,
        /// The mistakes.
        problems: Vec<Problem>,
    },
}

impl StartError {
    /// The exit code of the program: 2 for a mistake on the command line, otherwise 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Flags { .. } => 2,
            Self::Zedbox { .. } | Self::Lock { .. } | Self::BootId { .. } => 1,
        }
    }
}

impl Agent {
    /// Takes the lock of agent `name` (EVE's name: `zedkube`, `zedagent`, `nodeagent`, `baseosmgr`), writes its
    /// pid file, loads and follows its settings, and begins to give signs of life. Call it in a tokio runtime.
    ///
    /// Mistakes in settings files are logged; those on the command line are an error.
    #[expect(
        clippy::unused_async,
        reason = "it starts tasks: async keeps it from being called outside a runtime"
    )]
    pub async fn start(name: &str, flags: &AgentFlags) -> Result<Self, StartError> {
        let root = flags.root();
        let agent = || name.to_owned();
        if !flags.beside_zedbox {
            check_zedbox(&root).map_err(|source| StartError::Zedbox { agent: agent(), source })?;
        }
        let lock =
            AgentLock::acquire(&root, name).map_err(|source| StartError::Lock { agent: agent(), source })?;
        let boot_id = boot_id(&root).map_err(|source| StartError::BootId { agent: agent(), source })?;
        let settings = SettingsWatch::start(root.clone(), flags.clone());
        let problems = settings.loaded().bad_flags();
        if !problems.is_empty() {
            return Err(StartError::Flags { agent: agent(), problems });
        }
        let mut touch = vec![root.touch(name)];
        if flags.beside_zedbox {
            touch.push(root.eves_touch(name));
            if let Err(error) = lock.write_eves_pid() {
                tracing::warn!("{}; EVE's watchdog does not see this process", error_chain(&error));
            }
        }
        let own =
            [Persistence::Volatile, Persistence::Persistent].map(|place| root.agent_folder(name, place));
        let parts = Parts {
            name: agent(),
            // A folder that does not exist at the start is not needed.
            folders: own
                .into_iter()
                .filter(|folder| folder.is_dir())
                .chain([root.lock_folder_of(name)])
                .collect(),
            machine_id: machine_id(&root),
            liveness: Liveness::start(touch),
            is_beside_zedbox: flags.beside_zedbox,
            root,
            lock,
            boot_id,
            settings,
        };
        Ok(Self { context: AgentContext(Arc::new(parts)) })
    }

    /// The context for the `run` function of the agent.
    pub fn context(&self) -> AgentContext {
        self.context.clone()
    }

    /// Runs the agent's loop until it ends, or for at most [`crate::signals::STOP_LIMIT`] after `stop` was requested.
    /// Requests the stop itself if another process has taken the agent's lock.
    pub async fn run<F, W>(self, stop: Stop, run: F) -> Result<W::Output, Overdue>
    where
        F: FnOnce(AgentContext, Stop) -> W,
        W: Future,
    {
        tokio::spawn(keep_lock(Arc::downgrade(&self.context.0), stop.clone()));
        stop.limit(run(self.context, stop.clone())).await
    }
}

/// True if the folder is gone and cannot be created again. systemd mounts an agent's own folders as writable parts of a
/// file system that is read-only for the agent; a folder that is removed is not mounted any more.
fn is_cut_off(folder: &Path) -> bool {
    let is_gone =
        |path: &Path| fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound);
    let Some(above) = folder.ancestors().find(|above| !is_gone(above)) else { return false };
    above != folder && access(above, AccessFlags::W_OK) == Err(Errno::EROFS)
}

/// Checks at each beat that the agent's folders and its lock file exist, because other processes may remove them.
async fn keep_lock(agent: Weak<Parts>, stop: Stop) {
    while let Some(parts) = agent.upgrade() {
        if let Some(folder) = parts.folders.iter().find(|folder| is_cut_off(folder)) {
            tracing::error!(
                "the folder {} was removed, and {} may not create it: it ends, so that its service manager creates \
                 the folder and starts it again",
                folder.display(),
                shown(&parts.name)
            );
            stop.request();
            return;
        }
        let (name, lock) = (shown(&parts.name), parts.root.lock(&parts.name));
        match parts.lock.keep() {
            Ok(Kept::InPlace) => {}
            Ok(Kept::MadeAgain) => {
                tracing::warn!("the lock file {} was removed: {name} has created it again", lock.display());
            }
            Err(error @ LockError::Held { .. }) => {
                tracing::error!(
                    "{error}: the lock file was removed, and another process took it; this one ends"
                );
                stop.request();
                return;
            }
            Err(error @ (LockError::Reader { .. } | LockError::Store(_))) => {
                tracing::warn!(
                    "the lock file was removed and cannot be created again: {}",
                    error_chain(&error)
                );
            }
        }
        drop(parts);
        tokio::time::sleep_until(common_moment(BEAT)).await;
    }
}

impl AgentContext {
    /// EVE's name of the agent.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The root folder of all files.
    pub fn root(&self) -> &Root {
        &self.0.root
    }

    /// The agent's lock, which a publisher needs as proof that this process is the agent.
    pub fn lock(&self) -> &AgentLock {
        &self.0.lock
    }

    /// The id of this boot.
    pub fn boot_id(&self) -> &str {
        &self.0.boot_id
    }

    /// The id of this machine, if it is set.
    pub fn machine_id(&self) -> Option<&str> {
        self.0.machine_id.as_deref()
    }

    /// The settings, which follow their files.
    pub fn settings(&self) -> SettingsWatch {
        self.0.settings.clone()
    }

    /// The liveness handle, for the agent's loop.
    pub fn liveness(&self) -> &Liveness {
        &self.0.liveness
    }

    /// True if EVE's own agents run here, too.
    pub fn is_beside_zedbox(&self) -> bool {
        self.0.is_beside_zedbox
    }
}

/// The problems, each on a line of its own if there are several.
struct Lines<'a>(&'a [Problem]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

#[cfg(test)]
mod tests;
