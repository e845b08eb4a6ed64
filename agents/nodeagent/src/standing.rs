//! Which command stands, and what NodeAgentStatus says about drains. Pure; read from files as they are now.

use schemas::{
    ActedCommand, BaseOsHold, BaseOsHoldState, BaseOsStatus, DeviceOpState, DeviceOpStatus, DrainRequester,
    DrainStatus, Member, NOT_DRAINED, NodeDrainReport, NodeDrainStatus, Operation, RequestLine, Source,
    ZedAgentStatus, agent,
};
use text::one_line;

/// EVE's word for a partition that the device boots next.
const UPDATING: &str = "updating";
/// So much of a reason is kept, in bytes: it goes into the environment of commands and into the next boot's status.
const MOST_REASON_BYTES: usize = 1024;
/// The longest id of an image, in bytes, as baseos accepts it. EVE's are UUIDs of 36.
const MOST_ID_BYTES: usize = 128;

/// What is to be done to the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// What.
    pub operation: Operation,
    /// The command's counter; 0 for the reboot into a new image.
    pub counter: u32,
    /// UUID of that image; empty for a command of device-op.
    pub image: String,
    /// Who gave it. Each source counts for itself: the same counter of another source is another command.
    pub source: Source,
    /// It may be carried out although there is no durable record of it: an operator's word.
    pub without_record: bool,
    /// Why, for the next boot to report.
    pub reason: String,
}

impl Command {
    /// A command of device-op, of the controller. One without a reason gets the plainest.
    pub fn new(operation: Operation, counter: u32, reason: Option<String>) -> Self {
        let reason = reason.filter(|reason| !reason.is_empty());
        let reason = reason.unwrap_or_else(|| format!("{operation} command, counter {counter}"));
        let reason = one_line(&reason, MOST_REASON_BYTES);
        let (image, source, without_record) = (String::new(), Source::default(), false);
        Self { operation, counter, image, source, without_record, reason }
    }

    /// Whether this is the same command, whatever its reason says by now.
    pub fn is_same(&self, other: &Self) -> bool {
        self.named() == other.named()
    }

    /// What names it in files.
    pub fn named(&self) -> ActedCommand {
        ActedCommand {
            source: self.source,
            command: Some(self.operation),
            counter: self.counter,
            content_tree_uuid: self.image.clone(),
        }
    }

    /// The agent that has let it go.
    pub const fn requester(&self) -> &'static str {
        if self.image.is_empty() { agent::ZEDAGENT } else { agent::BASEOSMGR }
    }
}

/// What the siblings' files say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Siblings {
    /// Commands of device-op.
    pub zedagent: ZedAgentStatus,
    /// How far device-op is: it must have handed over the very command.
    pub device_op: DeviceOpStatus,
    /// How far baseos is: it must have activated the very image.
    pub hold: BaseOsHold,
    /// The images.
    pub images: Vec<BaseOsStatus>,
}

/// The command that stands in this boot: both files of a sibling have to agree. device-op's goes before an image's.
pub fn standing(siblings: &Siblings, boot_id: &str) -> Option<Command> {
    let device_op = Some(&siblings.device_op).filter(|status| is_of(boot_id, &status.boot_id));
    let hold = Some(&siblings.hold).filter(|hold| is_of(boot_id, &hold.boot_id));
    let command = device_op.and_then(|status| self::device_op(&siblings.zedagent, status));
    command.or_else(|| image(hold?, &siblings.images))
}

/// A file that speaks of another boot commands nothing: `/run` may be kept over a boot. One that names no boot was
/// written by an older agent.
fn is_of(boot_id: &str, named: &str) -> bool {
    named.is_empty() || named == boot_id
}

fn device_op(zedagent: &ZedAgentStatus, status: &DeviceOpStatus) -> Option<Command> {
    let is_commanded = |operation: &Operation| match operation {
        Operation::Reboot => zedagent.reboot_cmd,
        Operation::Shutdown => zedagent.shutdown_cmd,
        Operation::Poweroff => zedagent.poweroff_cmd,
    };
    let operation = Operation::ALL.into_iter().find(is_commanded)?;
    let is_handed_over = status.state == DeviceOpState::HandedOver && status.operation == Some(operation);
    let reason = zedagent.requested_reboot_reason.clone();
    is_handed_over.then(|| Command {
        source: status.source,
        without_record: status.without_record,
        ..Command::new(operation, status.counter, Some(reason))
    })
}

fn image(hold: &BaseOsHold, images: &[BaseOsStatus]) -> Option<Command> {
    let is_due = |image: &&BaseOsStatus| {
        image.activated
            && image.partition_state == UPDATING
            && hold.state == BaseOsHoldState::Activated
            && hold.content_tree_uuid == image.content_tree_uuid
            && image.content_tree_uuid.len() <= MOST_ID_BYTES
    };
    let image = images.iter().find(is_due)?;
    let mut reason = format!("reboot into image {} ({})", image.base_os_version, image.content_tree_uuid);
    if hold.release.starts_with(NOT_DRAINED) {
        reason = format!("{reason}: {}", hold.release);
    }
    Some(Command {
        image: image.content_tree_uuid.clone(),
        source: hold.source,
        ..Command::new(Operation::Reboot, 0, Some(reason))
    })
}

/// Who still has a say in a command that both files of a sibling give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alive {
    /// zedkube runs, or may.
    pub zedkube: bool,
    /// The agent that has let the command go runs, or may.
    pub requester: bool,
}

/// zedkube's report as its file has it now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report<'a> {
    /// There is none: no zedkube, or EVE's, whose COMPLETE stands.
    Absent,
    /// There is one that cannot be read.
    Unreadable,
    /// It says this.
    Given(&'a NodeDrainReport),
}

/// Whether what let the command go still does, as far as it can be seen from here.
///
/// An agent takes a command back when zedkube takes its answer back; one that is dead cannot. So while zedkube runs its
/// report counts. While zedkube is away its last word may be old, and only the agent knows the choice for that case
/// (`drain.start.timeout`): its command counts as long as it lives.
pub fn is_released(requester: &str, report: Report<'_>, alive: Alive) -> bool {
    match report {
        Report::Absent => true,
        Report::Unreadable => alive.requester,
        Report::Given(report) => {
            let is_not_needed = report.disabled.is_some() || report.member == Member::No;
            let is_complete = |line: &RequestLine| line.answer == DrainStatus::Complete;
            let mut lines = report.requests.iter().filter(|line| line.publisher == requester);
            is_not_needed || lines.any(is_complete) || (alive.requester && !alive.zedkube)
        }
    }
}

/// A drain for a device operation is under way, or has failed: 3 to 8 for requester 2. Anything else is not, so
/// that no edge can be missed (D18).
pub fn is_drain_in_progress(status: Option<NodeDrainStatus>) -> bool {
    let Some(NodeDrainStatus { status, requested_by: DrainRequester::DeviceOp }) = status else {
        return false;
    };
    match status {
        DrainStatus::Requested
        | DrainStatus::Starting
        | DrainStatus::Cordoned
        | DrainStatus::FailedCordon
        | DrainStatus::DrainRetrying
        | DrainStatus::FailedDrain => true,
        DrainStatus::Unknown
        | DrainStatus::NotSupported
        | DrainStatus::NotRequested
        | DrainStatus::Complete => false,
    }
}

#[cfg(test)]
mod tests {
    use schemas::Disabled;

    use super::*;

    const BOOT: &str = "boot-2";

    fn zedagent(operations: &[Operation]) -> ZedAgentStatus {
        ZedAgentStatus {
            reboot_cmd: operations.contains(&Operation::Reboot),
            shutdown_cmd: operations.contains(&Operation::Shutdown),
            poweroff_cmd: operations.contains(&Operation::Poweroff),
            requested_reboot_reason: "because".to_owned(),
            ..ZedAgentStatus::default()
        }
    }

    fn device_op(operation: Operation, counter: u32, state: DeviceOpState) -> DeviceOpStatus {
        DeviceOpStatus { operation: Some(operation), counter, state, ..DeviceOpStatus::default() }
    }

    fn image(uuid: &str, activated: bool, partition_state: &str) -> BaseOsStatus {
        BaseOsStatus {
            content_tree_uuid: uuid.to_owned(),
            activated,
            partition_state: partition_state.to_owned(),
            ..BaseOsStatus::default()
        }
    }

    fn hold(uuid: &str, state: BaseOsHoldState) -> BaseOsHold {
        BaseOsHold { content_tree_uuid: uuid.to_owned(), state, ..BaseOsHold::default() }
    }

    #[track_caller]
    fn check(siblings: &Siblings, expected: Option<(Operation, u32)>) {
        let found = standing(siblings, BOOT).map(|command| (command.operation, command.counter));
        assert_eq!(found, expected, "{siblings:?}");
    }

    #[test]
    fn a_command_needs_both_files_of_device_op() {
        use DeviceOpState::{Deferred, Failed, HandedOver};
        use Operation::{Poweroff, Reboot, Shutdown};
        let cases = [
            (vec![Reboot], device_op(Reboot, 7, HandedOver), Some((Reboot, 7))),
            (vec![Shutdown], device_op(Shutdown, 7, HandedOver), Some((Shutdown, 7))),
            (vec![Poweroff], device_op(Poweroff, 7, HandedOver), Some((Poweroff, 7))),
            (vec![], device_op(Reboot, 7, HandedOver), None),
            (vec![Reboot], device_op(Reboot, 7, Deferred), None),
            (vec![Reboot], device_op(Reboot, 7, Failed), None),
            (vec![Reboot], device_op(Poweroff, 7, HandedOver), None),
            (vec![Reboot], DeviceOpStatus::default(), None),
            (vec![Reboot, Poweroff], device_op(Poweroff, 7, HandedOver), Some((Poweroff, 7))),
        ];
        for (commands, device_op, expected) in cases {
            let siblings = Siblings { zedagent: zedagent(&commands), device_op, ..Siblings::default() };
            check(&siblings, expected);
        }
    }

    #[test]
    fn an_image_needs_its_hold() {
        use BaseOsHoldState::{Activated, Activating, Deferred};
        let cases = [
            (hold("a", Activated), image("a", true, "updating"), Some((Operation::Reboot, 0))),
            (hold("b", Activated), image("a", true, "updating"), None),
            (hold("a", Deferred), image("a", true, "updating"), None),
            (hold("a", Activating), image("a", true, "updating"), None),
            (hold("a", Activated), image("a", true, "active"), None),
            // A dry run of baseos leaves the status alone.
            (hold("a", Activated), image("a", false, ""), None),
        ];
        for (hold, image, expected) in cases {
            check(&Siblings { hold, images: vec![image], ..Siblings::default() }, expected);
        }
    }

    /// `/run` is kept over a boot: what stood then was done by the boot, or was not.
    #[test]
    fn what_stood_in_another_boot_commands_nothing() {
        for (boot_id, is_obeyed) in [("boot-1", false), ("boot-2", true), ("", true)] {
            let of_device_op = Siblings {
                zedagent: zedagent(&[Operation::Reboot]),
                device_op: DeviceOpStatus {
                    boot_id: boot_id.to_owned(),
                    ..device_op(Operation::Reboot, 7, DeviceOpState::HandedOver)
                },
                ..Siblings::default()
            };
            check(&of_device_op, is_obeyed.then_some((Operation::Reboot, 7)));
            let of_baseos = Siblings {
                hold: BaseOsHold { boot_id: boot_id.to_owned(), ..hold("a", BaseOsHoldState::Activated) },
                images: vec![image("a", true, UPDATING)],
                ..Siblings::default()
            };
            check(&of_baseos, is_obeyed.then_some((Operation::Reboot, 0)));
        }
    }

    /// Whatever stands in another agent's files, ours can be written and commands can be started.
    #[test]
    fn what_is_too_long_is_cut_or_commands_nothing() {
        let long = "x".repeat(900_000);
        let zedagent =
            ZedAgentStatus { requested_reboot_reason: long.clone(), ..zedagent(&[Operation::Reboot]) };
        let device_op = device_op(Operation::Reboot, 7, DeviceOpState::HandedOver);
        let found = standing(&Siblings { zedagent, device_op, ..Siblings::default() }, BOOT).unwrap();
        assert!(found.reason.len() < 2 * MOST_REASON_BYTES, "{} bytes", found.reason.len());
        let siblings = Siblings {
            hold: hold(&long, BaseOsHoldState::Activated),
            images: vec![image(&long, true, UPDATING)],
            ..Siblings::default()
        };
        check(&siblings, None);
        let image = BaseOsStatus { base_os_version: long, ..image("a", true, UPDATING) };
        let hold = hold("a", BaseOsHoldState::Activated);
        let found = standing(&Siblings { hold, images: vec![image], ..Siblings::default() }, BOOT).unwrap();
        assert!(found.reason.len() < 2 * MOST_REASON_BYTES, "{} bytes", found.reason.len());
    }

    #[test]
    fn the_same_counter_of_another_source_is_another_command() {
        let command = |source| {
            let device_op = DeviceOpStatus {
                source,
                without_record: source == Source::Person,
                ..device_op(Operation::Reboot, 7, DeviceOpState::HandedOver)
            };
            let siblings =
                Siblings { zedagent: zedagent(&[Operation::Reboot]), device_op, ..Siblings::default() };
            standing(&siblings, BOOT).unwrap()
        };
        let person = command(Source::Person);
        assert!(person.is_same(&command(Source::Person)) && !person.is_same(&command(Source::Controller)));
        assert!(person.without_record && !command(Source::Controller).without_record);
    }

    /// Two images after one another are two commands.
    #[test]
    fn a_reboot_belongs_to_its_image() {
        let into = |uuid: &str| {
            let siblings = Siblings {
                hold: hold(uuid, BaseOsHoldState::Activated),
                images: vec![image(uuid, true, UPDATING)],
                ..Siblings::default()
            };
            standing(&siblings, BOOT).unwrap()
        };
        assert!(into("a").is_same(&into("a")) && !into("a").is_same(&into("b")));
        assert!(!into("a").is_same(&Command::new(Operation::Reboot, 0, None)));
    }

    #[test]
    fn what_let_a_command_go_must_still_do_so() {
        let line = |publisher: &str, answer| RequestLine {
            publisher: publisher.to_owned(),
            answer,
            ..RequestLine::default()
        };
        let report = |lines: &[RequestLine]| NodeDrainReport {
            member: Member::Yes,
            requests: lines.to_vec(),
            ..NodeDrainReport::default()
        };
        let complete = report(&[line(agent::ZEDAGENT, DrainStatus::Complete)]);
        let taken_back = report(&[line(agent::ZEDAGENT, DrainStatus::Unknown)]);
        let of_another = report(&[line(agent::BASEOSMGR, DrainStatus::Complete)]);
        let not_a_member = NodeDrainReport { member: Member::No, ..taken_back.clone() };
        let disabled = NodeDrainReport { disabled: Some(Disabled::default()), ..taken_back.clone() };
        // Who is alive: both, only zedkube, only the requester, nobody.
        for (report, expected) in [
            (Report::Absent, [true, true, true, true]),
            (Report::Unreadable, [true, false, true, false]),
            (Report::Given(&complete), [true, true, true, true]),
            (Report::Given(&taken_back), [false, false, true, false]),
            (Report::Given(&of_another), [false, false, true, false]),
            (Report::Given(&report(&[])), [false, false, true, false]),
            (Report::Given(&not_a_member), [true, true, true, true]),
            (Report::Given(&disabled), [true, true, true, true]),
        ] {
            let alive = [(true, true), (true, false), (false, true), (false, false)];
            let found = alive.map(|(zedkube, requester)| {
                is_released(agent::ZEDAGENT, report, Alive { zedkube, requester })
            });
            assert_eq!(found, expected, "{report:?}");
        }
    }

    #[test]
    fn a_command_of_device_op_goes_before_an_image() {
        let siblings = Siblings {
            zedagent: zedagent(&[Operation::Poweroff]),
            device_op: device_op(Operation::Poweroff, 3, DeviceOpState::HandedOver),
            hold: hold("a", BaseOsHoldState::Activated),
            images: vec![image("a", true, "updating")],
        };
        check(&siblings, Some((Operation::Poweroff, 3)));
    }

    #[test]
    fn a_command_without_a_reason_gets_one() {
        for (reason, expected) in [("because", "because"), ("", "reboot command, counter 7")] {
            let zedagent = ZedAgentStatus {
                requested_reboot_reason: reason.to_owned(),
                ..zedagent(&[Operation::Reboot])
            };
            let device_op = device_op(Operation::Reboot, 7, DeviceOpState::HandedOver);
            let found = standing(&Siblings { zedagent, device_op, ..Siblings::default() }, BOOT);
            assert_eq!(found.unwrap().reason, expected);
        }
    }

    /// D18: EVE's waits for an edge that may never be seen.
    #[test]
    fn d18_which_drains_are_in_progress() {
        for status in DrainStatus::ALL {
            for requested_by in [
                DrainRequester::Unset,
                DrainRequester::None,
                DrainRequester::DeviceOp,
                DrainRequester::Update,
            ] {
                let expected = requested_by.code() == 2 && (3..=8).contains(&status.code());
                let found = is_drain_in_progress(Some(NodeDrainStatus { status, requested_by }));
                assert_eq!(found, expected, "{status} for {requested_by}");
            }
        }
        assert!(!is_drain_in_progress(None));
    }
}
