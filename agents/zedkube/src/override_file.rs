//! An operator's override file: found, checked, and renamed once its order is recorded.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use drain::Moment;
use pubsub::store::create_folder;
use pubsub::{MAX_FILE_BYTES, Owner, PathWatch, Refusal, Root, read_checked};
use runtime::error_chain;
use schemas::{DrainOverride, RefusedInput, parse};
use session::event::Order;

/// How long a file that is not valid is read again before it is refused: a person's `echo >` may be half-way.
const PATIENCE: Duration = Duration::from_secs(2);

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
    /// A file that is not valid so far, and when that was first seen.
    doubtful: Option<(PathBuf, Moment)>,
    refused: Vec<RefusedInput>,
}

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
        for place in self.standing() {
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
        let mut standing = self.standing().into_iter();
        let Some(place) = standing.next() else {
            self.doubtful = None;
            return (None, None);
        };
        for weaker in standing {
            self.refuse(&weaker, "another override file counts already", "one at a time");
        }
        match read(&place) {
            Ok(None) => (None, None),
            Ok(Some((order, bytes))) => {
                (self.doubtful, self.ordered) = (None, Some((place, bytes)));
                (Some(order), None)
            }
            Err(refusal) => (None, self.doubt(place, &refusal, now)),
        }
    }

    /// Renames the file whose order is recorded. True if the order counts: also if there is no file, because an earlier
    /// process has renamed it. False if the file was removed since it was read (the operator withdrew it), or cannot be
    /// renamed.
    pub(crate) fn take(&mut self) -> bool {
        let Some((place, bytes)) = self.ordered.take() else { return true };
        match rename(&place, DrainOverride::APPLIED) {
            Ok(()) => {
                tracing::warn!("override {} taken", place.display());
                self.refused.clear();
                self.has_another = put_back_another(&place, &bytes);
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

    fn standing(&self) -> Vec<PathBuf> {
        self.places.iter().filter(|place| place.symlink_metadata().is_ok()).cloned().collect()
    }

    fn doubt(&mut self, place: PathBuf, refusal: &Refusal, now: Moment) -> Option<Moment> {
        let since =
            self.doubtful.as_ref().filter(|(doubtful, _)| *doubtful == place).map(|(_, since)| *since);
        let since = since.unwrap_or(now);
        if now < since + PATIENCE {
            self.doubtful = Some((place, since));
            return Some(since + PATIENCE);
        }
        self.doubtful = None;
        self.refuse(&place, &refusal.reason, &refusal.accepted);
        None
    }

    fn refuse(&mut self, place: &Path, reason: &str, accepted: &str) {
        let reason = match rename(place, DrainOverride::REFUSED) {
            Ok(()) => reason.to_owned(),
            Err(error) => format!("{reason}; and it cannot be renamed: {error}"),
        };
        self.note(place, &reason, accepted);
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

/// A new order that was written while the last one was being recorded is renamed with it. The renamed file is then put
/// back, so that it is read. If a still newer file is in that place already, that one counts instead.
fn put_back_another(place: &Path, taken: &[u8]) -> bool {
    let applied = with_suffix(place, DrainOverride::APPLIED);
    let is_same = read_checked(&applied, MAX_FILE_BYTES, Owner::Anybody)
        .is_ok_and(|renamed| renamed.is_none_or(|renamed| renamed == taken));
    if is_same || place.symlink_metadata().is_ok() {
        return !is_same;
    }
    if let Err(error) = std::fs::rename(&applied, place) {
        tracing::error!(
            "a second override file came while the first was applied, and cannot be put back; write it again: \
             {error}"
        );
    }
    true
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

/// Renames the file and syncs its folder: after a crash the old name is not there again.
fn rename(place: &Path, suffix: &str) -> std::io::Result<()> {
    let target = with_suffix(place, suffix);
    std::fs::rename(place, target)?;
    place.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

fn with_suffix(place: &Path, suffix: &str) -> PathBuf {
    let mut target = place.as_os_str().to_owned();
    target.push(suffix);
    target.into()
}

#[cfg(test)]
mod tests;
