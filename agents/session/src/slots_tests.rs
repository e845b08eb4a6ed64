use super::*;

const LIMIT_1: u32 = 1;
const NOW: Moment = Moment(10_000_000);

fn node(name: &str) -> NodeView {
    NodeView { name: name.into(), uid: name.into(), ready: true, ..NodeView::default() }
}

fn holder(name: &str, renewal: u64) -> Holder {
    Holder { node: name.into(), node_uid: name.into(), boot_id: "boot".into(), renewal }
}

fn lease(holders: &[Holder]) -> Lease {
    Lease { version: Some("1".into()), holders: holders.to_vec() }
}

/// Has seen these nodes and entries, as they are, for so long.
fn watched(nodes: &[NodeView], lease: &Lease, since: Duration) -> Watched {
    let mut watched = Watched::default();
    let then = NOW.before(since);
    watched.see_nodes(nodes, then);
    watched.see_lease(lease, nodes, then);
    watched.see_nodes(nodes, NOW);
    watched.see_lease(lease, nodes, NOW);
    watched
}

#[track_caller]
fn check(limit: u32, nodes: &[NodeView], holders: &[Holder], since: Duration, expected: &Room) {
    let lease = lease(holders);
    let watched = watched(nodes, &lease, since);
    let down_max = Duration::from_mins(30);
    let group = Group { lease: &lease, nodes, watched: &watched, limit, down_max };
    assert_eq!(group.room_for(&holder("own", 0), NOW), *expected, "{nodes:?} {holders:?}");
}

fn free(others: &[&str]) -> Room {
    Room::Free(others.iter().map(|name| holder(name, 7)).chain([holder("own", 0)]).collect())
}

fn taken(by: &[&str]) -> Room {
    Room::Taken(by.iter().map(|name| (*name).to_owned()).collect())
}

#[test]
fn who_counts() {
    let (long, short) = (Duration::from_mins(6), Duration::from_mins(4));
    let all = [node("own"), node("a"), node("b")];
    let with = |changed: NodeView| [node("own"), changed, node("b")];
    let down = || NodeView { ready: false, ..node("a") };
    let cordoned = || NodeView { cordoned: true, ..node("a") };
    let marked = || NodeView { cordoned_by: Some(OWNER.into()), ..node("a") };
    check(LIMIT_1, &all, &[], short, &free(&[]));
    check(LIMIT_1, &all, &[holder("a", 7)], short, &taken(&["a"]));
    check(2, &all, &[holder("a", 7)], short, &free(&["a"]));
    check(2, &all, &[holder("a", 7), holder("b", 7)], short, &taken(&["a", "b"]));
    // Our own entry is no obstacle.
    check(LIMIT_1, &all, &[holder("own", 3)], long, &free(&[]));
    // A node that is down takes a slot, but not for ever; one that holds an entry as well counts once.
    check(LIMIT_1, &with(down()), &[], short, &taken(&["a"]));
    check(LIMIT_1, &with(down()), &[], Duration::from_mins(31), &free(&[]));
    check(2, &with(down()), &[holder("a", 7)], short, &free(&["a"]));
    // We are not our own obstacle when our kubelet is late.
    check(LIMIT_1, &[NodeView { ready: false, ..node("own") }, node("a")], &[], short, &free(&[]));
    // Somebody's cordon takes none.
    check(LIMIT_1, &with(cordoned()), &[], short, &free(&[]));
    // Forgotten: the node is gone, or in service and does not renew.
    check(LIMIT_1, &all, &[holder("gone", 7)], short, &free(&[]));
    check(LIMIT_1, &all, &[holder("a", 7)], long, &free(&[]));
    // Never by time alone.
    for needed in [down(), cordoned(), marked()] {
        check(LIMIT_1, &with(needed), &[holder("a", 7)], Duration::from_hours(48), &taken(&["a"]));
    }
}

#[test]
fn standing_still_begins_anew_with_each_renewal_and_each_interruption() {
    let nodes = [node("own"), node("a")];
    let away = [node("own"), NodeView { cordoned: true, ..node("a") }];
    let minutes = |count: u64| Moment(count * 60_000);
    let still = |watched: &Watched, now| watched.stands_still("a", now);
    let mut watched = Watched::default();
    watched.see_lease(&lease(&[holder("a", 1)]), &nodes, minutes(0));
    watched.see_lease(&lease(&[holder("a", 2)]), &nodes, minutes(3));
    assert!(!still(&watched, minutes(6)), "renewed");
    assert!(still(&watched, minutes(8)));
    watched.see_nodes(&away, minutes(8));
    watched.see_nodes(&nodes, minutes(9));
    watched.see_lease(&lease(&[holder("a", 2)]), &nodes, minutes(9));
    assert!(!still(&watched, minutes(13)), "was cordoned in between");
    assert!(still(&watched, minutes(14)));
    watched.see_lease(&lease(&[]), &nodes, minutes(15));
    assert!(!still(&watched, minutes(60)), "nothing is kept of entries that are gone");
}
