//! The last changes of the store, in order: watches resume from them, and old snapshots are rebuilt from them.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

use crate::resources::Resource;
use crate::store::Key;

/// One object before and after one revision.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) resource: &'static Resource,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The object before; `None` if it was created.
    pub(crate) before: Option<Arc<Value>>,
    /// The object after; `None` if it was deleted.
    pub(crate) after: Option<Arc<Value>>,
}

impl Change {
    pub(crate) fn key(&self) -> Key {
        Key::new(&self.namespace, &self.name)
    }

    /// The object before and after, where it exists.
    pub(crate) fn versions(&self) -> impl Iterator<Item = &Arc<Value>> {
        [&self.before, &self.after].into_iter().flatten()
    }
}

/// The error when the requested revision is older than the oldest known one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooOld {
    /// The oldest revision that can still be read.
    pub(crate) oldest: u64,
}

#[derive(Debug)]
pub(crate) struct History {
    changes: VecDeque<Change>,
    limit: usize,
    /// All changes after this revision are known.
    oldest: u64,
}

impl History {
    /// Keeps at most `limit` changes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { changes: VecDeque::new(), limit, oldest: 0 }
    }

    pub(crate) fn push(&mut self, change: Change) {
        self.changes.push_back(change);
        while self.changes.len() > self.limit {
            if let Some(dropped) = self.changes.pop_front() {
                self.oldest = dropped.revision;
            }
        }
    }

    /// Forgets all changes, so that every reader of an older revision gets "too old".
    pub(crate) fn forget(&mut self, revision: u64) {
        self.changes.clear();
        self.oldest = revision;
    }

    pub(crate) fn oldest(&self) -> u64 {
        self.oldest
    }

    /// The changes after `revision`, oldest first.
    pub(crate) fn after(&self, revision: u64) -> Result<impl DoubleEndedIterator<Item = &Change>, TooOld> {
        if revision < self.oldest {
            return Err(TooOld { oldest: self.oldest });
        }
        let first = self.changes.partition_point(|change| change.revision <= revision);
        Ok(self.changes.range(first..))
    }
}
