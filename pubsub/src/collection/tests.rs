use proptest::prelude::*;

use super::*;

fn key(number: u8) -> TopicKey {
    TopicKey::parse(&format!("k{number}")).unwrap()
}

fn keyed(items: &BTreeMap<u8, u8>) -> BTreeMap<TopicKey, u8> {
    items.iter().map(|(number, value)| (key(*number), *value)).collect()
}

/// Applies a change to the items of a reader that knows the changes only.
fn apply(known: &mut BTreeMap<TopicKey, u8>, change: Change<u8>) {
    match change {
        Change::Created(key, value) => assert_eq!(known.insert(key, value), None),
        Change::Modified(key, value) => assert_ne!(known.insert(key, value), Some(value)),
        Change::Deleted(key, value) => assert_eq!(known.remove(&key), Some(value)),
        Change::Synced | Change::Restarted(_) => panic!("a collection knows only items"),
    }
}

#[test]
fn differences_come_in_order() {
    let mut collection = Collection::default();
    let first = BTreeMap::from([(key(1), 10), (key(2), 20), (key(3), 30)]);
    let created = [(1, 10), (2, 20), (3, 30)].map(|(k, v)| Change::Created(key(k), v));
    assert_eq!(collection.replace(first), created);
    let second = BTreeMap::from([(key(2), 21), (key(3), 30), (key(4), 40)]);
    assert_eq!(
        collection.replace(second),
        [Change::Deleted(key(1), 10), Change::Modified(key(2), 21), Change::Created(key(4), 40)]
    );
    assert_eq!(collection.items(), &BTreeMap::from([(key(2), 21), (key(3), 30), (key(4), 40)]));
}

/// A value whose equality is not that of its bytes.
#[derive(Debug, Clone)]
struct Word(&'static str);

impl PartialEq for Word {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(other.0)
    }
}

#[test]
fn values_of_equal_meaning_are_no_difference() {
    let mut collection = Collection::default();
    assert_eq!(collection.replace(BTreeMap::from([(key(1), Word("drain"))])).len(), 1);
    assert_eq!(collection.replace(BTreeMap::from([(key(1), Word("DRAIN"))])), []);
}

proptest! {
    #[test]
    fn the_changes_lead_from_one_snapshot_to_the_next(
        snapshots in prop::collection::vec(prop::collection::btree_map(0_u8..12, 0_u8..3, 0..8), 0..8)
    ) {
        let mut collection = Collection::default();
        let mut known = BTreeMap::new();
        for snapshot in snapshots {
            let snapshot = keyed(&snapshot);
            for change in collection.replace(snapshot.clone()) {
                apply(&mut known, change);
            }
            prop_assert_eq!(&known, &snapshot);
            prop_assert!(collection.replace(snapshot).is_empty());
        }
    }
}
