use super::*;

const NO_TEXT: u32 = 1;
const TEXT: u32 = 2;

fn given(text: Result<String, String>) -> GivenCommand {
    GivenCommand { command: NodeCommand::Reboot, counter: TEXT, text }
}

/// A reboot that counts, on a Node that was seen without one.
fn known(given: Option<&GivenCommand>) -> Known<'_> {
    Known { command: NodeCommand::Reboot, is_on: true, node: Some((NO_TEXT, given)), is_seen_without: true }
}

/// device-op has recorded the counter of no text.
const FILES: OperationFiles = OperationFiles {
    file: Some(Standing { counter: NO_TEXT, is_wanted: false }),
    recorded: Some(NO_TEXT),
    is_repeated: false,
};

const fn device_op(files: OperationFiles, status: Option<&DeviceOpStatus>) -> Taker<'_> {
    Taker::DeviceOp(Operation::Reboot, files, status)
}

#[test]
fn the_command_file_follows_what_stands_on_the_node() {
    let (good, long) = (given(Ok("now".to_owned())), given(Err("too long".to_owned())));
    let (text, none) = (known(Some(&good)), known(None));
    let standing = |counter, is_wanted| Some(Standing { counter, is_wanted });
    let (asked, taken_back) = (standing(TEXT, true), standing(TEXT, false));
    let files = |file, recorded| OperationFiles { file, recorded, ..FILES };
    let (first, unseen) = (standing(NO_TEXT, false), Known { node: None, ..none });
    let off = Known { is_on: false, ..text };
    for (what, known, files, expected) in [
        ("first contact", none, files(None, None), first),
        ("after a boot, without text", none, files(None, Some(7)), standing(7, false)),
        ("nothing to do", none, FILES, first),
        ("commanded", text, FILES, asked),
        ("after a boot, commanded", text, files(None, Some(TEXT)), asked),
        ("taken back", none, files(asked, Some(TEXT)), taken_back),
        ("another text", text, files(standing(9, true), Some(9)), asked),
        ("never seen without", Known { is_seen_without: false, ..text }, FILES, taken_back),
        ("the first counter is not recorded", text, files(first, None), first),
        ("device-op has lost its counter", text, files(asked, None), asked),
        ("too long", Known { node: Some((NO_TEXT, Some(&long))), ..none }, FILES, first),
        ("the Node is not seen", unseen, files(asked, Some(NO_TEXT)), asked),
        ("nothing is seen yet", unseen, files(None, Some(NO_TEXT)), None),
        ("switched off", off, files(asked, Some(NO_TEXT)), taken_back),
        ("switched off before", off, files(None, None), None),
    ] {
        assert_eq!(file(&known, files), expected, "{what}");
    }
}

fn command_line(state: CommandState, reason: &str) -> CommandLine {
    let (source, operation) = (Source::Cluster, Operation::Reboot);
    CommandLine { source, operation, counter: TEXT, state, reason: reason.to_owned() }
}

fn says(state: CommandState, reason: &str) -> DeviceOpStatus {
    DeviceOpStatus {
        operation: Some(Operation::Reboot),
        blocked_by: "blocked".to_owned(),
        release: "released".to_owned(),
        commands: vec![command_line(state, reason)],
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
    let nothing = DeviceOpStatus::default();
    let attempt = Phase::Attempting { attempt: 1, started: drain::Moment(0) };
    let (acts, has_acted) = (acts(DeviceActionState::Acting), acts(DeviceActionState::Done));
    let device = Device { action: None, phase: &Phase::Idle, last: None };
    let [drains, acts, has_acted] = [
        Device { phase: &attempt, ..device },
        Device { action: Some(&acts), ..device },
        Device { action: Some(&has_acted), ..device },
    ];
    let old_text = may_be_old(NodeCommand::Reboot);
    let (frozen, served) = (says(CommandState::Waiting, "frozen"), says(CommandState::Waiting, ""));
    let behind = DeviceOpStatus { operation: Some(Operation::Poweroff), ..served.clone() };
    let handed_over = says(CommandState::HandedOver, "");
    let (done, failed) = (says(CommandState::Done, ""), says(CommandState::Failed, "no means"));
    let (old, withdrawn) = (says(CommandState::Recorded, "old"), says(CommandState::TakenBack, ""));
    let of = |status| device_op(FILES, Some(status));
    let unrecorded = OperationFiles { recorded: None, ..FILES };
    let too_long = given(Err("too long".to_owned()));
    let is_silent = silent(&of(&nothing));
    let mut rows = vec![
        (known, of(&nothing), device, Waiting, is_silent.as_str()),
        (known, device_op(FILES, None), device, Waiting, &is_silent),
        (known, device_op(unrecorded, Some(&nothing)), device, Waiting, NO_FIRST_COUNTER),
        (known, of(&frozen), device, Waiting, "frozen"),
        (known, of(&behind), device, Waiting, ""),
        (known, of(&served), device, Waiting, "blocked"),
        (known, of(&served), drains, Draining, "blocked"),
        (known, of(&handed_over), device, Drained, "released"),
        (known, of(&handed_over), acts, Acting, "released"),
        (known, of(&handed_over), has_acted, Acting, "released"),
        (known, of(&done), device, Done, ""),
        (known, of(&failed), device, Failed, "no means"),
        (known, of(&old), device, Recorded, "old"),
        (known, of(&withdrawn), device, Failed, "it was taken back on the device"),
    ];
    // Done is said as long as device-op says it, whatever has changed since.
    for known in [Known { is_seen_without: false, ..known }, Known { is_on: false, ..known }] {
        rows.push((known, of(&done), device, Done, ""));
    }
    rows.push((Known { is_seen_without: false, ..known }, of(&nothing), device, Recorded, &old_text));
    rows.push((Known { is_on: false, ..known }, of(&nothing), device, Recorded, OFF));
    let refused = Known { node: Some((NO_TEXT, Some(&too_long))), ..known };
    rows.push((refused, of(&nothing), device, Failed, "too long"));
    let none = Known { node: Some((NO_TEXT, None)), ..known };
    rows.push((none, of(&handed_over), acts, Acting, TOO_LATE));
    for (row, (known, taker, device, state, reason)) in rows.into_iter().enumerate() {
        let expected = CommandAnswer::new(NodeCommand::Reboot, TEXT, state, reason);
        assert_eq!(answer(&known, &taker, &device), Some(expected), "row {row}");
    }
    for known in [none, Known { node: None, ..known }] {
        assert_eq!(answer(&known, &of(&done), &device), None);
    }
}

/// device-op has recorded the counter of the command, and its status has no line about it.
#[test]
fn a_command_that_is_recorded_and_that_device_op_says_nothing_of_is_a_known_one_or_goes_on() {
    use AnswerState::{Acting, Recorded, Waiting};
    let good = given(Ok("now".to_owned()));
    let asked = Some(Standing { counter: TEXT, is_wanted: true });
    let nothing = DeviceOpStatus::default();
    let is_silent = silent(&device_op(FILES, None));
    let last = |state| CommandAnswer::new(NodeCommand::Reboot, TEXT, state, "as before");
    let known_text = repeated(NodeCommand::Reboot);
    // Was it recorded before we published it? Has device-op a status in this boot?
    for (is_repeated, status, before, state, reason) in [
        (true, Some(&nothing), Waiting, Recorded, known_text.as_str()),
        (true, None, Acting, Acting, "as before"),
        (true, None, Waiting, Waiting, &is_silent),
        (false, Some(&nothing), Waiting, Waiting, &is_silent),
        (false, Some(&nothing), Acting, Acting, "as before"),
    ] {
        let taker = device_op(OperationFiles { file: asked, recorded: Some(TEXT), is_repeated }, status);
        let device = Device { action: None, phase: &Phase::Idle, last: Some(&last(before)) };
        let expected = CommandAnswer::new(NodeCommand::Reboot, TEXT, state, reason);
        let answer = answer(&known(Some(&good)), &taker, &device);
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
    Known { command: NodeCommand::Drain, ..known(Some(given)) }
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
        let device = Device { action: None, phase, last: None };
        let expected = CommandAnswer::new(NodeCommand::Drain, TEXT, state, reason);
        let taker = Taker::Drain(request.as_ref());
        assert_eq!(answer(&known, &taker, &device), Some(expected), "{request:?} {phase:?}");
    }
}

const IMAGE: &str = "6ba7b810-9dad-11d1-80b4-000000000002";

/// An update that counts, with this text.
fn update(text: &str) -> GivenCommand {
    GivenCommand { command: NodeCommand::Update, counter: TEXT, text: Ok(text.to_owned()) }
}

/// baseos has this image of this source in its hands.
fn line(source: Source, image: &str, counter: u32) -> ImageLine {
    ImageLine {
        source,
        content_tree_uuid: image.to_owned(),
        base_os_version: "2.0".to_owned(),
        retry_update_counter: counter,
        state: CommandState::Waiting,
        reason: "why".to_owned(),
    }
}

fn known_update(given: Option<&GivenCommand>) -> Known<'_> {
    Known { command: NodeCommand::Update, ..known(given) }
}

#[test]
fn the_image_follows_what_stands_on_the_node() {
    let wanted = BaseOsConfig {
        base_os_version: "2.0".to_owned(),
        content_tree_uuid: IMAGE.to_owned(),
        retry_update_counter: TEXT,
        activate: true,
        by: String::new(),
        reason: "new kernel".to_owned(),
    };
    let good = update(&format!(
        r#"{{"image":"{}","version":"2.0","reason":"new\u001bkernel"}}"#,
        IMAGE.to_uppercase()
    ));
    let known = known_update(Some(&good));
    let old = BaseOsConfig { retry_update_counter: 7, ..wanted.clone() };
    // What baseos has kept over a boot: the image, or another one.
    let held = |image: &str| BaseOsHold {
        images: [Source::Person, Source::Cluster].map(|source| line(source, image, TEXT)).to_vec(),
        ..BaseOsHold::default()
    };
    let (same, other) = (held(IMAGE), held("another"));
    let mut done = same.clone();
    done.images.iter_mut().for_each(|line| line.state = CommandState::Done);
    let not_other = BaseOsConfig {
        base_os_version: "2.0".to_owned(),
        content_tree_uuid: "another".to_owned(),
        retry_update_counter: TEXT,
        ..BaseOsConfig::default()
    };
    let not_same = BaseOsConfig { content_tree_uuid: IMAGE.to_owned(), ..not_other.clone() };
    let (off, unseen) = (Known { is_on: false, ..known }, Known { node: None, ..known });
    for (what, known, present, hold, expected) in [
        ("commanded", known, None, None, vec![&wanted]),
        ("another text", known, Some(&old), Some(&same), vec![&wanted]),
        ("taken back", known_update(None), Some(&old), Some(&same), vec![]),
        ("taken back when it was done", known_update(None), None, Some(&done), vec![]),
        ("baseos has not dropped it yet", known_update(None), Some(&not_same), Some(&same), vec![&not_same]),
        ("taken back while the device was down", known_update(None), None, Some(&same), vec![&not_same]),
        ("another image while it was down", known, None, Some(&other), vec![&not_other, &wanted]),
        ("never seen without", Known { is_seen_without: false, ..known }, None, None, vec![]),
        ("the Node is not seen", unseen, Some(&old), Some(&other), vec![&old]),
        ("switched off", off, Some(&old), None, vec![]),
    ] {
        let present = present.into_iter().cloned().collect();
        assert_eq!(images(&known, present, hold).iter().collect::<Vec<_>>(), expected, "{what}");
    }
}

#[test]
fn a_text_that_names_no_image_is_refused_with_what_is_accepted() {
    let old = BaseOsConfig { content_tree_uuid: IMAGE.to_owned(), ..BaseOsConfig::default() };
    let device = Device { action: None, phase: &Phase::Idle, last: None };
    let long = format!(r#"{{"{}":1}}"#, "x".repeat(900));
    for (text, why) in [
        ("2.0", "invalid type"),
        (&long, "unknown field `xxx"),
        ("{", "EOF while parsing"),
        (r#"{"image":"x"}"#, "missing field `version`"),
        (r#"{"image":7,"version":"2.0"}"#, "invalid type"),
        (r#"{"image":"x","version":"2.0","when":"now"}"#, "unknown field `when`"),
        (r#"{"image":"x","version":"2.0"}"#, "ContentTreeUUID is no UUID"),
        (r#"{"image":"../../etc","version":"2.0"}"#, "ContentTreeUUID is no UUID"),
        (r#"{"image":"6ba7b810-9dad-11d1-80b4-000000000002","version":"../2"}"#, "BaseOsVersion cannot"),
    ] {
        let given = update(text);
        let known = known_update(Some(&given));
        let answer = answer(&known, &Taker::Baseos(None), &device).unwrap();
        assert_eq!(images(&known, vec![old.clone()], None), [], "{text}");
        assert_eq!(answer.state, AnswerState::Failed, "{text}");
        assert!(
            answer.reason.starts_with("the text of annotation ebb.dev/update is refused: "),
            "{answer:?}"
        );
        assert!(answer.reason.contains(why) && answer.reason.contains("accepted: "), "{answer:?}");
    }
}

#[test]
fn an_update_is_answered_as_baseos_says_of_this_text() {
    use AnswerState::{Acting, Done, Drained, Draining, Failed, Recorded, Waiting};
    let given = update(&format!(r#"{{"image":"{IMAGE}","version":"2.0"}}"#));
    let known = known_update(Some(&given));
    let says = |source, counter, state| BaseOsHold {
        content_tree_uuid: IMAGE.to_owned(),
        images: vec![ImageLine { state, ..line(source, IMAGE, counter) }],
        ..BaseOsHold::default()
    };
    let said = |state| Some(says(Source::Cluster, TEXT, state));
    let another = Some(says(Source::Cluster, TEXT + 1, CommandState::Failed));
    let of_person = Some(says(Source::Person, TEXT, CommandState::Failed));
    let behind = said(CommandState::Waiting).map(|hold| BaseOsHold { content_tree_uuid: "x".into(), ..hold });
    let attempt = Phase::Attempting { attempt: 1, started: drain::Moment(0) };
    let device = Device { action: None, phase: &attempt, last: None };
    let action = DeviceAction { content_tree_uuid: IMAGE.to_owned(), ..acts(DeviceActionState::Acting) };
    let last = CommandAnswer::new(NodeCommand::Update, TEXT, Acting, "as before");
    let [goes, told] = [Device { action: Some(&action), ..device }, Device { last: Some(&last), ..device }];
    let goes_told = Device { last: Some(&last), ..goes };
    let (is_silent, old) = (silent(&Taker::Baseos(None)), may_be_old(NodeCommand::Update));
    let off = Known { is_on: false, ..known };
    for (row, (known, hold, device, state, reason)) in [
        (known, None, device, Waiting, is_silent.as_str()),
        (known, another.clone(), device, Waiting, &is_silent),
        (known, of_person, device, Waiting, &is_silent),
        (known, None, told, Acting, "as before"),
        (known, said(CommandState::Waiting), device, Draining, "why"),
        (known, behind, device, Waiting, "why"),
        (known, said(CommandState::HandedOver), device, Drained, "why"),
        (known, said(CommandState::HandedOver), goes, Acting, "why"),
        (known, said(CommandState::Done), device, Done, "why"),
        (known, said(CommandState::Failed), device, Failed, "why"),
        (off, None, device, Recorded, OFF),
        (Known { is_seen_without: false, ..known }, None, device, Recorded, &old),
        (known_update(None), None, goes_told, Acting, TOO_LATE),
    ]
    .into_iter()
    .enumerate()
    {
        let expected = CommandAnswer::new(NodeCommand::Update, TEXT, state, reason);
        let answer = answer(&known, &Taker::Baseos(hold.as_ref()), &device);
        assert_eq!(answer, Some(expected), "row {row}");
    }
    // Of another image nothing is too late.
    let done = CommandAnswer::new(NodeCommand::Update, TEXT, Done, "");
    for device in [device, told, goes, Device { last: Some(&done), ..goes }] {
        assert_eq!(answer(&known_update(None), &Taker::Baseos(another.as_ref()), &device), None);
    }
}
