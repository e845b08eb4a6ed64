//! Scenarios of an operator's word: COMPLETE by force, drains switched off and on.

use super::sim::{Fault, SECOND, Sim};
use super::*;
use crate::forcing::{Command, Order};
use crate::requests::Requester::{DeviceOp, Operator, Update};

const MINUTE: Duration = Duration::from_mins(1);

fn order(what: Command) -> Event {
    Event::Override(Order { what, by: "root: the store is closed".into() })
}

/// A drain that a budget blocks.
fn blocked(requesters: &[(Requester, &str)]) -> Sim {
    let mut sim = Sim::new();
    sim.set(Fault::EvictionRefused, true);
    sim.ask(requesters);
    sim.pass(20 * SECOND);
    assert_eq!(sim.state.shown.status, Status::Cordoned);
    sim.shown = vec![(5, sim.state.shown.requested_by.number())];
    sim
}

#[test]
fn d27_it_applies_at_once() {
    let mut sim = blocked(&[(DeviceOp, "1")]);
    sim.send(order(Command::Complete(DeviceOp)));
    assert_eq!((sim.shown.as_slice(), sim.outcome()), ([(5, 2), (9, 2)].as_slice(), Some(Outcome::Forced)));
}

#[test]
fn d30_the_drain_stops_and_shows_nothing_after_it() {
    let mut sim = blocked(&[(DeviceOp, "1")]);
    sim.done.clear();
    sim.send(order(Command::Complete(Operator)));
    sim.pass(30 * MINUTE);
    assert_eq!(sim.shown, [(5, 2), (9, 2)]);
    assert_eq!(sim.count("evict"), 0);
}

#[test]
fn d28_it_answers_only_whom_it_names_and_the_others_are_drained_on() {
    let mut sim = blocked(&[(DeviceOp, "1"), (Update, "1")]);
    sim.send(order(Command::Complete(Update)));
    assert_eq!(sim.shown, [(5, 2), (9, 3)]);
    let answer =
        |sim: &Sim, of| sim.state.requests.iter().find(|request| request.requester == of).unwrap().answer;
    assert_eq!((answer(&sim, Update), answer(&sim, DeviceOp)), (Answer::Forced, Answer::None));
    sim.set(Fault::EvictionRefused, false);
    sim.pass(4 * SECOND);
    assert_eq!(sim.shown, [(5, 2), (9, 3)], "long enough to be seen");
    sim.pass(30 * SECOND);
    assert_eq!(sim.statuses().last(), Some(&9));
    assert_eq!((answer(&sim, Update), answer(&sim, DeviceOp)), (Answer::Forced, Answer::Complete));
}

#[test]
fn d29_without_a_request_it_is_shown_and_waits_for_one() {
    let mut sim = Sim::new();
    sim.send(order(Command::Complete(DeviceOp)));
    assert_eq!(sim.shown.last(), Some(&(9, 2)));
    sim.pass(6 * SECOND);
    assert_eq!(sim.shown.last(), Some(&(2, 1)));
    sim.pass(MINUTE);
    sim.shown.clear();
    sim.reboot();
    sim.pass(SECOND);
    assert_eq!((sim.shown.as_slice(), sim.outcome()), ([(9, 2)].as_slice(), Some(Outcome::Forced)));
    assert_eq!(sim.count("cordon"), 0);
    // Used up: the next request is drained for.
    sim.ask(&[]);
    sim.pass(10 * SECOND);
    sim.ask(&[(DeviceOp, "2")]);
    sim.pass(20 * SECOND);
    assert_eq!(sim.outcome(), Some(Outcome::Drained));
}

#[test]
fn d29_it_does_not_wait_for_ever_nor_for_others() {
    for (requester, wait, forced) in
        [(DeviceOp, 9 * MINUTE, true), (DeviceOp, 11 * MINUTE, false), (Update, MINUTE, false)]
    {
        let mut sim = Sim::new();
        sim.send(order(Command::Complete(requester)));
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
    assert_eq!(sim.state.shown.status, Status::FailedCordon);
    sim.send(order(Command::Complete(Operator)));
    assert_eq!(sim.shown.last(), Some(&(9, 2)));
}

/// For somebody who has not asked it is shown long enough to be seen; then those who did see their own answer again.
#[test]
fn d29_an_answer_that_nobody_asked_for_does_not_stay() {
    for (fault, answer) in [(None, (9, 2)), (Some(Fault::CordonRefused), (6, 2))] {
        let mut sim = Sim::new();
        if let Some(fault) = fault {
            sim.set(fault, true);
        }
        sim.reboot();
        sim.pass(2 * MINUTE);
        assert_eq!(sim.shown.last(), Some(&answer));
        sim.send(order(Command::Complete(Update)));
        assert_eq!(sim.shown.last(), Some(&(9, 3)));
        sim.pass(4 * SECOND);
        assert_eq!(sim.shown.last(), Some(&(9, 3)), "long enough to be seen");
        sim.pass(2 * SECOND);
        assert_eq!(sim.shown.last(), Some(&answer));
        sim.restart();
        sim.pass(2 * SECOND);
        assert_eq!(sim.state.shown.status as u8, answer.0);
    }
}

#[test]
fn d30_disable_releases_who_waits_and_stays() {
    let mut sim = blocked(&[(DeviceOp, "1"), (Update, "1")]);
    sim.send(order(Command::Disable));
    sim.pass(20 * SECOND);
    assert_eq!(sim.shown, [(5, 2), (9, 3), (9, 2), (1, 1)]);
    assert!(sim.state.requests.iter().all(|request| request.answer == Answer::Forced));
    sim.ask(&[]);
    sim.pass(20 * SECOND);
    assert_eq!((sim.own.cordoned, sim.state.shown.status), (false, Status::NotSupported));
    sim.shown.clear();
    sim.ask(&[(Update, "2")]);
    sim.pass(20 * SECOND);
    assert_eq!(sim.shown, [(9, 3), (1, 1)], "whoever asks is answered");
    assert_eq!(sim.count("cordon"), 1, "and nothing is drained: {:?}", sim.done);
}

#[test]
fn enable_drains_again_for_all_who_still_ask() {
    let mut sim = blocked(&[(DeviceOp, "1")]);
    sim.send(order(Command::Disable));
    sim.pass(10 * SECOND);
    sim.set(Fault::EvictionRefused, false);
    sim.send(order(Command::Enable));
    assert!(sim.state.requests.iter().all(|request| request.answer == Answer::None));
    sim.pass(20 * SECOND);
    assert_eq!(sim.outcome(), Some(Outcome::Drained));
}

#[test]
fn an_order_whose_file_cannot_be_renamed_does_nothing() {
    let mut sim = blocked(&[(DeviceOp, "1")]);
    sim.set(Fault::RenameRefused, true);
    sim.send(order(Command::Complete(DeviceOp)));
    sim.pass(MINUTE);
    assert_eq!((sim.shown.as_slice(), sim.outcome()), ([(5, 2)].as_slice(), None));
    assert_eq!(sim.state.forcing, crate::forcing::Forcing::default());
}

#[test]
fn an_order_survives_a_crash_between_record_and_rename() {
    let mut sim = blocked(&[(DeviceOp, "1")]);
    let (state, effects) = step(sim.state.clone(), order(Command::Complete(DeviceOp)), sim.now, &sim.policy);
    assert_eq!(effects.first(), Some(&Effect::Record));
    assert!(effects.contains(&Effect::TakeOverride));
    sim.restart_from(record(&state));
    sim.send(Event::OverrideTaken { renamed: true });
    sim.pass(SECOND);
    assert_eq!(sim.outcome(), Some(Outcome::Forced));
}
