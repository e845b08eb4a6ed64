//! The means that take the device down, in the order in which they are tried.

use std::sync::Arc;

use pubsub::Root;
use runtime::settings::DeviceSettings;
use schemas::{DeviceAction, Operation};

use crate::command_device::CommandDevice;
use crate::dry_run::DryRun;
use crate::facts::Outcome;
use crate::kernel_device::{Kernel, KernelDevice, kernel_of};
use crate::logind_device::LogindDevice;
use crate::standing::Command;

/// A means to carry a command out. It may be used again for the same command.
#[derive(Debug)]
pub(crate) enum Means {
    /// systemd-logind, which stops all services in order.
    Logind(LogindDevice),
    /// `device.command` or `device.shutdown`.
    Command(CommandDevice),
    /// Holds the place of `device.command` where it is not set.
    NoCommand,
    /// reboot(2), which stops no service.
    Kernel(KernelDevice),
    /// A shutdown without `device.shutdown`: the drain has stopped the applications already.
    NothingToStop,
    /// A dry run, which only writes the command to a file.
    DryRun(DryRun),
}

impl Means {
    /// The name for people.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Logind(_) => "systemd-logind",
            Self::Command(command) => command.name(),
            Self::NoCommand => "device.command (not set)",
            Self::Kernel(_) => "reboot(2)",
            Self::NothingToStop => "nothing to stop",
            Self::DryRun(_) => DeviceAction::DRY_RUN,
        }
    }

    /// True if this device has the means, as far as that is known without using it.
    pub(crate) async fn is_there(&self) -> bool {
        match self {
            Self::Logind(logind) => logind.is_there().await,
            Self::Kernel(kernel) => kernel.is_there(),
            Self::NoCommand => false,
            Self::Command(_) | Self::NothingToStop | Self::DryRun(_) => true,
        }
    }

    /// Carries a command out. Dropping the future ends the program, if one runs.
    ///
    /// [`Outcome::Started`] means that the device should be gone within [`crate::policy::STILL_UP`].
    pub(crate) async fn carry_out(&self, command: &Command) -> Outcome {
        match self {
            Self::Logind(logind) => logind.take_down(command.operation).await,
            Self::Command(device) => device.run(command).await,
            Self::NoCommand => Outcome::Absent("no device.command".to_owned()),
            Self::Kernel(kernel) => kernel.take_down(command.operation).await,
            Self::NothingToStop => Outcome::Done,
            Self::DryRun(dry_run) => dry_run.write_down(command),
        }
    }
}

/// The means of this device for an operation, in the order in which they are tried: systemd-logind, which stops all
/// services in order, then `device.command`, then reboot(2), which stops no service.
///
/// A dry run is the only means then. reboot(2) is a means only if `root` is the root of the running system.
pub(crate) fn means(
    settings: &DeviceSettings,
    operation: Operation,
    dry_run: bool,
    root: &Root,
    boot_id: &str,
) -> Vec<Means> {
    if dry_run {
        return vec![Means::DryRun(DryRun::new(root, boot_id))];
    }
    match operation {
        Operation::Reboot | Operation::Poweroff => going_down(settings, root, kernel_of(root)),
        Operation::Shutdown => {
            let command = settings.shutdown.as_ref().map(CommandDevice::stays_up);
            vec![command.map_or(Means::NothingToStop, Means::Command)]
        }
    }
}

/// Every means has a fixed place, whether the device has it or not, because DeviceAction names it by number, while
/// settings and services may change.
fn going_down(settings: &DeviceSettings, root: &Root, kernel: Option<Arc<dyn Kernel>>) -> Vec<Means> {
    let command = settings.command.as_ref().map(CommandDevice::goes_down);
    let logind = Means::Logind(LogindDevice::new(root));
    let kernel = kernel.map(|kernel| Means::Kernel(KernelDevice::new(kernel)));
    [logind, command.map_or(Means::NoCommand, Means::Command)].into_iter().chain(kernel).collect()
}

#[cfg(test)]
mod tests {
    use runtime::settings;

    use super::*;
    use crate::kernel_device::Switch;

    fn program(program: &str) -> settings::Command {
        settings::Command { program: program.to_owned(), arguments: Vec::new() }
    }

    fn names(means: &[Means]) -> Vec<&'static str> {
        means.iter().map(Means::name).collect()
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
