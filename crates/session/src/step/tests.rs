//! Scenarios of one drain: requests, cordon, attempts, outages and restoring.

mod complete;
mod elsewhere;
mod idle;
mod kept;
mod member;
mod restart;
mod slots;
mod word;

use drain::storage::AttachmentView;
use drain::view::{NodeView, Snapshot};

use super::sim::{Fault, SECOND, Sim, pod};
use super::*;
use crate::event::CallError;
use crate::membership::Facts;
use crate::phase::Failed;
use crate::policy::{Mode, OnUnavailable};

#[test]
fn a_reboot_request_is_drained_and_answered() {
    let mut sim = Sim::new();
    sim.reboot();
    sim.pass(2 * SECOND);
    assert_eq!(sim.published, [(2, 1), (3, 2), (4, 2), (5, 2), (9, 2)]);
    assert_eq!(sim.done, ["cordon", "evict a/1", "evict a/2"]);
    assert_eq!(sim.outcome(), Some(Outcome::Drained));
    assert_eq!(sim.state.requests.iter().map(|r| r.answer).collect::<Vec<_>>(), [Answer::Complete]);
}

/// D18.
#[test]
fn requested_is_shown_a_second_at_least() {
    let mut sim = Sim::new();
    sim.reboot();
    sim.pass(SECOND.checked_sub(Duration::from_millis(1)).unwrap());
    assert_eq!((sim.outcome(), sim.statuses().last()), (Some(Outcome::Drained), Some(&5)));
    sim.pass(Duration::from_millis(1));
    assert_eq!(sim.statuses().last(), Some(&9));
}

/// D1, D18.
#[test]
fn beside_zedbox_nobody_sees_cordoned_and_answers_wait_for_the_redial() {
    let mut sim = Sim::with(Policy { beside_zedbox: true, ..Policy::device() });
    sim.reboot();
    sim.pass(11 * SECOND);
    assert_eq!(sim.statuses(), [2, 3, 4], "EVE's zedagent lets a command through at CORDONED");
    sim.pass(SECOND);
    assert_eq!(sim.statuses(), [2, 3, 4, 9]);
}

/// The new drain finds no pod whose volume this could be, and must not forget it for that.
#[test]
fn a_volume_that_stays_attached_fails_the_next_request_as_well() {
    let mut sim = Sim::with(Policy { attempts: 1, ..Policy::device() });
    sim.attached = vec![AttachmentView {
        name: "va-1".into(),
        driver: "csi.example".into(),
        volume: Some("vol-1".into()),
        node: "own".into(),
        attached: true,
        ..AttachmentView::default()
    }];
    for (time, evicted) in [("1", 2), ("2", 2)] {
        sim.ask(&[(DrainRequester::DeviceOp, time)]);
        sim.pass(30 * 60 * SECOND);
        assert_eq!(sim.published.last(), Some(&(8, 2)), "request {time}");
        let error = &sim.state.session.attempts[0].error;
        assert!(error.contains("vol-1") && error.contains("csi.example"), "{error}");
        assert_eq!((sim.count("evict"), sim.outcome()), (evicted, None));
        sim.ask(&[]);
        sim.pass(10 * SECOND);
        assert_eq!((sim.published.last(), sim.own.cordoned), (Some(&(2, 1)), false), "taken back");
    }
    sim.attached.clear();
    sim.ask(&[(DrainRequester::DeviceOp, "3")]);
    sim.pass(60 * SECOND);
    assert_eq!(sim.outcome(), Some(Outcome::Drained));
}

/// D13, D21.
#[test]
fn one_drain_answers_all_who_ask_update_first() {
    let mut sim = Sim::new();
    sim.ask(&[(DrainRequester::DeviceOp, "1"), (DrainRequester::Update, "1")]);
    sim.pass(2 * SECOND);
    assert_eq!(sim.published.last(), Some(&(9, 3)));
    sim.pass(5 * SECOND);
    assert_eq!(sim.published.last(), Some(&(9, 2)));
    assert_eq!(sim.count("cordon"), 1);
}

#[test]
fn a_late_request_is_answered_after_a_relist() {
    let mut sim = Sim::new();
    sim.ask(&[(DrainRequester::Update, "1")]);
    sim.pass(10 * SECOND);
    sim.ask(&[(DrainRequester::Update, "1"), (DrainRequester::DeviceOp, "1")]);
    sim.pass(10 * SECOND);
    assert_eq!(sim.published, [(2, 1), (3, 3), (4, 3), (5, 3), (9, 3), (3, 2), (9, 2)]);
    assert_eq!((sim.count("cordon"), sim.state.session.number), (1, 1));
}

#[test]
fn a_late_request_begins_anew_when_the_node_is_not_empty() {
    let mut sim = Sim::new();
    sim.ask(&[(DrainRequester::Update, "1")]);
    sim.pass(10 * SECOND);
    sim.pods = vec![pod("3")];
    sim.ask(&[(DrainRequester::Update, "1"), (DrainRequester::DeviceOp, "1")]);
    sim.pass(SECOND);
    assert_eq!((sim.state.session.number, sim.count("evict a/3")), (2, 1));
    sim.pass(20 * SECOND);
    assert_eq!(
        sim.published.iter().filter(|published| **published == (9, 3)).count(),
        2,
        "the first is answered again"
    );
}

/// D15.
#[test]
fn complete_falls_back_when_it_is_not_true_any_more() {
    for uncordoned in [true, false] {
        let mut sim = Sim::new();
        sim.reboot();
        sim.pass(10 * SECOND);
        assert_eq!(sim.statuses().last(), Some(&9));
        if uncordoned {
            (sim.own.cordoned, sim.own.cordoned_by) = (false, None);
        } else {
            sim.pods = vec![pod("3")];
        }
        sim.show_snapshot();
        sim.pass(10 * SECOND);
        assert_eq!(sim.published, [(2, 1), (3, 2), (4, 2), (5, 2), (9, 2), (3, 2), (4, 2), (5, 2), (9, 2)]);
    }
}

#[test]
fn a_late_watch_does_not_take_complete_back() {
    let mut sim = Sim::new();
    sim.reboot();
    sim.pass(10 * SECOND);
    let old = Snapshot { pods: vec![pod("1")], ..Snapshot::clone(&sim.snapshot()) };
    sim.send(Event::Drain(drain::Event::Snapshot(Arc::new(old))));
    assert_eq!((sim.statuses().last(), sim.state.session.number), (Some(&9), 1));
}

/// D15: the server answered the list before the pod came, and the answer was long in flight.
#[test]
fn a_relist_that_something_has_overtaken_is_not_believed() {
    let mut sim = Sim::new();
    sim.reboot();
    sim.pass(10 * SECOND);
    let empty = sim.snapshot();
    let serial = |sim: &Sim| {
        let Phase::Complete { recheck, .. } = sim.state.phase else { return None };
        recheck.map(|recheck| recheck.serial)
    };
    sim.set(Fault::ProofHangs, true);
    sim.ask(&[(DrainRequester::DeviceOp, "1"), (DrainRequester::Update, "1")]);
    let first = serial(&sim).expect("a new request causes a verification");
    sim.pods = vec![pod("3")];
    sim.show_snapshot();
    sim.send(Event::Drain(drain::Event::Relisted { attempt: first, result: Ok(empty) }));
    let second = serial(&sim).expect("another verification follows");
    assert_ne!(first, second);
    assert_ne!(sim.published.last(), Some(&(9, 3)), "no request is answered");
    sim.set(Fault::ProofHangs, false);
    sim.send(Event::Drain(drain::Event::Relisted { attempt: second, result: Ok(sim.snapshot()) }));
    assert_eq!(sim.state.session.number, 2, "a new drain");
}

/// D14.
#[test]
fn cancel_uncordons_from_every_phase() {
    let setups: [(&str, fn(&mut Sim)); 5] = [
        ("Waiting", |sim| sim.others.clear()),
        ("Cordoning", |sim| sim.set(Fault::CordonRefused, true)),
        ("Attempting", |sim| sim.set(Fault::EvictionRefused, true)),
        ("Pausing", |sim| {
            sim.set(Fault::EvictionRefused, true);
            sim.policy.drain.attempt_timeout = SECOND;
        }),
        ("Complete", |_| {}),
    ];
    let failed = (DrainRequester::Update, "1");
    // A request whose drain has failed, and whose agent is dead, may stay: nothing is done for it.
    for ((phase, set_up), left) in
        setups.into_iter().flat_map(|setup| [(setup, vec![]), (setup, vec![failed])])
    {
        let mut sim = Sim::new();
        sim.set(Fault::CordonRefused, true);
        sim.ask(&left);
        sim.pass(60 * SECOND);
        sim.faults.clear();
        set_up(&mut sim);
        sim.ask(&[&left[..], &[(DrainRequester::DeviceOp, "1")]].concat());
        sim.pass(3 * SECOND);
        assert_eq!(sim.state.phase.name(), phase);
        let evictions = sim.count("evict");
        sim.ask(&left);
        assert_eq!(sim.state.phase.name(), "Idle", "{phase}");
        assert_eq!(sim.published.last(), Some(&(2, 1)), "{phase}");
        sim.pass(60 * SECOND);
        assert!(!sim.own.cordoned, "{phase}: the cordon is taken back");
        assert_eq!(sim.count("evict"), evictions, "{phase}: no eviction after the cancel");
    }
}

/// D38.
#[test]
fn somebody_elses_cordon_is_used_and_stays() {
    let mut sim = Sim::new();
    sim.own.cordoned = true;
    sim.set(Fault::CordonOfOthers, true);
    sim.reboot();
    sim.pass(2 * SECOND);
    assert_eq!((sim.outcome(), sim.state.session.cordoned_before), (Some(Outcome::Drained), true));
    sim.ask(&[]);
    sim.pass(60 * SECOND);
    assert!(sim.own.cordoned);
    assert_eq!(sim.count("uncordon"), 0);
}

#[test]
fn the_cordon_is_tried_ten_times_five_seconds_apart() {
    let mut sim = Sim::new();
    sim.set(Fault::CordonRefused, true);
    sim.reboot();
    sim.pass((45 * SECOND).checked_sub(Duration::from_millis(1)).unwrap());
    assert_eq!((sim.count("cordon"), sim.state.phase.name()), (9, "Cordoning"));
    sim.pass(2 * SECOND);
    assert_eq!((sim.count("cordon"), sim.published.last()), (10, Some(&(6, 2))));
    assert!(
        matches!(&sim.state.phase, Phase::Failed(Failed::Cordon(text)) if text.contains("cannot patch nodes"))
    );
}

/// D32.
#[test]
fn five_attempts_are_really_five() {
    let mut sim = Sim::new();
    sim.set(Fault::EvictionRefused, true);
    sim.policy.drain.attempt_timeout = 10 * SECOND;
    sim.reboot();
    let attempt = 10 * SECOND;
    let pause = sim.policy.retry_pause;
    sim.pass((4 * (attempt + pause) + attempt).checked_sub(Duration::from_millis(1)).unwrap());
    assert_eq!((sim.state.session.attempts.len(), sim.published.last()), (4, Some(&(7, 2))));
    sim.pass(SECOND);
    assert_eq!((sim.state.session.attempts.len(), sim.published.last()), (5, Some(&(8, 2))));
    assert_eq!(sim.statuses(), [2, 3, 4, 5, 7, 8]);
    sim.pass(60 * SECOND);
    assert!(!sim.own.cordoned, "a failed drain gives the node back");
    assert_eq!(sim.published.last(), Some(&(8, 2)), "and is still shown as failed");
    sim.ask(&[]);
    assert_eq!(sim.published.last(), Some(&(2, 1)));
}

#[test]
fn a_new_request_after_a_failure_begins_anew() {
    let mut sim = Sim::new();
    sim.set(Fault::CordonRefused, true);
    sim.reboot();
    sim.pass(60 * SECOND);
    assert_eq!(sim.state.phase.name(), "Failed");
    sim.set(Fault::CordonRefused, false);
    sim.ask(&[(DrainRequester::DeviceOp, "2")]);
    sim.pass(2 * SECOND);
    assert_eq!((sim.outcome(), sim.published.last()), (Some(Outcome::Drained), Some(&(9, 2))));
}

#[test]
fn an_uncordon_by_hand_costs_the_attempt_and_the_next_one_cordons_again() {
    let mut sim = Sim::new();
    sim.set(Fault::EvictionRefused, true);
    sim.reboot();
    sim.pass(2 * SECOND);
    sim.own.cordoned = false;
    sim.set(Fault::EvictionRefused, false);
    sim.show_snapshot();
    assert_eq!(sim.state.phase.name(), "Pausing");
    sim.pass(sim.policy.retry_pause);
    sim.pass(2 * SECOND);
    assert_eq!((sim.outcome(), sim.own.cordoned, sim.count("cordon")), (Some(Outcome::Drained), true, 2));
}

/// Without a pause a reason that passes within seconds would use up all attempts at once.
#[test]
fn attempts_begin_half_a_minute_apart() {
    let mut sim = Sim::with(Policy { retry_pause: Duration::ZERO, ..Policy::device() });
    sim.set(Fault::EvictionRefused, true);
    sim.reboot();
    sim.pass(2 * SECOND);
    sim.own.cordoned = false;
    sim.show_snapshot();
    sim.pass(27 * SECOND);
    assert_eq!((sim.state.phase.name(), sim.state.session.attempts.len()), ("Pausing", 1));
    sim.pass(2 * SECOND);
    assert_eq!((sim.state.phase.name(), sim.state.session.attempts.len()), ("Attempting", 1));
}

/// D10.
#[test]
fn an_unreachable_api_is_waited_for_and_then_complete_or_not() {
    for (otherwise, outcome) in
        [(OnUnavailable::Complete, Some(Outcome::ApiUnreachable)), (OnUnavailable::Wait, None)]
    {
        let mut sim = Sim::with(Policy { on_unreachable: otherwise, ..Policy::device() });
        sim.set(Fault::Unreachable, true);
        sim.reboot();
        sim.pass(299 * SECOND);
        assert_eq!((sim.outcome(), sim.statuses().last()), (None, Some(&3)));
        sim.pass(10 * SECOND);
        assert_eq!(sim.outcome(), outcome);
        assert_eq!(sim.count("cordon"), 0);
    }
}

#[test]
fn by_default_a_device_goes_undrained_beside_eve_and_alone_and_waits_otherwise() {
    let cases: [(&str, fn(&mut Sim), bool); 4] = [
        ("with other nodes", |_| {}, false),
        ("beside EVE", |sim| sim.facts.is_beside_eve = true, true),
        ("beside zedbox", |sim| sim.policy.beside_zedbox = true, true),
        ("alone", |sim| sim.others.clear(), true),
    ];
    let begin = |begins: fn(&mut Sim)| {
        let mut sim = Sim::new();
        (sim.policy.on_unreachable, sim.policy.on_no_peer) = (OnUnavailable::Auto, OnUnavailable::Auto);
        sim.facts.mode = Mode::Always;
        begins(&mut sim);
        sim.send(Event::Facts(sim.facts));
        sim.pass(70 * SECOND);
        sim
    };
    let foresees = |sim: &Sim, goes: bool| {
        let outlook = crate::words::outlook(&sim.state, &sim.policy, sim.now);
        outlook.contains(if goes { "WITHOUT a drain after" } else { "ebb force complete" })
    };
    for (how, begins, goes) in cases {
        for boots in [false, true] {
            let mut sim = begin(begins);
            sim.set(Fault::Unreachable, true);
            if boots {
                sim.boot("next");
            }
            sim.pass(60 * SECOND);
            assert!(foresees(&sim, goes), "{how}");
            sim.reboot();
            sim.pass(3600 * SECOND);
            assert_eq!(sim.outcome(), goes.then_some(Outcome::ApiUnreachable), "{how}, boots: {boots}");
        }
        let mut sim = begin(begins);
        sim.others.iter_mut().for_each(|node| node.cordoned = true);
        sim.pass(70 * SECOND);
        assert!(foresees(&sim, goes), "{how}");
        sim.reboot();
        sim.pass(3600 * SECOND);
        assert_eq!(sim.outcome(), goes.then_some(Outcome::NoSchedulablePeer), "{how}");
    }
}

/// All nodes are told to reboot in the same outage.
#[test]
fn in_an_outage_nodes_go_one_after_another_by_name() {
    let minutes = |limit, names: &[&str], slots_wait| {
        let wait_limit = Some(Duration::from_mins(slots_wait));
        let mut sim = Sim::with(Policy { slots_limit: limit, wait_limit, ..Policy::device() });
        let others = names.iter().map(|name| NodeView {
            name: (*name).into(),
            uid: (*name).into(),
            ..sim.others[0].clone()
        });
        sim.others = others.collect();
        sim.pass(70 * SECOND);
        sim.set(Fault::Unreachable, true);
        sim.boot("next");
        sim.reboot();
        let asked = sim.now;
        while sim.outcome().is_none() {
            sim.pass(SECOND);
        }
        assert_eq!(sim.outcome(), Some(Outcome::ApiUnreachable));
        sim.now.since(asked).as_secs() / 60
    };
    let cases: [(u32, &[&str], u64, u64); 6] = [
        (1, &["x", "y"], 1440, 5),
        (1, &["a", "y"], 1440, 35),
        (1, &["a", "b"], 1440, 65),
        (2, &["a", "b"], 1440, 35),
        (0, &["a", "b"], 1440, 5),
        (1, &["a", "b"], 45, 45),
    ];
    for (limit, names, slots_wait, expected) in cases {
        assert_eq!(minutes(limit, names, slots_wait), expected, "{limit} {names:?}");
    }
}

/// The call failed before the suspend, so it does not say that the server is still away.
#[test]
fn a_failure_that_is_heard_after_a_suspend_completes_nothing() {
    for (is_back, outcome) in [(true, Outcome::Drained), (false, Outcome::ApiUnreachable)] {
        let mut sim = Sim::new();
        sim.set(Fault::Unreachable, true);
        sim.reboot();
        sim.pass(100 * SECOND);
        let serial = 7_000;
        (sim.state.api.asked, sim.state.api.sent) = (Some(serial), sim.now);
        sim.now = sim.now + 600 * SECOND;
        sim.set(Fault::Unreachable, !is_back);
        sim.send(Event::Probed { serial, result: Err(CallError::Unreachable("no answer".to_owned())) });
        assert_eq!(sim.outcome(), None, "back: {is_back}");
        sim.pass(200 * SECOND);
        assert_eq!(sim.outcome(), Some(outcome), "back: {is_back}");
    }
}

#[test]
fn only_an_outage_on_end_counts() {
    let mut sim = Sim::new();
    sim.others.clear();
    sim.policy.on_no_peer = OnUnavailable::Wait;
    sim.reboot();
    for _ in 0..3 {
        sim.set(Fault::Unreachable, true);
        sim.pass(200 * SECOND);
        sim.set(Fault::Unreachable, false);
        sim.pass(10 * SECOND);
    }
    assert_eq!(sim.outcome(), None);
}

#[test]
fn an_outage_in_mid_drain_stops_the_clocks() {
    let mut sim = Sim::new();
    sim.set(Fault::EvictionRefused, true);
    sim.policy.drain.attempt_timeout = 300 * SECOND;
    sim.reboot();
    sim.pass(2 * SECOND);
    sim.set(Fault::Unreachable, true);
    sim.pass(10 * 60 * SECOND);
    assert_eq!((sim.state.phase.name(), sim.statuses().last()), ("Attempting", Some(&5)));
    sim.set(Fault::Unreachable, false);
    sim.set(Fault::EvictionRefused, false);
    sim.pass(90 * SECOND);
    assert_eq!(sim.outcome(), Some(Outcome::Drained));
}

/// D6.
#[test]
fn without_a_peer_the_window_passes_and_nothing_is_cordoned() {
    let mut sim = Sim::new();
    sim.others.clear();
    sim.reboot();
    sim.pass(119 * SECOND);
    assert_eq!(sim.outcome(), None);
    sim.pass(10 * SECOND);
    assert_eq!((sim.outcome(), sim.count("cordon")), (Some(Outcome::NoSchedulablePeer), 0));
}

/// D6.
#[test]
fn who_counts_as_a_peer() {
    let change: [(&str, fn(&mut NodeView), bool); 4] = [
        ("ready", |_| {}, true),
        ("cordoned", |node| node.cordoned = true, false),
        ("tie-breaker", |node| node.tie_breaker = true, false),
        ("not ready", |node| node.ready = false, false),
    ];
    for (name, change, is_peer) in change {
        let mut sim = Sim::new();
        change(&mut sim.others[0]);
        sim.reboot();
        sim.pass(10 * SECOND);
        assert_eq!(sim.outcome().is_some(), is_peer, "{name}");
    }
}

#[test]
fn a_peer_that_may_be_rebooting_is_waited_for_longer() {
    // With slots it is first waited for as one that may be down for a drain; then the window passes.
    for (slots_limit, more) in [(0, 70 * SECOND), (1, 190 * SECOND)] {
        let mut sim = Sim::with(Policy { slots_limit, ..Policy::device() });
        sim.others[0].ready = false;
        sim.reboot();
        sim.pass(29 * 60 * SECOND);
        assert_eq!(sim.outcome(), None);
        sim.pass(more);
        assert_eq!(sim.outcome(), Some(Outcome::NoSchedulablePeer));
    }
}

#[test]
fn no_member_is_not_supported_and_nothing_is_drained() {
    let mut sim = Sim::new();
    sim.others.clear();
    sim.pass(120 * SECOND);
    assert_eq!(sim.published.last(), Some(&(1, 1)), "one node alone is no cluster");
    sim.reboot();
    sim.pass(120 * SECOND);
    assert_eq!((sim.statuses().last(), sim.count("cordon")), (Some(&1), 0));
}

/// D22.
#[test]
fn a_change_of_the_cluster_config_disturbs_no_drain() {
    let facts = |valid| Facts { has_kubeconfig: true, eve_config_valid: valid, ..Facts::default() };
    let mut sim = Sim::new();
    sim.set(Fault::EvictionRefused, true);
    sim.reboot();
    sim.pass(10 * SECOND);
    let published = sim.published.clone();
    for valid in [Some(true), Some(false), None, Some(true)] {
        sim.send(Event::Facts(facts(valid)));
        sim.pass(SECOND);
    }
    assert_eq!((sim.published, sim.state.session.number), (published, 1));
    assert_eq!(sim.state.member, Member::Yes);
}

#[test]
fn rights_that_are_missing_fail_after_as_many_looks_as_cordon_tries() {
    let mut sim = Sim::new();
    sim.set(Fault::Unreachable, true);
    sim.reboot();
    for _ in 0..sim.policy.cordon_tries {
        let result = Err(CallError::Denied("cannot list nodes".into()));
        sim.send(Event::NodesListed { serial: sim.state.serial + 1, result });
    }
    assert!(
        matches!(&sim.state.phase, Phase::Failed(Failed::Cordon(text)) if text.contains("cannot list nodes"))
    );
}

#[test]
fn an_attempt_that_may_not_see_the_node_fails_early_and_names_the_right() {
    let why = "cannot list poddisruptionbudgets: forbidden; needs the right to `list` `poddisruptionbudgets`";
    let (now, policy) = (Moment(1_000_000), Policy::device());
    let mut state = State::new(Member::Yes, "boot".into(), now);
    let start = drain::Event::Start { attempt: 1, api_back: None };
    state.drain = drain::step(drain::State::Idle, start, now, &policy.drain).0;
    state.phase = Phase::Attempting { attempt: 1, started: now };
    assert!(state.awaits_snapshot());
    let (state, effects) = step(state, Event::Drain(drain::Event::Unseen { why: why.into() }), now, &policy);
    assert!(matches!(state.phase, Phase::Pausing { failed: 1, .. }), "{:?}", state.phase);
    assert!(state.session.attempts[0].error.contains(why), "{:?}", state.session.attempts);
    assert!(effects.contains(&Effect::Drain(drain::Effect::Abort)), "{effects:?}");
    assert!(!state.awaits_snapshot(), "no watch is needed again before the next attempt");
}

#[test]
fn one_failed_probe_is_no_outage_and_some_seconds_of_them_are() {
    let mut sim = Sim::new();
    sim.pods.clear();
    sim.faults.insert(Fault::ProofHangs);
    sim.reboot();
    sim.pass(2 * SECOND);
    let away =
        |sim: &Sim| drain::progress::attempt(&sim.state.drain).and_then(drain::state::Attempt::away_since);
    // The next probe is answered again.
    sim.send(Event::Probed { serial: 0, result: Err(CallError::Unreachable("503".into())) });
    assert_eq!(
        (away(&sim), sim.state.api.away_since.is_some()),
        (None, true),
        "the reason says so, and the attempt goes on"
    );
    sim.pass(10 * SECOND);
    assert_eq!(sim.state.api.away_since, None);
    assert_eq!(sim.state.api.back, None, "the proof need not wait for a scheduler");
    sim.faults.insert(Fault::Unreachable);
    sim.pass(20 * SECOND);
    assert!(away(&sim).is_some());
    sim.faults.remove(&Fault::Unreachable);
    sim.pass(10 * SECOND);
    assert!(away(&sim).is_none() && sim.state.api.back.is_some());
}

/// The renewal of a slot that is due, and that nothing wants just now, must not wake the loop again and again.
#[test]
fn a_slot_of_a_device_that_is_no_member_any_more_wakes_nobody() {
    let mut sim = Sim::with(Policy { has_health_command: true, ..Policy::device() });
    sim.ask(&[(DrainRequester::Update, "0")]);
    sim.set(Fault::HealthWithSlot, true);
    sim.boot("next");
    sim.has_own_node = false;
    sim.pass(120 * SECOND);
    assert!(sim.state.holds_slot() && sim.state.member == Member::No);
}

#[test]
fn a_slot_under_an_order_while_the_api_server_is_away_wakes_nobody() {
    let mut sim = Sim::new();
    sim.ask(&[(DrainRequester::Update, "0")]);
    sim.set(Fault::Unreachable, true);
    sim.pass(20 * SECOND);
    sim.ask(&[]);
    sim.pass(60 * SECOND);
    let what = schemas::DrainOrder::Complete(DrainRequester::None);
    sim.send(Event::Override(crate::event::Order { what, by: "o".into() }));
    sim.pass(4 * SECOND);
    assert!(sim.state.holds_slot() && sim.state.is_forced());
}
