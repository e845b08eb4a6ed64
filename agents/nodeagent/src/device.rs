//! The means that take the device down, in the order in which they are tried.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use pubsub::Root;
use runtime::settings::DeviceSettings;
use schemas::Operation;

use crate::command_device::CommandDevice;
use crate::dry_run::DryRun;
use crate::progress::Outcome;
use crate::standing::Command;

/// One means. It may be used again for a command that it was used for before.
pub trait Device: fmt::Debug + Send {
    /// Carries a command out. Dropping the future ends what can be ended.
    ///
    /// [`Outcome::Started`] means that the device should be gone within [`crate::progress::STILL_UP`].
    fn carry_out<'a>(&'a self, command: &'a Command) -> Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;
}

/// The means that this device has for an operation, first the one to try first.
///
/// A dry run has no other means beside it.
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
        Operation::Reboot | Operation::Poweroff => {
            settings.command.iter().map(|command| boxed(CommandDevice::goes_down(command))).collect()
        }
        Operation::Shutdown => {
            let command = settings.shutdown.as_ref().map(CommandDevice::stays_up);
            vec![command.map_or_else(|| boxed(NothingToStop), boxed)]
        }
    }
}

fn boxed(device: impl Device + 'static) -> Box<dyn Device> {
    Box::new(device)
}

/// A shutdown without a command: the drain has stopped the applications already.
#[derive(Debug)]
struct NothingToStop;

impl Device for NothingToStop {
    fn carry_out<'a>(&'a self, _: &'a Command) -> Pin<Box<dyn Future<Output = Outcome> + Send + 'a>> {
        Box::pin(std::future::ready(Outcome::Done))
    }
}

#[cfg(test)]
mod tests {
    use runtime::settings;

    use super::*;

    fn program(program: &str) -> settings::Command {
        settings::Command { program: program.to_owned(), arguments: Vec::new() }
    }

    #[track_caller]
    fn check(settings: &DeviceSettings, operation: Operation, dry_run: bool, expected: &[&str]) {
        let means = means(settings, operation, dry_run, &Root::new("/nowhere"), "boot");
        let names: Vec<String> = means
            .iter()
            .map(|device| format!("{device:?}").split([' ', '{']).next().unwrap_or_default().to_owned())
            .collect();
        assert_eq!(names, expected, "{operation}, dry run: {dry_run}");
    }

    #[test]
    fn which_means_a_device_has() {
        let none = DeviceSettings::default();
        let all = DeviceSettings {
            command: Some(program("a")),
            shutdown: Some(program("b")),
            ..DeviceSettings::default()
        };
        for operation in [Operation::Reboot, Operation::Poweroff] {
            check(&none, operation, false, &[]);
            check(&all, operation, false, &["CommandDevice"]);
        }
        check(&none, Operation::Shutdown, false, &["NothingToStop"]);
        check(&all, Operation::Shutdown, false, &["CommandDevice"]);
        for operation in Operation::ALL {
            check(&all, operation, true, &["DryRun"]);
        }
    }
}
