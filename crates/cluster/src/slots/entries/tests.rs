use super::*;
use crate::slots::PassedOver;

fn holder(node: &str, uid: &str, renewal: u64) -> Holder {
    let (node, node_uid, boot_id) = (node.to_owned(), uid.to_owned(), "b".to_owned());
    Holder { node, node_uid, boot_id, renewal, passed_over: vec![] }
}

fn passed(node: &str) -> PassedOver {
    PassedOver { node: node.to_owned(), node_uid: format!("uid-{node}"), renewal: 3 }
}

const ONE: &str = r#"{"Node":"edge-a","NodeUID":"u1","BootID":"b","Renewal":7}"#;

#[test]
fn what_is_written_is_read_again() {
    let with = |passed_over| Holder { passed_over, ..holder("edge-a", "u1", 7) };
    let passed_over = r#""Renewal":7,"PassedOver":[{"Node":"edge-b","NodeUID":"uid-edge-b","Renewal":3}]}"#;
    let cases = [
        (with(vec![]), ONE.to_owned()),
        (with(vec![passed("edge-b")]), ONE.replace(r#""Renewal":7}"#, passed_over)),
    ];
    for (holder, text) in cases {
        assert_eq!(write("edge-a", &holder), Ok(text.clone()));
        assert_eq!(read("edge-a", &text), Ok(holder), "{text}");
    }
    let largest = holder("edge-a", "u1", u64::MAX);
    assert_eq!(read("edge-a", &write("edge-a", &largest).unwrap()), Ok(largest));
}

#[test]
fn what_a_newer_ebb_adds_is_ignored() {
    let text = r#" {"NodeUID":"u1","Extra":{"a":[1]},"Renewal":7,"Node":"edge-a","BootID":"b"} "#;
    assert_eq!(read("edge-a", text), Ok(holder("edge-a", "u1", 7)));
    let text = text.replace("\"b\"", "\"\"");
    assert_eq!(read("edge-a", &text).unwrap().boot_id, "", "which boot it was decides nothing here");
}

#[test]
fn what_is_not_ours_is_not_guessed_at() {
    let entry = "is not an entry of the slots";
    let cases = [
        (String::new(), entry),
        (format!("{ONE} x"), entry),
        ("[".repeat(10_000), entry),
        (ONE.replace(r#""NodeUID":"u1","#, ""), entry),
        (ONE.replace(r#""Node":"edge-a","#, ""), entry),
        (ONE.replace(r#""BootID":"b","#, ""), entry),
        (ONE.replace(r#","Renewal":7"#, ""), entry),
        (ONE.replace(":7", ":-1"), entry),
        (ONE.replace(":7", ":18446744073709551616"), entry),
        (ONE.replace(":7", ":7,\"Renewal\":8"), entry),
        (ONE.replace(":7", ":7,\"PassedOver\":[{}]"), entry),
        (ONE.replace("u1", ""), "has no NodeUID"),
        (ONE.replace("edge-a", ""), "does not name its Node"),
        (ONE.replace("edge-a", "edge-b"), "does not name its Node"),
    ];
    for (text, expected) in cases {
        let why = read("edge-a", &text).unwrap_err();
        assert!(why.contains(expected), "{text}: {why}");
        assert!(!why.contains("edge-a"), "{why}");
    }
    let nameless = ONE.replace("edge-a", "a/../b");
    assert!(read("a/../b", &nameless).unwrap_err().contains("does not name its Node"));
}

#[test]
fn there_is_a_limit() {
    let padded = |length: usize| format!("{ONE}{}", " ".repeat(length - ONE.len()));
    assert!(read("edge-a", &padded(LONGEST)).is_ok());
    assert_eq!(read("edge-a", &padded(LONGEST + 1)), Err("has 65537 bytes, more than 65536".to_owned()));
    let long = write("a", &holder("a", &"u".repeat(LONGEST), 1)).unwrap_err();
    assert!(long.contains("bytes, more than 65536"), "{long}");
    let many = Holder { passed_over: vec![PassedOver::default(); MOST + 1], ..holder("a", "u", 1) };
    assert!(write("a", &many).unwrap_err().contains("1001 entries"));
    for bad in [holder("", "u", 1), holder("a", "", 1)] {
        assert!(write(&bad.node, &bad).is_err(), "{bad:?}");
    }
}
