use std::io::Write;
use std::process::{Command, Stdio};

use schemas::{NodeDrainStatus, agent};
use tempfile::TempDir;

use super::*;
use crate::{AgentLock, Publisher, store};

const ZEDKUBE: &str = agent::ZEDKUBE;

fn root() -> (TempDir, Root) {
    let folder = TempDir::new().unwrap();
    let root = Root::new(folder.path());
    (folder, root)
}

fn write_pid(root: &Root, text: &str) {
    store::create_folder(&root.lock_folder_of("zedkube")).unwrap();
    fs::File::create(root.pid(ZEDKUBE)).unwrap().write_all(text.as_bytes()).unwrap();
}

fn seen(root: &Root) -> Presence {
    presence(root, ZEDKUBE).unwrap()
}

#[tokio::test]
async fn an_agent_is_away_only_when_lock_process_and_socket_are_gone() {
    let (_folder, root) = root();
    let me = std::process::id();
    assert_eq!(seen(&root), Presence::Away, "never started");

    let lock = AgentLock::acquire(&root, ZEDKUBE).unwrap();
    let publisher = Publisher::<NodeDrainStatus>::open(&root, ZEDKUBE, Persistence::Volatile, &lock)
        .unwrap()
        .served()
        .unwrap();
    assert_eq!(seen(&root), Presence::Locked(Holder { pid: Some(me) }));

    fs::remove_file(root.lock(ZEDKUBE)).unwrap();
    assert_eq!(seen(&root), Presence::Process(me), "the lock file is removed");

    fs::remove_file(root.pid(ZEDKUBE)).unwrap();
    assert_eq!(seen(&root), Presence::Served(Some(me)), "the pid file as well");

    fs::remove_dir_all(root.join("/run")).unwrap();
    lock.keep().unwrap();
    assert_eq!(seen(&root), Presence::Locked(Holder { pid: Some(me) }), "the agent has made them again");

    drop((publisher, lock));
    assert_eq!(seen(&root), Presence::Away, "it has ended");
    assert_eq!((seen(&root).is_running(), seen(&root).pid()), (false, None));
}

#[test]
fn a_number_that_was_given_to_another_program_is_nobody() {
    let (_folder, root) = root();
    let mut sleeper = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    write_pid(&root, &sleeper.id().to_string());
    assert_eq!(seen(&root), Presence::Away, "another program");
    sleeper.kill().unwrap();

    for text in ["", "x", "0", "-1", "1 2", "99999999999999999999"] {
        write_pid(&root, text);
        assert_eq!(seen(&root), Presence::Away, "{text:?}");
    }
    sleeper.wait().unwrap();
}

/// The state of a process of ours that was killed and that its parent has not collected yet.
#[test]
fn a_process_that_has_ended_is_nobody() {
    let mut child = Command::new("true").spawn().unwrap();
    let id = child.id();
    while process_name(id).is_some() {
        std::thread::yield_now();
    }
    assert!(is_alive(id), "it still has its number");
    child.wait().unwrap();
    assert!(!is_alive(id) && process_name(id).is_none());
    assert!(process_name(std::process::id()).is_some());
}

#[test]
fn a_pipe_in_the_place_of_a_pid_file_is_not_waited_for() {
    let (folder, root) = root();
    store::create_folder(&root.lock_folder_of("zedkube")).unwrap();
    nix::unistd::mkfifo(&root.pid(ZEDKUBE), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(pid_in(&root.pid(ZEDKUBE)), None);
    assert_eq!(seen(&root), Presence::Away);
    drop(folder);
}

#[test]
fn a_dead_holders_number_is_not_shown() {
    let locked = |pid| Presence::Locked(Holder { pid });
    assert_eq!(locked(Some(u32::MAX)).pid(), None);
    assert_eq!(locked(Some(std::process::id())).pid(), Some(std::process::id()));
    assert!(locked(None).is_running());
}
