use std::fs;
use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use super::*;
use crate::file_lock::whole_file_write_lock;

fn root() -> (TempDir, Root) {
    let folder = TempDir::new().unwrap();
    let root = Root::new(folder.path());
    (folder, root)
}

#[test]
fn the_first_is_the_agent_and_a_second_is_told_its_pid() {
    let (_folder, root) = root();
    let me = std::process::id();
    let first = AgentLock::acquire(&root, "zedkube").unwrap();
    assert_eq!((first.agent(), first.root()), ("zedkube", &root));
    let error = AgentLock::acquire(&root, "zedkube").unwrap_err();
    assert!(matches!(&error, LockError::Held { pid: Some(pid), .. } if *pid == me));
    let text = error.to_string();
    assert!(text.starts_with(&format!("zedkube is already running as process {me}: ")), "{text}");
    drop(first);
    AgentLock::acquire(&root, "zedkube").unwrap();
}

#[test]
fn asking_for_the_holder_takes_nothing() {
    let (_folder, root) = root();
    assert_eq!(lock_holder(&root, "zedkube").unwrap(), None);
    assert!(!root.lock("zedkube").exists());
    let lock = AgentLock::acquire(&root, "zedkube").unwrap();
    let holder = Some(Holder { pid: Some(std::process::id()) });
    assert_eq!(lock_holder(&root, "zedkube").unwrap(), holder);
    assert_eq!(lock_holder(&root, "zedkube").unwrap(), holder);
    drop(lock);
    assert_eq!(lock_holder(&root, "zedkube").unwrap(), None);
    AgentLock::acquire(&root, "zedkube").unwrap();
}

#[test]
fn a_holder_that_wrote_no_pid_yet_is_still_a_holder() {
    let (_folder, root) = root();
    let _lock = AgentLock::acquire(&root, "zedkube").unwrap();
    File::options().write(true).open(root.lock("zedkube")).unwrap().set_len(0).unwrap();
    assert_eq!(lock_holder(&root, "zedkube").unwrap(), Some(Holder { pid: None }));
    let text = AgentLock::acquire(&root, "zedkube").unwrap_err().to_string();
    assert!(text.starts_with("zedkube is already running: "), "{text}");
}

#[test]
fn the_pid_file_is_eves() {
    let (_folder, root) = root();
    let _lock = AgentLock::acquire(&root, "zedkube").unwrap();
    assert_eq!(fs::read_to_string(root.pid("zedkube")).unwrap(), std::process::id().to_string());
}

#[test]
fn a_longer_pid_of_a_predecessor_leaves_no_digits() {
    let (_folder, root) = root();
    store::create_folder(&root.lock_folder_of("zedkube")).unwrap();
    File::create(root.lock("zedkube")).unwrap().write_all_at(b"999999999999", 0).unwrap();
    let _lock = AgentLock::acquire(&root, "zedkube").unwrap();
    assert_eq!(lock_holder(&root, "zedkube").unwrap(), Some(Holder { pid: Some(std::process::id()) }));
}

#[test]
fn a_lock_that_is_a_link_is_not_followed() {
    let (folder, root) = root();
    store::create_folder(&root.lock_folder_of("zedkube")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("elsewhere"), root.lock("zedkube")).unwrap();
    assert!(matches!(AgentLock::acquire(&root, "zedkube"), Err(LockError::Store(_))));
    assert!(!folder.path().join("elsewhere").exists());
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn only_the_owner_may_read_a_lock_file_and_everybody_a_pid() {
    let (_folder, root) = root();
    let _lock = AgentLock::acquire(&root, "zedkube").unwrap();
    assert_eq!(mode(&root.lock("zedkube")), 0o600);
    assert_eq!(mode(&root.pid("zedkube")), 0o644);
}

/// Takes a read lock, which needs only the right to read.
fn read_lock(path: &Path) -> File {
    let file = File::open(path).unwrap();
    let lock =
        libc::flock { l_type: libc::c_short::try_from(libc::F_RDLCK).unwrap(), ..whole_file_write_lock() };
    fcntl(&file, FcntlArg::F_OFD_SETLK(&lock)).unwrap();
    file
}

#[test]
fn a_read_lock_is_nobodys_agent() {
    let (_folder, root) = root();
    drop(AgentLock::acquire(&root, "zedkube").unwrap());
    let _reader = read_lock(&root.lock("zedkube"));
    assert_eq!(lock_holder(&root, "zedkube").unwrap(), None);
    let text = AgentLock::acquire(&root, "zedkube").unwrap_err().to_string();
    assert!(text.contains("read lock") && text.contains("remove that file"), "{text}");
    fs::remove_file(root.lock("zedkube")).unwrap();
    AgentLock::acquire(&root, "zedkube").unwrap();
}

#[test]
fn a_lock_file_that_is_removed_or_replaced_is_made_again() {
    let (_folder, root) = root();
    let lock = AgentLock::acquire(&root, "zedkube").unwrap();
    let holder = Some(Holder { pid: Some(std::process::id()) });
    assert_eq!(lock.keep().unwrap(), Kept::InPlace);

    fs::remove_file(root.lock("zedkube")).unwrap();
    assert_eq!(lock_holder(&root, "zedkube").unwrap(), None);
    assert_eq!(lock.keep().unwrap(), Kept::MadeAgain);
    assert_eq!(lock_holder(&root, "zedkube").unwrap(), holder);

    fs::remove_file(root.lock("zedkube")).unwrap();
    File::create(root.lock("zedkube")).unwrap();
    assert_eq!(lock.keep().unwrap(), Kept::MadeAgain, "replaced");

    fs::remove_dir_all(root.join("/run")).unwrap();
    assert_eq!(lock.keep().unwrap(), Kept::MadeAgain, "all of /run is gone");
    assert_eq!(lock_holder(&root, "zedkube").unwrap(), holder);
    assert!(root.pid("zedkube").exists());
    fs::remove_file(root.pid("zedkube")).unwrap();
    assert_eq!(lock.keep().unwrap(), Kept::InPlace);
    assert!(root.pid("zedkube").exists(), "a removed pid file is written again");
}

#[test]
fn whoever_lost_its_lock_to_another_has_to_end() {
    let (_folder, root) = root();
    let first = AgentLock::acquire(&root, "zedkube").unwrap();
    fs::remove_file(root.lock("zedkube")).unwrap();
    let second = AgentLock::acquire(&root, "zedkube").unwrap();
    assert!(matches!(first.keep(), Err(LockError::Held { .. })));
    drop(first);
    assert!(root.pid("zedkube").exists(), "the pid file is the second's");
    assert_eq!(second.keep().unwrap(), Kept::InPlace);
    drop(second);
    assert!(!root.pid("zedkube").exists());
}
