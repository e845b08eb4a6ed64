//! The means that take the device down, in the order in which they are tried.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pubsub::Root;
use runtime::settings::{self, DeviceSettings};
use runtime::{clock, device_actions, error_chain, program};
use schemas::{DeviceAction, DeviceLine, GoTime, Operation};

use crate::current_command::Command;
use crate::facts::Outcome;
use crate::kernel_device::{Kernel, KernelDevice, kernel_of};
use crate::logind_device::LogindDevice;

/// A means to carry a command out. It may be used again for the same command.
#[derive(Debug)]
pub(crate) enum Means {
    /// systemd-logind, which stops all services in order.
    Logind(LogindDevice),
    /// `device.command`: if it succeeds, the device is going down.
    Command(settings::Command),
    /// `device.shutdown`: if it succeeds, the shutdown is done.
    Shutdown(settings::Command),
    /// Holds the place of `device.command` where it is not set.
    NoCommand,
    /// reboot(2), which stops no service.
    Kernel(KernelDevice),
    /// A shutdown without `device.shutdown`: the drain has stopped the applications already.
    NothingToStop,
    /// A dry run, which only appends a line to `device-actions.jsonl`, once per boot, operation and counter.
    DryRun { folder: PathBuf, boot_id: String },
}

impl Means {
    /// The name for people.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Logind(_) => "systemd-logind",
            Self::Command(_) => "device.command",
            Self::Shutdown(_) => "device.shutdown",
            Self::NoCommand => "device.command (not set)",
            Self::Kernel(_) => "reboot(2)",
            Self::NothingToStop => "nothing to stop",
            Self::DryRun { .. } => DeviceAction::DRY_RUN,
        }
    }

    /// True if this device has the means, as far as that is known without using it.
    pub(crate) async fn is_there(&self) -> bool {
        match self {
            Self::Logind(logind) => logind.is_there().await,
            Self::Kernel(kernel) => kernel.is_there(),
            Self::NoCommand => false,
            Self::Command(_) | Self::Shutdown(_) | Self::NothingToStop | Self::DryRun { .. } => true,
        }
    }

    /// Carries a command out. Dropping the future ends the program, if one runs.
    ///
    /// [`Outcome::Started`] means that the device should be gone within [`crate::policy::STILL_UP`].
    pub(crate) async fn carry_out(&self, command: &Command) -> Outcome {
        match self {
            Self::Logind(logind) => logind.take_down(command.operation).await,
            Self::Command(program) => {
                let begun = format!("{} has ended well", program.program);
                run(program, command, Outcome::Started(begun)).await
            }
            Self::Shutdown(program) => run(program, command, Outcome::Done).await,
            Self::NoCommand => Outcome::Absent("no device.command".to_owned()),
            Self::Kernel(kernel) => kernel.take_down(command.operation).await,
            Self::NothingToStop => Outcome::Done,
            Self::DryRun { folder, boot_id } => write_down(folder, boot_id, command),
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
        return vec![Means::DryRun { folder: root.join("/persist"), boot_id: boot_id.to_owned() }];
    }
    match operation {
        Operation::Reboot | Operation::Poweroff => going_down(settings, root, kernel_of(root)),
        Operation::Shutdown => {
            vec![settings.shutdown.clone().map_or(Means::NothingToStop, Means::Shutdown)]
        }
    }
}

/// Every means has a fixed place, whether the device has it or not, because DeviceAction names it by number, while
/// settings and services may change.
fn going_down(settings: &DeviceSettings, root: &Root, kernel: Option<Arc<dyn Kernel>>) -> Vec<Means> {
    let command = settings.command.clone().map_or(Means::NoCommand, Means::Command);
    let logind = Means::Logind(LogindDevice::new(root));
    let kernel = kernel.map(|kernel| Means::Kernel(KernelDevice::new(kernel)));
    [logind, command].into_iter().chain(kernel).collect()
}

/// Runs the program of a setting.
async fn run(program: &settings::Command, command: &Command, on_success: Outcome) -> Outcome {
    match program::run(program, &command.environment(), Duration::MAX).await {
        Ok(_) => on_success,
        Err(error) => Outcome::Failed(error),
    }
}

fn write_down(folder: &Path, boot_id: &str, command: &Command) -> Outcome {
    let line = DeviceLine {
        action: command.operation.name().to_owned(),
        reason: command.reason.clone(),
        counter: command.counter,
        source: command.source,
        content_tree_uuid: String::new(),
        boot_id: boot_id.to_owned(),
        at: GoTime::from(clock::wall()),
    };
    match device_actions::write_down(folder, &line) {
        Ok(()) => Outcome::Done,
        Err(error) => Outcome::Failed(error_chain(&error)),
    }
}

#[cfg(test)]
mod tests {
    use schemas::parse;

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

    #[test]
    fn a_dry_run_leaves_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let command = Command::new(Operation::Reboot, 1, Some("why".to_owned()));
        assert_eq!(write_down(&folder.path().join("persist"), "boot-1", &command), Outcome::Done);
        let text =
            std::fs::read_to_string(folder.path().join("persist").join("device-actions.jsonl")).unwrap();
        let line: DeviceLine = parse(text.as_bytes()).unwrap();
        assert_eq!((line.action.as_str(), line.reason.as_str(), line.counter), ("reboot", "why", 1));
    }
}
