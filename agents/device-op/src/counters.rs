//! The counter files: the counters of the commands that are done.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pubsub::{MAX_FILE_BYTES, Owner, Refusal, Root, read_checked};
use runtime::refused::ToldRefusals;
use schemas::{DeviceOpsCmd, Source, parse};

use crate::facts::{Kind, Recorded, all_kinds};
use crate::record::OperationRecord;

/// Reads the counter files of all kinds, and remembers the last good counter of each.
///
/// Only device-op writes these files. So if a file is garbled or refused later, its last good counter stays in
/// effect.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    last_good: BTreeMap<Kind, u32>,
    told: ToldRefusals,
}

/// Snapshot of the counter files.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CounterFiles {
    pub(crate) recorded: BTreeMap<Kind, Recorded>,
    /// Each refused file with the reason and the consequence.
    pub(crate) refused: Vec<String>,
}

impl Counters {
    /// For a program beside a running device-op (`ebb`): takes the last good counters from device-op's record,
    /// because device-op may have read a file before it was garbled.
    pub(crate) fn known_from(record: &OperationRecord) -> Self {
        let accepted = |kind| record.latest(kind).map(|accepted| accepted.counter);
        let counter = |kind| accepted(kind).or_else(|| record.ended(kind).map(|line| line.counter));
        let last_good = all_kinds().filter_map(|kind| Some((kind, counter(kind)?))).collect();
        Self { last_good, told: ToldRefusals::default() }
    }

    /// The counter that counts as done for device-op. None if there is no file, or if it is garbled and no last good
    /// counter is known.
    ///
    /// # Errors
    /// The file is refused, and no last good counter is known.
    pub(crate) fn recorded(&self, root: &Root, kind: Kind) -> Result<Option<u32>, Refusal> {
        let file = read(root, kind);
        match (self.counts_as(kind, &file), file) {
            (Recorded::Unreadable, Err(bad)) => Err(bad.refusal),
            (recorded, _) => Ok(recorded.counter()),
        }
    }

    /// Reads all files, remembers the good counters, and logs each refusal once.
    pub(crate) fn look(&mut self, root: &Root) -> CounterFiles {
        let mut files = CounterFiles { recorded: BTreeMap::new(), refused: Vec::new() };
        for kind in all_kinds() {
            let file = read(root, kind);
            let recorded = self.counts_as(kind, &file);
            files.refused.extend(file.err().map(|bad| bad.describe(kind, recorded)));
            files.recorded.insert(kind, recorded);
        }
        let good = |(kind, recorded): (&Kind, &Recorded)| Some((*kind, recorded.counter()?));
        self.last_good = files.recorded.iter().filter_map(good).collect();
        self.told.tell(&files.refused);
        files
    }

    fn counts_as(&self, kind: Kind, file: &Result<Option<u32>, BadFile>) -> Recorded {
        match file {
            Ok(counter) => counter.map_or(Recorded::Nothing, Recorded::Counter),
            Err(bad) => self.last_good.get(&kind).map_or(bad.counts_as, |last| Recorded::Counter(*last)),
        }
    }
}

/// The paths of the counter files.
pub(crate) fn paths(root: &Root) -> impl Iterator<Item = PathBuf> {
    all_kinds().map(|kind| path(root, kind))
}

fn path(root: &Root, (source, operation): Kind) -> PathBuf {
    root.join(Path::new(source.counter_folder()).join(operation.counter_file()))
}

/// The counter in the file, which has EVE's form; None if there is no file.
fn read(root: &Root, kind: Kind) -> Result<Option<u32>, BadFile> {
    let path = path(root, kind);
    let bytes = read_checked(&path, MAX_FILE_BYTES, Owner::RootOrSelf);
    // The file must not be trusted (owner, mode, kind), whatever it holds.
    let bytes = bytes.map_err(|refusal| BadFile { refusal, counts_as: Recorded::Unreadable })?;
    let command = bytes.map(|bytes| parse::<DeviceOpsCmd>(&bytes));
    // The file is device-op's own, but a power cut or a person has garbled it. As on a first boot, the next command is
    // only recorded, because it may have been done. That writes a good file again.
    let garbled = |error: schemas::ParseError| BadFile {
        refusal: Refusal::new(&path, error.reason(), error.accepted()),
        counts_as: Recorded::Nothing,
    };
    Ok(command.transpose().map_err(garbled)?.map(|command| command.counter))
}

/// A counter file that holds no counter.
struct BadFile {
    refusal: Refusal,
    /// The value used if no last good counter is known.
    counts_as: Recorded,
}

impl BadFile {
    fn describe(&self, (source, operation): Kind, recorded: Recorded) -> String {
        let refusal = &self.refusal;
        let whose = if source == Source::Controller { String::new() } else { format!(" of {source}") };
        match recorded {
            Recorded::Counter(counter) => {
                format!("{refusal}; the last good counter {counter} stays in effect")
            }
            Recorded::Nothing => format!("{refusal}; the next {operation} command{whose} is only recorded"),
            Recorded::Unreadable => {
                format!("{refusal}; until then no {operation} command{whose} is accepted")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use schemas::Operation;

    use super::*;
    use crate::record::{Accepted, Ended};

    const KIND: Kind = (Source::Controller, Operation::Reboot);

    fn write(root: &Root, text: &str) {
        let path = path(root, KIND);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        #[expect(clippy::disallowed_methods, reason = "a test file need not be durable")]
        std::fs::write(path, text).unwrap();
    }

    /// A running device-op has read the good file; a program that starts after the file was garbled has not.
    #[test]
    fn a_garbled_file_counts_for_others_as_it_does_for_a_running_device_op() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let mut of_device_op = Counters::default();
        let mut record = OperationRecord::new("boot");
        assert_eq!(Counters::known_from(&record).recorded(&root, KIND), Ok(None), "no file");

        write(&root, r#"{"Counter":7,"DesiredState":true,"OpsTime":"then"}"#);
        record.end(&Accepted::new(KIND, 7), Ended::Done);
        assert_eq!(of_device_op.look(&root).recorded[&KIND], Recorded::Counter(7));

        write(&root, "{");
        assert_eq!(of_device_op.look(&root).recorded[&KIND], Recorded::Counter(7));
        assert_eq!(Counters::known_from(&record).recorded(&root, KIND), Ok(Some(7)));
        record.queue(Accepted::new(KIND, 8));
        assert_eq!(Counters::known_from(&record).recorded(&root, KIND), Ok(Some(8)), "the newer one");
        // If no last good counter is known, the next command is only recorded.
        assert_eq!(Counters::default().look(&root).recorded[&KIND], Recorded::Nothing);
        assert_eq!(Counters::default().recorded(&root, KIND), Ok(None));
    }

    #[test]
    fn a_file_that_must_not_be_trusted_is_an_error_only_without_a_last_good_counter() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        write(&root, r#"{"Counter":7,"DesiredState":true,"OpsTime":"then"}"#);
        let mut counters = Counters::default();
        counters.look(&root);
        std::fs::remove_file(path(&root, KIND)).unwrap();
        std::os::unix::fs::symlink("elsewhere", path(&root, KIND)).unwrap();
        assert_eq!(counters.recorded(&root, KIND), Ok(Some(7)));
        assert!(Counters::default().recorded(&root, KIND).is_err());
        assert_eq!(Counters::default().look(&root).recorded[&KIND], Recorded::Unreadable);
    }
}
