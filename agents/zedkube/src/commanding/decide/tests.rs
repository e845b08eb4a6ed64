use super::*;

const NO_TEXT: u32 = 1;
const TEXT: u32 = 2;

fn given(text: Result<String, String>) -> GivenCommand {
    GivenCommand { command: NodeCommand::Reboot, counter: TEXT, text }
}

/// A reboot that counts, on a Node that was seen without one, when device-op has recorded the counter of no text.
fn known(given: Option<&GivenCommand>) -> Known<'_> {
    Known {
        command: NodeCommand::Reboot,
        is_on: true,
        node: Some((NO_TEXT, given)),
        is_seen_without: true,
        file: Some(Standing { counter: NO_TEXT, is_wanted: false }),
        recorded: Some(NO_TEXT),
        is_repeated: false,
    }
}

#[test]
fn the_command_file_follows_what_stands_on_the_node() {
    let (good, long) = (given(Ok("now".to_owned())), given(Err("too long".to_owned())));
    let (text, none) = (known(Some(&good)), known(None));
    let standing = |counter, is_wanted| Some(Standing { counter, is_wanted });
    let (asked, taken_back) = (standing(TEXT, true), standing(TEXT, false));
    for (what, known, expected) in [
        ("first contact", Known { file: None, recorded: None, ..none }, standing(NO_TEXT, false)),
        ("after a boot, without text", Known { file: None, recorded: Some(7), ..none }, standing(7, false)),
        ("nothing to do", none, standing(NO_TEXT, false)),
        ("commanded", text, asked),
        ("after a boot, commanded", Known { file: None, recorded: Some(TEXT), ..text }, asked),
        ("taken back", Known { file: asked, recorded: Some(TEXT), ..none }, taken_back),
        ("another text", Known { file: standing(9, true), recorded: Some(9), ..text }, asked),
        ("never seen without", Known { is_seen_without: false, ..text }, taken_back),
        ("the first counter is not recorded", Known { recorded: None, ..text }, standing(NO_TEXT, false)),
        ("device-op has lost its counter", Known { file: asked, recorded: None, ..text }, asked),
        ("too long", Known { node: Some((NO_TEXT, Some(&long))), ..none }, standing(NO_TEXT, false)),
        ("the Node is not seen", Known { node: None, file: asked, ..none }, asked),
        ("nothing is seen yet", Known { node: None, file: None, ..none }, None),
        ("switched off", Known { is_on: false, file: asked, ..text }, taken_back),
        ("switched off before", Known { is_on: false, file: None, recorded: None, ..text }, None),
    ] {
        assert_eq!(file(&known), expected, "{what}");
    }
}

fn line(state: CommandState, reason: &str) -> CommandLine {
    let (source, operation) = (Source::Cluster, Operation::Reboot);
    CommandLine { source, operation, counter: TEXT, state, reason: reason.to_owned() }
}

fn says(state: CommandState, reason: &str) -> DeviceOpStatus {
    DeviceOpStatus {
        operation: Some(Operation::Reboot),
        blocked_by: "blocked".to_owned(),
        release: "released".to_owned(),
        commands: vec![line(state, reason)],
        ..DeviceOpStatus::default()
    }
}

fn acts(state: DeviceActionState) -> DeviceAction {
    DeviceAction { state, command: Some(Operation::Reboot), ..DeviceAction::default() }
}

#[test]
fn the_answer_follows_what_the_agents_say() {
    use AnswerState::{Acting, Done, Drained, Draining, Failed, Recorded, Waiting};
    let good = given(Ok("now".to_owned()));
    let known = known(Some(&good));
    let silent = DeviceOpStatus::default();
    let attempt = Phase::Attempting { attempt: 1, started: drain::Moment(0) };
    let (acts, has_acted) = (acts(DeviceActionState::Acting), acts(DeviceActionState::Done));
    let device =
        Device { status: Some(&silent), action: None, phase: &Phase::Idle, request: None, last: None };
    let old_text = may_be_old(NodeCommand::Reboot);
    let (frozen, served) = (says(CommandState::Waiting, "frozen"), says(CommandState::Waiting, ""));
    let behind = DeviceOpStatus { operation: Some(Operation::Poweroff), ..served.clone() };
    let handed_over = says(CommandState::HandedOver, "");
    let (done, failed) = (says(CommandState::Done, ""), says(CommandState::Failed, "no means"));
    let (old, withdrawn) = (says(CommandState::Recorded, "old"), says(CommandState::TakenBack, ""));
    let of = |status| Device { status: Some(status), ..device };
    let too_long = given(Err("too long".to_owned()));
    let mut rows = vec![
        (known, device, Waiting, SILENT),
        (known, Device { status: None, ..device }, Waiting, SILENT),
        (Known { recorded: None, ..known }, device, Waiting, NO_FIRST_COUNTER),
        (known, of(&frozen), Waiting, "frozen"),
        (known, of(&behind), Waiting, ""),
        (known, of(&served), Waiting, "blocked"),
        (known, Device { phase: &attempt, ..of(&served) }, Draining, "blocked"),
        (known, of(&handed_over), Drained, "released"),
        (known, Device { action: Some(&acts), ..of(&handed_over) }, Acting, "released"),
        (known, Device { action: Some(&has_acted), ..of(&handed_over) }, Acting, "released"),
        (known, of(&done), Done, ""),
        (known, of(&failed), Failed, "no means"),
        (known, of(&old), Recorded, "old"),
        (known, of(&withdrawn), Failed, "it was taken back on the device"),
    ];
    // Done is said as long as device-op says it, whatever has changed since.
    for known in [Known { is_seen_without: false, ..known }, Known { is_on: false, ..known }] {
        rows.push((known, of(&done), Done, ""));
    }
    rows.push((Known { is_seen_without: false, ..known }, device, Recorded, &old_text));
    rows.push((Known { is_on: false, ..known }, device, Recorded, OFF));
    rows.push((Known { node: Some((NO_TEXT, Some(&too_long))), ..known }, device, Failed, "too long"));
    let too_late = "too late to take it back: the device is going down";
    let none = Known { node: Some((NO_TEXT, None)), ..known };
    rows.push((none, Device { action: Some(&acts), ..of(&handed_over) }, Acting, too_late));
    for (row, (known, device, state, reason)) in rows.into_iter().enumerate() {
        let expected = CommandAnswer::new(NodeCommand::Reboot, TEXT, state, reason);
        assert_eq!(answer(&known, &device), Some(expected), "row {row}");
    }
    for (known, device) in [(none, of(&done)), (Known { node: None, ..known }, of(&done))] {
        assert_eq!(answer(&known, &device), None);
    }
}

/// device-op has recorded the counter of the command, and its status has no line about it.
#[test]
fn a_command_that_is_recorded_and_that_device_op_says_nothing_of_is_a_known_one_or_goes_on() {
    use AnswerState::{Acting, Recorded, Waiting};
    let good = given(Ok("now".to_owned()));
    let asked = Some(Standing { counter: TEXT, is_wanted: true });
    let recorded = Known { file: asked, recorded: Some(TEXT), ..known(Some(&good)) };
    let silent = DeviceOpStatus::default();
    let last = |state| CommandAnswer::new(NodeCommand::Reboot, TEXT, state, "as before");
    let known_text = repeated(NodeCommand::Reboot);
    // Was it recorded before we published it? Has device-op a status in this boot?
    for (is_repeated, status, before, state, reason) in [
        (true, Some(&silent), Waiting, Recorded, known_text.as_str()),
        (true, None, Acting, Acting, "as before"),
        (true, None, Waiting, Waiting, SILENT),
        (false, Some(&silent), Waiting, Waiting, SILENT),
        (false, Some(&silent), Acting, Acting, "as before"),
    ] {
        let last = Some(&last(before));
        let device = Device { status, action: None, phase: &Phase::Idle, request: None, last };
        let expected = CommandAnswer::new(NodeCommand::Reboot, TEXT, state, reason);
        let answer = answer(&Known { is_repeated, ..recorded }, &device);
        assert_eq!(answer, Some(expected), "{is_repeated} {status:?} {before:?}");
    }
}

#[test]
fn of_two_commands_the_one_on_its_way_is_shown_and_else_the_one_that_came_last() {
    use AnswerState::{Done, Drained, Draining, Recorded, Waiting};
    use NodeCommand::{Drain, Reboot, Shutdown};
    let answer = |command, state| CommandAnswer::new(command, TEXT, state, "");
    let given = |command| GivenCommand { command, counter: TEXT, text: Ok(String::new()) };
    let last = answer(Reboot, Recorded);
    // What stood before, with the states of reboot and shutdown now.
    for (before, states, expected) in [
        (vec![Reboot], (Done, Waiting), Shutdown),
        (vec![Reboot], (Waiting, Draining), Shutdown),
        (vec![Reboot], (Done, Recorded), Shutdown),
        (vec![Shutdown], (Waiting, Waiting), Reboot),
        (vec![Shutdown, Reboot], (Done, Recorded), Reboot),
        (vec![Reboot, Shutdown], (Done, Recorded), Shutdown),
        (vec![], (Done, Recorded), Reboot),
    ] {
        let known: Vec<_> = before.iter().map(|command| (*command, TEXT)).collect();
        let came = in_order(&known, &[given(Reboot), given(Shutdown)], Some(&last));
        let all = [answer(Reboot, states.0), answer(Shutdown, states.1)];
        let shown = shown(all.into_iter(), &came).map(|answer| answer.command);
        assert_eq!(shown, Some(expected), "{before:?} {states:?}");
    }
    // A drain that stands for days hides no other command.
    for (state, expected) in [(Waiting, Reboot), (Drained, Reboot), (Done, Reboot)] {
        let came = [(Drain, TEXT), (Reboot, TEXT)];
        let all = [answer(Drain, Drained), answer(Reboot, state)];
        assert_eq!(shown(all.into_iter(), &came).map(|answer| answer.command), Some(expected), "{state:?}");
    }
}

/// A drain that counts, on a Node that was seen without one.
fn known_drain(given: &GivenCommand) -> Known<'_> {
    let command = NodeCommand::Drain;
    Known { command, file: None, recorded: None, ..known(Some(given)) }
}

#[test]
fn the_request_for_a_drain_follows_what_stands_on_the_node() {
    let drain = |text: Result<&str, &str>| GivenCommand {
        command: NodeCommand::Drain,
        counter: TEXT,
        text: text.map(str::to_owned).map_err(str::to_owned),
    };
    let (good, long) = (drain(Ok("a new fan")), drain(Err("too long")));
    let known = known_drain(&good);
    let old = Some("an old fan");
    for (what, known, present, expected) in [
        ("commanded", known, None, Some("a new fan")),
        ("another text", known, old, Some("a new fan")),
        ("taken back", Known { node: Some((NO_TEXT, None)), ..known }, old, None),
        ("never seen without", Known { is_seen_without: false, ..known }, None, None),
        ("too long", known_drain(&long), old, None),
        ("the Node is not seen", Known { node: None, ..known }, old, old),
        ("switched off", Known { is_on: false, ..known }, old, None),
    ] {
        assert_eq!(request(&known, present), expected, "{what}");
    }
}

#[test]
fn a_drain_is_answered_as_the_drain_of_this_text_goes() {
    use AnswerState::{Drained, Draining, Failed, Recorded, Waiting};
    let given = GivenCommand { command: NodeCommand::Drain, counter: TEXT, text: Ok("a new fan".to_owned()) };
    let known = known_drain(&given);
    let request = |context: &str, answer, outcome| OwnRequest {
        context: context.to_owned(),
        answer,
        outcome,
        is_member: true,
        reason: "why".to_owned(),
    };
    let (attempt, complete) = (
        Phase::Attempting { attempt: 1, started: drain::Moment(0) },
        Phase::Complete { outcome: Outcome::Drained, recheck: None },
    );
    let told = |answer, outcome| Some(request("a new fan", answer, outcome));
    let asked = |answer| told(answer, None);
    let drained = Some(Outcome::Drained);
    let alone = OwnRequest { is_member: false, ..request("a new fan", Answer::None, None) };
    let off = Known { is_on: false, ..known };
    let (old, undrained) = (may_be_old(NodeCommand::Drain), "the node is NOT drained: why");
    for (known, request, phase, state, reason) in [
        (known, None, &Phase::Idle, Waiting, ""),
        (known, Some(request("an old fan", Answer::Complete, drained)), &complete, Waiting, ""),
        (known, asked(Answer::None), &Phase::Idle, Waiting, "why"),
        (known, asked(Answer::None), &attempt, Draining, "why"),
        (known, asked(Answer::None), &complete, Draining, "why"),
        (known, told(Answer::Complete, drained), &complete, Drained, "why"),
        (known, told(Answer::Complete, Some(Outcome::NoSchedulablePeer)), &complete, Failed, undrained),
        (known, told(Answer::Forced, Some(Outcome::Forced)), &complete, Failed, undrained),
        (known, Some(alone), &Phase::Idle, Failed, undrained),
        (known, asked(Answer::FailedDrain), &Phase::Idle, Failed, "why"),
        (off, told(Answer::Complete, drained), &complete, Recorded, OFF),
        (Known { is_seen_without: false, ..known }, None, &Phase::Idle, Recorded, &old),
    ] {
        let device = Device { status: None, action: None, phase, request: request.as_ref(), last: None };
        let expected = CommandAnswer::new(NodeCommand::Drain, TEXT, state, reason);
        assert_eq!(answer(&known, &device), Some(expected), "{request:?} {phase:?}");
    }
}
