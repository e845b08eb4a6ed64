//! What happens in a history.

use schemas::{Agent, Operation};

use crate::eve;
use crate::kernel::DiskFault;
use crate::trouble::Trouble;

/// Something that happens at its time.
#[derive(Clone, Debug)]
pub(super) enum Happening {
    Command {
        device: usize,
        operation: Operation,
        counter: u32,
        is_wanted: bool,
    },
    /// The controller takes back what it wants of the device.
    TakeBack(usize),
    /// The controller wants this version to run; the number counts its retries.
    Image(usize, &'static str, u32),
    /// The device goes down in this boot, because a program has taken it down.
    GoesDown(usize, u32, Operation),
    /// A program that writes an image ends in this boot: its number, the version, and whether that works.
    Written(usize, u32, u64, String, bool),
    /// The agent stands still for so many nanoseconds, as after SIGSTOP.
    Stop(usize, Agent, u64),
    /// The controller publishes its last command again, as after each boot.
    Repeat(usize),
    Start(usize, Agent),
    /// EVE's zedkube goes on with its work, in this boot.
    Eve(usize, u32, eve::Step),
    Kill(usize, Agent),
    /// The agent dies in the middle of the next call but so many.
    KillSoon(usize, Agent, u32),
    /// The agent dies, and stays away for so long that nobody waits for it any more.
    Away(usize, Agent),
    PowerCut(usize),
    NodeReady(usize),
    /// Something is wrong with the cluster, or all is well again.
    Cluster(Trouble),
    /// Somebody does something by hand.
    Person(usize, Deed),
    /// Something happens to a device.
    Device(usize, Mishap),
}

impl Happening {
    /// True for what goes on by itself: if all is done, a history does not wait for it. A program that hangs, and was
    /// killed, would end in an hour.
    pub(super) const fn goes_on_by_itself(&self) -> bool {
        matches!(self, Self::Eve(..) | Self::Written(..))
    }

    /// The device that it concerns, and its kind, for the coverage; None if it is no fault.
    pub(super) fn fault(&self) -> Option<(Option<usize>, String)> {
        match self {
            Self::Command { device, is_wanted: false, counter, .. } if *counter > 0 => {
                Some((Some(*device), "command taken back".to_owned()))
            }
            Self::TakeBack(device) => Some((Some(*device), "command taken back".to_owned())),
            Self::Kill(device, agent) => Some((Some(*device), format!("{} killed", agent.name()))),
            Self::Away(device, agent) => Some((Some(*device), format!("{} stays away", agent.name()))),
            Self::PowerCut(device) => Some((Some(*device), "power cut".to_owned())),
            Self::Cluster(trouble) => Some((None, trouble.kind()?)),
            Self::Person(device, deed) => {
                let kind = match deed {
                    Deed::BindPod | Deed::BindShortPod => "pod bound by hand".to_owned(),
                    Deed::Request(true) => "request of a person".to_owned(),
                    Deed::Request(false) => "request of a person withdrawn".to_owned(),
                    Deed::Cordon(true) => "cordon by hand".to_owned(),
                    Deed::Cordon(false) => "uncordon by hand".to_owned(),
                    Deed::KeepCordoned => "request to keep the cordon".to_owned(),
                    Deed::Verb(words) => format!("ebb {}", words.split(" --").next().unwrap_or_default()),
                    Deed::Override(_) => "override by a file".to_owned(),
                    Deed::RemoveFiles => "files of zedkube removed".to_owned(),
                    Deed::RemoveLock(agent) => format!("lock of {} removed", agent.name()),
                    Deed::BadSlot(_) => "bad entry in the slot table".to_owned(),
                    Deed::BadFile => "bad input file".to_owned(),
                    Deed::HalfRequest => "request half written".to_owned(),
                    Deed::LongRequest(true) => "request with a long text".to_owned(),
                    Deed::LongRequest(false) | Deed::RemoveBudget => return None,
                };
                Some((Some(*device), kind))
            }
            Self::Device(device, mishap) => {
                let kind = match mishap {
                    Mishap::SoftReboot => "soft reboot",
                    Mishap::Suspend(_) => "suspend",
                    Mishap::ClockStep(_) => "clock step",
                    Mishap::Disk(Some(DiskFault::Full)) => "disk full",
                    Mishap::Disk(Some(DiskFault::ReadOnly)) => "disk read-only",
                    Mishap::Disk(Some(DiskFault::Slow(_))) => "disk slow",
                    Mishap::NoRecord(true) => "record of the drain cannot be written",
                    Mishap::Resumed | Mishap::Disk(None) | Mishap::NoRecord(false) => return None,
                };
                Some((Some(*device), kind.to_owned()))
            }
            Self::Stop(device, agent, _) => Some((Some(*device), format!("{} stands still", agent.name()))),
            Self::Image(device, ..) => Some((Some(*device), "another image wanted".to_owned())),
            Self::Command { .. }
            | Self::GoesDown(..)
            | Self::Written(..)
            | Self::Repeat(_)
            | Self::Start(..)
            | Self::Eve(..)
            | Self::KillSoon(..)
            | Self::NodeReady(_) => None,
        }
    }
}

/// What a person does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Deed {
    /// Binds a pod to the node without the scheduler.
    BindPod,
    /// Binds a pod that ends at once.
    BindShortPod,
    /// Asks for a drain by a file, or asks no more.
    Request(bool),
    /// Cordons the node, or uncordons it.
    Cordon(bool),
    /// Asks to leave the node cordoned after the drain that goes on.
    KeepCordoned,
    /// Runs a verb of `ebb` on the device.
    Verb(&'static str),
    /// Overrides the drain by a file with this text.
    Override(&'static str),
    /// Removes the files that zedkube publishes.
    RemoveFiles,
    /// Removes the lock file of an agent.
    RemoveLock(Agent),
    /// Writes this into the slot table, in the name of a node that does not exist.
    BadSlot(&'static str),
    /// Writes nonsense where a request for a drain is expected.
    BadFile,
    /// Removes the budget that lets no pod of the node go.
    RemoveBudget,
    /// Begins to write the file of a request of a person once more.
    HalfRequest,
    /// Asks for a drain by a file with a very long text, or removes it.
    LongRequest(bool),
}

impl Deed {
    /// True if it needs a device that is up.
    pub(super) const fn is_on_the_device(self) -> bool {
        match self {
            Self::Verb(_)
            | Self::Override(_)
            | Self::RemoveFiles
            | Self::RemoveLock(_)
            | Self::BadFile
            | Self::HalfRequest
            | Self::Request(_)
            | Self::LongRequest(_) => true,
            Self::BindPod
            | Self::BindShortPod
            | Self::RemoveBudget
            | Self::Cordon(_)
            | Self::KeepCordoned
            | Self::BadSlot(_) => false,
        }
    }
}

/// What happens to a device beside reboots and power cuts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mishap {
    SoftReboot,
    /// It is suspended for so many nanoseconds.
    Suspend(u64),
    Resumed,
    /// Its wall clock is set by so many nanoseconds.
    ClockStep(i64),
    /// Something is wrong with its `/persist`, or no more.
    Disk(Option<DiskFault>),
    /// zedkube cannot write the record of its drain, or it can again.
    NoRecord(bool),
}

/// How a device goes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Down {
    /// As a shutdown does: what was written is durable.
    Ordered(Operation),
    PowerCut,
}

/// A fault that is to meet a device in a phase.
#[derive(Clone, Debug)]
pub(super) enum Aimed {
    Kill(Agent),
    /// The agent dies, and stays away.
    Away(Agent),
    PowerCut,
    /// The API server goes away for so many nanoseconds.
    Outage(u64),
    Cluster(Trouble),
    /// Something is wrong with the cluster for so many nanoseconds.
    Lasting(Trouble, u64),
    /// The agent stands still for so many nanoseconds.
    Stop(Agent, u64),
    Person(Deed),
    /// The controller takes back what it wants of the device.
    TakeBack,
    Device(Mishap),
    /// The controller gives a command.
    Command(Operation),
}
