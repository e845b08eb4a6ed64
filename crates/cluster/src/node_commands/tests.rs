use super::*;

/// `printf 'u1\0ebb.dev/reboot\0now' | sha256sum`, its first eight digits.
const COUNTER: u32 = 0x25fd_3f31;

/// Devices and laptops of different versions must agree on the number of a command.
#[test]
fn the_counter_of_a_command_depends_on_node_key_and_text() {
    assert_eq!(NodeCommand::Reboot.counter("u1", "now"), COUNTER);
    for (command, uid, text) in [
        (NodeCommand::Shutdown, "u1", "now"),
        (NodeCommand::Reboot, "u2", "now"),
        (NodeCommand::Reboot, "u1", "then"),
    ] {
        assert_ne!(command.counter(uid, text), COUNTER, "{command:?} {uid} {text}");
    }
}

#[test]
fn odd_texts_are_shown_on_one_line_or_refused_and_an_empty_one_is_none() {
    for (text, expected) in [
        (Some("2026-11-28 by alice"), Some(Ok("2026-11-28 by alice".to_owned()))),
        (Some("a\nb\u{1b}[31m\u{202e}c\u{200b}"), Some(Ok("a b [31m c ".to_owned()))),
        (Some(" "), Some(Ok(" ".to_owned()))),
        (Some(&*"x".repeat(1024)), Some(Ok("x".repeat(1024)))),
        (
            Some(&*"x".repeat(262_144)),
            Some(Err("annotation ebb.dev/reboot has 262144 bytes; accepted: at most 1024".to_owned())),
        ),
        (Some(""), None),
        (None, None),
    ] {
        let annotations = text.map(|text| ("ebb.dev/reboot".to_owned(), text.to_owned()));
        let commands = NodeCommands::of("u1", &annotations.into_iter().collect());
        assert_eq!(commands.given.first().map(|given| given.text.clone()), expected);
    }
}

#[test]
fn an_answer_is_read_as_it_was_written_and_another_text_is_none() {
    let since = "2026-11-28T15:00:00Z".to_owned();
    let long = format!("\"\n{}", "r".repeat(2000));
    let answer = CommandAnswer::new(NodeCommand::Reboot, 7, AnswerState::Draining, &long);
    let answer = CommandAnswer { since, ..answer };
    assert_eq!(answer.reason, format!("\" {}…", "r".repeat(510)));
    let of = |state: &str| {
        let annotations = BTreeMap::from([(STATE.to_owned(), state.to_owned())]);
        NodeCommands::of("u1", &annotations).answer()
    };
    assert_eq!(of(&answer.to_text()), Some(answer));
    for state in
        ["", "{}", "Done", r#"{"command":"explode","counter":7,"state":"Done","reason":"","since":""}"#]
    {
        assert_eq!(of(state), None, "{state}");
    }
    let odd = r#"{"command":"reboot","counter":7,"state":"Done","reason":"a\u001b[31m\n","since":"\u202e"}"#;
    let odd = of(odd).unwrap();
    assert_eq!((odd.reason.as_str(), odd.since.as_str()), ("a [31m ", " "));
}
