//! Reads a topic from its folder.
//!
//! An inotify event only says "look again". Then the folder is listed, every item is read, and the result is compared
//! with the previous one. If a file is refused, the last good value of its item stays.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::future::pending;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemas::{Topic, parse};
use tokio::time::{Instant, sleep_until};

use crate::TopicKey;
use crate::place::{Persistence, RESTARTED, Root, TopicPlace};
use crate::read::{MAX_FILE_BYTES, Owner, Refusal, read_checked};
use crate::watch::PathWatch;

/// How long an empty or unparsable file may be half written before it is refused. A person's `echo` takes milliseconds,
/// an editor over a slow line perhaps a second.
const SETTLE: Duration = Duration::from_secs(2);
/// Interval at which such a file is read again.
const SETTLE_LOOK: Duration = Duration::from_millis(200);
/// Interval at which a file that could not be read for a passing reason is read again: no event says when it is
/// readable.
const PASSING_LOOK: Duration = Duration::from_millis(500);
/// The number of items that are read of one folder, in the order of their names; a topic has tens. The others are
/// refused.
pub(crate) const MAX_ITEMS: usize = 1000;
/// The longest restart counter file, in bytes.
const MAX_COUNTER_BYTES: u64 = 32;

/// The content of a topic's folder at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Items<T> {
    /// The good items.
    pub items: BTreeMap<TopicKey, T>,
    /// The files that were refused.
    pub refused: Vec<Refusal>,
}

/// Reads a topic once, without watching it. A half-written file counts as refused.
pub fn read_items<T: Topic>(root: &Root, agent: &str, persistence: Persistence) -> Items<T> {
    read_items_of(&root.topic::<T>(agent, persistence))
}

/// Reads the topic at this place once; see [`read_items`].
pub fn read_items_of<T: Topic>(place: &TopicPlace) -> Items<T> {
    let mut read = Items { items: BTreeMap::new(), refused: Vec::new() };
    for (_, reading) in scan(&place.folder()) {
        match reading {
            Reading::Item(key, value) => {
                read.items.insert(key, value);
            }
            Reading::Bad(bad) => read.refused.push(bad.refusal),
        }
    }
    read
}

/// Reads one item once; `None` if it does not exist.
pub fn read_item<T: Topic>(
    root: &Root,
    agent: &str,
    persistence: Persistence,
    key: &TopicKey,
) -> Result<Option<T>, Refusal> {
    read_file(&root.item::<T>(agent, persistence, key)).map_err(|bad| bad.refusal)
}

/// Follows a topic by its folder.
#[derive(Debug)]
pub(crate) struct Directory<T> {
    folder: PathBuf,
    watch: PathWatch,
    items: BTreeMap<TopicKey, T>,
    doubtful: BTreeMap<PathBuf, SuspectFile>,
    restarted: u64,
    version: u64,
}

impl<T: Topic> Directory<T> {
    /// Watches the folder, then reads it, so that no change in between is missed.
    pub(crate) fn open(place: &TopicPlace) -> Self {
        Self::watching(place, &[])
    }

    /// As [`Directory::open`]; also reads the folder when the topic's socket appears or disappears.
    pub(crate) fn open_beside_socket(place: &TopicPlace) -> Self {
        Self::watching(place, &[place.socket()])
    }

    fn watching(place: &TopicPlace, beside: &[PathBuf]) -> Self {
        let folder = place.folder();
        let watch = PathWatch::new(beside.iter().chain([&folder]));
        let (items, doubtful) = (BTreeMap::new(), BTreeMap::new());
        let mut directory = Self { folder, watch, items, doubtful, restarted: 0, version: 0 };
        directory.look();
        directory.version = 0;
        directory
    }

    /// The restart counter as last read.
    pub(crate) const fn restarted(&self) -> u64 {
        self.restarted
    }

    pub(crate) const fn items(&self) -> &BTreeMap<TopicKey, T> {
        &self.items
    }

    pub(crate) fn refused(&self) -> Vec<Refusal> {
        self.doubtful.values().filter_map(|suspect| suspect.told.clone()).collect()
    }

    /// True if the item's file exists but has no readable value (yet): it is refused or half written.
    pub(crate) fn is_unread(&self, key: &TopicKey) -> bool {
        self.doubtful.contains_key(&self.folder.join(key.file_name()))
    }

    /// Raised whenever items or refusals have changed, or a file without a readable value has ended.
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// Returns after the folder was read; the version says whether anything changed. Cancel-safe: nothing is changed
    /// before the last wait.
    pub(crate) async fn looked(&mut self) {
        let again = self
            .doubtful
            .values()
            .filter_map(SuspectFile::look_again)
            .min()
            .map(|pause| Instant::now() + pause);
        tokio::select! {
            () = self.watch.changed() => {}
            () = async {
                match again {
                    Some(again) => sleep_until(again).await,
                    None => pending().await,
                }
            } => {}
        }
        self.look();
    }

    pub(crate) fn look(&mut self) {
        let mut items = BTreeMap::new();
        let mut bad_files = BTreeMap::new();
        for (path, reading) in self.scan() {
            match reading {
                Reading::Item(key, value) => {
                    items.insert(key, value);
                }
                Reading::Bad(bad) => {
                    if let Some((key, value)) = bad.key.as_ref().and_then(|key| self.items.get_key_value(key))
                    {
                        items.insert(key.clone(), value.clone());
                    }
                    bad_files.insert(path, bad);
                }
            }
        }
        let refused = self.refused();
        // A file that has no readable value yet is no item, but its end is the end of one.
        let has_ended = self.judge(bad_files);
        let restarted = read_restarted(&self.folder).unwrap_or(self.restarted);
        if has_ended || items != self.items || refused != self.refused() || restarted != self.restarted {
            self.version += 1;
        }
        (self.items, self.restarted) = (items, restarted);
    }

    /// Reads the folder, and by name those known items that the listing lacks: if a file is replaced while its folder
    /// is listed, the listing may leave it out, and a request must not look withdrawn because of that.
    fn scan(&self) -> BTreeMap<PathBuf, Reading<T>> {
        let mut readings = scan(&self.folder);
        for key in self.items.keys() {
            let name = OsString::from(key.file_name());
            let path = self.folder.join(&name);
            if !readings.contains_key(&path)
                && let Some(reading) = read_named(&path, &name)
            {
                readings.insert(path, reading);
            }
        }
        readings
    }

    /// Decides which bad files are refused now, and logs one warning about each new refusal. True if a file that was bad
    /// before is bad no more: it was removed, or can be read.
    fn judge(&mut self, bad_files: BTreeMap<PathBuf, BadFile>) -> bool {
        let now = Instant::now();
        let mut before = std::mem::take(&mut self.doubtful);
        for (path, bad) in bad_files {
            let mut suspect = SuspectFile::about(bad, Stamp::of(&path), before.remove(&path), now);
            if suspect.is_due(now) {
                tracing::warn!("{}", suspect.refusal);
                suspect.told = Some(suspect.refusal.clone());
                suspect.is_decided = true;
            }
            self.doubtful.insert(path, suspect);
        }
        !before.is_empty()
    }
}

/// The restart counter in a topic's folder; `None` if it cannot be read at the moment. An invalid counter counts as 1,
/// as in EVE: there was a restart.
pub(crate) fn read_restarted(folder: &Path) -> Option<u64> {
    match read_checked(&folder.join(RESTARTED), MAX_COUNTER_BYTES, Owner::RootOrSelf) {
        Ok(None) => Some(0),
        Ok(Some(bytes)) => {
            let text = String::from_utf8(bytes).unwrap_or_default();
            Some(text.trim().parse().unwrap_or(1))
        }
        Err(refusal) => (!refusal.is_passing).then_some(1),
    }
}

/// A bad file, followed over several reads.
#[derive(Debug)]
struct SuspectFile {
    refusal: Refusal,
    may_be_half_written: bool,
    stamp: Option<Stamp>,
    since: Instant,
    /// `refusal` is final and was published. Before that, `told` may hold the refusal of an earlier content.
    is_decided: bool,
    told: Option<Refusal>,
}

impl SuspectFile {
    fn about(bad: BadFile, stamp: Option<Stamp>, before: Option<Self>, now: Instant) -> Self {
        let BadFile { refusal, may_be_half_written, .. } = bad;
        let fresh = Self { refusal, may_be_half_written, stamp, since: now, is_decided: false, told: None };
        match before {
            None => fresh,
            Some(same) if same.stamp == fresh.stamp && same.refusal == fresh.refusal => same,
            Some(decided) if decided.is_decided => Self { told: decided.told, ..fresh },
            // The file is still being written. Its time goes on from the first look; otherwise a file that is written
            // without end would never be refused.
            Some(settling) => Self { since: settling.since, told: settling.told, ..fresh },
        }
    }

    /// The time after which this file is read again although no event came.
    const fn look_again(&self) -> Option<Duration> {
        if !self.is_decided {
            Some(SETTLE_LOOK)
        } else if self.refusal.is_passing {
            Some(PASSING_LOOK)
        } else {
            None
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        !self.is_decided && (!self.may_be_half_written || SETTLE <= now.duration_since(self.since))
    }
}

/// Identifies one content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::symlink_metadata(path).ok()?;
        Some(Self {
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

enum Reading<T> {
    Item(TopicKey, T),
    Bad(BadFile),
}

struct BadFile {
    refusal: Refusal,
    /// The writer may not have finished.
    may_be_half_written: bool,
    /// Key of the item that the file should hold; the item's last good value stays.
    key: Option<TopicKey>,
}

impl BadFile {
    const fn new(refusal: Refusal) -> Self {
        Self { refusal, may_be_half_written: false, key: None }
    }
}

/// Reads every item of a folder. A folder that does not exist has no items.
fn scan<T: Topic>(folder: &Path) -> BTreeMap<PathBuf, Reading<T>> {
    let names = match item_names(folder) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return BTreeMap::new(),
        Err(error) => {
            let refusal = Refusal::of_io(folder, "listed", &error, "a readable folder");
            return BTreeMap::from([(folder.to_owned(), Reading::Bad(BadFile::new(refusal)))]);
        }
    };
    let mut readings = BTreeMap::new();
    for name in names.first {
        let path = folder.join(&name);
        if let Some(reading) = read_named(&path, &name) {
            readings.insert(path, reading);
        }
    }
    if names.has_more {
        let refusal =
            Refusal::new(folder, "too many items: the last ones are not read", format!("{MAX_ITEMS} items"));
        readings.insert(folder.to_owned(), Reading::Bad(BadFile::new(refusal)));
    }
    readings
}

struct Names {
    first: BTreeSet<OsString>,
    has_more: bool,
}

/// The first item names in byte order, at most as many as are read, so memory stays bounded.
fn item_names(folder: &Path) -> io::Result<Names> {
    let mut names = Names { first: BTreeSet::new(), has_more: false };
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if TopicKey::of_file(&name).is_some() {
            names.first.insert(name);
        }
        if MAX_ITEMS < names.first.len() {
            names.first.pop_last();
            names.has_more = true;
        }
    }
    Ok(names)
}

fn read_named<T: Topic>(path: &Path, name: &OsString) -> Option<Reading<T>> {
    let key = match TopicKey::of_file(name)? {
        Ok(key) => key,
        Err(error) => {
            let refusal = Refusal::new(path, error.to_string(), "a file name of a key and `.json`");
            return Some(Reading::Bad(BadFile::new(refusal)));
        }
    };
    match read_file(path) {
        Ok(value) => value.map(|value| Reading::Item(key, value)),
        Err(bad) => Some(Reading::Bad(BadFile { key: Some(key), ..bad })),
    }
}

fn read_file<T: Topic>(path: &Path) -> Result<Option<T>, BadFile> {
    let limit = u64::try_from(T::MAX_BYTES).unwrap_or(MAX_FILE_BYTES);
    let bytes = read_checked(path, limit, Owner::RootOrSelf).map_err(BadFile::new)?;
    let Some(bytes) = bytes else {
        return Ok(None);
    };
    parse(&bytes).map(Some).map_err(|error| BadFile {
        refusal: Refusal::new(path, format!("cannot read {}", error.reason()), error.accepted()),
        may_be_half_written: true,
        key: None,
    })
}

#[cfg(test)]
mod tests;
