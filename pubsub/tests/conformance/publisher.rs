//! Tests our publisher through the eyes of EVE's subscriber.

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use pubsub::{Persistence, PublishError, Published, Publisher, TopicKey};
use schemas::{NodeDrainStatus, Topic};
use tokio::time::{Instant, sleep};

use crate::device::{Device, key, mode, put};
use crate::raw::{Came, Link, Listener, delete, json_of, update};
use crate::roles::Role;
use crate::topics::{STATUS, Text, Texts, status, status_json, text_of_message};

type StatusPublisher = Publisher<NodeDrainStatus>;

fn subscribe(device: &Device) -> Link {
    Link::subscribe(&device.socket::<NodeDrainStatus>(), STATUS)
}

/// Checks that a subscriber gets all items.
#[track_caller]
fn is_served(device: &Device) {
    assert_eq!(subscribe(device).hear_until("complete").len(), 3, "hello, update, complete");
}

fn served_with_one_item(device: &Device) -> StatusPublisher {
    let mut publisher = device.served();
    publisher.publish(&key("global"), &status(5)).unwrap();
    publisher
}

#[test]
fn the_bytes_are_eves() {
    let device = Device::new();
    let _publisher = served_with_one_item(&device);
    let expected = [
        "hello NodeDrainStatus false",
        "update NodeDrainStatus Z2xvYmFs eyJTdGF0dXMiOjUsIlJlcXVlc3RlZEJ5IjoyfQ==",
        "complete NodeDrainStatus",
    ];
    assert_eq!(subscribe(&device).hear_until("complete"), expected);
}

/// Checks the first message, and those after `complete`, of a topic that is persistent or not and has restarted this
/// often.
#[track_caller]
fn check_connect(persistence: Persistence, restarts: u32, hello: &str, after: &[&str]) {
    let device = Device::new();
    let mut publisher: StatusPublisher = device.publisher(persistence);
    for name in ["b", "ä", "Z", "a"] {
        publisher.publish(&key(name), &status(3)).unwrap();
    }
    for _ in 0..restarts {
        publisher.signal_restarted().unwrap();
    }
    let mut publisher = device.serve(publisher);
    let link = subscribe(&device);
    let mut heard = link.hear_until("complete");
    heard.extend(after.iter().map(|_| link.hear()));
    let mut expected = vec![hello.to_owned()];
    expected.extend(["Z", "a", "b", "ä"].map(|name| update(STATUS, name, status_json(3))));
    expected.push("complete NodeDrainStatus".to_owned());
    expected.extend(after.iter().map(ToString::to_string));
    assert_eq!(heard, expected);
    publisher.publish(&key("a"), &status(4)).unwrap();
    assert_eq!(link.hear(), update(STATUS, "a", status_json(4)), "nothing came in between");
}

#[test]
fn on_connect_come_hello_all_updates_complete_and_the_restart_counter() {
    let (volatile, persistent) = (Persistence::Volatile, Persistence::Persistent);
    check_connect(volatile, 0, "hello NodeDrainStatus false", &[]);
    check_connect(persistent, 0, "hello NodeDrainStatus true", &[]);
    check_connect(volatile, 1, "hello NodeDrainStatus false", &["restarted NodeDrainStatus 1"]);
    check_connect(persistent, 12, "hello NodeDrainStatus true", &["restarted NodeDrainStatus 12"]);
}

#[test]
fn what_a_person_wrote_into_the_folder_is_served_as_eve_would() {
    let device = Device::new();
    put(&device.file::<NodeDrainStatus>("global"), "{ \"new\": [], \"requestedby\": 2, \"status\": 5 }\n");
    put(&device.file::<NodeDrainStatus>("bad"), "{");
    put(&device.file::<NodeDrainStatus>("restarted").with_extension(""), "no number");
    let _publisher: StatusPublisher = device.served();
    let heard = subscribe(&device).hear_until("restarted");
    assert_eq!(heard[1..2], [update(STATUS, "global", status_json(5))]);
    assert_eq!(heard[2..], ["complete NodeDrainStatus", "restarted NodeDrainStatus 1"]);
}

/// Checks that an item with this key is created and removed, as a file and on the socket.
#[track_caller]
fn check_key(publisher: &mut StatusPublisher, device: &Device, link: &Link, name: &str) {
    publisher.publish(&key(name), &status(3)).unwrap();
    assert_eq!(link.hear(), update(STATUS, name, status_json(3)), "{name:?}");
    assert!(device.file::<NodeDrainStatus>(name).is_file(), "{name:?}");
    publisher.unpublish(&key(name)).unwrap();
    assert_eq!(link.hear(), delete(STATUS, name), "{name:?}");
    assert!(!device.file::<NodeDrainStatus>(name).exists(), "{name:?}");
}

/// These keys are too long for a file name with `.bak`.
#[test]
fn the_longest_keys_come_and_go() {
    for persistence in [Persistence::Volatile, Persistence::Persistent] {
        let device = Device::new();
        let mut publisher = device.serve(device.publisher(persistence));
        let link = subscribe(&device);
        link.hear_until("complete");
        for name in ["k".repeat(247), "k".repeat(250), "é".repeat(125)] {
            publisher.publish(&key(&name), &status(3)).unwrap();
            assert_eq!(link.hear(), update(STATUS, &name, status_json(3)));
            publisher.unpublish(&key(&name)).unwrap();
            assert_eq!(link.hear(), delete(STATUS, &name));
        }
    }
}

#[test]
fn a_reader_that_does_not_read_misses_no_item() {
    const ITEMS: usize = 900;
    let device = Device::timeless();
    let mut publisher = device.served();
    let names: Vec<String> = (0..ITEMS).map(|number| format!("{number:03}")).collect();
    for name in &names {
        publisher.publish(&key(name), &status(3)).unwrap();
    }
    let link = subscribe(&device);
    // Waits until the socket is full.
    device.run(async { sleep(Duration::from_secs(1)).await });
    publisher.publish(&key(&names[0]), &status(4)).unwrap();
    publisher.unpublish(&key(&names[ITEMS - 1])).unwrap();
    let heard = device.meanwhile(move || (0..=ITEMS + 1).map(|_| link.hear()).collect::<Vec<_>>());
    let mut expected = vec!["hello NodeDrainStatus false".to_owned()];
    expected.extend(names[..ITEMS - 1].iter().map(|name| update(STATUS, name, status_json(3))));
    expected.extend(["complete NodeDrainStatus".to_owned(), update(STATUS, &names[0], status_json(4))]);
    assert_eq!(heard, expected);
}

#[test]
fn keys_are_told_whatever_they_are_as_long_as_they_name_a_file() {
    let device = Device::new();
    let mut publisher = device.served();
    let link = subscribe(&device);
    link.hear_until("complete");
    for name in ["é", "🚰", "a b", "a\nb", "json", "...", "\u{7f}", &"k".repeat(246), &"é".repeat(123)] {
        check_key(&mut publisher, &device, &link, name);
    }
    for bad in ["", ".", "..", "a/b", "a\0b", "x.json", "x.json.y", &"k".repeat(251)] {
        assert!(TopicKey::parse(bad).is_err(), "{bad:?}");
    }
}

/// Checks the longest message of a topic with a name of this length.
#[track_caller]
fn check_longest<T: Topic + From<String>>(longest: usize) {
    let device = Device::new();
    let mut publisher: Publisher<T> = device.served();
    let link = Link::subscribe(&device.socket::<T>(), T::NAME);
    link.hear_until("complete");
    let text = |length: usize| text_of_message::<T>(length).expect("such a message");
    let mut publish = |text: String| publisher.publish(&key("global"), &T::from(text));
    publish(text(longest)).unwrap();
    let told = link.hear();
    assert_eq!(told.len(), longest);
    let expected = fs::read_to_string(device.file::<T>("global")).unwrap();
    assert_eq!(told, update(T::NAME, "global", &expected));
    // JSON with one byte more gives the next possible length of a message.
    let error = publish(text(longest) + "x").unwrap_err();
    assert!(matches!(error, PublishError::TooLong { length, .. } if length == longest + 4), "{error}");
    assert_eq!(fs::read_to_string(device.file::<T>("global")).unwrap(), expected);
    publish("short".to_owned()).unwrap();
    assert_eq!(link.hear(), update(T::NAME, "global", r#"{"Text":"short"}"#));
}

#[test]
fn a_message_has_at_most_65533_bytes() {
    // The next longer messages of these topics have 65,537 and 65,534 bytes.
    check_longest::<Text>(65_533);
    check_longest::<Texts>(65_530);
}

/// A person has put such an item into the folder.
#[test]
fn a_file_that_fits_no_message_is_not_served_and_keeps_nothing_else_from_being() {
    let device = Device::new();
    let big = format!(r#"{{"Text":"{}"}}"#, "x".repeat(60_000));
    put(&device.file::<Text>("big"), &big);
    put(&device.file::<Text>("small"), r#"{"Text":""}"#);
    let _publisher: Publisher<Text> = device.served();
    let heard = Link::subscribe(&device.socket::<Text>(), Text::NAME).hear_until("complete");
    assert_eq!(heard[1..2], [update(Text::NAME, "small", r#"{"Text":""}"#)]);
    assert_eq!(heard.len(), 3);
}

#[test]
fn a_bad_request_is_hung_up_on_without_a_word() {
    let device = Device::new();
    let _publisher = served_with_one_item(&device);
    let long = format!("request {}", "x".repeat(100_000));
    let bad: [&[u8]; 7] = [
        b"",
        b"request",
        b"request nodedrainstatus",
        b"request NodeDrainStatus\n",
        b"hello NodeDrainStatus false",
        b"\xff\xfe\x00\x01",
        long.as_bytes(),
    ];
    for datagram in bad {
        let link = Link::dial(&device.socket::<NodeDrainStatus>());
        link.send(datagram);
        assert_eq!(link.receive(), Came::End, "{:?}", String::from_utf8_lossy(datagram));
        is_served(&device);
    }
}

#[test]
fn who_says_more_than_a_request_is_hung_up_on() {
    for second in ["request NodeDrainStatus", "", "x", &"x".repeat(1000)] {
        let device = Device::new();
        let _publisher = served_with_one_item(&device);
        let (patient, hasty) = (subscribe(&device), subscribe(&device));
        hasty.try_send(second.as_bytes()).ok();
        hasty.hear_the_end();
        patient.hear_until("complete");
        patient.say(second);
        assert_eq!(patient.receive(), Came::End, "{second:?}");
        is_served(&device);
    }
}

/// Waits until something arrives, by the clock of the runtime.
async fn receive(link: &Link) -> Came {
    loop {
        match link.receive_now() {
            Came::Nothing => sleep(Duration::from_millis(10)).await,
            came @ (Came::Message(_) | Came::End) => return came,
        }
    }
}

#[test]
fn a_silent_peer_is_hung_up_on_after_ten_seconds_and_others_are_served_meanwhile() {
    let device = Device::timeless();
    let mut publisher = served_with_one_item(&device);
    device.run(async {
        let start = Instant::now();
        let silent = Link::dial(&device.socket::<NodeDrainStatus>());
        let other = subscribe(&device);
        for _ in 0..3 {
            assert!(matches!(receive(&other).await, Came::Message(_)));
        }
        assert!(start.elapsed() < Duration::from_secs(1));
        assert_eq!(receive(&silent).await, Came::End);
        let elapsed = start.elapsed();
        assert!(Duration::from_secs(10) <= elapsed && elapsed < Duration::from_secs(11), "{elapsed:?}");
        // A subscriber that has sent its request may be silent for ever.
        publisher.publish(&key("global"), &status(9)).unwrap();
        let expected = update(STATUS, "global", status_json(9));
        assert_eq!(receive(&other).await, Came::Message(expected.into_bytes()));
    });
}

#[test]
fn a_thousand_connections_of_another_process_keep_nobody_from_being_served() {
    let device = Device::new();
    let mut publisher = served_with_one_item(&device);
    let early = subscribe(&device);
    early.hear_until("complete");
    let mut attacker = Role::start("attacker", &device.socket::<NodeDrainStatus>());
    assert_eq!(attacker.says(), "ready");
    // Each wait takes less than the 10 s that a silent attacker is given.
    is_served(&device);
    for code in [3, 4] {
        publisher.publish(&key("global"), &status(code)).unwrap();
        assert_eq!(early.hear(), update(STATUS, "global", status_json(code)));
    }
    is_served(&device);
}

#[test]
fn one_process_has_at_most_64_connections_and_each_that_ends_makes_room() {
    let device = Device::new();
    let _publisher = served_with_one_item(&device);
    for _ in 0..200 {
        is_served(&device);
    }
    // The publisher notices a moment later that a connection has ended.
    let mut links: Vec<Link> = (0..64).map(|_| retry(|| try_subscribe(&device))).collect();
    assert!(try_subscribe(&device).is_none());
    links.pop();
    retry(|| try_subscribe(&device));
}

fn retry<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(done) = attempt() {
            return done;
        }
    }
}

/// A connection that is served; `None` if the publisher hung up.
fn try_subscribe(device: &Device) -> Option<Link> {
    let link = Link::dial(&device.socket::<NodeDrainStatus>());
    link.try_send(b"request NodeDrainStatus").ok();
    (link.receive() != Came::End).then_some(link)
}

#[track_caller]
fn is_taken(result: Result<StatusPublisher, PublishError>) {
    let error = result.expect_err("there is a publisher");
    assert!(matches!(error, PublishError::Served { .. }), "{error}");
}

#[test]
fn a_second_publisher_is_an_error_and_says_nothing() {
    let device = Device::new();
    let files: StatusPublisher = device.files();
    let listener = Listener::bind(&device.socket::<NodeDrainStatus>());
    let open =
        || StatusPublisher::open(&device.root, device.lock.agent(), Persistence::Volatile, &device.lock);
    let (error, by_us) = (open().unwrap_err(), format!("process {}", std::process::id()));
    let is_named =
        matches!(&error, PublishError::Served { source, .. } if source.to_string().contains(&by_us));
    assert!(is_named, "{error:?}");
    assert_eq!(listener.accept().receive(), Came::End);
    device.run(async { is_taken(files.served()) });
    assert_eq!(listener.accept().receive(), Came::End);
    assert!(listener.accept_now().is_none(), "it is tried once");
    drop(listener);
    drop(device.serve(open().unwrap()));
}

#[test]
fn a_publisher_too_busy_to_accept_is_there_all_the_same() {
    let device = Device::new();
    let path = device.socket::<NodeDrainStatus>();
    let _listener = Listener::bind_with_room(&path, 0);
    let _waiting = Link::dial(&path);
    is_taken(Publisher::open(&device.root, device.lock.agent(), Persistence::Volatile, &device.lock));
    assert!(fs::symlink_metadata(&path).unwrap().file_type().is_socket());
}

#[test]
fn the_socket_of_a_dead_publisher_is_replaced() {
    let device = Device::new();
    drop(Listener::bind(&device.socket::<NodeDrainStatus>()));
    assert!(device.socket::<NodeDrainStatus>().exists());
    let _publisher = served_with_one_item(&device);
    is_served(&device);
}

#[test]
fn what_is_no_socket_is_left_alone_and_files_are_published_all_the_same() {
    let device = Device::new();
    let path = device.socket::<NodeDrainStatus>();
    put(&path, "precious");
    let mut publisher = served_with_one_item(&device);
    assert_eq!(publisher.publish(&key("global"), &status(9)).unwrap(), Published::Written);
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    drop(publisher);
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn the_socket_goes_with_its_publisher_and_that_of_another_stays() {
    let device = Device::new();
    let path = device.socket::<NodeDrainStatus>();
    let publisher = served_with_one_item(&device);
    let link = subscribe(&device);
    link.hear_until("complete");
    drop(publisher);
    assert!(!path.exists());
    assert_eq!(link.receive(), Came::End);
    let publisher = served_with_one_item(&device);
    fs::remove_file(&path).unwrap();
    let _another = Listener::bind(&path);
    drop(publisher);
    assert!(path.exists());
}

#[test]
fn a_socket_that_somebody_removed_comes_back_within_half_a_minute() {
    let device = Device::timeless();
    let path = device.socket::<NodeDrainStatus>();
    let _publisher = served_with_one_item(&device);
    for remove in
        [|path: &Path| fs::remove_file(path), |path: &Path| fs::remove_dir_all(path.parent().unwrap())]
    {
        remove(&path).unwrap();
        device.run(async { sleep(Duration::from_secs(31)).await });
        assert!(path.exists());
        let link = subscribe(&device);
        assert!(matches!(device.run(receive(&link)), Came::Message(_)));
    }
}

#[test]
fn folders_and_socket_are_their_owners_alone() {
    let device = Device::new();
    let _publisher = served_with_one_item(&device);
    let (socket, file) = (device.socket::<NodeDrainStatus>(), device.file::<NodeDrainStatus>("global"));
    assert_eq!((mode(&socket), mode(&file)), (0o600, 0o600));
    let (topic, agent) = (file.parent().unwrap(), socket.parent().unwrap());
    assert_eq!((mode(topic), mode(agent)), (0o700, 0o700));
}

#[test]
fn the_file_is_there_before_the_message() {
    const VALUES: usize = 300;
    let device = Device::new();
    let mut publisher: Publisher<Text> = device.served();
    let link = Link::subscribe(&device.socket::<Text>(), Text::NAME);
    link.hear_until("complete");
    let file = device.file::<Text>("a");
    let number_of = |json: &str| json.chars().filter(char::is_ascii_digit).collect::<String>();
    thread::scope(|scope| {
        let (go_on, may_go_on) = mpsc::channel();
        scope.spawn(move || {
            for number in 1..=VALUES {
                publisher.publish(&key("a"), &Text::from(format!("{number:05}"))).unwrap();
            }
            may_go_on.recv().unwrap();
            publisher.unpublish(&key("a")).unwrap();
            may_go_on.recv().unwrap();
        });
        let mut told = String::new();
        while told != format!("{VALUES:05}") {
            told = number_of(&json_of(&link.hear()));
            let held = number_of(&fs::read_to_string(&file).unwrap());
            assert!(told <= held, "{told} was sent while the file held {held}");
        }
        go_on.send(()).unwrap();
        assert_eq!(link.hear(), delete(Text::NAME, "a"));
        assert!(!file.exists());
        go_on.send(()).unwrap();
    });
}

#[test]
fn what_could_not_be_written_is_not_told() {
    let device = Device::new();
    let mut publisher = served_with_one_item(&device);
    let link = subscribe(&device);
    link.hear_until("complete");
    let folder = device.file::<NodeDrainStatus>("global").parent().unwrap().to_owned();
    fs::remove_dir_all(&folder).unwrap();
    // A file takes the place of the folder: even root cannot write there.
    put(&folder, "");
    for _ in 0..2 {
        assert!(matches!(publisher.publish(&key("global"), &status(9)), Err(PublishError::Store { .. })));
        assert!(matches!(publisher.publish(&key("new"), &status(9)), Err(PublishError::Store { .. })));
        assert!(matches!(publisher.unpublish(&key("global")), Err(PublishError::Store { .. })));
        assert!(matches!(publisher.signal_restarted(), Err(PublishError::Store { .. })));
    }
    // A new subscriber does not get the value either.
    assert_eq!(subscribe(&device).hear_until("complete")[1], update(STATUS, "global", status_json(5)));
    fs::remove_file(&folder).unwrap();
    publisher.publish(&key("global"), &status(4)).unwrap();
    assert_eq!(link.hear(), update(STATUS, "global", status_json(4)));
}

/// The published value counts, whatever a person did to the file.
#[test]
fn a_file_that_was_edited_is_mended_without_a_word_and_one_that_was_removed_can_be_withdrawn() {
    let device = Device::new();
    let mut publisher = served_with_one_item(&device);
    let link = subscribe(&device);
    link.hear_until("complete");
    let file = device.file::<NodeDrainStatus>("global");
    put(&file, &status_json(9));
    assert_eq!(publisher.publish(&key("global"), &status(5)).unwrap(), Published::Written);
    assert_eq!(fs::read_to_string(&file).unwrap(), status_json(5));
    fs::remove_file(&file).unwrap();
    assert!(!publisher.unpublish(&key("global")).unwrap());
    assert_eq!(link.hear(), delete(STATUS, "global"), "the first that was said");
}

#[test]
fn the_length_of_the_root_does_not_matter() {
    let device = Device::below(&"a-long-name/".repeat(20));
    assert!(108 < device.socket::<NodeDrainStatus>().as_os_str().len());
    let _publisher = served_with_one_item(&device);
    let short = device.folder.path().join("short");
    symlink(device.socket::<NodeDrainStatus>().parent().unwrap(), &short).unwrap();
    let link = Link::subscribe(&short.join("NodeDrainStatus.sock"), STATUS);
    assert_eq!(link.hear_until("complete").len(), 3);
    let sights = device.sights(device.dial::<NodeDrainStatus>());
    sights.until(|sight| sight.items.get("global") == Some(&status(5)));
}

/// Changes modes so that all users can reach the socket.
fn open_up(device: &Device, path: &Path) {
    for folder in path.ancestors().skip(1).take_while(|folder| folder.starts_with(device.folder.path())) {
        fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    }
    fs::set_permissions(path, Permissions::from_mode(0o666)).unwrap();
}

#[test]
fn as_root_other_users_are_not_served() {
    let device = Device::new();
    let _publisher = served_with_one_item(&device);
    let path = device.socket::<NodeDrainStatus>();
    assert_eq!(Role::start("stranger", &path).says(), "refused: permission denied");
    // The modes of the path can be changed; the user of the process cannot.
    open_up(&device, &path);
    assert_eq!(Role::start("stranger", &path).says(), "hung up on");
    is_served(&device);
}
