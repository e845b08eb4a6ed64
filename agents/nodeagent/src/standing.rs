//! Which command stands, and what NodeAgentStatus says about drains. Pure; read from files as they are now.

use schemas::{
    BaseOsHold, BaseOsHoldState, BaseOsStatus, DeviceOpState, DeviceOpStatus, DrainRequester, DrainStatus,
    Member, NOT_DRAINED, NodeDrainReport, NodeDrainStatus, Operation, RequestLine, ZedAgentStatus, agent,
};

/// EVE's word for a partition that the device boots next.
const UPDATING: &str = "updating";

/// What is to be done to the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// What.
    pub operation: Operation,
    /// The command's counter; 0 for the reboot into a new image.
    pub counter: u32,
    /// UUID of that image; empty for a command of device-op.
    pub image: String,
    /// Why, for the next boot to report.
    pub reason: String,
}

impl Command {
    /// A command of device-op. One without a reason gets the plainest.
    pub fn new(operation: Operation, counter: u32, reason: Option<String>) -> Self {
        let reason = reason.filter(|reason| !reason.is_empty());
        let reason = reason.unwrap_or_else(|| format!("{operation} command, counter {counter}"));
        Self { operation, counter, image: String::new(), reason }
    }

    /// Whether this is the same command, whatever its reason says by now.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.operation, self.counter, &self.image) == (other.operation, other.counter, &other.image)
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

/// The command that stands: both files of a sibling have to agree. device-op's goes before an image's.
pub fn standing(siblings: &Siblings) -> Option<Command> {
    device_op(&siblings.zedagent, &siblings.device_op).or_else(|| image(&siblings.hold, &siblings.images))
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
    is_handed_over.then(|| Command::new(operation, status.counter, Some(reason)))
}

fn image(hold: &BaseOsHold, images: &[BaseOsStatus]) -> Option<Command> {
    let is_due = |image: &&BaseOsStatus| {
        image.activated
            && image.partition_state == UPDATING
            && hold.state == BaseOsHoldState::Activated
            && hold.content_tree_uuid == image.content_tree_uuid
    };
    let image = images.iter().find(is_due)?;
    let mut reason = format!("reboot into image {} ({})", image.base_os_version, image.content_tree_uuid);
    if hold.release.starts_with(NOT_DRAINED) {
        reason = format!("{reason}: {}", hold.release);
    }
    Some(Command { operation: Operation::Reboot, counter: 0, image: image.content_tree_uuid.clone(), reason })
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
        let found = standing(siblings).map(|command| (command.operation, command.counter));
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

    /// Two images after one another are two commands.
    #[test]
    fn a_reboot_belongs_to_its_image() {
        let into = |uuid: &str| {
            let siblings = Siblings {
                hold: hold(uuid, BaseOsHoldState::Activated),
                images: vec![image(uuid, true, UPDATING)],
                ..Siblings::default()
            };
            standing(&siblings).unwrap()
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
            let found = standing(&Siblings { zedagent, device_op, ..Siblings::default() });
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
