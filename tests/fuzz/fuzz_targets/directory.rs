//! A topic's folder that anybody has filled: every name and content, every kind of file. Readers take the good items,
//! name the others, and a publisher can take the folder over.
#![no_main]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use pubsub::{AgentLock, Persistence, Publisher, Root, read_item, read_items};
use schemas::{NodeDrainStatus, agent, parse};

#[derive(Arbitrary, Debug)]
struct Entry<'a> {
    name: Name<'a>,
    kind: Kind<'a>,
}

#[derive(Arbitrary, Debug)]
enum Name<'a> {
    Any(&'a [u8]),
    Item(&'a str),
    Backup(&'a str),
    Temporary(u8),
    Restarted,
}

#[derive(Arbitrary, Debug)]
enum Kind<'a> {
    File(&'a [u8]),
    Item(u8, u8),
    Mode(u16, &'a [u8]),
    Link(u8),
    Folder,
}

impl Name<'_> {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Any(name) => name.to_vec(),
            Self::Item(name) => format!("{name}.json").into_bytes(),
            Self::Backup(name) => format!("{name}.json.bak").into_bytes(),
            Self::Temporary(number) => format!("tmp{number}").into_bytes(),
            Self::Restarted => b"restarted".to_vec(),
        }
    }
}

/// What cannot be made is left out: names that are none, and those that are there already.
fn make(path: &Path, kind: &Kind<'_>) -> std::io::Result<()> {
    match kind {
        Kind::File(bytes) => fs::write(path, bytes),
        Kind::Item(status, requester) => {
            fs::write(path, format!("{{\"Status\":{status},\"RequestedBy\":{requester}}}"))
        }
        Kind::Mode(mode, bytes) => {
            fs::write(path, bytes)?;
            fs::set_permissions(path, fs::Permissions::from_mode(u32::from(*mode) & 0o777))
        }
        Kind::Link(target) => symlink(if target % 2 == 0 { "/etc/hostname" } else { "global.json" }, path),
        Kind::Folder => fs::create_dir(path),
    }
}

fuzz_target!(|entries: Vec<Entry<'_>>| {
    let place = Path::new("/dev/shm");
    let device = if place.is_dir() { tempfile::tempdir_in(place) } else { tempfile::tempdir() };
    let device = device.expect("a temporary folder");
    let root = Root::new(device.path());
    let folder = root.folder::<NodeDrainStatus>(agent::ZEDKUBE, Persistence::Persistent);
    fs::create_dir_all(&folder).expect("a folder");
    for entry in entries.iter().take(50) {
        let name = entry.name.bytes();
        let is_inside = !name.contains(&b'/') && !name.contains(&0);
        if is_inside && !name.is_empty() {
            make(&folder.join(OsStr::from_bytes(&name)), &entry.kind).unwrap_or_default();
        }
    }
    let read = read_items::<NodeDrainStatus>(&root, agent::ZEDKUBE, Persistence::Persistent);
    for (key, value) in &read.items {
        let again = read_item::<NodeDrainStatus>(&root, agent::ZEDKUBE, Persistence::Persistent, key);
        assert_eq!(again.as_ref(), Ok(&Some(*value)));
        let bytes = fs::read(root.item::<NodeDrainStatus>(agent::ZEDKUBE, Persistence::Persistent, key));
        assert_eq!(parse::<NodeDrainStatus>(&bytes.expect("it is there")).as_ref(), Ok(value));
    }
    for refusal in &read.refused {
        assert!(!refusal.to_string().contains('\n') && !refusal.accepted.is_empty());
    }
    let lock = AgentLock::acquire(&root, agent::ZEDKUBE).expect("nobody else is zedkube here");
    let publisher = Publisher::<NodeDrainStatus>::open(&root, agent::ZEDKUBE, Persistence::Persistent, &lock);
    if let Ok(publisher) = publisher {
        // It may have restored more from backups, and it takes nothing that a reader refuses.
        assert!(read.items.iter().all(|(key, value)| publisher.get(key) == Some(value)));
    }
});
