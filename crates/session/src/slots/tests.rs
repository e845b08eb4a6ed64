use super::*;

const LIMIT_1: u32 = 1;
const NOW: Moment = Moment(10_000_000);

fn node(name: &str) -> NodeView {
    NodeView { name: name.into(), uid: name.into(), ready: true, ..NodeView::default() }
}

fn holder(name: &str, renewal: u64) -> Holder {
    let boot_id = "boot".into();
    Holder { node: name.into(), node_uid: name.into(), boot_id, renewal, passed_over: vec![] }
}

fn passed(name: &str, renewal: u64) -> PassedOver {
    PassedOver { node: name.into(), node_uid: name.into(), renewal }
}

fn table(holders: &[Holder]) -> SlotTable {
    SlotTable {
        version: Some("1".into()),
        uid: "table".into(),
        holders: holders.to_vec(),
        ..SlotTable::default()
    }
}

/// Observes these nodes and entries, unchanged, for this long.
fn observed(nodes: &[NodeView], table: &SlotTable, since: Duration) -> Observations {
    let mut observed = Observations::default();
    let then = NOW.before(since);
    observed.see_nodes(nodes, then);
    observed.see_table(table, Some(nodes), then);
    observed.see_nodes(nodes, NOW);
    observed.see_table(table, Some(nodes), NOW);
    observed
}

#[track_caller]
fn check(limit: u32, nodes: &[NodeView], holders: &[Holder], since: Duration, expected: &Admission) {
    check_table(limit, nodes, &table(holders), since, expected);
}

#[track_caller]
fn check_table(limit: u32, nodes: &[NodeView], table: &SlotTable, since: Duration, expected: &Admission) {
    let observed = observed(nodes, table, since);
    let down_max = Duration::from_mins(30);
    let group = Group { table, nodes, observed: &observed, limit, down_max, name: None };
    assert_eq!(group.admit(&node("own"), NOW), *expected, "{nodes:?} {table:?}");
}

fn free(passed_over: &[&str]) -> Admission {
    Admission::Free(passed_over.iter().map(|name| passed(name, 7)).collect())
}

fn taken(by: &[&str]) -> Admission {
    Admission::Taken(by.iter().map(|name| (*name).to_owned()).collect())
}

#[test]
fn who_counts() {
    let (long, short) = (Duration::from_mins(6), Duration::from_mins(4));
    let all = [node("own"), node("a"), node("b")];
    let with = |changed: NodeView| [node("own"), changed, node("b")];
    let down = || NodeView { ready: false, ..node("a") };
    let cordoned = || NodeView { cordoned: true, ..node("a") };
    let marked = || NodeView { cordoned_by: Some(OWNER.into()), ..node("a") };
    let out = || NodeView { cordoned: true, ..marked() };
    check(LIMIT_1, &all, &[], short, &free(&[]));
    check(LIMIT_1, &all, &[holder("a", 7)], short, &taken(&["a"]));
    check(2, &all, &[holder("a", 7)], short, &free(&[]));
    check(2, &all, &[holder("a", 7), holder("b", 7)], short, &taken(&["a", "b"]));
    // Our own entry does not keep us from a slot.
    check(LIMIT_1, &all, &[holder("own", 3)], long, &free(&[]));
    // A node that is down takes a slot, but not for ever; a node that holds an entry as well counts once.
    check(LIMIT_1, &with(down()), &[], short, &taken(&["a"]));
    check(LIMIT_1, &with(down()), &[], Duration::from_mins(31), &free(&[]));
    let silent = |minutes| NodeView { silent: Some(Duration::from_mins(minutes)), ..down() };
    check(LIMIT_1, &with(silent(25)), &[], short, &taken(&["a"]));
    check(LIMIT_1, &with(silent(27)), &[], short, &free(&[]));
    check(2, &with(down()), &[holder("a", 7)], short, &free(&[]));
    // We do not count as down when our own kubelet is late.
    check(LIMIT_1, &[NodeView { ready: false, ..node("own") }, node("a")], &[], short, &free(&[]));
    // Another party's cordon takes no slot; ours does, also without an entry, in its own group.
    check(LIMIT_1, &with(cordoned()), &[], short, &free(&[]));
    check(LIMIT_1, &with(out()), &[], long, &taken(&["a"]));
    check(2, &with(out()), &[holder("a", 7)], short, &free(&[]));
    check(
        LIMIT_1,
        &with(NodeView { slots_group: Some("kube-system/line-3".into()), ..out() }),
        &[],
        long,
        &free(&[]),
    );
    // A mark that is left on a node that was uncordoned by hand takes none.
    check(LIMIT_1, &with(marked()), &[], long, &free(&[]));
    // Abandoned: the node does not exist, or is in service and does not renew.
    check(LIMIT_1, &all, &[holder("gone", 7)], short, &free(&["gone"]));
    check(LIMIT_1, &all, &[holder("a", 7)], long, &free(&["a"]));
    // Time alone never frees an entry.
    for needed in [down(), cordoned(), marked()] {
        check(LIMIT_1, &with(needed), &[holder("a", 7)], Duration::from_hours(48), &taken(&["a"]));
    }
}

/// A node may write nonsense into its own entry: that stops others only while the node is out of service.
#[test]
fn an_entry_that_cannot_be_read_counts_while_its_node_is_out_of_service() {
    let all = [node("own"), node("a")];
    let with = |changed: NodeView| [node("own"), changed];
    let unreadable = SlotTable { unreadable: vec!["a".into(), "gone".into()], ..table(&[]) };
    let check = |nodes: &[NodeView], expected| {
        check_table(LIMIT_1, nodes, &unreadable, Duration::from_hours(2), &expected);
    };
    check(&all, free(&[]));
    check(&with(NodeView { ready: false, ..node("a") }), taken(&["a"]));
    check(&with(NodeView { cordoned: true, ..node("a") }), taken(&["a"]));
    check(&with(NodeView { cordoned_by: Some(OWNER.into()), ..node("a") }), taken(&["a"]));
    // The same with an entry that names another UID than its node has.
    let other = Holder { node_uid: "before".into(), ..holder("a", 7) };
    let passes = Admission::Free(vec![PassedOver { node_uid: "before".into(), ..passed("a", 7) }]);
    for (node, expected) in [
        (node("a"), passes),
        (NodeView { ready: false, ..node("a") }, taken(&["a"])),
        (NodeView { cordoned: true, ..node("a") }, taken(&["a"])),
    ] {
        check_table(
            LIMIT_1,
            &with(node),
            &table(std::slice::from_ref(&other)),
            Duration::from_hours(2),
            &expected,
        );
    }
}

/// One node's statement about another one is not enough to let a third one go down.
#[test]
fn what_others_have_passed_over_still_counts_for_us() {
    let all = [node("own"), node("a"), node("b")];
    let liar = Holder { passed_over: vec![passed("a", 99)], ..holder("b", 1) };
    check(2, &all, &[holder("a", 7), liar], Duration::from_mins(4), &taken(&["a", "b"]));
}

#[test]
fn who_was_passed_over_counts_again_with_its_next_entry_and_what_cannot_have_been_seen_is_a_lie() {
    let other = Holder { passed_over: vec![passed("own", 7), passed("gone", 1)], ..holder("a", 3) };
    // Our Renewal, whether our entry was passed over, and whether somebody says so.
    for (renewal, is_passed_over, is_said) in [(6, false, true), (7, true, true), (8, false, false)] {
        let own = holder("own", renewal);
        let table = table(&[own.clone(), other.clone()]);
        assert_eq!(table.is_passed_over(&own), is_passed_over, "{renewal}");
        assert_eq!(table.passed_over_by(&own), if is_said { vec!["a"] } else { vec![] }, "{renewal}");
        assert!(table.has_place_of(&node("own")), "{renewal}: it has to be removed");
        assert_eq!(table.names(), ["own", "a"]);
        assert_eq!(table.next_entry(&node("own"), "boot", vec![]).renewal, renewal + 1);
    }
    let liar = Holder { passed_over: vec![passed("own", u64::MAX)], ..holder("a", 3) };
    assert_eq!(table(&[liar]).next_entry(&node("own"), "boot", vec![]).renewal, 1);
}

/// An attacker with another node's credentials writes our UID into that node's entry: it neither gives us a slot nor
/// takes ours, and we need not remove it.
#[test]
fn what_stands_in_the_place_of_another_node_is_never_ours() {
    let forged = Holder { node_uid: "own".into(), passed_over: vec![passed("a", 99)], ..holder("b", 9) };
    let all = [node("own"), node("a"), node("b")];
    let own = &all[0];
    for place in [vec![forged.clone()], vec![forged.clone(), holder("own", 7)]] {
        let table = table(&place);
        assert_eq!(table.written_by(own), place.get(1), "{place:?}");
        assert_eq!(table.has_place_of(own), place.len() == 2);
        assert_eq!(table.next_entry(own, "boot", vec![]).renewal, if place.len() == 2 { 8 } else { 1 });
        assert_eq!(table.others(own).collect::<Vec<_>>(), [&forged]);
        assert!(place.get(1).is_none_or(|own| !table.is_passed_over(own)));
    }
    // Nor does an unchanged entry in the wrong place let ours look abandoned.
    let mut observed = Observations::default();
    for minute in 0..8 {
        let place = [holder("own", minute), forged.clone()];
        observed.see_nodes(&all, Moment(minute * 60_000));
        observed.see_table(&table(&place), Some(&all), Moment(minute * 60_000));
    }
    assert!(!observed.stands_still("own"));
}

#[test]
fn an_entry_is_named_as_passed_over_while_it_is_there_as_it_was() {
    let own =
        Holder { passed_over: vec![passed("a", 7), passed("b", 7), passed("c", 7)], ..holder("own", 1) };
    let table = table(&[own.clone(), holder("a", 7), holder("b", 8)]);
    assert_eq!(table.still_passed_over(&own), [passed("a", 7)]);
}

/// A deleted Node of the same name has left the entry: it is in our place, and is overwritten.
#[test]
fn what_a_node_of_our_name_has_left_is_ours_to_take_away() {
    let left = Holder { node: "own".into(), ..holder("before", 7) };
    let mut table = table(&[left]);
    check(LIMIT_1, &[node("own")], &table.holders, Duration::ZERO, &free(&[]));
    assert!(table.has_place_of(&node("own")) && table.written_by(&node("own")).is_none());
    table.put("own", None);
    assert!(!table.has_place_of(&node("own")));
}

#[test]
fn standing_still_begins_anew_with_each_renewal_and_each_interruption() {
    let nodes = [node("own"), node("a")];
    let away = [node("own"), NodeView { cordoned: true, ..node("a") }];
    let minutes = |count: u64| Moment(count * 60_000);
    let still = |observed: &Observations| observed.stands_still("a");
    let see = |observed: &mut Observations, renewal, at| {
        observed.see_table(&table(&[holder("a", renewal)]), Some(&nodes), minutes(at));
    };
    let mut observed = Observations::default();
    see(&mut observed, 1, 0);
    see(&mut observed, 2, 3);
    see(&mut observed, 2, 7);
    assert!(!still(&observed), "renewed");
    see(&mut observed, 2, 8);
    assert!(still(&observed));
    observed.see_nodes(&away, minutes(8));
    observed.see_nodes(&nodes, minutes(9));
    see(&mut observed, 2, 9);
    see(&mut observed, 2, 13);
    assert!(!still(&observed), "was cordoned in between");
    see(&mut observed, 2, 14);
    assert!(still(&observed));
    see(&mut observed, 3, 15);
    observed.see_nodes(&nodes, minutes(60));
    assert!(!still(&observed), "an entry that was not read meanwhile is not known to be unchanged");
    see(&mut observed, 3, 60);
    observed.see_table(&table(&[]), Some(&nodes), minutes(61));
    assert!(!still(&observed), "nothing is kept of entries that are gone");
}

/// The ConfigMap is deleted, or etcd restored, while "a" has a slot.
#[test]
fn what_was_lost_with_the_table_counts_until_its_node_is_back() {
    let before = SlotTable { version: Some("100".into()), ..table(&[holder("a", 7), holder("own", 1)]) };
    let at = |version: &str| SlotTable { version: Some(version.into()), ..table(&[]) };
    let minutes = |count: u64| Moment(count * 60_000);
    let in_boot = |boot: &str| NodeView { boot_id: boot.into(), ..node("a") };
    let lost_with = |after: &SlotTable| {
        let mut observed = Observations::default();
        observed.see_table(&before, Some(&[]), minutes(0));
        observed.see_table(after, Some(&[]), minutes(0));
        observed
    };
    // The table after it, and whether the entries were lost with the one before.
    let tables = [
        (at("101"), false),
        (SlotTable::default(), true),
        (SlotTable { uid: "another".into(), ..at("101") }, true),
        (at("99"), true),
        (SlotTable { holders: vec![holder("a", 2)], ..at("99") }, false),
        (at("not a number"), false),
    ];
    for (after, is_lost) in &tables {
        let mut restarted = KnownHolders::default();
        let mut observed = Observations::default();
        observed.see_table(&before, Some(&[]), minutes(0));
        observed.write_down(&mut restarted);
        let mut resumed = Observations::resumed(&restarted);
        resumed.see_table(after, Some(&[]), minutes(0));
        for observed in [lost_with(after), resumed] {
            let lost: Vec<_> = observed.lost().filter(|node| *node != "own").collect();
            assert_eq!(!lost.is_empty(), *is_lost, "{after:?}");
        }
    }
    // What is seen of "a" each minute, and for how many minutes it counts.
    let down = NodeView { ready: false, ..in_boot("boot") };
    let cases: [(&[NodeView], usize); 6] = [
        (&[in_boot("boot")], 5),
        (&[in_boot("")], 5),
        (&[in_boot("next")], 0),
        (&[NodeView { cordoned: true, ..in_boot("next") }], 0),
        (&[NodeView { uid: "another".into(), ..in_boot("boot") }], 0),
        (&[in_boot("boot"), down.clone(), in_boot("boot")], 7),
    ];
    for (seen, expected) in cases {
        let mut observed = lost_with(&at("99"));
        let mut nodes = seen.iter().chain(std::iter::repeat(&seen[seen.len() - 1]));
        let counts = |minute: &u64| {
            observed.see_nodes(&[node("own"), nodes.next().unwrap().clone()], minutes(*minute));
            observed.lost().any(|node| node == "a")
        };
        assert_eq!((0..60).take_while(counts).count(), expected, "{seen:?}");
    }
    let mut observed = lost_with(&at("99"));
    for minute in 0..600 {
        observed.see_nodes(&[node("own"), down.clone()], minutes(minute));
    }
    let nodes = [node("own"), down];
    let empty = table(&[]);
    let down_max = Duration::from_mins(30);
    let group = Group { table: &empty, nodes: &nodes, observed: &observed, limit: 1, down_max, name: None };
    assert_eq!(group.admit(&node("own"), minutes(600)), taken(&["a"]), "time alone frees nothing");
}

/// Its entry was not read before the table was lost.
#[test]
fn a_node_that_was_seen_cordoned_counts_although_its_entry_was_never_seen() {
    let at = |version: &str| SlotTable { version: Some(version.into()), ..table(&[]) };
    for before in [at("100"), SlotTable::default()] {
        let mut observed = Observations::default();
        observed.see_table(&before, Some(&[]), NOW);
        let cordoned = NodeView { cordoned: true, cordoned_by: Some(OWNER.into()), ..node("a") };
        observed.see_out(&[node("own"), cordoned], None);
        observed.see_table(&at("99"), Some(&[]), NOW);
        assert_eq!(observed.lost().collect::<Vec<_>>(), ["a"], "{before:?}");
    }
}
