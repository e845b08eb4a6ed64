//! What nodeagent has begun, and how long device-op waits after it has failed.

use std::collections::BTreeMap;

use schemas::{
    Agent, CommandState, DeviceAction, DeviceActionState, DeviceOpStatus, Operation, Source, parse,
};

use super::{CALM, HEARD, Judge};
use crate::device::Device;
use crate::kernel;
use crate::world::{MINUTE, SECOND};

/// The pause may begin and end so much later than it seems.
const MOMENT: u64 = 2 * SECOND;
/// An operation that ended serves the commands for it that came until then.
const SERVES: u64 = 2 * MINUTE;

/// A command: source, operation, counter.
type Named = (Source, Operation, u32);

/// What nodeagent has begun, and has failed with.
#[derive(Debug, Default)]
pub(super) struct Trials {
    /// When it began an operation last.
    begun: BTreeMap<Operation, u64>,
    /// When a command of the controller was given first.
    given: BTreeMap<(Operation, u32), u64>,
    /// The state of its action.
    state: DeviceActionState,
    /// The command with which it has failed last, how often in a row, and when.
    failed: Option<Named>,
    failures: u32,
    failed_at: u64,
    /// Its disk may have taken no record of that.
    is_disk_bad: bool,
    /// Its action may be one of the boot before.
    is_old: bool,
}

impl Trials {
    /// It begins an operation.
    pub(super) fn begins(&mut self, operation: Operation) {
        self.begun.insert(operation, kernel::now());
    }

    /// Its disk took no writes at some time in this boot, or was slow.
    pub(super) const fn has_a_bad_disk(&self) -> bool {
        self.is_disk_bad
    }

    /// True if nodeagent prepares what was handed over to it, or is past that.
    pub(super) const fn is_prepared(&self, is_running: bool) -> bool {
        match self.state {
            DeviceActionState::Idle => false,
            DeviceActionState::Taken => is_running,
            DeviceActionState::Acting | DeviceActionState::Done | DeviceActionState::Failed => true,
        }
    }

    /// Somebody gave a command, or took one back.
    pub(super) fn commanded(&mut self, command: Option<(Operation, u32)>) {
        self.failed = None;
        if let Some(command) = command {
            self.given.entry(command).or_insert_with(kernel::now);
        }
    }

    /// What a boot has begun stays known.
    pub(super) fn begins_boot(&mut self) {
        (self.failed, self.state, self.is_disk_bad) = (None, DeviceActionState::default(), false);
    }

    /// A boot begins, and `/run` is kept or not.
    pub(super) const fn keeps_run(&mut self, keeps_run: bool) {
        self.is_old = keeps_run;
    }

    /// Sees its action. Returns how often it has failed if it takes the command again too early: the pause doubles with
    /// each failure.
    fn see(&mut self, action: &DeviceAction, boot_id: &str, retry: u64) -> Option<u32> {
        self.is_old &= action.boot_id != boot_id;
        let is_new = std::mem::replace(&mut self.state, action.state) != action.state;
        let named = action.command.filter(|_| action.content_tree_uuid.is_empty())?;
        let named = (action.source, named, action.counter);
        match action.state {
            DeviceActionState::Failed if is_new => {
                let is_again = self.failed.replace(named) == Some(named);
                self.failures = if is_again { self.failures + 1 } else { 1 };
                self.failed_at = kernel::now();
                None
            }
            DeviceActionState::Acting => {
                // Its record says that it has begun.
                self.begins(named.1);
                None
            }
            DeviceActionState::Taken if is_new && self.failed == Some(named) && !self.is_disk_bad => {
                let pause = retry << (self.failures - 1).min(8);
                (kernel::now() + MOMENT < self.failed_at + pause).then_some(self.failures)
            }
            _ => None,
        }
    }

    /// A command of the controller that device-op calls done although nodeagent did not begin it.
    fn not_done(&self, status: &DeviceOpStatus) -> Option<(Operation, u32)> {
        let is_done = |line: &&schemas::CommandLine| {
            let is_of_controller = line.source == Source::Controller && line.operation != Operation::Reboot;
            is_of_controller && line.state == CommandState::Done
        };
        let done = status.commands.iter().filter(is_done).map(|line| (line.operation, line.counter));
        let mut known = done.filter_map(|command| Some((command, *self.given.get(&command)?)));
        let was_begun = |operation: &Operation, since: u64| {
            self.begun.get(operation).is_some_and(|begun| *begun + SERVES >= since)
        };
        known.find(|((operation, _), since)| !was_begun(operation, *since)).map(|(command, _)| command)
    }
}

impl Judge {
    /// The disk of a device takes no writes, or is slow.
    pub(crate) fn disk_is_bad(&mut self, device: usize) {
        self.devices[device].trials.is_disk_bad = true;
    }

    /// "An action of another boot is over."
    pub(super) fn judge_action_of_boot(&mut self, index: usize, device: &Device) {
        let known = &mut self.devices[index];
        let is_calm = known.disturbed_at + CALM < kernel::now();
        if known.trials.is_old && is_calm && device.runs_for(Agent::Nodeagent) > HEARD {
            known.trials.is_old = false;
            let action = device.text("/run/nodeagent/DeviceAction/global.json").unwrap_or_default();
            if !action.is_empty() {
                let what = format!("{}: {action}", device.node);
                self.complain("an action of another boot is over", &what);
            }
        }
    }

    /// Judges what a file says of commands.
    pub(super) fn judge_commands(&mut self, index: usize, device: &Device, path: &str, content: &[u8]) {
        let retry = self.limits.retry;
        let known = &mut self.devices[index];
        if path.ends_with("/DeviceAction/global.json") {
            let too_early =
                parse(content).ok().and_then(|action| known.trials.see(&action, &device.boot_id(), retry));
            if let Some(failures) = too_early {
                let later = (kernel::now() - known.trials.failed_at) / SECOND;
                let what = format!("{} tries again {later} s after failure {failures}", device.node);
                self.complain("a node is not drained for nothing", &what);
            }
        } else if path.ends_with("/DeviceOpStatus/global.json")
            && let Some((operation, counter)) =
                parse(content).ok().and_then(|status| known.trials.not_done(&status))
        {
            known.trials.given.remove(&(operation, counter));
            let what = format!("device {index}: {operation} {counter}");
            self.complain("a command that is reported as done was carried out", &what);
        }
    }
}
