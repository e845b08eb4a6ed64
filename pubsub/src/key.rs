//! The key of an item: the name of its file without `.json`.

use std::ffi::OsStr;
use std::fmt;

use schemas::Operation;
use thiserror::Error;

/// End of every item's file name.
const SUFFIX: &str = ".json";
/// The longest file name of Linux file systems, in bytes.
const MAX_FILE_NAME: usize = 255;

/// A key that is valid by construction: it names exactly one file, inside its folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicKey(String);

/// The error for a text that is no key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text:?} is not a key: it {reason}")]
pub struct KeyError {
    text: String,
    reason: &'static str,
}

impl TopicKey {
    /// Checks that a text is a key.
    ///
    /// Refused: the empty text, `.` and `..`, a `/` or NUL, more than 250 bytes, and `.json` anywhere inside,
    /// because EVE's Go agents cut the file name at the first `.json`.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        fault(text).map_or_else(
            || Ok(Self(text.to_owned())),
            |reason| Err(KeyError { text: text.to_owned(), reason }),
        )
    }

    /// The key of topics that have one item: `global`.
    pub fn global() -> Self {
        Self("global".to_owned())
    }

    /// The key of an operation's command.
    pub fn of_operation(operation: Operation) -> Self {
        Self(operation.name().to_owned())
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of the item's file.
    pub fn file_name(&self) -> String {
        format!("{}{SUFFIX}", self.0)
    }

    /// The key of the item in the file with this name; `None` if the file is no item.
    pub fn of_file(name: &OsStr) -> Option<Result<Self, KeyError>> {
        let stem = name.as_encoded_bytes().strip_suffix(SUFFIX.as_bytes())?;
        let text = String::from_utf8_lossy(stem);
        if std::str::from_utf8(stem).is_err() {
            return Some(Err(KeyError { text: text.into_owned(), reason: "is not UTF-8" }));
        }
        Some(Self::parse(&text))
    }
}

fn fault(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        Some("is empty")
    } else if text == "." || text == ".." {
        Some("names a folder")
    } else if text.contains('/') {
        Some("contains a slash")
    } else if text.contains('\0') {
        Some("contains a NUL")
    } else if text.contains(SUFFIX) {
        Some("contains `.json`")
    } else if MAX_FILE_NAME < text.len() + SUFFIX.len() {
        Some("has more than 250 bytes")
    } else {
        None
    }
}

impl fmt::Display for TopicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[track_caller]
    fn check(text: &str, expected: Result<(), &str>) {
        let got = TopicKey::parse(text).map(|key| key.0).map_err(|error| error.reason);
        assert_eq!(got, expected.map(|()| text.to_owned()), "{text:?}");
    }

    #[test]
    fn keys_that_name_one_file_are_accepted() {
        check("global", Ok(()));
        check("6ba7b810-9dad-11d1-80b4-00c04fd430c8", Ok(()));
        check("...", Ok(()));
        check("a b\nc", Ok(()));
        check("json", Ok(()));
        check(&"k".repeat(250), Ok(()));
    }

    #[test]
    fn other_texts_are_refused() {
        check("", Err("is empty"));
        check(".", Err("names a folder"));
        check("..", Err("names a folder"));
        check("a/b", Err("contains a slash"));
        check("a\0b", Err("contains a NUL"));
        check("x.json", Err("contains `.json`"));
        check("x.json.y", Err("contains `.json`"));
        check(&"k".repeat(251), Err("has more than 250 bytes"));
        check(&"é".repeat(126), Err("has more than 250 bytes"));
    }

    #[test]
    fn file_names_and_keys_match() {
        let key = TopicKey::global();
        assert_eq!(key.file_name(), "global.json");
        assert_eq!(TopicKey::of_file(OsStr::new("global.json")), Some(Ok(key)));
        assert_eq!(TopicKey::of_file(OsStr::new("restarted")), None);
        assert_eq!(TopicKey::of_file(OsStr::new("global.json.bak")), None);
        assert_eq!(TopicKey::of_file(OsStr::new(".tmp.12.1")), None);
        assert!(matches!(TopicKey::of_file(OsStr::new(".json")), Some(Err(_))));
        assert!(matches!(TopicKey::of_file(OsStr::new("a.json.json")), Some(Err(_))));
        assert!(matches!(TopicKey::of_file(OsStr::from_bytes(b"\xff.json")), Some(Err(_))));
    }
}
