//! Tests our subscriber through the eyes of EVE's publisher.

use std::cell::Cell;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use pubsub::{Change, Publisher};
use schemas::{NodeDrainStatus, Topic};
use tokio::time::{sleep, timeout};

use crate::device::{Device, Sight, Stream, key, put};
use crate::raw::{Came, Link, Listener, TOO_LONG, delete, update};
use crate::roles::Role;
use crate::topics::{Note, STATUS, Texted, status, status_json, text_of_message};

type Sights = Stream<Sight<NodeDrainStatus>>;

fn listen(device: &Device) -> Listener {
    Listener::bind(&device.socket::<NodeDrainStatus>())
}

fn set(name: &str, code: u8) -> String {
    update(STATUS, name, status_json(code))
}

fn hello() -> String {
    format!("hello {STATUS} false")
}

fn complete() -> String {
    format!("complete {STATUS}")
}

/// Accepts the subscriber's next connection and sends these items.
fn greet(listener: &Listener, items: &[(&str, u8)]) -> Link {
    let link = listener.asked_for(STATUS);
    link.say(&hello());
    link.say_all(items.iter().map(|(name, code)| set(name, *code)));
    link.say(&complete());
    link
}

/// A subscriber that follows a publisher with these items.
fn following(items: &[(&str, u8)]) -> (Device, Listener, Link, Sights) {
    let device = Device::new();
    let listener = listen(&device);
    let sights = device.sights(device.dial());
    let link = greet(&listener, items);
    sights.until(|sight| sight.items.len() == items.len());
    (device, listener, link, sights)
}

#[test]
fn each_message_is_understood() {
    let device = Device::new();
    let listener = listen(&device);
    let changes = device.changes(device.dial());
    let link = listener.asked_for(STATUS);
    link.say_all([hello(), set("global", 3), set("é", 4), complete()]);
    assert_eq!(changes.next(), Change::Created(key("global"), status(3)));
    assert_eq!(changes.next(), Change::Created(key("é"), status(4)));
    assert_eq!(changes.next(), Change::Synced);
    link.say(&set("global", 9));
    assert_eq!(changes.next(), Change::Modified(key("global"), status(9)));
    link.say(&delete(STATUS, "é"));
    assert_eq!(changes.next(), Change::Deleted(key("é"), status(4)));
    link.say(&format!("restarted {STATUS} 3"));
    assert_eq!(changes.next(), Change::Restarted(3));
    link.say(&format!("restarted {STATUS} 0"));
    assert_eq!(changes.next(), Change::Restarted(0));
    // A delete of an unknown item has no effect, and repeated messages are accepted.
    link.say_all([delete(STATUS, "é"), complete(), hello(), set("global", 9), set("new", 5)]);
    assert_eq!(changes.next(), Change::Created(key("new"), status(5)));
    assert_eq!(link.receive_now(), Came::Nothing, "a subscriber says one thing");
}

#[test]
fn nothing_is_synced_before_all_has_come() {
    let device = Device::new();
    let listener = listen(&device);
    let changes = device.changes(device.dial::<NodeDrainStatus>());
    let link = listener.asked_for(STATUS);
    link.say(&hello());
    changes.is_quiet();
    link.say(&complete());
    assert_eq!(changes.next(), Change::Synced);
}

#[test]
fn greetings_of_old_and_odd_publishers_are_accepted() {
    let greetings: [&[&str]; 4] = [
        &["hello NodeDrainStatus"],
        &["hello NodeDrainStatus true"],
        &[],
        &["update NodeDrainStatus Z2xvYmFs eyJTdGF0dXMiOjN9", "hello NodeDrainStatus false"],
    ];
    for greeting in greetings {
        let device = Device::new();
        let listener = listen(&device);
        let changes = device.changes(device.dial());
        let link = listener.asked_for(STATUS);
        link.say_all(greeting);
        link.say_all([set("global", 5), complete()]);
        changes.until(|change| *change == Change::Synced);
        link.say(&set("global", 9));
        assert_eq!(changes.next(), Change::Modified(key("global"), status(9)), "{greeting:?}");
    }
}

#[test]
fn a_publisher_that_cannot_be_believed_is_hung_up_on_and_dialled_again() {
    let bad: [&[u8]; 6] = [
        b"",
        b"hello Other false",
        b"complete NodeDrainStatus\n",
        b"update NodeDrainStatus !!!! eyJTdGF0dXMiOjN9",
        b"request NodeDrainStatus",
        b"\xff\xfe\x00",
    ];
    let (_device, listener, mut link, sights) = following(&[("a", 3), ("b", 4)]);
    for (datagram, code) in bad.into_iter().zip([5, 6].into_iter().cycle()) {
        link.send(datagram);
        assert_eq!(link.receive(), Came::End, "{:?}", String::from_utf8_lossy(datagram));
        link = greet(&listener, &[("a", code), ("b", 4)]);
        sights.until(|sight| {
            assert_eq!(sight.keys(), ["a", "b"], "known items stay");
            sight.items["a"] == status(code)
        });
    }
    assert!(listener.accept_now().is_none());
}

/// Counts the connections in two seconds to a publisher that sends these messages and hangs up.
fn dials(words: &[String]) -> usize {
    let device = Device::timeless();
    let listener = listen(&device);
    device.run(async {
        let mut subscription = device.dial::<NodeDrainStatus>();
        let count = Cell::new(0);
        let serve = async {
            loop {
                if let Some(link) = listener.accept_now() {
                    link.say_all(words);
                    count.set(count.get() + 1);
                }
                sleep(Duration::from_millis(1)).await;
            }
        };
        let follow = async {
            loop {
                subscription.next().await;
            }
        };
        timeout(Duration::from_secs(2), async { tokio::join!(serve, follow) }).await.ok();
        count.get()
    })
}

/// EVE's subscriber connects 13,700 times a second.
#[test]
fn a_publisher_that_hangs_up_at_once_is_dialled_ever_more_seldom() {
    let tables = [vec![], vec![hello()], vec![hello(), set("a", 3)], vec!["nonsense".to_owned()]];
    for words in tables {
        let count = dials(&words);
        assert!((2..=15).contains(&count), "{count} dials after {words:?}");
    }
    // A publisher that sent everything has served, but there is a pause all the same.
    let count = dials(&[hello(), complete()]);
    assert!((2..=25).contains(&count), "{count} dials");
}

#[test]
fn a_publisher_that_comes_later_is_found() {
    let device = Device::new();
    let sights = device.sights(device.dial::<NodeDrainStatus>());
    assert_eq!(sights.next().keys(), [""; 0]);
    let listener = listen(&device);
    let _link = greet(&listener, &[("a", 3)]);
    sights.until(|sight| sight.keys() == ["a"]);
}

#[test]
fn a_publisher_that_says_nothing_is_dialled_again_after_ten_seconds() {
    let device = Device::timeless();
    let listener = listen(&device);
    device.run(async {
        let mut subscription = device.dial::<NodeDrainStatus>();
        timeout(Duration::from_secs(9), subscription.next()).await.unwrap_err();
        let silent = listener.accept_now().expect("it has dialled");
        assert_eq!(silent.receive_now(), Came::Message(b"request NodeDrainStatus".to_vec()));
        assert_eq!(silent.receive_now(), Came::Nothing);
        timeout(Duration::from_secs(2), subscription.next()).await.unwrap_err();
        assert_eq!(silent.receive_now(), Came::End);
        let link = listener.accept_now().expect("it has dialled again");
        link.say(&hello());
        // After `hello` there is no time limit.
        timeout(Duration::from_hours(1), subscription.next()).await.unwrap_err();
        link.say_all([set("a", 3), complete()]);
        assert_eq!(subscription.next().await, Change::Created(key("a"), status(3)));
    });
}

#[test]
fn a_message_that_is_cut_off_costs_its_item_alone() {
    let (_device, _listener, link, sights) = following(&[("big", 3), ("good", 3)]);
    for length in [50_000, 60_000, 140_000] {
        let big = update(STATUS, "big", "x".repeat(length));
        assert!(65_535 < big.len());
        link.say_all([big, set("good", 4), set("good", 3)]);
        let sight = sights.until(|sight| sight.refused.len() == 1);
        assert!(sight.refused[0].contains("\"big\"") && sight.refused[0].contains("cut off"), "{sight:?}");
        assert!(sight.refused[0].contains("65533"), "{sight:?}");
        assert_eq!(sight.items["big"], status(3));
        link.say(&set("big", 4));
        sights.until(|sight| sight.items["big"] == status(4) && sight.refused.is_empty());
        link.say(&set("big", 3));
        sights.until(|sight| sight.items["big"] == status(3));
    }
    // No part of these messages can be used.
    link.say_all(["x".repeat(70_000), format!("delete {STATUS} {}", "x".repeat(70_000)), set("last", 3)]);
    sights.until(|sight| sight.keys() == ["big", "good", "last"]);
    assert_eq!(link.receive_now(), Came::Nothing);
}

/// EVE's publishers send at most 65,533 bytes, its subscribers read 65,535.
#[test]
fn a_message_of_65535_bytes_is_read() {
    let device = Device::new();
    let listener = Listener::bind(&device.socket::<Texted>());
    let changes = device.changes(device.dial());
    let link = listener.asked_for(Texted::NAME);
    let text = text_of_message::<Texted>(65_535).expect("such a message");
    let message = update(Texted::NAME, "global", format!(r#"{{"Text":"{text}"}}"#));
    assert_eq!(message.len(), 65_535);
    link.say(&message);
    assert_eq!(changes.next(), Change::Created(key("global"), Texted::from(text)));
}

#[test]
fn an_item_whose_key_names_no_file_is_refused_alone() {
    let (_device, listener, mut link, sights) = following(&[("good", 3)]);
    let keys: [&[u8]; 3] = [b"", b"a/b", b"\xff\xfe"];
    for name in keys {
        let bad = update(STATUS, name, status_json(4));
        link.say(&bad);
        let sight = sights.until(|sight| sight.refused.len() == 1);
        assert_eq!(sight.keys(), ["good"], "{name:?}");
        link.say(&delete(STATUS, name));
        sights.until(|sight| sight.refused.is_empty());
        // Such an item is also refused if it exists when the subscriber connects, and forgotten when it does not exist
        // any more.
        link.say(&bad);
        sights.until(|sight| sight.refused.len() == 1);
        drop(link);
        link = greet(&listener, &[("good", 3)]);
        sights.until(|sight| sight.refused.is_empty());
    }
}

#[test]
fn a_value_that_cannot_be_read_is_refused_and_the_last_good_one_stays() {
    let (_device, _listener, link, sights) = following(&[("a", 3), ("b", 3)]);
    for json in ["", "[]", r#"{"Status":10,"RequestedBy":2}"#] {
        link.say(&update(STATUS, "a", json));
        let sight = sights.until(|sight| !sight.refused.is_empty());
        assert!(sight.refused[0].contains("\"a\""), "{sight:?}");
        assert_eq!(sight.items["a"], status(3), "{json:?}");
        link.say(&set("a", 9));
        sights.until(|sight| sight.items["a"] == status(9) && sight.refused.is_empty());
        link.say(&set("a", 3));
        sights.until(|sight| sight.items["a"] == status(3));
    }
    // A refused item counts as present although it never had a good value.
    link.say(&update(STATUS, "new", "{"));
    let sight = sights.until(|sight| !sight.refused.is_empty());
    assert_eq!(sight.keys(), ["a", "b"]);
}

/// EVE's publisher sends everything again each time it wakes up, with fields in another order and empty lists as null.
#[test]
fn a_value_that_means_the_same_wakes_nobody() {
    let device = Device::new();
    let listener = Listener::bind(&device.socket::<Note>());
    let sights = device.sights(device.dial::<Note>());
    let link = listener.asked_for(Note::NAME);
    let note = |json: &str| update(Note::NAME, "a", json);
    link.say_all([note(r#"{"Text":"one","Tags":[]}"#), format!("complete {}", Note::NAME)]);
    sights.until(|sight| sight.keys() == ["a"]);
    link.say(&format!("restarted {} 1", Note::NAME));
    sights.until(|sight| sight.restarted == 1);
    let same = [r#"{"Text":"one","Tags":[]}"#, r#" { "TAGS" : null, "text" : "one", "New" : {"x": 1} } "#];
    for json in same {
        link.say(&note(json));
        sights.is_quiet();
    }
    link.say_all([format!("restarted {} 1", Note::NAME), delete(Note::NAME, "b")]);
    sights.is_quiet();
    link.say(&note(r#"{"Text":"one","Tags":["x"]}"#));
    assert_eq!(sights.next().items["a"].tags, ["x"]);
}

/// EVE's subscriber keeps such items for ever.
#[test]
fn what_went_while_it_was_away_is_gone_once_all_has_come_again() {
    let device = Device::new();
    let listener = listen(&device);
    let changes = device.changes(device.dial());
    let link = greet(&listener, &[("a", 3), ("b", 3), ("c", 3)]);
    changes.until(|change| *change == Change::Synced);
    link.say(&format!("restarted {STATUS} 2"));
    assert_eq!(changes.next(), Change::Restarted(2));
    drop(link);
    changes.is_quiet();
    let link = listener.asked_for(STATUS);
    link.say_all([hello(), set("b", 4), set("d", 3)]);
    assert_eq!(changes.next(), Change::Modified(key("b"), status(4)));
    assert_eq!(changes.next(), Change::Created(key("d"), status(3)));
    changes.is_quiet();
    link.say(&complete());
    assert_eq!(changes.next(), Change::Deleted(key("a"), status(3)));
    assert_eq!(changes.next(), Change::Deleted(key("c"), status(3)));
    link.say(&format!("restarted {STATUS} 2"));
    changes.is_quiet();
}

/// A connection that breaks during the first round says nothing about the items that were not sent yet.
#[test]
fn a_connection_that_ends_before_all_has_come_sweeps_nothing() {
    let (_device, listener, link, sights) = following(&[("a", 3), ("b", 3)]);
    drop(link);
    let link = listener.asked_for(STATUS);
    link.say_all([hello(), set("b", 4)]);
    sights.until(|sight| sight.items["b"] == status(4));
    drop(link);
    let link = listener.asked_for(STATUS);
    link.say_all([hello(), set("a", 5)]);
    let sight = sights.until(|sight| sight.items["a"] == status(5));
    assert_eq!(sight.keys(), ["a", "b"]);
    link.say(&complete());
    sights.until(|sight| sight.keys() == ["a"]);
}

#[test]
fn a_flood_of_items_is_bounded_and_the_first_stay() {
    let (_device, _listener, link, sights) = following(&[("a", 3)]);
    link.say_all((0..1100).map(|number| set(&format!("n{number:04}"), 3)));
    link.say(&set("a", 9));
    let sight = sights.until(|sight| sight.items["a"] == status(9));
    assert_eq!((sight.items.len(), sight.refused.len()), (1000, 101));
    link.say_all([delete(STATUS, "n0000"), set("n1099", 3)]);
    sights.until(|sight| sight.refused.len() == 100 && sight.items.contains_key("n1099"));
}

#[test]
fn as_root_another_users_publisher_is_not_believed() {
    let device = Device::new();
    let path = device.socket::<NodeDrainStatus>();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    for folder in path.ancestors().skip(1).take_while(|folder| folder.starts_with(device.folder.path())) {
        fs::set_permissions(folder, Permissions::from_mode(0o777)).unwrap();
    }
    let mut stranger = Role::start("strange_publisher", &path);
    assert_eq!(stranger.says(), "ready");
    let sights = device.sights(device.dial::<NodeDrainStatus>());
    assert_eq!(stranger.says(), "got End", "not even asked");
    assert_eq!(sights.next().keys(), [""; 0]);
    sights.is_quiet();
}

#[test]
fn follow_goes_from_the_files_to_the_socket_and_back() {
    let device = Device::new();
    let file = |name: &str| device.file::<NodeDrainStatus>(name);
    put(&file("a"), &status_json(3));
    let changes = device.changes(device.follow());
    assert_eq!(changes.next(), Change::Created(key("a"), status(3)));
    assert_eq!(changes.next(), Change::Synced);
    put(&file("a"), &status_json(4));
    assert_eq!(changes.next(), Change::Modified(key("a"), status(4)));
    for code in [5, 6] {
        let listener = listen(&device);
        let link = listener.asked_for(STATUS);
        link.say_all([hello(), set("a", code), set("b", code)]);
        changes.is_quiet();
        link.say(&complete());
        assert_eq!(changes.next(), Change::Modified(key("a"), status(code)));
        assert_eq!(changes.next(), Change::Created(key("b"), status(code)));
        // While the socket is there, its values count.
        put(&file("c"), &status_json(3));
        fs::remove_file(file("c")).unwrap();
        changes.is_quiet();
        fs::remove_file(device.socket::<NodeDrainStatus>()).unwrap();
        drop((listener, link));
        assert_eq!(changes.next(), Change::Deleted(key("b"), status(code)));
        assert_eq!(changes.next(), Change::Modified(key("a"), status(4)));
        put(&file("b"), &status_json(9));
        assert_eq!(changes.next(), Change::Created(key("b"), status(9)));
        fs::remove_file(file("b")).unwrap();
        assert_eq!(changes.next(), Change::Deleted(key("b"), status(9)));
    }
}

#[test]
fn follow_shows_the_files_while_a_publisher_says_nothing() {
    let device = Device::new();
    let listener = listen(&device);
    put(&device.file::<NodeDrainStatus>("a"), &status_json(3));
    let changes = device.changes(device.follow());
    let silent = listener.asked_for(STATUS);
    assert_eq!(changes.next(), Change::Created(key("a"), status(3)));
    assert_eq!(changes.next(), Change::Synced);
    put(&device.file::<NodeDrainStatus>("a"), &status_json(4));
    assert_eq!(changes.next(), Change::Modified(key("a"), status(4)));
    drop(silent);
    changes.is_quiet();
}

/// The pause between connections has grown to 10 s by then.
#[test]
fn follow_dials_at_once_when_the_socket_comes() {
    let device = Device::timeless();
    device.run(async {
        let mut subscription = device.follow::<NodeDrainStatus>();
        assert_eq!(subscription.next().await, Change::Synced);
        // Connections fail at 0, 0.1, 0.3, 0.7, 1.5, 3.1, 6.3 and 12.7 s; the next try is at 22.7 s.
        timeout(Duration::from_millis(12_800), subscription.next()).await.unwrap_err();
        tokio::time::resume();
        let listener = listen(&device);
        let has_dialled = async {
            while listener.accept_now().is_none() {
                sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            () = has_dialled => {}
            change = subscription.next() => panic!("{change:?}"),
            () = sleep(TOO_LONG) => panic!("it waits for the end of its pause"),
        }
    });
}

/// The publisher writes the file, sends the value on the socket, and dies.
#[test]
fn follow_never_goes_back_to_an_older_value() {
    let device = Device::timeless();
    let listener = listen(&device);
    put(&device.file::<NodeDrainStatus>("a"), &status_json(3));
    device.run(async {
        let mut subscription = device.follow::<NodeDrainStatus>();
        assert_eq!(subscription.next().await, Change::Created(key("a"), status(3)));
        assert_eq!(subscription.next().await, Change::Synced);
        timeout(Duration::from_millis(1), subscription.next()).await.unwrap_err();
        let link = listener.accept_now().expect("it has dialled");
        link.say_all([hello(), set("a", 3), complete()]);
        timeout(Duration::from_millis(1), subscription.next()).await.unwrap_err();
        put(&device.file::<NodeDrainStatus>("a"), &status_json(9));
        link.say(&set("a", 9));
        assert_eq!(subscription.next().await, Change::Modified(key("a"), status(9)));
        drop(link);
        let back = timeout(Duration::from_mins(1), subscription.next()).await;
        assert!(back.is_err(), "the file holds the same: {back:?}");
    });
}

/// A change in the file and its message on the socket are one change.
#[test]
fn follow_wakes_once_for_a_change() {
    let device = Device::new();
    let mut publisher = device.served();
    publisher.publish(&key("a"), &status(3)).unwrap();
    let sights = device.sights(device.follow::<NodeDrainStatus>());
    assert_eq!(sights.next().keys(), ["a"]);
    // The switch from files to socket may wake the subscription.
    sights.until_quiet();
    publisher.publish(&key("a"), &status(9)).unwrap();
    let seen = sights.until_quiet();
    assert_eq!(seen.len(), 1, "{seen:?}");
}

#[test]
fn follow_tells_of_no_restart_that_was_taken_back() {
    let device = Device::new();
    let mut publisher: Publisher<NodeDrainStatus> = device.served();
    publisher.signal_restarted().unwrap();
    let changes = device.changes(device.follow::<NodeDrainStatus>());
    changes.until(|change| *change == Change::Restarted(1));
    changes.until_quiet();
    drop(publisher);
    let mut publisher: Publisher<NodeDrainStatus> = device.files();
    publisher.clear_restarted().unwrap();
    changes.until(|change| *change == Change::Restarted(0));
    let _publisher = device.serve(publisher);
    changes.is_quiet();
}
