use std::fs::{self, File};
use std::os::unix::net::UnixListener;

use super::*;

#[test]
fn each_kind_of_socket_is_told() {
    let folder = tempfile::tempdir().unwrap();
    // The path is longer than a socket address may be.
    let deep = folder.path().join("d".repeat(120));
    fs::create_dir(&deep).unwrap();
    let at = |name: &str| deep.join(name);
    assert_eq!(look_at(&at("none.sock")), TopicSocket::Absent);
    assert_eq!(look_at(&folder.path().join("no").join("such.sock")), TopicSocket::Absent);
    File::create(at("file.sock")).unwrap();
    assert_eq!(look_at(&at("file.sock")), TopicSocket::Foreign);

    let served = make_socket().unwrap();
    let (_folder, address) = address(&at("served.sock")).unwrap();
    bind(served.as_raw_fd(), &address).unwrap();
    assert_eq!(look_at(&at("served.sock")), TopicSocket::Stale, "no process listens yet");
    listen(&served, Backlog::new(1).unwrap()).unwrap();
    let us = Peer { pid: Some(std::process::id()), user: geteuid().as_raw() };
    assert_eq!(look_at(&at("served.sock")), TopicSocket::Served(Some(us)));
    assert!(us.is_trusted() && !Peer { pid: None, user: 4_000_000_000 }.is_trusted());
    drop(served);
    assert_eq!(look_at(&at("served.sock")), TopicSocket::Stale);

    let stream = UnixListener::bind(folder.path().join("stream.sock")).unwrap();
    assert_eq!(look_at(&folder.path().join("stream.sock")), TopicSocket::Foreign);
    drop(stream);
}
