//! Scenarios of an operator's orders: COMPLETE by force, drains switched off and on.

use super::*;
use crate::step::sim::{Fault, SECOND, Sim, pod};
use schemas::DrainOrder;

use crate::event::Order;
use schemas::DrainRequester::{DeviceOp, None as Operator, Update};

const MINUTE: Duration = Duration::from_mins(1);

fn order(what: DrainOrder) -> Event {
    Event::Override(Order { what, by: "root: the store is closed".into() })
}

/// A drain that a budget blocks.
fn blocked(requesters: &[(DrainRequester, &str)]) -> Sim {
    let mut sim = Sim::new();
    sim.set(Fault::EvictionRefused, true);
    sim.ask(requesters);
    sim.pass(20 * SECOND);
    assert_eq!(sim.state.published.status, DrainStatus::Cordoned);
    sim.published = vec![(5, sim.state.published.requested_by.code())];
    sim
}

/// D27.
#[test]
fn it_applies_at_once() {
    let mut sim = blocked(&[(DeviceOp, "1")]);
    sim.send(order(DrainOrder::Complete(DeviceOp)));
    assert_eq!(
        (sim.published.as_slice(), sim.outcome()),
        ([(5, 2), (9, 2)].as_slice(), Some(Outcome::Forced))
    );
}

/// D30.
#[test]
fn the_drain_stops_and_shows_nothing_after_it() {
    let mut sim = blocked(&[(DeviceOp, "1")]);
    sim.done.clear();
    sim.send(order(DrainOrder::Complete(Operator)));
    sim.pass(30 * MINUTE);
    assert_eq!(sim.published, [(5, 2), (9, 2)]);
    assert_eq!(sim.count("evict"), 0);
}

/// D28.
#[test]
fn it_answers_only_whom_it_names_and_the_others_are_drained_on() {
    let mut sim = blocked(&[(DeviceOp, "1"), (Update, "1")]);
    sim.send(order(DrainOrder::Complete(Update)));
    assert_eq!(sim.published, [(5, 2), (9, 3)]);
    let answer =
        |sim: &Sim, of| sim.state.requests.iter().find(|request| request.requester == of).unwrap().answer;
    assert_eq!((answer(&sim, Update), answer(&sim, DeviceOp)), (Answer::Forced, Answer::None));
    sim.set(Fault::EvictionRefused, false);
    sim.pass(4 * SECOND);
    assert_eq!(sim.published, [(5, 2), (9, 3)], "long enough to be seen");
    sim.pass(30 * SECOND);
    assert_eq!(sim.statuses().last(), Some(&9));
    assert_eq!((answer(&sim, Update), answer(&sim, DeviceOp)), (Answer::Forced, Answer::Complete));
}

/// D29.
#[test]
fn without_a_request_it_is_shown_and_waits_for_one() {
    let mut sim = Sim::new();
    sim.send(order(DrainOrder::Complete(DeviceOp)));
    assert_eq!(sim.published.last(), Some(&(9, 2)));
    sim.pass(6 * SECOND);
    assert_eq!(sim.published.last(), Some(&(2, 1)));
    sim.pass(MINUTE);
    sim.published.clear();
    sim.reboot();
    sim.pass(SECOND);
    assert_eq!((sim.published.as_slice(), sim.outcome()), ([(9, 2)].as_slice(), Some(Outcome::Forced)));
    assert_eq!(sim.count("cordon"), 0);
    // The order is used up: the next request is drained for.
    sim.ask(&[]);
    sim.pass(10 * SECOND);
    sim.ask(&[(DeviceOp, "2")]);
    sim.pass(20 * SECOND);
    assert_eq!(sim.outcome(), Some(Outcome::Drained));
}

/// D29.
#[test]
fn it_does_not_wait_for_ever_nor_for_others() {
    for (requester, wait, forced) in
        [(DeviceOp, 9 * MINUTE, true), (DeviceOp, 11 * MINUTE, false), (Update, MINUTE, false)]
    {
        let mut sim = Sim::new();
        sim.send(order(DrainOrder::Complete(requester)));
        sim.pass(wait);
        sim.reboot();
        sim.pass(30 * SECOND);
        let expected = if forced { Outcome::Forced } else { Outcome::Drained };
        assert_eq!(sim.outcome(), Some(expected), "{requester:?} after {wait:?}");
    }
}

#[test]
fn after_a_failed_drain_it_answers_what_stands() {
    let mut sim = Sim::with(Policy { attempts: 1, ..Policy::device() });
    sim.set(Fault::CordonRefused, true);
    sim.reboot();
    sim.pass(2 * MINUTE);
    assert_eq!(sim.state.published.status, DrainStatus::FailedCordon);
    sim.send(order(DrainOrder::Complete(Operator)));
    assert_eq!(sim.published.last(), Some(&(9, 2)));
}

/// While an order for another requester is answered nobody looks whether the node stays drained.
#[test]
fn the_answer_of_a_drain_is_confirmed_after_an_order_for_another_requester() {
    let mut sim = Sim::new();
    sim.reboot();
    sim.pass(10 * SECOND);
    let number = sim.state.session.number;
    sim.send(order(DrainOrder::Complete(Update)));
    assert!(!sim.state.is_confirmed(DeviceOp));
    // The watch has told of this pod while the order was answered.
    sim.pods = vec![pod("3")];
    for _ in 0..3 {
        sim.now = sim.now + 10 * SECOND;
        sim.send(Event::Tick);
    }
    assert!(number < sim.state.session.number, "a new drain");
}

/// D29: an order for a requester that has not asked is shown long enough to be seen; then the others see their own answer
/// again.
#[test]
fn an_answer_that_nobody_asked_for_does_not_stay() {
    for (fault, answer) in [(None, (9, 2)), (Some(Fault::CordonRefused), (6, 2))] {
        let mut sim = Sim::new();
        if let Some(fault) = fault {
            sim.set(fault, true);
        }
        sim.reboot();
        sim.pass(2 * MINUTE);
        assert_eq!(sim.published.last(), Some(&answer));
        sim.send(order(DrainOrder::Complete(Update)));
        assert_eq!(sim.published.last(), Some(&(9, 3)));
        sim.pass(4 * SECOND);
        assert_eq!(sim.published.last(), Some(&(9, 3)), "long enough to be seen");
        sim.pass(2 * SECOND);
        assert_eq!(sim.published.last(), Some(&answer));
        sim.restart();
        sim.pass(2 * SECOND);
        assert_eq!(sim.state.published.status as u8, answer.0);
    }
}

/// D30.
#[test]
fn disable_releases_who_waits_and_stays() {
    let mut sim = blocked(&[(DeviceOp, "1"), (Update, "1")]);
    sim.send(order(DrainOrder::Disable));
    sim.pass(20 * SECOND);
    assert_eq!(sim.published, [(5, 2), (9, 3), (9, 2), (1, 1)]);
    assert!(sim.state.requests.iter().all(|request| request.answer == Answer::Forced));
    sim.ask(&[]);
    sim.pass(20 * SECOND);
    assert_eq!((sim.own.cordoned, sim.state.published.status), (false, DrainStatus::NotSupported));
    sim.published.clear();
    sim.ask(&[(Update, "2")]);
    sim.pass(20 * SECOND);
    assert_eq!(sim.published, [(9, 3), (1, 1)], "each request is answered");
    assert_eq!(sim.count("cordon"), 1, "and nothing is drained: {:?}", sim.done);
}

#[test]
fn enable_drains_again_for_all_who_still_ask() {
    let mut sim = blocked(&[(DeviceOp, "1")]);
    sim.send(order(DrainOrder::Disable));
    sim.pass(10 * SECOND);
    sim.set(Fault::EvictionRefused, false);
    sim.send(order(DrainOrder::Enable));
    assert!(sim.state.requests.iter().all(|request| request.answer == Answer::None));
    sim.pass(20 * SECOND);
    assert_eq!(sim.outcome(), Some(Outcome::Drained));
}

#[test]
fn an_order_whose_file_cannot_be_renamed_does_nothing() {
    let mut sim = blocked(&[(DeviceOp, "1")]);
    sim.set(Fault::RenameRefused, true);
    sim.send(order(DrainOrder::Complete(DeviceOp)));
    sim.pass(MINUTE);
    assert_eq!((sim.published.as_slice(), sim.outcome()), ([(5, 2)].as_slice(), None));
    assert_eq!(sim.state.orders, crate::orders::Orders::default());
}

#[test]
fn an_order_survives_a_crash_between_record_and_rename() {
    let mut sim = blocked(&[(DeviceOp, "1")]);
    let (state, effects) =
        step(sim.state.clone(), order(DrainOrder::Complete(DeviceOp)), sim.now, &sim.policy);
    assert_eq!(effects.first(), Some(&Effect::Record));
    assert!(effects.contains(&Effect::TakeOverride));
    sim.restart_from(record(&state));
    sim.send(Event::OverrideTaken { renamed: true });
    sim.pass(SECOND);
    assert_eq!(sim.outcome(), Some(Outcome::Forced));
}

#[test]
fn an_order_that_comes_after_the_answer_is_spent_at_once_and_drains_the_next_operation() {
    for requester in [DeviceOp, Operator] {
        let mut sim = Sim::new();
        sim.reboot();
        sim.pass(20 * SECOND);
        assert_eq!(sim.outcome(), Some(Outcome::Drained));
        let since = sim.state.since;
        sim.published.clear();
        sim.send(order(DrainOrder::Complete(requester)));
        sim.pass(MINUTE);
        let needless = sim.state.orders.needless.clone().unwrap();
        assert_eq!((needless.requester, needless.outcome), (requester, Outcome::Drained));
        assert_eq!((sim.outcome(), sim.state.since), (Some(Outcome::Drained), since), "nothing has changed");
        assert!(sim.published.iter().all(|published| *published == (9, 2)), "{:?}", sim.published);
        // The reboot is withdrawn, and another one is commanded.
        sim.ask(&[]);
        sim.pass(10 * SECOND);
        assert_eq!(sim.state.orders, crate::orders::Orders::default());
        sim.pods = vec![pod("3")];
        sim.ask(&[(DeviceOp, "2")]);
        sim.pass(20 * SECOND);
        assert_eq!((sim.outcome(), sim.count("cordon")), (Some(Outcome::Drained), 2), "{requester:?}");
    }
}

/// An answer without a drain is taken back when the API server answers again; an answer by an order is not.
#[test]
fn an_order_that_comes_after_an_undrained_answer_makes_it_stand() {
    for (is_ordered, expected) in [(false, Outcome::Drained), (true, Outcome::Forced)] {
        let mut sim = Sim::new();
        sim.pass(10 * SECOND);
        sim.set(Fault::Unreachable, true);
        sim.reboot();
        sim.pass(6 * MINUTE);
        assert_eq!(sim.outcome(), Some(Outcome::ApiUnreachable));
        if is_ordered {
            sim.send(order(DrainOrder::Complete(DeviceOp)));
            assert_eq!(sim.state.orders.needless, None);
        }
        sim.set(Fault::Unreachable, false);
        sim.pass(2 * MINUTE);
        assert_eq!((sim.outcome(), sim.published.last()), (Some(expected), Some(&(9, 2))));
        assert_eq!(sim.count("cordon"), usize::from(!is_ordered));
    }
}

#[test]
fn an_order_that_has_answered_does_not_answer_who_asks_a_moment_later() {
    let mut sim = blocked(&[(DeviceOp, "1")]);
    sim.send(order(DrainOrder::Complete(Operator)));
    assert_eq!(sim.published.last(), Some(&(9, 2)));
    sim.pass(SECOND);
    sim.ask(&[(DeviceOp, "2")]);
    assert_eq!(sim.state.requests.next_unanswered(), Some(DeviceOp), "the new one is not answered");
    assert_ne!(sim.state.published.status, DrainStatus::Complete, "nor is the old answer shown to it");
    sim.set(Fault::EvictionRefused, false);
    sim.pass(30 * SECOND);
    assert_eq!(sim.outcome(), Some(Outcome::Drained));
}

#[test]
fn an_order_answers_all_who_asked_when_it_came() {
    let mut sim = blocked(&[(DeviceOp, "1"), (Update, "1")]);
    sim.send(order(DrainOrder::Complete(Operator)));
    sim.pass(SECOND);
    // A third requester asks while the second still waits for its answer.
    sim.ask(&[(DeviceOp, "1"), (Update, "1"), (Operator, "1")]);
    sim.pass(5 * SECOND);
    assert!(forced_by(&sim, Update).is_some() && forced_by(&sim, DeviceOp).is_some());
}

#[test]
fn who_forced_an_answer_is_known_as_long_as_it_stands() {
    let by = "root: the store is closed";
    let mut sim = blocked(&[(DeviceOp, "1")]);
    sim.send(order(DrainOrder::Complete(DeviceOp)));
    sim.pass(MINUTE);
    assert_eq!(sim.state.orders.complete, None, "used up");
    assert_eq!(forced_by(&sim, DeviceOp), Some(by));
    assert!(crate::words::reason(&sim.state).contains(by), "{}", crate::words::reason(&sim.state));
    sim.restart();
    assert!(crate::words::reason(&sim.state).contains(by), "after a restart");
    sim.ask(&[]);
    assert_eq!(forced_by(&sim, DeviceOp), None);
}

/// The text that says who forced this requester's answer.
fn forced_by(sim: &Sim, requester: DrainRequester) -> Option<&str> {
    let mut requests = sim.state.requests.iter();
    let request = requests.find(|request| request.requester == requester)?;
    (request.answer == Answer::Forced).then_some(request.forced_by.as_str())
}

#[test]
fn without_a_record_a_drain_tells_nobody_complete_and_an_order_does() {
    let mut sim = Sim::new();
    sim.reboot();
    sim.pass(Duration::from_millis(500));
    sim.state.is_unrecorded = true;
    sim.pass(MINUTE);
    assert_eq!(sim.outcome(), Some(Outcome::Drained));
    assert!(!sim.statuses().contains(&9), "{:?}", sim.published);
    let mut forced = Sim { state: sim.state.clone(), published: vec![], done: vec![], ..Sim::new() };
    forced.now = sim.now;
    forced.send(order(DrainOrder::Complete(DeviceOp)));
    assert_eq!(forced.published.last(), Some(&(9, 2)));
    // The record can be written again.
    sim.state.is_unrecorded = false;
    sim.send(Event::Tick);
    assert_eq!(sim.published.last(), Some(&(9, 2)));
}

#[test]
fn without_a_record_a_withdrawal_gives_node_and_slot_back() {
    let mut sim = blocked(&[(DeviceOp, "1")]);
    sim.state.is_unrecorded = true;
    let allowed = |sim: &Sim, effects: &[Effect]| {
        effects.iter().all(|effect| !crate::unrecorded::has_to_wait(effect, &sim.state))
    };
    let (state, effects) = step(sim.state.clone(), Event::Requests(vec![]), sim.now, &sim.policy);
    let before = std::mem::replace(&mut sim.state, state);
    assert!(effects.contains(&Effect::Drain(drain::Effect::Abort)), "{effects:?}");
    assert!(
        effects.iter().any(|effect| matches!(effect, Effect::Uncordon { .. })) && allowed(&sim, &effects)
    );
    let Some(Effect::Uncordon { serial }) =
        effects.into_iter().find(|effect| matches!(effect, Effect::Uncordon { .. }))
    else {
        return;
    };
    let answer = Event::Uncordoned { serial, result: Ok(()) };
    let (state, effects) = step(sim.state.clone(), answer, sim.now, &sim.policy);
    sim.state = state;
    assert!(
        effects.iter().any(|effect| matches!(effect, Effect::WriteSlots { .. })) && allowed(&sim, &effects)
    );
    // A cordon and an eviction have to wait; once there is no request, they are dropped.
    let evict = drain::progress::attempt(&before.drain).map(|attempt| {
        let pod = drain::PodId { namespace: "a".into(), name: "b".into(), uid: "c".into() };
        Effect::Drain(drain::Effect::Evict { attempt: attempt.number(), pod, grace: None })
    });
    let evict = evict.unwrap();
    assert!(crate::unrecorded::has_to_wait(&evict, &before) && crate::unrecorded::is_wanted(&evict, &before));
    assert!(!crate::unrecorded::is_wanted(&evict, &sim.state));
}

/// An answer that was given without a drain must not look like a drained node because drains are switched off after it.
#[test]
fn an_undrained_answer_stays_undrained_when_drains_are_switched_off() {
    let mut sim = Sim::new();
    sim.set(Fault::Unreachable, true);
    sim.reboot();
    sim.pass(60 * MINUTE);
    assert_eq!(sim.outcome(), Some(Outcome::ApiUnreachable));
    sim.send(order(DrainOrder::Disable));
    sim.pass(MINUTE);
    assert_eq!(sim.outcome(), Some(Outcome::ApiUnreachable));
    sim.restart();
    sim.pass(SECOND);
    assert_eq!(sim.outcome(), Some(Outcome::ApiUnreachable), "after a restart");
}
