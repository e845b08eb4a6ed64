use super::*;

fn topic() -> String {
    "NodeDrainStatus".to_owned()
}

/// The datagrams of the module's documentation, with their meaning.
fn known() -> Vec<(&'static str, Message)> {
    let (key, json) = (b"global".to_vec(), br#"{"Status":5,"RequestedBy":2}"#.to_vec());
    vec![
        ("request NodeDrainStatus", Message::Request { topic: topic() }),
        ("hello NodeDrainStatus", Message::Hello { topic: topic(), is_persistent: None }),
        ("hello NodeDrainStatus false", Message::Hello { topic: topic(), is_persistent: Some(false) }),
        ("hello NodeDrainStatus true", Message::Hello { topic: topic(), is_persistent: Some(true) }),
        (
            "update NodeDrainStatus Z2xvYmFs eyJTdGF0dXMiOjUsIlJlcXVlc3RlZEJ5IjoyfQ==",
            Message::Update { topic: topic(), key: key.clone(), json },
        ),
        // An empty key gives two spaces in a row.
        (
            "update NodeDrainStatus  e30=",
            Message::Update { topic: topic(), key: Vec::new(), json: b"{}".to_vec() },
        ),
        ("delete NodeDrainStatus Z2xvYmFs", Message::Delete { topic: topic(), key }),
        ("complete NodeDrainStatus", Message::Complete { topic: topic() }),
        ("restarted NodeDrainStatus 1", Message::Restarted { topic: topic(), count: 1 }),
        ("restarted NodeDrainStatus 0", Message::Restarted { topic: topic(), count: 0 }),
    ]
}

#[test]
fn messages_are_read_and_written_as_eve_does() {
    for (datagram, message) in known() {
        assert_eq!(Message::decode(datagram.as_bytes()).as_ref(), Ok(&message), "{datagram}");
        assert_eq!(String::from_utf8(message.encode()).unwrap(), datagram);
        assert_eq!(message.topic(), "NodeDrainStatus");
    }
}

#[test]
fn what_is_no_message_is_refused_with_words() {
    for (datagram, word) in [
        ("", "request, hello"),
        (" ", "request, hello"),
        ("Hello NodeDrainStatus false", "request, hello"),
        ("publish NodeDrainStatus", "request, hello"),
        ("request", "`request <topic>`"),
        ("request ", "`request <topic>`"),
        ("request a b", "`request <topic>`"),
        ("hello", "`hello <topic>"),
        ("hello a yes", "`hello <topic>"),
        ("hello a true x", "`hello <topic>"),
        ("update a Z2xvYmFs", "`update <topic>"),
        ("update a Z2xvYmFs e30= ", "`update <topic>"),
        ("update a Z2xvYmFs e30= x y z", "`update <topic>"),
        ("update a Z2xvYmF e30=", "base64"),
        ("update a Z2xvYmFs e30", "base64"),
        ("update a Z2xvYmFs e3\n0=", "base64"),
        ("delete a", "`delete <topic>"),
        ("delete a Z2xvYm-_", "base64"),
        ("complete", "`complete <topic>`"),
        ("complete a b", "`complete <topic>`"),
        ("restarted a", "`restarted <topic>"),
        ("restarted a +1", "`restarted <topic>"),
        ("restarted a -1", "`restarted <topic>"),
        ("restarted a 99999999999999999999", "64 bits"),
    ] {
        let error = Message::decode(datagram.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(word), "{datagram:?}: {error}");
    }
    assert!(Message::decode(b"hello \xff false").is_err());
    assert!(Message::decode(&vec![b'a'; MAX_READ_BYTES + 1]).is_err());
}

#[test]
fn an_error_repeats_only_the_start_and_no_control_characters() {
    let long = format!("bad\u{1b}[31m{}", "x".repeat(60_000));
    let error = Message::decode(long.as_bytes()).unwrap_err().to_string();
    assert!(error.len() < 200 && !error.contains('\u{1b}'), "{error}");
}

#[test]
fn the_length_of_an_update_is_known_beforehand() {
    for (key, json) in [("global", 0), ("g", 1), ("gl", 2), ("glo", 3), ("é", 1000)] {
        let message =
            Message::Update { topic: topic(), key: key.as_bytes().to_vec(), json: vec![b' '; json] };
        assert_eq!(update_bytes("NodeDrainStatus", key, json), message.encode().len());
    }
}

#[test]
fn of_an_update_that_was_cut_off_the_key_is_known() {
    let of = |datagram: &str| Message::key_of_truncated_update(datagram.as_bytes());
    assert_eq!(of("update a Z2xvYmFs eyJTd").as_deref(), Some(b"global".as_slice()));
    assert_eq!(of("update a Z2xvYmFs"), None, "the key itself may be cut off");
    assert_eq!(of("delete a Z2xvYmFs x"), None);
    assert_eq!(of("update a !!! x"), None);
}
