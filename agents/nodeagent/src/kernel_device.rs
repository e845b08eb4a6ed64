//! The kernel as the last means to take the device down: `sync(2)`, then `reboot(2)`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pubsub::Root;
use schemas::Operation;
use tokio::sync::oneshot;

use crate::facts::Outcome;

/// Time limit of sync. A sync that takes longer waits for a disk or a server that does not answer. The limit is less
/// than [`crate::policy::STILL_UP`], because nodeagent must call reboot before that time is over.
const SYNC_LIMIT: Duration = Duration::from_mins(4);

/// The system calls that take the whole machine down at once. Tests of this crate use a fake.
pub(crate) trait Kernel: fmt::Debug + Send + Sync {
    /// The reason why reboot(2) must not be called; None if it may.
    fn refusal(&self) -> Option<String>;
    /// Calls sync(2) for all file systems.
    fn sync(&self);
    /// Takes the machine down. It returns only if that failed, with the reason.
    fn take_down(&self, switch: Switch) -> String;
}

/// The argument of reboot(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Switch {
    Restart,
    Off,
}

/// The kernel, if `root` is the root of the running system.
#[cfg(not(test))]
pub(crate) fn kernel_of(root: &Root) -> Option<Arc<dyn Kernel>> {
    running_system(root, Arc::new(machine::Machine))
}

/// In tests there is no kernel: they are built without the system call.
#[cfg(test)]
pub(crate) fn kernel_of(_: &Root) -> Option<Arc<dyn Kernel>> {
    None
}

/// None below any other root, so that no test and no demo takes down the machine that it runs on.
fn running_system(root: &Root, kernel: Arc<dyn Kernel>) -> Option<Arc<dyn Kernel>> {
    root.is_system().then_some(kernel)
}

/// Calls sync(2), then reboot(2). No program is stopped in order; the drain has moved away the pods that can move.
#[derive(Debug)]
pub(crate) struct KernelDevice {
    kernel: Arc<dyn Kernel>,
    sync_limit: Duration,
}

impl KernelDevice {
    pub(crate) fn new(kernel: Arc<dyn Kernel>) -> Self {
        Self { kernel, sync_limit: SYNC_LIMIT }
    }

    /// True if reboot(2) may be called.
    pub(crate) fn is_there(&self) -> bool {
        self.kernel.refusal().is_none()
    }

    /// Calls reboot(2). If it returns, it has failed.
    pub(crate) async fn take_down(&self, operation: Operation) -> Outcome {
        let switch = match operation {
            Operation::Reboot => Switch::Restart,
            Operation::Poweroff => Switch::Off,
            Operation::Shutdown => return Outcome::Failed("the kernel stops no applications".to_owned()),
        };
        if let Some(refusal) = self.kernel.refusal() {
            return Outcome::Failed(format!("reboot(2) is not tried: {refusal}"));
        }
        self.sync().await;
        Outcome::Failed(format!("reboot(2) does not {operation}: {}", self.kernel.take_down(switch)))
    }

    /// Syncs in a thread of its own, so that neither the loop nor the end of nodeagent waits for a disk. If this
    /// future is dropped, the thread may go on: it only syncs, which does no harm.
    async fn sync(&self) {
        let (sender, synced) = oneshot::channel();
        let kernel = Arc::clone(&self.kernel);
        let spawned = std::thread::Builder::new().name("sync".to_owned()).spawn(move || {
            kernel.sync();
            if sender.send(()).is_err() {
                tracing::debug!("sync(2) has ended, but nodeagent does not wait for it any more");
            }
        });
        if let Err(error) = spawned {
            tracing::error!("cannot start a thread for sync(2): {error}; calling reboot(2) without it");
        } else if tokio::time::timeout(self.sync_limit, synced).await.is_err() {
            tracing::error!(
                "sync has not ended within {} s; going down all the same",
                self.sync_limit.as_secs()
            );
        }
    }
}

/// The real system calls.
#[cfg(not(test))]
mod machine {
    use nix::sys::reboot::{RebootMode, reboot};

    use super::{Kernel, Switch, refusal};

    #[derive(Debug)]
    pub(super) struct Machine;

    impl Kernel for Machine {
        fn refusal(&self) -> Option<String> {
            let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
            let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
            refusal(&status, &namespace.to_string_lossy())
        }

        fn sync(&self) {
            nix::unistd::sync();
        }

        fn take_down(&self, switch: Switch) -> String {
            let mode = match switch {
                Switch::Restart => RebootMode::RB_AUTOBOOT,
                Switch::Off => RebootMode::RB_POWER_OFF,
            };
            match reboot(mode) {
                Ok(never) => match never {},
                Err(error) => error.to_string(),
            }
        }
    }
}

/// The reason why reboot(2) must not be called, from `/proc/self/status` and the link `/proc/self/ns/pid`.
fn refusal(status: &str, namespace: &str) -> Option<String> {
    /// `CAP_SYS_BOOT` of `linux/capability.h`.
    const SYS_BOOT: u64 = 1 << 22;
    /// `PID_NS_INIT_INO` of `linux/nsfs.h`: the inode number of the first pid namespace, on every Linux.
    const FIRST_NAMESPACE: &str = "pid:[4026531836]";
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
        .unwrap_or(0);
    if effective & SYS_BOOT == 0 {
        return Some("this process does not have CAP_SYS_BOOT".to_owned());
    }
    (namespace != FIRST_NAMESPACE).then(|| {
        "this process is in a container: the call would end the container and not the device".to_owned()
    })
}

#[cfg(test)]
mod tests;
