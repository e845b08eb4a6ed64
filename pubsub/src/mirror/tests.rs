use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemas::NodeDrainStatus;

use super::*;

fn mirror() -> Mirror<NodeDrainStatus> {
    let mut mirror = Mirror::new("NodeDrainStatus", Path::new("/run/zedkube/NodeDrainStatus.sock"));
    mirror.connected();
    mirror
}

fn update(key: &str, json: &str) -> String {
    format!("update NodeDrainStatus {} {}", STANDARD.encode(key), STANDARD.encode(json))
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
fn a_bad_item_is_refused_by_name_and_its_last_good_value_stays() {
    for bad in ["", r#"{"Status":10}"#] {
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
fn a_flood_of_items_is_bounded() {
    let mut mirror = mirror();
    for number in 0..MAX_ITEMS + 10 {
        take(&mut mirror, &[update(&format!("{number:05}"), &status(3)), update(&format!("{number}/"), "")]);
    }
    assert_eq!((mirror.items().len(), mirror.refused().len()), (MAX_ITEMS, MAX_ITEMS));
    take(&mut mirror, &[COMPLETE.to_owned()]);
    assert_eq!(mirror.items().len(), MAX_ITEMS);
}
