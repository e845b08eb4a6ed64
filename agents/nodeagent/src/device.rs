//! The means that take the device down, in the order in which they are tried.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use pubsub::Root;
use runtime::settings::DeviceSettings;
use schemas::Operation;

use crate::command_device::CommandDevice;
use crate::dry_run::DryRun;
use crate::kernel_device::{Kernel, KernelDevice, kernel_of};
use crate::logind_device::LogindDevice;
use crate::progress::Outcome;
use crate::standing::Command;

/// One means. It may be used again for a command that it was used for before.
pub trait Device: fmt::Debug + Send + Sync {
    /// What a person calls it.
    fn name(&self) -> &'static str;

    /// Whether this device has it, as far as can be told without using it.
    fn is_there(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>>;

    /// Carries a command out. Dropping the future ends what can be ended.
    ///
    /// [`Outcome::Started`] means that the device should be gone within [`crate::progress::STILL_UP`].
    fn carry_out<'a>(&'a self, command: &'a Command) -> Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;
}

/// The means that this device has for an operation, first the one to try first: systemd-logind, which stops
/// everything in order, then `device.command`, then the kernel, which stops nothing.
///
/// A dry run has no other means beside it. The kernel is a means of the running system only, never of another root.
pub fn means(
    settings: &DeviceSettings,
    operation: Operation,
    dry_run: bool,
    root: &Root,
    boot_id: &str,
) -> Vec<Box<dyn Device>> {
    if dry_run {
        return vec![Box::new(DryRun::new(root, boot_id))];
    }
    match operation {
        Operation::Reboot | Operation::Poweroff => going_down(settings, root, kernel_of(root)),
        Operation::Shutdown => {
            let command = settings.shutdown.as_ref().map(CommandDevice::stays_up);
            vec![command.map_or_else(|| boxed(NothingToStop), boxed)]
        }
    }
}

/// Each has its place whether the device has it or not: it is named by its number while settings and services come
/// and go.
fn going_down(
    settings: &DeviceSettings,
    root: &Root,
    kernel: Option<Arc<dyn Kernel>>,
) -> Vec<Box<dyn Device>> {
    let command = settings.command.as_ref().map(CommandDevice::goes_down);
    let mut means = vec![boxed(LogindDevice::new(root)), command.map_or_else(|| boxed(NoCommand), boxed)];
    means.extend(kernel.map(|kernel| boxed(KernelDevice::new(kernel))));
    means
}

fn boxed(device: impl Device + 'static) -> Box<dyn Device> {
    Box::new(device)
}

/// The place of `device.command` where it is not set.
#[derive(Debug)]
struct NoCommand;

impl Device for NoCommand {
    fn name(&self) -> &'static str {
        "device.command (not set)"
    }

    fn is_there(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        Box::pin(std::future::ready(false))
    }

    fn carry_out<'a>(&'a self, _: &'a Command) -> Pin<Box<dyn Future<Output = Outcome> + Send + 'a>> {
        Box::pin(std::future::ready(Outcome::Absent("no device.command".to_owned())))
    }
}

/// A shutdown without a command: the drain has stopped the applications already.
#[derive(Debug)]
struct NothingToStop;

impl Device for NothingToStop {
    fn name(&self) -> &'static str {
        "nothing to stop"
    }

    fn is_there(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        Box::pin(std::future::ready(true))
    }

    fn carry_out<'a>(&'a self, _: &'a Command) -> Pin<Box<dyn Future<Output = Outcome> + Send + 'a>> {
        Box::pin(std::future::ready(Outcome::Done))
    }
}

#[cfg(test)]
mod tests {
    use runtime::settings;

    use super::*;
    use crate::kernel_device::Switch;

    fn program(program: &str) -> settings::Command {
        settings::Command { program: program.to_owned(), arguments: Vec::new() }
    }

    fn names(means: &[Box<dyn Device>]) -> Vec<&'static str> {
        means.iter().map(|device| device.name()).collect()
    }

    fn settings(command: bool) -> DeviceSettings {
        DeviceSettings {
            command: command.then(|| program("a")),
            shutdown: command.then(|| program("b")),
            ..DeviceSettings::default()
        }
    }

    #[track_caller]
    fn check(settings: &DeviceSettings, operation: Operation, dry_run: bool, expected: &[&str]) {
        let means = means(settings, operation, dry_run, &Root::new("/nowhere"), "boot");
        assert_eq!(names(&means), expected, "{operation}, dry run: {dry_run}");
    }

    #[test]
    fn which_means_a_device_has() {
        let (none, all) = (settings(false), settings(true));
        for operation in [Operation::Reboot, Operation::Poweroff] {
            check(&none, operation, false, &["systemd-logind", "device.command (not set)"]);
            check(&all, operation, false, &["systemd-logind", "device.command"]);
        }
        check(&none, Operation::Shutdown, false, &["nothing to stop"]);
        check(&all, Operation::Shutdown, false, &["device.shutdown"]);
        for operation in Operation::ALL {
            check(&all, operation, true, &["dry run"]);
        }
    }

    #[derive(Debug)]
    struct NoKernel;

    impl Kernel for NoKernel {
        fn refusal(&self) -> Option<String> {
            Some("a test".to_owned())
        }

        fn sync(&self) {}

        fn take_down(&self, _: Switch) -> String {
            "a test".to_owned()
        }
    }

    #[test]
    fn the_kernel_comes_last() {
        let root = Root::new("/nowhere");
        for (has_command, expected) in [(false, "device.command (not set)"), (true, "device.command")] {
            let means = going_down(&settings(has_command), &root, Some(Arc::new(NoKernel)));
            assert_eq!(names(&means), ["systemd-logind", expected, "reboot(2)"]);
        }
    }
}
