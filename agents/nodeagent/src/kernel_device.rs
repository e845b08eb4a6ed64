//! The kernel itself as the last means of the device: `sync(2)`, then `reboot(2)`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pubsub::Root;
use schemas::Operation;
use tokio::sync::oneshot;

use crate::progress::Outcome;

/// A sync that takes longer waits for a disk that is gone, or a server. It must end before
/// [`crate::progress::STILL_UP`], or else the device would never go down.
const SYNC_LIMIT: Duration = Duration::from_mins(4);

/// What takes the whole machine down at once. Nothing in this crate's tests implements it for real.
pub(crate) trait Kernel: fmt::Debug + Send + Sync {
    /// Why it must not be tried, if so.
    fn refusal(&self) -> Option<String>;
    /// Writes all file systems.
    fn sync(&self);
    /// Takes the machine down. Whoever comes back from it says why.
    fn take_down(&self, switch: Switch) -> String;
}

/// What becomes of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Switch {
    /// Down and up again.
    Restart,
    /// Down and off.
    Off,
}

/// The kernel of the machine that this is the root of.
#[cfg(not(test))]
pub(crate) fn kernel_of(root: &Root) -> Option<Arc<dyn Kernel>> {
    running_system(root, Arc::new(machine::Machine))
}

/// The tests of this crate are built without the call.
#[cfg(test)]
pub(crate) fn kernel_of(_: &Root) -> Option<Arc<dyn Kernel>> {
    None
}

/// Nothing below another root: no test and no demo takes the machine down that it runs on.
fn running_system(root: &Root, kernel: Arc<dyn Kernel>) -> Option<Arc<dyn Kernel>> {
    root.is_system().then_some(kernel)
}

/// Syncs, then asks the kernel. No program is stopped in order; the drain has moved away what could be moved.
#[derive(Debug)]
pub(crate) struct KernelDevice {
    kernel: Arc<dyn Kernel>,
    sync_limit: Duration,
}

impl KernelDevice {
    pub(crate) fn new(kernel: Arc<dyn Kernel>) -> Self {
        Self { kernel, sync_limit: SYNC_LIMIT }
    }

    /// It may be asked at all.
    pub(crate) fn is_there(&self) -> bool {
        self.kernel.refusal().is_none()
    }

    /// Whoever comes back from it has failed.
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

    /// In a thread of its own: neither the loop nor the end of nodeagent waits for a disk. It only syncs, so
    /// what is left of it when this future is dropped does no harm.
    async fn sync(&self) {
        let (sender, synced) = oneshot::channel();
        let kernel = Arc::clone(&self.kernel);
        let spawned = std::thread::Builder::new().name("sync".to_owned()).spawn(move || {
            kernel.sync();
            if sender.send(()).is_err() {
                tracing::debug!("nobody waits for this sync any more");
            }
        });
        if let Err(error) = spawned {
            tracing::error!("cannot start a thread for sync: {error}; going down without");
        } else if tokio::time::timeout(self.sync_limit, synced).await.is_err() {
            tracing::error!(
                "sync has not ended within {} s; going down all the same",
                self.sync_limit.as_secs()
            );
        }
    }
}

/// The real one.
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

/// From `/proc/self/status` and the link `/proc/self/ns/pid`.
fn refusal(status: &str, namespace: &str) -> Option<String> {
    /// `CAP_SYS_BOOT` of `linux/capability.h`.
    const SYS_BOOT: u64 = 1 << 22;
    /// `PID_NS_INIT_INO` of `linux/nsfs.h`: the number of the first one, on every Linux.
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
