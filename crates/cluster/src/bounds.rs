//! Bounds of what is taken from a server: no answer may fill the memory, whatever sends it, and none is waited for without
//! end.

use std::fmt::{self, Debug, Write};
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::{DeserializeOwned, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Deadline of an ordinary call.
pub(crate) const CALL_DEADLINE: Duration = Duration::from_secs(10);

/// Deadline of an eviction. The API server itself repeats conflicting writes for 10 s, and answers 504 after 34 s if
/// etcd hangs (M1), so we wait for its answer.
pub(crate) const EVICTION_DEADLINE: Duration = Duration::from_secs(35);

/// Longest answer: a page of a list. 500 pods with long lists of containers are well below.
pub(crate) const LONGEST_ANSWER: usize = 32 * 1024 * 1024;

/// Longest answer that is an error.
pub(crate) const LONGEST_ERROR: usize = 1024 * 1024;

/// Longest single object, and longest change of a watch. etcd takes objects of up to 1.5 MiB.
pub(crate) const LONGEST_OBJECT: usize = 4 * 1024 * 1024;

/// Most that is kept of one list, after its objects were trimmed, in bytes of their debug text.
const MOST_KEPT: usize = 256 * 1024 * 1024;

/// Objects per page of a list: kubectl's and client-go's size.
pub(crate) const PAGE: u32 = 500;

/// Most pages of one list, if each has [`PAGE`] objects: a server that never ends a list must not fill the memory.
pub(crate) const MOST_PAGES: usize = 200;

/// Most objects of one list.
const MOST_OBJECTS: usize = 100_000;

/// Most pages of a list with so many objects per page; 0 = all at once.
pub(crate) fn most_pages(page: u32) -> usize {
    let parts = if page == 0 { 1 } else { PAGE.div_ceil(page) };
    MOST_PAGES.saturating_mul(usize::try_from(parts).unwrap_or(usize::MAX))
}

/// The size of the page to ask for after one that was too long; `None` if no page can be shorter.
pub(crate) fn shorter(page: u32) -> Option<u32> {
    match page {
        0 => Some(PAGE),
        1 => None,
        _ => Some(page / 2),
    }
}

/// An answer was longer than its limit, or had more objects than were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer is too long, or has more objects than were asked for")]
pub(crate) struct TooLong;

/// How much of a list may still be kept.
#[derive(Debug)]
pub(crate) struct Room(usize);

impl Default for Room {
    fn default() -> Self {
        Self(MOST_KEPT)
    }
}

impl Room {
    /// True if this object may be kept as well.
    pub(crate) fn takes(&mut self, object: &impl Debug) -> bool {
        write!(self, "{object:?}").is_ok()
    }
}

impl Write for Room {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = self.0.checked_sub(text.len()).ok_or(fmt::Error)?;
        Ok(())
    }
}

/// The items of a page; Go writes an empty list as null.
#[derive(Debug)]
pub(crate) struct Items<T>(pub(crate) Vec<T>);

impl<T> Default for Items<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Items<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All<T>(PhantomData<T>);
        impl<'de, T: DeserializeOwned> Visitor<'de> for All<T> {
            type Value = Items<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "at most {MOST_OBJECTS} objects")
            }
            fn visit_unit<E>(self) -> Result<Items<T>, E> {
                Ok(Items::default())
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Items<T>, A::Error> {
                let mut all = Vec::new();
                while let Some(item) = items.next_element()? {
                    if all.len() == MOST_OBJECTS {
                        return Err(serde::de::Error::invalid_length(all.len() + 1, &self));
                    }
                    all.push(item);
                }
                Ok(Items(all))
            }
        }
        deserializer.deserialize_any(All(PhantomData))
    }
}

/// Number of items in a page, without reading them; 0 if it is no page.
pub(crate) fn count_items(page: &[u8]) -> usize {
    #[derive(Deserialize)]
    struct Page {
        #[serde(default)]
        items: Option<Vec<IgnoredAny>>,
    }
    let page: Option<Page> = serde_json::from_slice(page).ok();
    page.and_then(|page| page.items).map_or(0, |items| items.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shorter_page_is_half_down_to_one_object_and_a_list_has_as_many_objects_as_before() {
        let mut sizes = vec![0];
        while let Some(next) = shorter(*sizes.last().unwrap()) {
            sizes.push(next);
        }
        assert_eq!(sizes, [0, 500, 250, 125, 62, 31, 15, 7, 3, 1]);
        assert_eq!([0, 500, 250, 1].map(most_pages), [200, 200, 400, 100_000]);
    }

    #[test]
    fn what_is_kept_has_a_limit() {
        let mut room = Room(10);
        assert!(room.takes(&"1234") && !room.takes(&"123"), "with its quotes: {room:?}");
    }

    #[derive(Deserialize)]
    struct Page {
        items: Items<u8>,
    }

    #[test]
    fn items_are_counted_and_read_up_to_a_limit() {
        let of = |number| format!(r#"{{"items": [{}0]}}"#, "0,".repeat(number - 1));
        assert_eq!(count_items(of(3).as_bytes()), 3);
        assert_eq!(count_items(br#"{"items": null}"#), 0);
        assert_eq!(count_items(b"nonsense"), 0);
        let read = |text: &str| serde_json::from_str(text).map(|page: Page| page.items.0.len()).ok();
        assert_eq!(read(r#"{"items": null}"#), Some(0));
        assert_eq!(read(&of(MOST_OBJECTS)), Some(MOST_OBJECTS));
        assert_eq!(read(&of(MOST_OBJECTS + 1)), None);
    }
}
