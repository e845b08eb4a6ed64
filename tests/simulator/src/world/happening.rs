//! What happens in a history.

use cluster::node_commands::NodeCommand;
use schemas::{Agent, Operation};

use super::HOLD;
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
    /// The controller wants this version to run; the number counts its retries.
    Image(usize, &'static str, u32),
    /// The device goes down in this boot, because a program has taken it down.
    GoesDown(usize, u32, Operation),
    /// A program that writes an image ends in this boot: its number, the version, and whether that works.
    Written(usize, u32, u64, String, bool),
    /// The controller publishes its last command again, as after each boot.
    Repeat(usize),
    Start(usize, Agent),
    /// EVE's zedkube goes on with its work, in this boot.
    Eve(usize, u32, eve::Step),
    NodeReady(usize),
    /// A fault meets the device.
    Fault(usize, Fault),
}

impl Happening {
    /// True for what goes on by itself: if all is done, a history does not wait for it. A program that hangs, and was
    /// killed, would end in an hour.
    pub(super) const fn goes_on_by_itself(&self) -> bool {
        matches!(self, Self::Eve(..) | Self::Written(..))
    }

    /// The controller wants something of a device.
    pub(super) const fn is_wanted(&self) -> bool {
        matches!(self, Self::Command { is_wanted: true, .. } | Self::Image(..))
    }

    /// The device that it concerns, and its kind, for the coverage; None if it is no fault.
    pub(super) fn fault(&self) -> Option<(Option<usize>, String)> {
        match self {
            Self::Command { device, is_wanted: false, counter, .. } if *counter > 0 => {
                Some((Some(*device), Fault::TakeBack.kind()?))
            }
            Self::Image(device, ..) => Some((Some(*device), "another image wanted".to_owned())),
            Self::Fault(_, fault @ Fault::Cluster(_)) => Some((None, fault.kind()?)),
            Self::Fault(device, fault) => Some((Some(*device), fault.kind()?)),
            Self::Command { .. }
            | Self::GoesDown(..)
            | Self::Written(..)
            | Self::Repeat(_)
            | Self::Start(..)
            | Self::Eve(..)
            | Self::NodeReady(_) => None,
        }
    }
}

/// What goes wrong, or what somebody does beside the controller. [`World::strike`](super::World::strike) carries it out.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    Kill(Agent),
    /// The agent dies in the middle of the next call but so many.
    KillSoon(Agent, u32),
    /// The agent dies, and stays away for so long that nobody waits for it any more.
    Away(Agent),
    /// The agent stands still for so many nanoseconds, as after SIGSTOP.
    Stop(Agent, u64),
    PowerCut,
    /// Something is wrong with the cluster, or all is well again.
    Cluster(Trouble),
    /// Something is wrong with the cluster for so many nanoseconds.
    Lasting(Trouble, u64),
    /// Somebody does something by hand.
    Person(Deed),
    /// The controller takes back what it wants of the device.
    TakeBack,
    /// The controller gives a command.
    Command(Operation),
    /// Something happens to the device.
    Device(Mishap),
}

impl Fault {
    /// What kind of fault it is, for the coverage; None for the end of one, and for what is more than one.
    fn kind(&self) -> Option<String> {
        let kind = match self {
            Self::Kill(agent) => format!("{} killed", agent.name()),
            Self::Away(agent) => format!("{} stays away", agent.name()),
            Self::Stop(agent, _) => format!("{} stands still", agent.name()),
            Self::PowerCut => "power cut".to_owned(),
            Self::TakeBack => "command taken back".to_owned(),
            Self::Cluster(trouble) => return trouble.kind(),
            Self::Person(deed) => match deed {
                Deed::BindPod | Deed::BindShortPod => "pod bound by hand".to_owned(),
                Deed::Request(true) => "request of a person".to_owned(),
                Deed::Request(false) => "request of a person withdrawn".to_owned(),
                Deed::Cordon(true) => "cordon by hand".to_owned(),
                Deed::Cordon(false) => "uncordon by hand".to_owned(),
                Deed::KeepCordoned => "request to keep the cordon".to_owned(),
                Deed::RemoveMark => "annotation of the cordon removed".to_owned(),
                Deed::Annotate(command, Some(_)) => format!("{} by the cluster", command.name()),
                Deed::Annotate(command, None) => format!("{} by the cluster taken back", command.name()),
                Deed::HostAsks(Some(_)) => "reboot asked for by the host".to_owned(),
                Deed::HostAsks(None) => "reboot not asked for by the host any more".to_owned(),
                Deed::TakeDown(target) => format!("{target} past ebb"),
                Deed::CallOff => "shutdown called off".to_owned(),
                Deed::Verb(HOLD) => return None,
                Deed::Verb(words) => format!("ebb {}", words.split(" --").next().unwrap_or_default()),
                Deed::Override(_) => "override by a file".to_owned(),
                Deed::RemoveFiles => "files of zedkube removed".to_owned(),
                Deed::RemoveLock(agent) => format!("lock of {} removed", agent.name()),
                Deed::BadSlot(_) => "bad entry in the slot table".to_owned(),
                Deed::LoseSlots(false) => "slot table deleted".to_owned(),
                Deed::LoseSlots(true) => "slots and cordons lost".to_owned(),
                Deed::OtherCluster(true) => "kubeconfig of another cluster".to_owned(),
                Deed::BadFile => "bad input file".to_owned(),
                Deed::HalfRequest => "request half written".to_owned(),
                Deed::LongRequest(true) => "request with a long text".to_owned(),
                Deed::LongRequest(false) | Deed::OtherCluster(false) | Deed::RemoveBudget => return None,
            },
            Self::Device(mishap) => match mishap {
                Mishap::SoftReboot => "soft reboot".to_owned(),
                Mishap::Suspend(_) => "suspend".to_owned(),
                Mishap::ClockStep(_) => "clock step".to_owned(),
                Mishap::Disk(Some(DiskFault::Full)) => "disk full".to_owned(),
                Mishap::Disk(Some(DiskFault::ReadOnly)) => "disk read-only".to_owned(),
                Mishap::Disk(Some(DiskFault::Slow(_))) => "disk slow".to_owned(),
                Mishap::NoRecord(true) => "record of the drain cannot be written".to_owned(),
                Mishap::Resumed | Mishap::Disk(None) | Mishap::NoRecord(false) => return None,
            },
            // A death in a call is noted when it happens; the other two are planned as other happenings.
            Self::KillSoon(..) | Self::Lasting(..) | Self::Command(_) => return None,
        };
        Some(kind)
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
    /// Removes the annotation by which our cordon is known.
    RemoveMark,
    /// Writes this text into the annotation of the Node for this command, or removes it.
    Annotate(NodeCommand, Option<&'static str>),
    /// The host asks for a reboot by a file with this text, or asks no more.
    HostAsks(Option<&'static str>),
    /// Takes the device down by this target of systemd, without ebb: `ebb-hold.service` keeps it up.
    TakeDown(&'static str),
    /// Calls such a shutdown off.
    CallOff,
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
    /// Deletes the slot table, or restores a backup from before all drains: then the Nodes lose their cordons, too.
    LoseSlots(bool),
    /// Replaces the kubeconfig by that of another cluster, or puts it back.
    OtherCluster(bool),
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
            | Self::TakeDown(_)
            | Self::CallOff
            | Self::HostAsks(_)
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
            | Self::RemoveMark
            | Self::Annotate(..)
            | Self::LoseSlots(_)
            | Self::OtherCluster(_)
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
