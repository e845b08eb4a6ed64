//! An operator's override file: found, checked, and renamed once its order is recorded.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use drain::Moment;
use pubsub::store::{Renamed, create_folder, rename_judged};
use pubsub::{MAX_FILE_BYTES, Owner, PathWatch, Refusal, Root, read_checked};
use runtime::error_chain;
use schemas::{DrainOverride, RefusedInput, parse};
use session::event::Order;

/// How long a file that is not valid has to stay as it is before it is refused: a person's `echo >` may be half-way.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long a file that is never valid, but changes all the time, is read again.
const LONGEST_PATIENCE: Duration = Duration::from_secs(20);

/// Number of refusals that are kept for the report.
const KEPT: usize = 8;

const ACCEPTED: &str = "{\"Status\":9 or 1 or 2,\"RequestedBy\":1 or 2 or 3}";

/// All places of an override file, watched.
#[derive(Debug)]
pub(crate) struct OverrideFile {
    places: Vec<PathBuf>,
    watch: PathWatch,
    /// The file whose order is being recorded, and its bytes.
    ordered: Option<(PathBuf, Vec<u8>)>,
    /// Another order was written over the last one and has to be read.
    has_another: bool,
    doubtful: Option<Doubtful>,
    refused: Vec<RefusedInput>,
}

/// A file that is not valid so far.
#[derive(Debug)]
struct Doubtful {
    place: PathBuf,
    /// When a file was first seen there that is not valid.
    since: Moment,
    /// The file as it was last read, and since when it is so.
    last: (Fingerprint, Moment),
}

/// Inode, length and time of the last change: another content has another one.
type Fingerprint = Option<(u64, u64, Option<SystemTime>)>;

impl OverrideFile {
    /// Creates the folders and begins to watch.
    pub(crate) fn open(root: &Root) -> Self {
        let folders = DrainOverride::FOLDERS.map(|folder| root.join(folder));
        for folder in &folders {
            if let Err(error) = create_folder(folder) {
                tracing::warn!("a folder for override files cannot be created: {}", error_chain(&error));
            }
        }
        let of_folders = |file: &'static str| folders.iter().map(move |folder| folder.join(file));
        let places: Vec<PathBuf> = DrainOverride::FILES.into_iter().flat_map(of_folders).collect();
        // The folders are watched as well: a folder that blocks a rename may be removed, and so may a refused file.
        let watch = PathWatch::new(places.iter().chain(&folders));
        Self { places, watch, ordered: None, has_another: false, doubtful: None, refused: Vec::new() }
    }

    /// Returns when there may be a change.
    pub(crate) async fn changed(&mut self) {
        self.watch.changed().await;
    }

    /// Refuses files that were there before the first zedkube of this boot: they were meant for another time.
    pub(crate) fn refuse_leftovers(&mut self) {
        for place in self.present() {
            self.refuse(
                &place,
                "it was there before this boot: left over",
                "write it again if it is still meant",
            );
        }
    }

    /// The order to record, and when to read a file again that is not valid yet.
    pub(crate) fn look(&mut self, now: Moment) -> (Option<Order>, Option<Moment>) {
        self.has_another = false;
        self.refused.retain(|line| {
            is_there(&line.path) || is_there(&format!("{}{}", line.path, DrainOverride::REFUSED))
        });
        let mut present = self.present().into_iter();
        let Some(place) = present.next() else {
            self.doubtful = None;
            return (None, None);
        };
        for weaker in present {
            self.refuse(&weaker, "another override file counts already", "one at a time");
        }
        let fingerprint = fingerprint(&place);
        match read(&place) {
            Ok(None) => (None, None),
            Ok(Some((order, bytes))) => {
                (self.doubtful, self.ordered) = (None, Some((place, bytes)));
                (Some(order), None)
            }
            Err(refusal) => (None, self.doubt(place, fingerprint, &refusal, now)),
        }
    }

    /// Renames the file whose order is recorded. True if the order counts: also if there is no file, because an earlier
    /// process has renamed it. False if the file was removed since it was read (the operator withdrew it), or cannot be
    /// renamed.
    pub(crate) fn take(&mut self) -> bool {
        let Some((place, bytes)) = self.ordered.take() else { return true };
        // A new order that came while the last one was being recorded has to be read as well.
        let is_same = |renamed: &Path| {
            read_checked(renamed, MAX_FILE_BYTES, Owner::Anybody)
                .is_ok_and(|now| now.is_none_or(|now| now == bytes))
        };
        match rename(&place, DrainOverride::APPLIED, is_same) {
            Ok(is_same) => {
                tracing::warn!("override {} taken", place.display());
                self.refused.clear();
                self.has_another = !is_same;
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                tracing::warn!("override {} was removed before it was applied", place.display());
                false
            }
            Err(error) => {
                self.note(
                    &place,
                    &format!("it cannot be renamed, so it is not applied: {error}"),
                    "a folder that can be written",
                );
                false
            }
        }
    }

    /// True if another order was written while the last one was being recorded: the file has to be read again.
    pub(crate) fn has_another(&self) -> bool {
        self.has_another
    }

    /// True if no order is between its record and the rename of its file.
    pub(crate) fn is_idle(&self) -> bool {
        self.ordered.is_none()
    }

    /// The refusals since this process began.
    pub(crate) fn refused(&self) -> impl Iterator<Item = RefusedInput> + use<'_> {
        self.refused.iter().cloned()
    }

    fn present(&self) -> Vec<PathBuf> {
        self.places.iter().filter(|place| place.symlink_metadata().is_ok()).cloned().collect()
    }

    fn doubt(
        &mut self,
        place: PathBuf,
        fingerprint: Fingerprint,
        refusal: &Refusal,
        now: Moment,
    ) -> Option<Moment> {
        let before = self.doubtful.take().filter(|doubtful| doubtful.place == place);
        let since = before.as_ref().map_or(now, |before| before.since);
        let last = before.map(|before| before.last).filter(|(last, _)| *last == fingerprint);
        let last = last.unwrap_or((fingerprint, now));
        let end = (last.1 + PATIENCE).min(since + LONGEST_PATIENCE);
        if now < end {
            self.doubtful = Some(Doubtful { place, since, last });
            return Some(end);
        }
        // A good file may take its place at this very moment.
        let is_good = |renamed: &Path| matches!(read(renamed), Ok(Some(_)));
        let is_refused = self.refuse_if(&place, &refusal.reason, &refusal.accepted, |path| !is_good(path));
        (!is_refused).then_some(now)
    }

    fn refuse(&mut self, place: &Path, reason: &str, accepted: &str) {
        self.refuse_if(place, reason, accepted, |_| true);
    }

    /// True if the file there is the one that was judged.
    fn refuse_if(
        &mut self,
        place: &Path,
        reason: &str,
        accepted: &str,
        is_judged: impl FnOnce(&Path) -> bool,
    ) -> bool {
        let reason = match rename(place, DrainOverride::REFUSED, is_judged) {
            Ok(true) => reason.to_owned(),
            Ok(false) => return false,
            Err(error) => format!("{reason}; and it cannot be renamed: {error}"),
        };
        self.note(place, &reason, accepted);
        true
    }

    fn note(&mut self, place: &Path, reason: &str, accepted: &str) {
        let line = RefusedInput {
            path: place.display().to_string(),
            reason: format!("{reason}; accepted: {accepted}"),
        };
        if !self.refused.contains(&line) {
            tracing::warn!("override refused: {}: {}", line.path, line.reason);
            self.refused.push(line);
            self.refused.drain(..self.refused.len().saturating_sub(KEPT));
        }
    }
}

fn is_there(path: &str) -> bool {
    Path::new(path).symlink_metadata().is_ok()
}

/// The order in the file, and the bytes that it was read from.
fn read(place: &Path) -> Result<Option<(Order, Vec<u8>)>, Refusal> {
    let Some(bytes) = read_checked(place, MAX_FILE_BYTES, Owner::RootOrSelf)? else { return Ok(None) };
    let refusal = |reason: String| Refusal::new(place, reason, ACCEPTED);
    let found: DrainOverride = parse(&bytes).map_err(|error| refusal(error.to_string()))?;
    let order = found.order().ok_or_else(|| {
        refusal(format!(
            "Status {} with RequestedBy {} is no order",
            found.status.code(),
            found.requested_by.code()
        ))
    })?;
    Ok(Some((Order { what: order, by: words(&found, place) }, bytes)))
}

/// The person who gave the order, and the reason.
fn words(found: &DrainOverride, place: &Path) -> String {
    /// A person reads this in one line.
    const LONGEST: usize = 200;
    let by = if found.by.is_empty() { place.display().to_string() } else { found.by.clone() };
    let words = if found.reason.is_empty() { by } else { format!("{by}: {}", found.reason) };
    text::plain_chars(&words).take(LONGEST).collect()
}

fn fingerprint(place: &Path) -> Fingerprint {
    let found = place.symlink_metadata().ok()?;
    Some((found.ino(), found.len(), found.modified().ok()))
}

/// Renames the file. True if it is the one that was judged; another one is put back.
fn rename(place: &Path, suffix: &str, is_judged: impl FnOnce(&Path) -> bool) -> std::io::Result<bool> {
    let mut target = place.as_os_str().to_owned();
    target.push(suffix);
    Ok(match rename_judged(place, Path::new(&target), is_judged)? {
        Renamed::Judged => true,
        Renamed::Another => false,
        Renamed::Lost(error) => {
            tracing::error!(
                "another override file took the place of {} and cannot be put back; write it again: {error}",
                place.display()
            );
            false
        }
    })
}

#[cfg(test)]
mod tests;
