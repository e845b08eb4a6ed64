//! Scenarios of slots and health: which node may leave when, and what is released.

use std::cell::Cell;
use std::rc::Rc;

use drain::view::NodeView;

use super::*;
use crate::OWNER;
use crate::event::NodeList;
use crate::membership::Mode;
use crate::phase::Stage;
use crate::slots::{PassedOver, SlotTable};
use crate::step::sim::{Fault, SECOND, Sim};
use crate::words;

const MINUTE: Duration = Duration::from_mins(1);

#[test]
fn a_slot_is_taken_before_the_cordon_and_given_back_after_the_uncordon() {
    let mut sim = Sim::new();
    sim.reboot();
    sim.pass(20 * SECOND);
    assert_eq!((sim.outcome(), sim.holders()), (Some(Outcome::Drained), vec!["own"]));
    assert!(sim.slots.holders[0].renewal >= 2, "confirmed after the cordon");
    sim.ask(&[]);
    sim.pass(10 * SECOND);
    assert_eq!((sim.holders(), sim.own.cordoned), (vec![], false));
}

#[test]
fn who_finds_all_slots_taken_waits_in_service() {
    let mut sim = Sim::new();
    sim.others_hold(&["peer"]);
    sim.reboot();
    sim.pass(3 * MINUTE);
    assert_eq!(sim.state.published.status, DrainStatus::Requested);
    assert!(!sim.own.cordoned, "a node that waits takes pods");
    assert!(words::reason(&sim.state).contains("peer"), "{}", words::reason(&sim.state));
    sim.slots.holders.clear();
    sim.slots.version = Some("99".into());
    sim.send(Event::SlotsSeen(sim.slots.clone()));
    sim.pass(10 * SECOND);
    assert_eq!((sim.outcome(), sim.holders()), (Some(Outcome::Drained), vec!["own"]));
}

#[test]
fn a_forgotten_entry_is_freed_but_not_that_of_a_node_that_is_down() {
    for (down, waits) in [(false, false), (true, true)] {
        let mut sim = Sim::new();
        sim.others.push(NodeView {
            name: "third".into(),
            uid: "third".into(),
            ready: true,
            ..NodeView::default()
        });
        sim.others_hold(&["peer"]);
        sim.others[0].ready = !down;
        sim.reboot();
        sim.pass(4 * MINUTE);
        assert_eq!(sim.outcome(), None);
        sim.pass(40 * MINUTE);
        assert_eq!(sim.outcome().is_none(), waits, "down: {down}");
    }
}

#[test]
fn a_holder_that_has_just_joined_does_not_look_as_if_it_were_gone() {
    let mut sim = Sim::new();
    // What an earlier read has shown is forgotten, so that the table is read after the nodes.
    sim.state.slots.table = None;
    sim.set(Fault::NewcomerTakesSlot, true);
    sim.reboot();
    sim.pass(20 * SECOND);
    assert_eq!((sim.outcome(), sim.holders(), sim.count("evict")), (None, vec!["new"], 0));
}

#[test]
fn an_entry_is_renewed_while_a_request_stands() {
    let mut sim = Sim::new();
    sim.reboot();
    sim.pass(20 * SECOND);
    let before = sim.slots.holders[0].renewal;
    sim.pass(10 * MINUTE);
    let renewed = sim.slots.holders[0].renewal - before;
    assert!((8..=11).contains(&renewed), "{renewed} times in 10 min");
}

#[test]
fn a_slot_lost_before_the_confirmation_means_uncordon_and_queue_again() {
    let mut sim = Sim::new();
    sim.set(Fault::SlotStolenAtCordon, true);
    sim.reboot();
    sim.pass(20 * SECOND);
    assert_eq!((sim.outcome(), sim.own.cordoned), (None, false));
    assert_eq!(sim.count("evict"), 0, "nothing was evicted: {:?}", sim.done);
    assert_eq!(sim.holders(), ["peer"]);
}

#[test]
fn a_slot_that_somebody_releases_takes_complete_back() {
    let mut sim = Sim::new();
    sim.reboot();
    sim.pass(20 * SECOND);
    assert_eq!(sim.outcome(), Some(Outcome::Drained));
    sim.slots.holders.clear();
    sim.others_hold(&["peer"]);
    sim.pass(2 * MINUTE);
    assert_eq!((sim.outcome(), sim.own.cordoned, sim.holders()), (None, false, vec!["peer"]));
    assert!(sim.state.requests.iter().all(|request| request.answer == Answer::None));
}

/// We were unreachable before the cordon; another node took the slot and passed our entry over.
#[test]
fn who_is_passed_over_while_away_queues_again_and_drains_afterwards() {
    let mut sim = Sim::new();
    sim.reboot();
    sim.pass(20 * SECOND);
    let renewal = sim.slots.of("own").expect("we have a slot").renewal;
    assert_eq!(sim.outcome(), Some(Outcome::Drained));
    sim.set(Fault::Unreachable, true);
    sim.pass(270 * SECOND);
    sim.others_hold(&["peer"]);
    let passed = PassedOver { node: "own".into(), node_uid: "own".into(), renewal };
    sim.slots.holders[0].passed_over.push(passed);
    sim.set(Fault::Unreachable, false);
    sim.pass(2 * MINUTE);
    assert_eq!((sim.outcome(), sim.own.cordoned), (None, false), "queues in service");
    assert_eq!(sim.state.slots.passed_over_by, ["peer"]);
    assert!(words::reason(&sim.state).contains("peer"), "{}", words::reason(&sim.state));
    sim.slots.put("peer", None);
    sim.count_version();
    sim.send(Event::SlotsSeen(sim.slots.clone()));
    sim.pass(MINUTE);
    assert_eq!((sim.outcome(), sim.holders()), (Some(Outcome::Drained), vec!["own"]));
    assert!(sim.slots.written_by(&sim.own).is_some_and(|own| own.renewal > renewal + 1));
}

/// A stolen node may write into its own entry what it likes about others: that takes no slot away from a node that renews
/// its own.
#[test]
fn a_lie_about_our_entry_takes_no_slot_away_and_its_author_is_known() {
    for ahead in [0, 1, u64::MAX / 2] {
        let mut sim = Sim::new();
        sim.policy.slots_limit = 2;
        sim.reboot();
        sim.pass(20 * SECOND);
        assert_eq!(sim.outcome(), Some(Outcome::Drained));
        for _ in 0..10 {
            let renewal = sim.slots.of("own").expect("we have a slot").renewal;
            sim.others_hold(&["peer"]);
            let lie = PassedOver { node: "own".into(), node_uid: "own".into(), renewal: renewal + ahead };
            sim.slots.holders[0].passed_over.push(lie);
            sim.pass(MINUTE);
            assert_eq!((sim.outcome(), sim.own.cordoned), (Some(Outcome::Drained), true), "{ahead}");
        }
        assert_eq!(sim.slots.holders.len(), 2, "{ahead}");
        let is_named = sim.state.slots.passed_over_by == ["peer"];
        assert_eq!(is_named, ahead > 0, "the next entry answers what is said of this one");
    }
}

/// Another node has passed over our entry while we were away, and its own entry is destroyed when we are back: ours looks
/// valid, but it is too old to rely on.
#[test]
fn who_was_away_for_too_long_takes_its_slot_anew() {
    let mut sim = Sim::new();
    sim.set(Fault::CordonRefused, true);
    sim.reboot();
    sim.pass(10 * SECOND);
    assert_eq!((sim.holders(), sim.own.cordoned), (vec!["own"], false));
    sim.set(Fault::Unreachable, true);
    sim.set(Fault::CordonRefused, false);
    sim.pass(270 * SECOND);
    (sim.others[0].cordoned, sim.others[0].cordoned_by) = (true, Some(OWNER.into()));
    sim.slots.unreadable.push("peer".into());
    sim.count_version();
    sim.set(Fault::Unreachable, false);
    sim.pass(10 * MINUTE);
    assert_eq!((sim.outcome(), sim.count("evict"), sim.own.cordoned), (None, 0, false), "{:?}", sim.done);
    assert!(words::reason(&sim.state).contains("peer"), "{}", words::reason(&sim.state));
    (sim.others[0].cordoned, sim.others[0].cordoned_by) = (false, None);
    sim.slots.unreadable.clear();
    sim.pass(MINUTE);
    assert_eq!((sim.outcome(), sim.holders()), (Some(Outcome::Drained), vec!["own"]));
}

/// Our entry has to be removed even after it was passed over: no other node may remove it.
#[test]
fn an_entry_that_was_passed_over_or_destroyed_is_taken_away_by_its_own_node() {
    for is_destroyed in [false, true] {
        let mut sim = Sim::new();
        sim.reboot();
        sim.pass(20 * SECOND);
        sim.others_hold(&["peer"]);
        if is_destroyed {
            sim.slots.put("own", None);
            sim.slots.unreadable.push("own".into());
        } else {
            let renewal = sim.slots.of("own").expect("we have a slot").renewal;
            let passed = PassedOver { node: "own".into(), node_uid: "own".into(), renewal };
            sim.slots.holders[0].passed_over.push(passed);
        }
        sim.ask(&[]);
        sim.pass(2 * MINUTE);
        assert_eq!((sim.holders(), sim.own.cordoned), (vec!["peer"], false), "destroyed: {is_destroyed}");
        assert!(sim.slots.unreadable.is_empty());
    }
}

#[test]
fn trouble_with_the_slots_is_waited_for_and_then_a_failed_cordon() {
    let mut sim = Sim::new();
    sim.set(Fault::SlotsRefused, true);
    sim.reboot();
    sim.pass(MINUTE);
    assert_eq!(sim.state.published.status, DrainStatus::Requested);
    assert!(words::reason(&sim.state).contains("configmaps"), "{}", words::reason(&sim.state));
    sim.pass(Duration::from_hours(24));
    assert_eq!(sim.state.published.status, DrainStatus::FailedCordon);
}

#[test]
fn without_slots_nobody_asks_for_them() {
    let mut sim = Sim::with(Policy { slots_limit: 0, ..Policy::device() });
    sim.set(Fault::SlotsRefused, true);
    sim.reboot();
    sim.pass(20 * SECOND);
    assert_eq!(sim.outcome(), Some(Outcome::Drained));
    assert_eq!(sim.slot_reads, 0);
}

/// Another node takes the slot long after we have read the table for the first time, and may take the API server down
/// with it.
#[test]
fn what_is_known_of_other_holders_is_kept_fresh_while_nobody_asks() {
    let changes: [(&str, fn(&mut Sim)); 3] = [
        ("the table", |sim| {
            sim.others_hold(&["peer"]);
            sim.send(Event::SlotsSeen(sim.slots.clone()));
        }),
        ("its node is cordoned by zedkube", |sim| {
            (sim.others[0].cordoned, sim.others[0].cordoned_by) = (true, Some(OWNER.into()));
        }),
        ("its node is not Ready", |sim| sim.others[0].ready = false),
    ];
    for (how, change) in changes {
        let mut sim = Sim::new();
        sim.pass(10 * SECOND);
        change(&mut sim);
        sim.pass(65 * SECOND);
        sim.set(Fault::Unreachable, true);
        sim.reboot();
        sim.pass(29 * MINUTE);
        assert_eq!(sim.outcome(), None, "{how}");
        assert!(words::reason(&sim.state).contains("slots.down-max"), "{}", words::reason(&sim.state));
        sim.pass(2 * MINUTE);
        assert_eq!(sim.outcome(), Some(Outcome::ApiUnreachable), "{how}");
    }
}

#[test]
fn a_slot_that_went_back_is_not_held_for_ever() {
    let mut sim = Sim::new();
    sim.others_hold(&["peer"]);
    sim.send(Event::SlotsSeen(sim.slots.clone()));
    sim.pass(MINUTE);
    sim.others_hold(&[]);
    sim.send(Event::SlotsSeen(sim.slots.clone()));
    sim.pass(MINUTE);
    sim.set(Fault::Unreachable, true);
    sim.reboot();
    sim.pass(6 * MINUTE);
    assert_eq!(sim.outcome(), Some(Outcome::ApiUnreachable));
}

/// After a crash, an upgrade or a power cut during the outage the other node is still down.
#[test]
fn what_is_known_of_other_holders_survives_a_kill_and_a_boot() {
    let events: [(&str, fn(&mut Sim)); 3] = [
        ("kill", Sim::restart),
        ("kill, and the record is lost", Sim::lose_record),
        ("boot", |sim| {
            sim.boot("next");
            sim.reboot();
        }),
    ];
    for (how, happens) in events {
        let mut sim = Sim::new();
        sim.others_hold(&["peer"]);
        sim.reboot();
        sim.pass(10 * SECOND);
        sim.set(Fault::Unreachable, true);
        sim.pass(6 * MINUTE);
        happens(&mut sim);
        sim.pass(20 * MINUTE);
        assert_eq!(sim.outcome(), None, "{how}");
        sim.pass(11 * MINUTE);
        assert_eq!(sim.outcome(), Some(Outcome::ApiUnreachable), "{how}");
    }
}

#[test]
fn without_knowledge_of_other_holders_the_longer_wait_counts() {
    let mut sim = Sim::new();
    sim.set(Fault::Unreachable, true);
    sim.state = State::new(Member::Yes, "boot".into(), sim.now);
    sim.start(vec![]);
    sim.reboot();
    sim.pass(29 * MINUTE);
    assert_eq!(sim.outcome(), None);
    sim.pass(2 * MINUTE);
    assert_eq!(sim.outcome(), Some(Outcome::ApiUnreachable));
}

/// The list shows that no other node exists, so none can hold a slot, whether or not the table can be read.
#[test]
fn a_node_that_is_alone_in_its_cluster_never_waits_for_others() {
    for boots in [false, true] {
        let mut sim = Sim::new();
        sim.others.clear();
        sim.set(Fault::SlotsRefused, true);
        sim.state = State::new(Member::Yes, "boot".into(), sim.now);
        sim.facts.mode = Mode::Always;
        sim.start(vec![]);
        sim.pass(10 * SECOND);
        sim.set(Fault::Unreachable, true);
        if boots {
            sim.boot("next");
        }
        sim.reboot();
        sim.pass(6 * MINUTE);
        assert_eq!(sim.outcome(), Some(Outcome::ApiUnreachable), "boots: {boots}");
    }
}

#[test]
fn the_slot_of_a_boot_before_is_given_back_when_the_node_is_well() {
    let policy = Policy { has_health_command: true, ..Policy::device() };
    let mut sim = Sim::with(policy);
    sim.others_hold(&["own"]);
    (sim.own.cordoned, sim.own.cordoned_by, sim.own.ready) = (true, Some(OWNER.into()), false);
    sim.boot("next");
    sim.health = Err("rebuilding 2 volumes".into());
    sim.pass(3 * MINUTE);
    assert_eq!((sim.count("uncordon"), sim.count("health")), (0, 0), "not Ready yet");
    sim.own.ready = true;
    sim.pass(3 * MINUTE);
    assert_eq!((sim.count("uncordon"), sim.holders()), (0, vec!["own"]));
    assert!(words::reason(&sim.state).contains("rebuilding 2 volumes"), "{}", words::reason(&sim.state));
    sim.health = Ok(());
    sim.pass(MINUTE);
    assert_eq!((sim.own.cordoned, sim.holders()), (false, vec![]));
}

/// A request that comes before the node is back takes over the cordon and the slot of the boot before. When it is
/// withdrawn, they are still given back only once the node is Ready, also by a process that was started in between.
#[test]
fn a_request_before_the_node_is_back_does_not_shorten_the_wait_for_it() {
    for restarts in [false, true] {
        let mut sim = Sim::new();
        sim.others_hold(&["own"]);
        (sim.own.cordoned, sim.own.cordoned_by) = (true, Some(OWNER.into()));
        // The API server still shows what the kubelet of the boot before has said.
        (sim.own.ready, sim.own.boot_id) = (true, "boot".into());
        sim.boot("next");
        sim.reboot();
        sim.pass(MINUTE);
        assert_eq!(sim.outcome(), Some(Outcome::Drained), "restarts: {restarts}");
        if restarts {
            sim.restart();
        }
        sim.ask(&[]);
        sim.pass(3 * MINUTE);
        assert_eq!((sim.count("uncordon"), sim.holders()), (0, vec!["own"]), "restarts: {restarts}");
        sim.own.boot_id = "next".into();
        sim.pass(MINUTE);
        assert_eq!((sim.own.cordoned, sim.holders()), (false, vec![]), "restarts: {restarts}");
    }
}

#[test]
fn a_slot_that_somebody_else_releases_while_the_node_is_not_well_is_not_shown_for_ever() {
    let mut sim = Sim::with(Policy { has_health_command: true, ..Policy::device() });
    sim.others_hold(&["own"]);
    sim.health = Err("rebuilding".into());
    sim.boot("next");
    sim.pass(MINUTE);
    assert!(sim.state.holds_slot());
    sim.slots.holders.clear();
    sim.pass(2 * MINUTE);
    assert!(!sim.state.holds_slot());
}

#[test]
fn a_health_command_that_is_taken_away_holds_nothing_back() {
    let mut sim = Sim::with(Policy { has_health_command: true, ..Policy::device() });
    (sim.own.cordoned, sim.own.cordoned_by) = (true, Some(OWNER.into()));
    sim.health = Err("rebuilding".into());
    sim.boot("next");
    sim.pass(MINUTE);
    assert!(sim.own.cordoned);
    sim.policy.has_health_command = false;
    sim.pass(MINUTE);
    assert!(!sim.own.cordoned);
}

#[test]
fn a_slot_that_cannot_be_confirmed_is_not_waited_for_for_ever() {
    let mut sim = Sim::new();
    sim.set(Fault::SlotsRefusedAtCordon, true);
    sim.reboot();
    sim.pass(20 * MINUTE);
    assert_eq!((sim.state.published.status, sim.count("evict")), (DrainStatus::Starting, 0));
    sim.pass(20 * MINUTE);
    assert_eq!((sim.state.published.status, sim.count("evict")), (DrainStatus::FailedCordon, 0));
    assert!(words::reason(&sim.state).contains("slot"), "{}", words::reason(&sim.state));
}

/// In a list that was asked for earlier, other nodes may still have been on their way down. The serial of the list alone
/// decides, so this runs without slots.
#[test]
fn only_a_list_that_was_asked_for_with_the_slot_held_shows_who_takes_the_pods() {
    let mut sim = Sim::new();
    sim.policy.slots_limit = 0;
    sim.set(Fault::Unreachable, true);
    sim.reboot();
    let asked = sim.state.serial;
    let Phase::Waiting(waiting) = &mut sim.state.phase else { panic!("{:?}", sim.state.phase) };
    (waiting.stage, waiting.looked, waiting.after) = (Stage::Peers, false, asked);
    let nodes = vec![sim.own.clone(), sim.others[0].clone()];
    let list = NodeList { own: Ok(sim.own.clone()), nodes, cluster: sim.cluster.clone() };
    sim.send(Event::NodesListed { serial: asked, result: Ok(list.clone()) });
    assert_eq!(sim.count("cordon"), 0);
    sim.send(Event::NodesListed { serial: asked + 1, result: Ok(list) });
    assert_eq!(sim.count("cordon"), 1);
}

/// Whatever keeps the slot from us, the API server is not asked without a pause. At most 36 calls a minute of an agent
/// count for anything but watches.
#[test]
fn a_slot_that_never_comes_is_asked_for_in_moderation() {
    let conflicts = |sim: &mut Sim| sim.set(Fault::SlotsConflict, true);
    let refused = |sim: &mut Sim| sim.set(Fault::SlotsRefused, true);
    let changes = |sim: &mut Sim| sim.others_hold(&["peer"]);
    let cases: [(&str, &dyn Fn(&mut Sim)); 3] =
        [("conflicts", &conflicts), ("refused", &refused), ("changes", &changes)];
    for (name, meets) in cases {
        let mut sim = Sim::new();
        meets(&mut sim);
        sim.reboot();
        sim.pass(MINUTE);
        let calls = sim.count_calls();
        for _ in 0..3_000 {
            if name == "changes" {
                sim.slots.holders[0].renewal += 1;
                sim.count_version();
                sim.send(Event::SlotsSeen(sim.slots.clone()));
            }
            sim.pass(SECOND / 5);
        }
        let calls: u32 = calls.get().iter().sum();
        assert!(calls <= 360, "{name}: {calls} calls in 10 min");
        assert_eq!((sim.outcome(), sim.own.cordoned), (None, false), "{name}");
    }
}

/// A device that waits for the slot of "peer", whose Node and slots are watched, and the calls that it makes.
fn queued() -> (Sim, Rc<Cell<[u32; 5]>>) {
    let mut sim = Sim::new();
    let third = NodeView { name: "third".into(), uid: "third".into(), ..sim.others[0].clone() };
    sim.others.push(third);
    sim.others_hold(&["peer"]);
    sim.reboot();
    sim.send(Event::OwnSeen(Some(sim.own.clone())));
    sim.send(Event::SlotsSeen(sim.slots.clone()));
    sim.pass(2 * MINUTE);
    let calls = sim.count_calls();
    (sim, calls)
}

fn renew(sim: &mut Sim) {
    for holder in &mut sim.slots.holders {
        holder.renewal += 1;
    }
    sim.count_version();
    sim.send(Event::SlotsSeen(sim.slots.clone()));
}

/// A list for each renewal of each holder by each node that waits were 200 lists of 200 nodes a minute.
#[test]
fn a_node_that_waits_asks_for_next_to_nothing_until_a_slot_is_free() {
    let (mut sim, calls) = queued();
    for _ in 0..42 {
        renew(&mut sim);
        sim.pass(MINUTE);
    }
    let [samples, lists, own, reads, writes] = calls.get();
    assert!((5..=6).contains(&lists), "{lists} lists");
    assert_eq!([samples, own, reads, writes], [0; 4]);
    // It is free, and another node is faster.
    calls.set([0; 5]);
    sim.others_hold(&[]);
    sim.send(Event::SlotsSeen(sim.slots.clone()));
    sim.others_hold(&["third"]);
    sim.send(Event::SlotsSeen(sim.slots.clone()));
    sim.pass(2 * SECOND);
    assert_eq!(calls.get(), [0; 5]);
    // Its node was cordoned in the last list.
    sim.others[0].cordoned = true;
    sim.pass(9 * MINUTE);
    sim.others[0].cordoned = false;
    calls.set([0; 5]);
    sim.others_hold(&[]);
    sim.send(Event::SlotsSeen(sim.slots.clone()));
    sim.pass(SECOND / 10);
    // One list before the slot is taken, and one with it, to see who takes the pods.
    assert_eq!((sim.holders(), calls.get()[1]), (vec!["own"], 2));
    sim.pass(10 * SECOND);
    assert_eq!(sim.outcome(), Some(Outcome::Drained));
}

#[test]
fn a_slot_that_nobody_needs_is_found_while_the_slots_are_watched() {
    let (mut sim, _) = queued();
    sim.policy.slots_limit = 2;
    sim.others_hold(&["peer", "third"]);
    for _ in 0..30 {
        let third = sim.slots.holders.iter_mut().find(|holder| holder.node == "third");
        third.unwrap().renewal += 1;
        sim.count_version();
        sim.send(Event::SlotsSeen(sim.slots.clone()));
        sim.pass(MINUTE);
    }
    assert_eq!(sim.outcome(), Some(Outcome::Drained));
}

/// It goes on without its watches as before it had them, and looks whether the API server is there.
#[test]
fn a_node_that_waits_reads_the_slots_as_long_as_they_are_not_watched() {
    let (mut sim, calls) = queued();
    sim.send(Event::SlotWatchFailed);
    sim.pass(10 * SECOND);
    assert_eq!((calls.get()[1] > 0, calls.get()[3]), (true, 1));
    sim.others_hold(&[]);
    sim.pass(20 * SECOND);
    assert_eq!(sim.outcome(), Some(Outcome::Drained));
}

/// The watch tells of it while a read is in flight that was answered before.
#[test]
fn a_table_that_changes_during_a_read_is_not_missed() {
    for is_newer in [true, false] {
        let (mut sim, _) = queued();
        sim.send(Event::SlotWatchFailed);
        let before = sim.slots.clone();
        let mut pending = None;
        for _ in 0..100 {
            let (state, effects) = step(std::mem::take(&mut sim.state), Event::Tick, sim.now, &sim.policy);
            sim.state = state;
            pending = effects.iter().find_map(|effect| {
                if let Effect::ReadSlots { serial } = effect { Some(*serial) } else { None }
            });
            if pending.is_some() {
                break;
            }
            sim.now = sim.now + SECOND / 10;
        }
        let serial = pending.expect("a read");
        sim.others_hold(&[]);
        if !is_newer {
            sim.slots = SlotTable::default();
        }
        sim.send(Event::SlotsSeen(sim.slots.clone()));
        sim.send(Event::Slots { serial, result: Ok(before) });
        // An entry that was lost with the table counts for some minutes.
        sim.pass(if is_newer { 20 * SECOND } else { 10 * MINUTE });
        assert_eq!(sim.holders(), ["own"], "{is_newer}");
    }
}

#[test]
fn health_is_asked_before_the_slot_and_with_it() {
    let mut sim = Sim::with(Policy { has_health_command: true, ..Policy::device() });
    sim.health = Err("degraded".into());
    sim.reboot();
    sim.pass(MINUTE);
    assert_eq!((sim.state.published.status, sim.holders().len()), (DrainStatus::Requested, 0));
    assert!(sim.count("health") >= 4, "asked again and again: {:?}", sim.done);
    sim.health = Ok(());
    sim.set(Fault::HealthWithSlot, true);
    sim.pass(20 * SECOND);
    assert_eq!((sim.holders().len(), sim.own.cordoned), (0, false), "the slot went back");
    sim.set(Fault::HealthWithSlot, false);
    sim.pass(MINUTE);
    assert_eq!(sim.outcome(), Some(Outcome::Drained));
}

/// D12.
#[test]
fn an_uncordon_is_tried_until_it_works_then_the_slot_goes_back() {
    let mut sim = Sim::new();
    sim.reboot();
    sim.pass(20 * SECOND);
    sim.set(Fault::Unreachable, true);
    sim.ask(&[]);
    sim.pass(60 * MINUTE);
    assert!(sim.own.cordoned && sim.count("uncordon") > 10);
    sim.set(Fault::Unreachable, false);
    sim.pass(10 * MINUTE);
    assert_eq!((sim.own.cordoned, sim.holders()), (false, vec![]));
}

/// The ConfigMap is deleted while another node drains; or a backup of etcd from before that drain is restored, and then
/// that Node has lost its cordon, too.
#[test]
fn a_slot_that_was_lost_with_the_table_counts_until_its_node_is_back() {
    let events: [(&str, fn(&mut Sim)); 4] = [
        ("deleted", |sim| sim.send(Event::SlotsSeen(sim.slots.clone()))),
        ("deleted, nobody saw the entry", |sim| {
            sim.state = State::new(Member::Yes, "boot".into(), sim.now);
            sim.start(vec![]);
        }),
        ("restored", |sim| {
            (sim.others[0].cordoned, sim.others[0].cordoned_by) = (false, None);
            sim.set(Fault::Unreachable, true);
            sim.pass(70 * SECOND);
            sim.set(Fault::Unreachable, false);
        }),
        ("restored, and we were restarted", |sim| {
            (sim.others[0].cordoned, sim.others[0].cordoned_by) = (false, None);
            sim.restart();
        }),
    ];
    for (how, happens) in events {
        let mut sim = Sim::new();
        sim.others_hold(&["peer"]);
        (sim.others[0].cordoned, sim.others[0].cordoned_by) = (true, Some(OWNER.into()));
        sim.send(Event::SlotsSeen(sim.slots.clone()));
        sim.pass(MINUTE);
        sim.slots = SlotTable::default();
        happens(&mut sim);
        sim.reboot();
        sim.pass(3 * MINUTE);
        assert_eq!((sim.outcome(), sim.own.cordoned, sim.holders()), (None, false, vec![]), "{how}");
        let reason = words::reason(&sim.state);
        assert!(reason.contains("drained: peer"), "{how}: {reason}");
        assert!(reason.contains("lost with the entry of peer"), "{how}: {reason}");
        sim.others[0] =
            NodeView { boot_id: "next".into(), cordoned: false, cordoned_by: None, ..sim.others[0].clone() };
        sim.pass(MINUTE);
        assert_eq!((sim.outcome(), sim.holders()), (Some(Outcome::Drained), vec!["own"]), "{how}");
    }
}

/// A backup of etcd with our old entry is restored while we are at rest: the watch stays silent.
#[test]
fn an_entry_of_ours_that_comes_back_unseen_is_given_back() {
    for is_away_meanwhile in [true, false] {
        let mut sim = Sim::new();
        sim.reboot();
        sim.pass(20 * SECOND);
        sim.ask(&[]);
        sim.pass(10 * SECOND);
        assert_eq!(sim.holders(), [""; 0]);
        sim.set(Fault::Unreachable, is_away_meanwhile);
        sim.pass(70 * SECOND);
        sim.others_hold(&["own"]);
        sim.set(Fault::Unreachable, false);
        sim.pass(if is_away_meanwhile { MINUTE } else { 46 * MINUTE });
        assert_eq!(sim.holders(), [""; 0], "away meanwhile: {is_away_meanwhile}");
    }
}
