use super::*;

fn key(text: &str) -> TopicKey {
    TopicKey::parse(text).unwrap()
}

/// Takes the next message as sent, and returns it as a word.
fn say(queue: &mut SendQueue, snapshot: &Snapshot) -> Option<String> {
    let saying = queue.next(snapshot)?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let words = match &saying.message {
        Message::Request { .. } => "request".to_owned(),
        Message::Hello { is_persistent, .. } => format!("hello {is_persistent:?}"),
        Message::Update { key, json, .. } => format!("{}={}", text(key), text(json)),
        Message::Delete { key, .. } => format!("-{}", text(key)),
        Message::Complete { .. } => "complete".to_owned(),
        Message::Restarted { count, .. } => format!("restarted {count}"),
    };
    queue.sent(saying);
    Some(words)
}

fn all(queue: &mut SendQueue, snapshot: &Snapshot) -> Vec<String> {
    std::iter::from_fn(|| say(queue, snapshot)).collect()
}

fn snapshot(items: &[(&str, &str)]) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for (name, json) in items {
        assert!(snapshot.set(&key(name), json.as_bytes()));
    }
    snapshot
}

/// A subscriber that has had all of these items.
fn following(items: &[(&str, &str)]) -> (SendQueue, Snapshot) {
    let snapshot = snapshot(items);
    let mut queue = SendQueue::new("Topic", false);
    all(&mut queue, &snapshot);
    (queue, snapshot)
}

#[test]
fn at_first_hello_all_items_complete_and_the_counter_if_there_is_one() {
    let mut snapshot = snapshot(&[("b", "2"), ("a", "1")]);
    let expected = ["hello Some(true)", "a=1", "b=2", "complete"];
    assert_eq!(all(&mut SendQueue::new("Topic", true), &snapshot), expected);
    snapshot.set_restarted(3);
    assert_eq!(all(&mut SendQueue::new("Topic", true), &snapshot)[4..], ["restarted 3"]);
    assert_eq!(
        all(&mut SendQueue::new("Topic", false), &Snapshot::default()),
        ["hello Some(false)", "complete"]
    );
}

#[test]
fn then_what_is_gone_before_what_is_new_and_the_counter_last() {
    let (mut queue, mut snapshot) = following(&[("a", "1"), ("b", "1"), ("c", "1")]);
    snapshot.set_restarted(1);
    snapshot.set(&key("a"), b"2");
    snapshot.set(&key("d"), b"1");
    snapshot.remove(&key("c"));
    assert_eq!(all(&mut queue, &snapshot), ["-c", "a=2", "d=1", "restarted 1"]);
    snapshot.set_restarted(0);
    assert_eq!(all(&mut queue, &snapshot), ["restarted 0"], "a cleared counter is sent as well");
}

#[test]
fn an_equal_value_is_not_told() {
    let (mut queue, mut snapshot) = following(&[("a", "1")]);
    assert!(!snapshot.set(&key("a"), b"1") && !snapshot.remove(&key("b")) && !snapshot.set_restarted(0));
    assert_eq!(queue.next(&snapshot), None);
    assert!(snapshot.set(&key("a"), b"2") && snapshot.set(&key("a"), b"1"));
    assert_eq!(all(&mut queue, &snapshot), ["a=1"], "an item that was different meanwhile may be sent again");
}

#[test]
fn a_slow_reader_gets_the_newest_value_alone() {
    let (mut queue, mut snapshot) = following(&[("a", "1"), ("b", "1")]);
    for value in 2..100 {
        snapshot.set(&key("a"), value.to_string().as_bytes());
        // The message was made but could not be sent.
        assert!(queue.next(&snapshot).is_some());
    }
    assert_eq!(all(&mut queue, &snapshot), ["a=99"]);
    snapshot.set(&key("c"), b"1");
    snapshot.remove(&key("c"));
    assert_eq!(queue.next(&snapshot), None, "what came and went was never there");
}

/// Neither `complete` nor the counter nor other items wait for an item that changes all the time.
#[test]
fn an_item_that_always_changes_keeps_nothing_back() {
    let mut snapshot = snapshot(&[("a", "0"), ("b", "1")]);
    let mut queue = SendQueue::new("Topic", false);
    let mut said = Vec::new();
    for round in 1..12 {
        said.extend(say(&mut queue, &snapshot));
        snapshot.set(&key("a"), round.to_string().as_bytes());
        if round == 5 {
            snapshot.set(&key("b"), b"2");
            snapshot.set_restarted(1);
        }
    }
    assert_eq!(
        said,
        [
            "hello Some(false)",
            "a=1",
            "b=1",
            "complete",
            "a=4",
            "b=2",
            "restarted 1",
            "a=7",
            "a=8",
            "a=9",
            "a=10"
        ]
    );
}

#[test]
fn an_item_that_goes_while_the_first_ones_are_sent_is_told_gone() {
    let mut snapshot = snapshot(&[("a", "1"), ("b", "1"), ("c", "1")]);
    let mut queue = SendQueue::new("Topic", false);
    for _ in 0..2 {
        say(&mut queue, &snapshot);
    }
    snapshot.remove(&key("a"));
    snapshot.remove(&key("b"));
    assert_eq!(all(&mut queue, &snapshot), ["-a", "c=1", "complete"]);
}
