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
        operation: Operation::Reboot,
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

fn line(state: Fate, reason: &str) -> CommandLine {
    let (source, operation) = (Source::Cluster, Operation::Reboot);
    CommandLine { source, operation, counter: TEXT, state, reason: reason.to_owned() }
}

fn says(state: Fate, reason: &str) -> DeviceOpStatus {
    DeviceOpStatus {
        operation: Some(Operation::Reboot),
        blocked_by: "blocked".to_owned(),
        release: "released".to_owned(),
        commands: vec![line(state, reason)],
        ..DeviceOpStatus::default()
    }
}

#[test]
fn the_answer_follows_what_the_agents_say() {
    use CommandState::{Acting, Done, Drained, Draining, Failed, Recorded, Waiting};
    let good = given(Ok("now".to_owned()));
    let known = known(Some(&good));
    let silent = DeviceOpStatus::default();
    let attempt = Phase::Attempting { attempt: 1, started: drain::Moment(0) };
    let acts = DeviceAction {
        state: DeviceActionState::Acting,
        command: Some(Operation::Reboot),
        ..DeviceAction::default()
    };
    let device = Device { status: Some(&silent), action: None, phase: &Phase::Idle, last: None };
    let last = |state| {
        let (command, reason) = (NodeCommand::Reboot, "as before".to_owned());
        Progress { command, counter: TEXT, state, reason }.dated(String::new())
    };
    let asked = Some(Standing { counter: TEXT, is_wanted: true });
    let (recorded, waiting, acting) =
        (Known { file: asked, recorded: Some(TEXT), ..known }, last(Waiting), last(Acting));
    let (frozen, served) = (says(Fate::Waiting, "frozen"), says(Fate::Waiting, ""));
    let behind = DeviceOpStatus { operation: Some(Operation::Poweroff), ..served.clone() };
    let handed_over = says(Fate::HandedOver, "");
    let (done, failed) = (says(Fate::Done, ""), says(Fate::Failed, "no means"));
    let (old, withdrawn) = (says(Fate::Recorded, "old"), says(Fate::TakenBack, ""));
    let of = |status| Device { status: Some(status), ..device };
    let too_long = given(Err("too long".to_owned()));
    let mut rows = vec![
        (known, device, Waiting, SILENT),
        (known, Device { status: None, ..device }, Waiting, SILENT),
        (Known { recorded: None, ..known }, device, Waiting, NO_FIRST_COUNTER),
        (Known { is_repeated: true, ..recorded }, Device { last: Some(&waiting), ..device }, Recorded, KNOWN),
        // device-op has recorded the counter, and does not say so yet; after a boot, it says nothing yet.
        (recorded, Device { last: Some(&waiting), ..device }, Waiting, SILENT),
        (recorded, Device { last: Some(&acting), ..device }, Acting, "as before"),
        (known, of(&frozen), Waiting, "frozen"),
        (known, of(&behind), Waiting, ""),
        (known, of(&served), Waiting, "blocked"),
        (known, Device { phase: &attempt, ..of(&served) }, Draining, "blocked"),
        (known, of(&handed_over), Drained, "released"),
        (known, Device { action: Some(&acts), ..of(&handed_over) }, Acting, "released"),
        (known, of(&done), Done, ""),
        (known, of(&failed), Failed, "no means"),
        (known, of(&old), Recorded, "old"),
        (known, of(&withdrawn), Failed, "it was taken back on the device"),
    ];
    // Done is said as long as device-op says it, whatever has changed since.
    for known in [Known { is_seen_without: false, ..known }, Known { is_on: false, ..known }] {
        rows.push((known, of(&done), Done, ""));
    }
    rows.push((Known { is_seen_without: false, ..known }, device, Recorded, MAY_BE_OLD));
    rows.push((Known { is_on: false, ..known }, device, Recorded, OFF));
    rows.push((Known { node: Some((NO_TEXT, Some(&too_long))), ..known }, device, Failed, "too long"));
    let too_late = "too late to take it back: the device is going down";
    let none = Known { node: Some((NO_TEXT, None)), ..known };
    rows.push((none, Device { action: Some(&acts), ..of(&handed_over) }, Acting, too_late));
    for (row, (known, device, state, reason)) in rows.into_iter().enumerate() {
        let answer =
            answer(&known, &device).map(|progress| (progress.counter, progress.state, progress.reason));
        assert_eq!(answer, Some((TEXT, state, reason.to_owned())), "row {row}");
    }
    for (known, device) in [(none, of(&done)), (Known { node: None, ..known }, of(&done))] {
        assert_eq!(answer(&known, &device), None);
    }
}

#[test]
fn of_two_commands_the_one_on_its_way_is_shown_and_else_the_one_that_came_last() {
    use CommandState::{Done, Draining, Recorded, Waiting};
    use NodeCommand::{Reboot, Shutdown};
    let progress = |command, state| Progress { command, counter: TEXT, state, reason: String::new() };
    let given = |command| GivenCommand { command, counter: TEXT, text: Ok(String::new()) };
    let last = progress(Reboot, Recorded).dated(String::new());
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
        let all = [progress(Reboot, states.0), progress(Shutdown, states.1)];
        let shown = shown(all.into_iter(), &came).map(|progress| progress.command);
        assert_eq!(shown, Some(expected), "{before:?} {states:?}");
    }
}
