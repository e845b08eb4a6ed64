use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemas::{DrainRequester, DrainStatus, NodeDrainStatus};

use super::*;

fn mirror() -> Mirror<NodeDrainStatus> {
    let mut mirror = Mirror::new("NodeDrainStatus", Path::new("/run/zedkube/NodeDrainStatus.sock"));
    mirror.connected();
    mirror
}

fn update(key: &str, json: &str) -> String {
    format!("update NodeDrainStatus {} {}", STANDARD.encode(key), STANDARD.encode(json))
}

fn delete(key: &str) -> String {
    format!("delete NodeDrainStatus {}", STANDARD.encode(key))
}

fn status(code: u8) -> String {
    format!(r#"{{"Status":{code},"RequestedBy":2}}"#)
}

const COMPLETE: &str = "complete NodeDrainStatus";

/// Handles datagrams; returns for each whether it changed something.
fn take(mirror: &mut Mirror<NodeDrainStatus>, datagrams: &[String]) -> Vec<bool> {
    datagrams.iter().map(|datagram| mirror.take(datagram.as_bytes()).unwrap()).collect()
}

fn keys(mirror: &Mirror<NodeDrainStatus>) -> Vec<&str> {
    mirror.items().keys().map(TopicKey::as_str).collect()
}

#[test]
fn items_come_change_and_go() {
    let mut mirror = mirror();
    assert!(!mirror.is_greeted());
    let datagrams = [
        "hello NodeDrainStatus false".to_owned(),
        update("global", &status(3)),
        COMPLETE.to_owned(),
        "restarted NodeDrainStatus 2".to_owned(),
        update("global", &status(9)),
    ];
    assert_eq!(take(&mut mirror, &datagrams), [false, true, false, true, true]);
    assert!(mirror.is_greeted() && mirror.is_following());
    let expected = NodeDrainStatus { status: DrainStatus::Complete, requested_by: DrainRequester::DeviceOp };
    assert_eq!(mirror.items().get(&TopicKey::global()), Some(&expected));
    assert_eq!(mirror.restarted(), 2);
    assert_eq!(take(&mut mirror, &[delete("global"), delete("global")]), [true, false]);
    assert_eq!(keys(&mirror), [""; 0]);
}

/// EVE's publisher sends all items again each time it wakes up, with their fields in another order.
#[test]
fn a_value_that_means_the_same_changes_nothing() {
    let mut mirror = mirror();
    let again = update("global", r#"{ "requestedby": 2, "Status": 5, "New": null }"#);
    assert_eq!(take(&mut mirror, &[update("global", &status(5)), again]), [true, false]);
}

/// EVE's subscriber keeps such items for ever.
#[test]
fn what_went_while_nobody_was_connected_is_swept() {
    let mut mirror = mirror();
    take(&mut mirror, &[update("a", &status(3)), update("b", &status(3)), COMPLETE.to_owned()]);
    mirror.lost();
    assert_eq!(keys(&mirror), ["a", "b"]);
    mirror.connected();
    assert_eq!(take(&mut mirror, &[update("b", &status(3)), update("c", &status(3))]), [false, true]);
    assert_eq!(keys(&mirror), ["a", "b", "c"], "nothing goes before everything has come");
    assert_eq!(take(&mut mirror, &[COMPLETE.to_owned(), COMPLETE.to_owned()]), [true, false]);
    assert_eq!(keys(&mirror), ["b", "c"]);
}

#[test]
fn a_bad_item_is_refused_by_name_and_its_last_good_value_stays() {
    for bad in ["", "{", r#"{"Status":10}"#, "[]", "null"] {
        let mut mirror = mirror();
        let datagrams = [update("global", &status(3)), update("global", bad), update("global", bad)];
        assert_eq!(take(&mut mirror, &datagrams), [true, true, false], "{bad}");
        assert_eq!(keys(&mirror), ["global"]);
        let refused = mirror.refused();
        assert!(refused[0].reason.contains("\"global\""), "{refused:?}");
        assert_eq!(refused[0].path, Path::new("/run/zedkube/NodeDrainStatus.sock"));
        // The same when all items are sent again after a lost connection.
        mirror.connected();
        take(&mut mirror, &[update("global", bad), COMPLETE.to_owned()]);
        assert_eq!((keys(&mirror).len(), mirror.refused().len()), (1, 1));
        assert_eq!(take(&mut mirror, &[update("global", &status(3))]), [true], "the refusal is over");
        assert_eq!(mirror.refused(), []);
    }
}

#[test]
fn a_key_that_names_no_file_is_refused_alone() {
    for key in ["", "a/b", "x.json", "x.json.y", ".."] {
        let mut mirror = mirror();
        take(&mut mirror, &[update(key, &status(3)), update("good", &status(3)), COMPLETE.to_owned()]);
        assert_eq!((keys(&mirror), mirror.refused().len()), (vec!["good"], 1), "{key}");
        take(&mut mirror, &[delete(key)]);
        assert_eq!(mirror.refused(), []);
    }
}

#[test]
fn an_update_that_was_cut_off_is_refused_by_name() {
    let mut mirror = mirror();
    take(&mut mirror, &[update("big", &status(3)), COMPLETE.to_owned()]);
    let mut cut = update("big", &"x".repeat(60_000)).into_bytes();
    cut.truncate(MAX_READ_BYTES + 1);
    assert_eq!(cut.len(), MAX_READ_BYTES + 1);
    assert_eq!((mirror.take(&cut), mirror.take(&cut)), (Ok(true), Ok(false)));
    mirror.connected();
    assert_eq!(mirror.take(&cut), Ok(false));
    take(&mut mirror, &[COMPLETE.to_owned()]);
    assert_eq!(keys(&mirror), ["big"], "it is there, only not to be read");
    assert!(mirror.refused()[0].to_string().contains("cut off"));
}

#[test]
fn a_publisher_that_cannot_be_believed_loses_its_connection() {
    for datagram in
        ["update NodeDrainStatus !!! e30=", "nonsense", "hello", "complete Other", "request NodeDrainStatus"]
    {
        assert!(mirror().take(datagram.as_bytes()).is_err(), "{datagram}");
    }
}

#[test]
fn a_flood_of_items_is_bounded() {
    let mut mirror = mirror();
    for number in 0..MAX_ITEMS + 10 {
        take(&mut mirror, &[update(&format!("{number:05}"), &status(3)), update(&format!("{number}/"), "")]);
    }
    assert_eq!((mirror.items().len(), mirror.refused().len()), (MAX_ITEMS, MAX_ITEMS));
    take(&mut mirror, &[COMPLETE.to_owned()]);
    assert_eq!(mirror.items().len(), MAX_ITEMS);
}
