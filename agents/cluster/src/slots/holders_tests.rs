use super::*;

fn holder(node: &str, uid: &str, renewal: u64) -> Holder {
    Holder { node: node.to_owned(), node_uid: uid.to_owned(), boot_id: "b".to_owned(), renewal }
}

const ONE: &str = r#"{"Node":"edge-a","NodeUID":"u1","BootID":"b","Renewal":7}"#;

#[test]
fn what_is_written_is_read_again() {
    let cases = [
        (vec![], "[]".to_owned()),
        (vec![holder("edge-a", "u1", 7)], format!("[{ONE}]")),
        (vec![holder("edge-a", "u1", 7), holder("edge-a", "u1", 7)], format!("[{ONE},{ONE}]")),
    ];
    for (holders, text) in cases {
        assert_eq!(write(&holders), Ok(text.clone()));
        assert_eq!(read(&text), Ok(holders), "{text}");
    }
    let largest = vec![holder("edge-a", "u1", u64::MAX)];
    assert_eq!(read(&write(&largest).unwrap()), Ok(largest));
}

#[test]
fn what_a_newer_ebb_adds_is_ignored() {
    let text = r#" [ {"NodeUID":"u1","Extra":{"a":[1]},"Renewal":7,"Node":"edge-a","BootID":"b"} ] "#;
    assert_eq!(read(text), Ok(vec![holder("edge-a", "u1", 7)]));
    let text = text.replace("\"b\"", "\"\"");
    assert_eq!(read(&text).unwrap()[0].boot_id, "", "which boot it was decides nothing here");
}

#[test]
fn what_is_not_ours_is_not_guessed_at() {
    let list = "is not a list of holders";
    let cases = [
        (String::new(), list),
        ("null".to_owned(), list),
        ("{}".to_owned(), list),
        (ONE.to_owned(), list),
        (format!("[{ONE}"), list),
        (format!("[{ONE}] x"), list),
        (format!("[{ONE},null]"), list),
        ("[{}]".to_owned(), list),
        ("[[]]".to_owned(), list),
        ("[".repeat(10_000), list),
        (format!("[{}]", ONE.replace(r#""NodeUID":"u1","#, "")), list),
        (format!("[{}]", ONE.replace(r#""Node":"edge-a","#, "")), list),
        (format!("[{}]", ONE.replace(r#""BootID":"b","#, "")), list),
        (format!("[{}]", ONE.replace(r#","Renewal":7"#, "")), list),
        (format!("[{}]", ONE.replace("NodeUID", "nodeUID")), list),
        (format!("[{}]", ONE.replace(":7", ":-1")), list),
        (format!("[{}]", ONE.replace(":7", ":7.5")), list),
        (format!("[{}]", ONE.replace(":7", ":\"7\"")), list),
        (format!("[{}]", ONE.replace(":7", ":18446744073709551616")), list),
        (format!("[{}]", ONE.replace(":7", ":7,\"Renewal\":8")), list),
        (format!("[{}]", ONE.replace("\"u1\"", "1")), list),
        (format!("[{ONE},{}]", ONE.replace("u1", "")), "a holder without NodeUID (number 2)"),
        (format!("[{}]", ONE.replace("edge-a", "")), "without the name of a Node (number 1)"),
        (format!("[{}]", ONE.replace("edge-a", "a/../b")), "without the name of a Node (number 1)"),
    ];
    for (text, expected) in cases {
        let why = read(&text).unwrap_err();
        assert!(why.contains(expected), "{text}: {why}");
        assert!(!why.contains("edge-a"), "{why}");
    }
}

#[test]
fn there_is_a_limit() {
    let most = vec![holder("a", "u", 1); MOST];
    let text = write(&most).unwrap();
    assert_eq!(read(&text), Ok(most.clone()));
    let more = [most, vec![holder("a", "u", 1)]].concat();
    let too_many = "has 1001 holders, more than 1000";
    assert_eq!(write(&more), Err(format!("annotation `ebb.dev/holders` {too_many}")));
    assert_eq!(read(&serde_json::to_string(&more).unwrap()), Err(too_many.to_owned()));

    let padded = |length: usize| format!("[]{}", " ".repeat(length - 2));
    assert_eq!(read(&padded(LONGEST)), Ok(vec![]));
    assert_eq!(read(&padded(LONGEST + 1)), Err("has 65537 bytes, more than 65536".to_owned()));
    let long = write(&[holder("a", &"u".repeat(LONGEST), 1)]).unwrap_err();
    assert!(long.contains("bytes, more than 65536"), "{long}");
    for bad in [holder("", "u", 1), holder("a", "", 1)] {
        assert!(write(std::slice::from_ref(&bad)).is_err(), "{bad:?}");
    }
}
