//! The store of one watch: its objects by name, trimmed.

use std::collections::BTreeMap;

use kube::runtime::watcher::Event;

/// Namespace and name. Snapshots have their objects in this order.
pub(crate) type Key = (String, String);

/// The objects of one watch. A relist replaces all of them at its end, so that a reader never sees half of it.
#[derive(Debug)]
pub(crate) struct Store<V> {
    current: Option<BTreeMap<Key, V>>,
    coming: BTreeMap<Key, V>,
}

impl<V> Default for Store<V> {
    fn default() -> Self {
        Self { current: None, coming: BTreeMap::new() }
    }
}

impl<V: PartialEq> Store<V> {
    /// Applies an event. True if the objects change.
    pub(crate) fn apply(&mut self, event: Event<(Key, V)>) -> bool {
        match event {
            Event::Init => {
                self.coming.clear();
                false
            }
            Event::InitApply((key, value)) => {
                self.coming.insert(key, value);
                false
            }
            Event::InitDone => {
                let all = std::mem::take(&mut self.coming);
                let changed = self.current.as_ref() != Some(&all);
                self.current = Some(all);
                changed
            }
            Event::Apply((key, value)) => self.current.as_mut().is_some_and(|objects| {
                let changed = objects.get(&key) != Some(&value);
                objects.insert(key, value);
                changed
            }),
            Event::Delete((key, _)) => {
                self.current.as_mut().is_some_and(|objects| objects.remove(&key).is_some())
            }
        }
    }

    /// True once a first list is complete.
    pub(crate) fn is_synced(&self) -> bool {
        self.current.is_some()
    }

    /// The objects, by name; empty before the first list.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &V> {
        self.current.iter().flat_map(BTreeMap::values)
    }

    /// The names of the objects that are equal to this value.
    pub(crate) fn keys_of(&self, value: &V) -> impl Iterator<Item = &Key> {
        let all = self.current.iter().flatten();
        all.filter(move |(_, found)| *found == value).map(|(key, _)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, value: u32) -> (Key, u32) {
        ((String::new(), name.to_owned()), value)
    }

    #[test]
    fn a_relist_replaces_all_at_its_end_and_equal_objects_are_no_change() {
        let mut store = Store::default();
        let steps = [
            (Event::Init, false, vec![]),
            (Event::InitApply(entry("b", 1)), false, vec![]),
            (Event::InitApply(entry("a", 2)), false, vec![]),
            (Event::InitDone, true, vec![2, 1]),
            (Event::Apply(entry("a", 2)), false, vec![2, 1]),
            (Event::Apply(entry("a", 3)), true, vec![3, 1]),
            (Event::Delete(entry("x", 0)), false, vec![3, 1]),
            (Event::Delete(entry("b", 9)), true, vec![3]),
            (Event::Init, false, vec![3]),
            (Event::InitApply(entry("c", 5)), false, vec![3]),
            (Event::InitDone, true, vec![5]),
            (Event::Init, false, vec![5]),
            (Event::InitApply(entry("c", 5)), false, vec![5]),
            (Event::InitDone, false, vec![5]),
        ];
        for (number, (event, changed, objects)) in steps.into_iter().enumerate() {
            assert_eq!(store.apply(event), changed, "step {number}");
            assert_eq!(store.objects().copied().collect::<Vec<_>>(), objects, "step {number}");
        }
    }

    #[test]
    fn an_interrupted_list_leaves_nothing_behind() {
        let mut store = Store::default();
        for event in [Event::Init, Event::InitApply(entry("old", 1)), Event::Init, Event::InitDone] {
            store.apply(event);
        }
        assert!(store.is_synced());
        assert_eq!(store.objects().count(), 0);
    }
}
