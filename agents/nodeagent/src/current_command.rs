//! The command that is in effect, and whether a drain is in progress. Pure functions of the files of device-op,
//! baseos and zedkube.

use pubsub::Refusal;
use schemas::{
    ActedCommand, BaseOsHold, BaseOsHoldState, BaseOsStatus, DeviceOpState, DeviceOpStatus, DrainRequester,
    DrainStatus, Member, NOT_DRAINED, NodeDrainReport, NodeDrainStatus, Operation, Outcome, RequestLine,
    Source, ZedAgentStatus, ZedkubeSeen, agent, commanded_by,
};
use text::one_line;

/// EVE's word for a partition that the device boots next.
const UPDATING: &str = "updating";
/// Limit in bytes for a reason, which goes into the environment of programs and into the next boot's status.
const MOST_REASON_BYTES: usize = 1024;
/// Limit in bytes for the id of an image, as in baseos. EVE's ids are UUIDs of 36 bytes.
const MOST_ID_BYTES: usize = 128;

/// A command for the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Command {
    pub operation: Operation,
    /// The command's counter; 0 for the reboot into a new image.
    pub counter: u32,
    /// UUID of that image; empty for a command of device-op.
    pub image: String,
    /// The source of the command. Each source has its own counters: the same counter of another source is another
    /// command.
    pub source: Source,
    /// An operator's `--without-record`: nodeagent may carry the command out although the ActionRecord cannot be
    /// written.
    pub without_record: bool,
    /// The reason, which the next boot reports.
    pub reason: String,
}

impl Command {
    /// A command of device-op with the default source (the controller). If there is no reason, the reason names
    /// operation and counter.
    pub(crate) fn new(operation: Operation, counter: u32, reason: Option<String>) -> Self {
        let reason = reason.filter(|reason| !reason.is_empty());
        let reason = reason.unwrap_or_else(|| format!("{operation} command, counter {counter}"));
        let reason = one_line(&reason, MOST_REASON_BYTES);
        let (image, source, without_record) = (String::new(), Source::default(), false);
        Self { operation, counter, image, source, without_record, reason }
    }

    /// The environment of hooks and programs.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("EBB_OPERATION", self.operation.name().to_owned()),
            ("EBB_COUNTER", self.counter.to_string()),
            // An environment variable cannot hold a NUL.
            ("EBB_REASON", self.reason.replace('\0', " ")),
        ]
    }

    /// True if both are the same command; their reasons may differ.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.named() == other.named()
    }

    /// The fields that identify the command in files.
    pub(crate) fn named(&self) -> ActedCommand {
        ActedCommand {
            source: self.source,
            command: Some(self.operation),
            counter: self.counter,
            content_tree_uuid: self.image.clone(),
        }
    }

    /// The agent that released this command: zedagent, or baseosmgr for an image.
    pub(crate) const fn requester(&self) -> &'static str {
        if self.image.is_empty() { agent::ZEDAGENT } else { agent::BASEOSMGR }
    }
}

/// Snapshot of the files of device-op and baseos.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct OtherAgents {
    /// The commands of device-op.
    pub zedagent: ZedAgentStatus,
    /// DeviceOpStatus, which must say that this very command is handed over.
    pub device_op: DeviceOpStatus,
    /// BaseOsHold, which must say that this very image is activated.
    pub hold: BaseOsHold,
    /// The status of each image.
    pub images: Vec<BaseOsStatus>,
}

impl OtherAgents {
    /// Why the agent that released this command did so.
    pub(crate) fn release(&self, command: &Command) -> &str {
        if command.image.is_empty() { &self.device_op.release } else { &self.hold.release }
    }
}

/// The command that is in effect in this boot: both files of an agent have to agree. The one that is being carried out
/// (`acting`) goes before all others, because it cannot be taken back; a command of device-op goes before an image.
pub(crate) fn current_command(
    others: &OtherAgents,
    boot_id: &str,
    acting: Option<&Command>,
) -> Option<Command> {
    // `/run` may be kept over a boot: a file of another boot commands nothing.
    let device_op = Some(&others.device_op).filter(|status| status.boot_id == boot_id);
    let hold = Some(&others.hold).filter(|hold| hold.boot_id == boot_id);
    let command = device_op.and_then(|status| self::device_op(&others.zedagent, status));
    let image = hold.and_then(|hold| image(hold, &others.images));
    let is_acting = |command: &Command| acting.is_some_and(|acting| acting.is_same(command));
    if image.as_ref().is_some_and(is_acting) { image } else { command.or(image) }
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
    let undrained = Some(&hold.release).filter(|release| release.starts_with(NOT_DRAINED));
    let undrained = undrained.map_or_else(String::new, |release| format!(": {release}"));
    let by = commanded_by(&hold.by, &hold.reason);
    let (version, uuid) = (&image.base_os_version, &image.content_tree_uuid);
    let reason = format!("reboot into image {version} ({uuid}){undrained}{by}");
    Some(Command {
        image: image.content_tree_uuid.clone(),
        source: hold.source,
        ..Command::new(Operation::Reboot, 0, Some(reason))
    })
}

/// The agents that can still revoke a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Alive {
    /// zedkube.
    pub zedkube: ZedkubeSeen,
    /// The agent that released the command runs, or may run.
    pub requester: bool,
}

/// True if the command is still released, as far as nodeagent can see.
///
/// An agent takes its command back when zedkube revokes its answer; an agent that does not run cannot. So while
/// zedkube works, its report counts. While zedkube does not run, or hangs, nobody takes its answer back when pods come
/// to the node again: only what an operator has ordered counts, or a running agent that says that the device goes
/// without a drain (`is_undrained`). That agent alone knows the setting for this case (`drain.start.timeout`).
///
/// Our zedkube without a report has only just started, or has removed a report with an answer that it takes back, because
/// the disk takes no new one.
pub(crate) fn is_released(
    requester: &str,
    report: Result<Option<&NodeDrainReport>, &Refusal>,
    alive: Alive,
    is_undrained: bool,
) -> bool {
    let is_undrained = is_undrained && alive.requester && !alive.zedkube.is_working();
    match report {
        // There is no zedkube, or it is EVE's, whose COMPLETE stays valid.
        Ok(None) => !alive.zedkube.is_ours() || is_undrained,
        Err(_) => alive.requester,
        Ok(Some(report)) => {
            let is_not_needed = report.disabled.is_some() || report.member == Member::No;
            let is_ordered = |line: &RequestLine| line.outcome.or(report.outcome) == Some(Outcome::Forced);
            let is_complete = |line: &RequestLine| {
                line.answer == DrainStatus::Complete && (alive.zedkube.is_working() || is_ordered(line))
            };
            let mut lines = report.requests.iter().filter(|line| line.publisher == requester);
            is_not_needed || lines.any(is_complete) || is_undrained
        }
    }
}

/// True if a drain for a device operation is in progress or has failed: status 3 to 8 for requester 2. In all other
/// cases false, so that a reader who missed a change does not wait for ever (D18).
pub(crate) fn is_drain_in_progress(status: Option<NodeDrainStatus>) -> bool {
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
    use std::path::Path;

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
        let boot_id = BOOT.to_owned();
        DeviceOpStatus { operation: Some(operation), counter, state, boot_id, ..DeviceOpStatus::default() }
    }

    fn image(uuid: &str, activated: bool, partition_state: &str) -> BaseOsStatus {
        BaseOsStatus {
            content_tree_uuid: uuid.to_owned(),
            base_os_version: "2.0".to_owned(),
            activated,
            partition_state: partition_state.to_owned(),
            ..BaseOsStatus::default()
        }
    }

    fn hold(uuid: &str, state: BaseOsHoldState) -> BaseOsHold {
        let (content_tree_uuid, boot_id) = (uuid.to_owned(), BOOT.to_owned());
        BaseOsHold { content_tree_uuid, state, boot_id, ..BaseOsHold::default() }
    }

    #[track_caller]
    fn check(others: &OtherAgents, expected: Option<(Operation, u32)>) {
        let found = current_command(others, BOOT, None).map(|command| (command.operation, command.counter));
        assert_eq!(found, expected, "{others:?}");
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
            let others = OtherAgents { zedagent: zedagent(&commands), device_op, ..OtherAgents::default() };
            check(&others, expected);
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
            check(&OtherAgents { hold, images: vec![image], ..OtherAgents::default() }, expected);
        }
    }

    /// `/run` is kept over a boot: the command of the earlier boot was carried out or lost.
    #[test]
    fn what_stood_in_another_boot_commands_nothing() {
        for (boot_id, is_obeyed) in [("boot-1", false), ("boot-2", true), ("", false)] {
            let of_device_op = OtherAgents {
                zedagent: zedagent(&[Operation::Reboot]),
                device_op: DeviceOpStatus {
                    boot_id: boot_id.to_owned(),
                    ..device_op(Operation::Reboot, 7, DeviceOpState::HandedOver)
                },
                ..OtherAgents::default()
            };
            check(&of_device_op, is_obeyed.then_some((Operation::Reboot, 7)));
            let of_baseos = OtherAgents {
                hold: BaseOsHold { boot_id: boot_id.to_owned(), ..hold("a", BaseOsHoldState::Activated) },
                images: vec![image("a", true, UPDATING)],
                ..OtherAgents::default()
            };
            check(&of_baseos, is_obeyed.then_some((Operation::Reboot, 0)));
        }
    }

    /// A very long text in another agent's file does not keep nodeagent from writing its own files and from starting
    /// programs.
    #[test]
    fn what_is_too_long_is_cut_or_commands_nothing() {
        let long = "x".repeat(900_000);
        let zedagent =
            ZedAgentStatus { requested_reboot_reason: long.clone(), ..zedagent(&[Operation::Reboot]) };
        let device_op = device_op(Operation::Reboot, 7, DeviceOpState::HandedOver);
        let found =
            current_command(&OtherAgents { zedagent, device_op, ..OtherAgents::default() }, BOOT, None)
                .unwrap();
        assert!(found.reason.len() < 2 * MOST_REASON_BYTES, "{} bytes", found.reason.len());
        let others = OtherAgents {
            hold: hold(&long, BaseOsHoldState::Activated),
            images: vec![image(&long, true, UPDATING)],
            ..OtherAgents::default()
        };
        check(&others, None);
        let image = BaseOsStatus { base_os_version: long, ..image("a", true, UPDATING) };
        let hold = hold("a", BaseOsHoldState::Activated);
        let found =
            current_command(&OtherAgents { hold, images: vec![image], ..OtherAgents::default() }, BOOT, None)
                .unwrap();
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
            let others =
                OtherAgents { zedagent: zedagent(&[Operation::Reboot]), device_op, ..OtherAgents::default() };
            current_command(&others, BOOT, None).unwrap()
        };
        let person = command(Source::Person);
        assert!(person.is_same(&command(Source::Person)) && !person.is_same(&command(Source::Controller)));
        assert!(person.without_record && !command(Source::Controller).without_record);
    }

    /// Otherwise a nodeagent that was killed after Acting and before the reason was written would not find the reason.
    #[test]
    fn what_is_being_carried_out_goes_before_a_later_command() {
        let others = OtherAgents {
            zedagent: zedagent(&[Operation::Reboot]),
            device_op: device_op(Operation::Reboot, 7, DeviceOpState::HandedOver),
            hold: hold("a", BaseOsHoldState::Activated),
            images: vec![image("a", true, UPDATING)],
        };
        let into_image = current_command(
            &OtherAgents { device_op: DeviceOpStatus::default(), ..others.clone() },
            BOOT,
            None,
        );
        let command = current_command(&others, BOOT, None).unwrap();
        assert_eq!(command.counter, 7);
        for (acting, expected) in
            [(into_image.as_ref(), into_image.as_ref()), (Some(&command), Some(&command))]
        {
            assert_eq!(current_command(&others, BOOT, acting).as_ref(), expected);
        }
    }

    /// Two images, one after the other, are two commands.
    #[test]
    fn a_reboot_belongs_to_its_image() {
        let into = |uuid: &str| {
            let others = OtherAgents {
                hold: hold(uuid, BaseOsHoldState::Activated),
                images: vec![image(uuid, true, UPDATING)],
                ..OtherAgents::default()
            };
            current_command(&others, BOOT, None).unwrap()
        };
        assert!(into("a").is_same(&into("a")) && !into("a").is_same(&into("b")));
        assert!(!into("a").is_same(&Command::new(Operation::Reboot, 0, None)));
    }

    #[test]
    fn the_reason_of_a_reboot_into_an_image_says_who_wants_it_and_whether_it_is_undrained() {
        let drained = "zedkube answered the request: the node may go down";
        for (release, by, reason, ending) in [
            (drained, "", "", ""),
            (drained, "alice", "", "; commanded by alice"),
            (drained, "alice", "fan swap", "; commanded by alice (fan swap)"),
            (
                "NOT DRAINED: forced",
                "alice",
                "fan swap",
                ": NOT DRAINED: forced; commanded by alice (fan swap)",
            ),
        ] {
            let hold = BaseOsHold {
                release: release.to_owned(),
                by: by.to_owned(),
                reason: reason.to_owned(),
                ..hold("a", BaseOsHoldState::Activated)
            };
            let others =
                OtherAgents { hold, images: vec![image("a", true, UPDATING)], ..OtherAgents::default() };
            let found = current_command(&others, BOOT, None).unwrap().reason;
            assert_eq!(found, format!("reboot into image 2.0 (a){ending}"));
        }
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
        let ordered = report(&[RequestLine {
            outcome: Some(Outcome::Forced),
            ..line(agent::ZEDAGENT, DrainStatus::Complete)
        }]);
        let refused = Refusal::new(Path::new("/x"), "it is no JSON", "");
        let all = [true; 7];
        let hung = ZedkubeSeen::Hung { silent_ms: 1 };
        // The columns: both run, with EVE's zedkube, only zedkube, zedkube hangs and the requester says NOT DRAINED, only
        // the requester, which says so, the same without these words, neither.
        for (report, expected) in [
            (Ok(None), [false, true, false, true, true, true, true]),
            (Err(&refused), [true, true, false, true, true, true, false]),
            (Ok(Some(&complete)), [true, true, true, true, true, false, false]),
            (Ok(Some(&ordered)), all),
            (Ok(Some(&taken_back)), [false, false, false, true, true, false, false]),
            (Ok(Some(&of_another)), [false, false, false, true, true, false, false]),
            (Ok(Some(&report(&[]))), [false, false, false, true, true, false, false]),
            (Ok(Some(&not_a_member)), all),
            (Ok(Some(&disabled)), all),
        ] {
            let alive = [
                (ZedkubeSeen::Running, true, true),
                (ZedkubeSeen::Served, true, true),
                (ZedkubeSeen::Running, false, true),
                (hung, true, true),
                (ZedkubeSeen::Away, true, true),
                (ZedkubeSeen::Away, true, false),
                (ZedkubeSeen::Away, false, true),
            ];
            let found = alive.map(|(zedkube, requester, is_undrained)| {
                is_released(agent::ZEDAGENT, report, Alive { zedkube, requester }, is_undrained)
            });
            assert_eq!(found, expected, "{report:?}");
        }
    }

    #[test]
    fn a_command_of_device_op_goes_before_an_image() {
        let others = OtherAgents {
            zedagent: zedagent(&[Operation::Poweroff]),
            device_op: device_op(Operation::Poweroff, 3, DeviceOpState::HandedOver),
            hold: hold("a", BaseOsHoldState::Activated),
            images: vec![image("a", true, "updating")],
        };
        check(&others, Some((Operation::Poweroff, 3)));
    }

    #[test]
    fn a_command_without_a_reason_gets_one() {
        for (reason, expected) in [("because", "because"), ("", "reboot command, counter 7")] {
            let zedagent = ZedAgentStatus {
                requested_reboot_reason: reason.to_owned(),
                ..zedagent(&[Operation::Reboot])
            };
            let device_op = device_op(Operation::Reboot, 7, DeviceOpState::HandedOver);
            let found =
                current_command(&OtherAgents { zedagent, device_op, ..OtherAgents::default() }, BOOT, None);
            assert_eq!(found.unwrap().reason, expected);
        }
    }

    /// D18: EVE's agents wait for a change that they may have missed.
    #[test]
    fn which_drains_are_in_progress() {
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
