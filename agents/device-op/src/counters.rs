//! The counter files: which commands are done.

use std::collections::BTreeMap;
use std::path::Path;

use pubsub::{MAX_FILE_BYTES, Owner, Refusal, Root, read_checked};
use runtime::refused::ToldRefusals;
use schemas::{DeviceOpsCmd, Source, parse};

use crate::facts::{Kind, Recorded, all_kinds};

/// What the counter files hold, and held last.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    last_good: BTreeMap<Kind, u32>,
    told: ToldRefusals,
}

/// One look at the counter files.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) recorded: BTreeMap<Kind, Recorded>,
    /// The files that are refused, why, and what follows.
    pub(crate) refused: Vec<String>,
}

impl Counters {
    /// Reads all of them. Of a file that is refused the last good counter stands: nobody but us writes them. Logs what is
    /// refused when it is new.
    pub(crate) fn look(&mut self, root: &Root) -> Look {
        let mut refused = Vec::new();
        let recorded = all_kinds().map(|kind| {
            let recorded = match read(root, kind) {
                Ok(None) => Recorded::Nothing,
                Ok(Some(counter)) => Recorded::Counter(counter),
                Err(bad) => {
                    let recorded = self
                        .last_good
                        .get(&kind)
                        .map_or_else(|| bad.counts_as(), |last| Recorded::Counter(*last));
                    refused.push(bad.tell(kind, recorded));
                    recorded
                }
            };
            (kind, recorded)
        });
        let recorded: BTreeMap<Kind, Recorded> = recorded.collect();
        self.last_good = recorded.iter().filter_map(last_good).collect();
        self.told.tell(&refused);
        Look { recorded, refused }
    }
}

fn last_good((kind, recorded): (&Kind, &Recorded)) -> Option<(Kind, u32)> {
    match recorded {
        Recorded::Counter(counter) => Some((*kind, *counter)),
        Recorded::Nothing | Recorded::Unreadable => None,
    }
}

/// The paths of the counter files.
pub(crate) fn paths(root: &Root) -> impl Iterator<Item = std::path::PathBuf> {
    all_kinds().map(|kind| path(root, kind))
}

fn path(root: &Root, (source, operation): Kind) -> std::path::PathBuf {
    root.join(Path::new(source.counter_folder()).join(operation.counter_file()))
}

/// The recorded counter, in EVE's form; nothing when there is none.
fn read(root: &Root, kind: Kind) -> Result<Option<u32>, BadFile> {
    let path = path(root, kind);
    let bytes = read_checked(&path, MAX_FILE_BYTES, Owner::RootOrSelf).map_err(BadFile::Refused)?;
    let command = bytes.map(|bytes| parse::<DeviceOpsCmd>(&bytes));
    let garbled =
        |error: schemas::ParseError| BadFile::Garbled(Refusal::new(&path, error.reason(), error.accepted()));
    Ok(command.transpose().map_err(garbled)?.map(|command| command.counter))
}

/// A counter file that holds no counter.
enum BadFile {
    /// It is not to be trusted, whatever it holds.
    Refused(Refusal),
    /// It is ours, and a power cut or a person has spoilt it.
    Garbled(Refusal),
}

impl BadFile {
    /// What it counts as where no counter is known.
    const fn counts_as(&self) -> Recorded {
        match self {
            Self::Refused(_) => Recorded::Unreadable,
            // As on a first boot: no command is carried out that may have been done, and the file mends itself.
            Self::Garbled(_) => Recorded::Nothing,
        }
    }

    fn tell(&self, (source, operation): Kind, recorded: Recorded) -> String {
        let (Self::Refused(refusal) | Self::Garbled(refusal)) = self;
        let whose = if source == Source::Controller { String::new() } else { format!(" of {source}") };
        match recorded {
            Recorded::Counter(counter) => format!("{refusal}; counter {counter} stands"),
            Recorded::Nothing => format!("{refusal}; the next {operation} command{whose} is only recorded"),
            Recorded::Unreadable => format!("{refusal}; until then no {operation} command{whose} is taken"),
        }
    }
}
