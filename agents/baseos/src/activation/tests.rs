//! Rules of the specification, each named after the defect of EVE's that it avoids where there is one.

use schemas::{BaseOsHoldState, DeviceActionState, DrainStatus, Member};

use super::sim::{RETRY_MS, Sim, config};
use super::*;
use crate::facts::{Content, Running};

use DeviceActionState::{Acting, Idle, Taken};

/// Image `a`, answered by zedkube: its command runs.
fn activating() -> Sim {
    let mut sim = Sim::new();
    sim.want(config("a", 1));
    sim.answer(DrainStatus::Complete);
    assert!(sim.command.is_some());
    sim
}

/// Image `a` is activated, and the device may boot into it.
fn activated() -> Sim {
    let mut sim = activating();
    sim.end(Ok(()));
    sim
}

fn version(uuid: &str) -> Running {
    Running::Version(format!("version {uuid}"))
}

fn shown(sim: &Sim, uuid: &str) -> (bool, String, String) {
    let status = &sim.statuses[uuid];
    (status.activated, status.partition_state.clone(), status.error.clone())
}

fn plain(activated: bool, partition_state: &str) -> (bool, String, String) {
    (activated, partition_state.to_owned(), String::new())
}

fn activations(sim: &Sim) -> usize {
    sim.done.iter().filter(|done| done.starts_with("activate")).count()
}

#[test]
fn from_configuration_to_reboot() {
    let mut sim = Sim::new();
    sim.want(config("a", 1));
    assert_eq!(sim.done, ["record", "Deferred", "record", "request a"]);
    assert_eq!(shown(&sim, "a"), plain(false, ""));
    sim.done.clear();
    sim.answer(DrainStatus::Complete);
    assert_eq!(sim.done, ["Activating", "record", "activate a"]);
    sim.done.clear();
    sim.end(Ok(()));
    assert_eq!(sim.done, ["record", "Activated"]);
    assert_eq!(shown(&sim, "a"), plain(true, "updating"));
    assert!(sim.request.is_some(), "stands until the device is down");
    sim.boot("boot-2", Running::NotAsked);
    assert_eq!(shown(&sim, "a"), plain(true, "active"));
    assert_eq!(sim.hold.state, BaseOsHoldState::Idle);
    sim.want(config("a", 1));
    assert_eq!(shown(&sim, "a"), plain(true, "active"));
    assert_eq!(sim.request, None, "and it is not activated again");
}

#[test]
fn a_device_that_is_no_member_asks_nobody() {
    let mut sim = Sim::new();
    sim.member = Member::No;
    sim.want(config("a", 1));
    assert_eq!(sim.request, None);
    assert!(sim.command.is_some());
}

#[test]
fn only_a_loaded_image_that_is_wanted_asks() {
    let mut sim = Sim::new();
    for state in [SwState::INITIAL, SwState::DOWNLOADING, SwState::VERIFIED, SwState::LOADING] {
        sim.contents.insert("a".to_owned(), Content { state, error: String::new() });
        sim.want(config("a", 1));
        assert_eq!(sim.request, None, "{state:?}");
        assert_eq!(sim.statuses["a"].state, state);
    }
    sim.contents.remove("a");
    sim.run();
    assert_eq!(sim.request, None, "nobody knows of it");
    sim.contents.insert("a".to_owned(), Content::LOADED);
    sim.want(BaseOsConfig { activate: false, ..config("a", 1) });
    assert_eq!(sim.request, None);
    sim.want(config("a", 1));
    assert!(sim.request.is_some());
}

/// D5: in EVE a changed configuration, a retry and a forced fallback skip the gate.
#[test]
fn d5_every_way_to_an_activation_leads_through_the_gate() {
    for status in DrainStatus::ALL.into_iter().filter(|status| *status != DrainStatus::Complete) {
        let mut sim = Sim::new();
        sim.want(config("a", 1));
        sim.answer(status);
        for _ in 0..3 {
            sim.want(config("a", 2));
            sim.want(BaseOsConfig { activate: false, ..config("a", 2) });
            sim.want(config("a", 3));
            sim.want(config("b", 1));
            sim.restart();
            sim.sleep(RETRY_MS);
        }
        assert_eq!(activations(&sim), 0, "{status}");
    }
}

#[test]
fn a_verdict_that_falls_back_before_the_command_stops_it() {
    let mut sim = Sim::new();
    sim.want(config("a", 1));
    sim.answer = sim.request.as_ref().map(|(at, _)| (*at, DrainStatus::Complete));
    sim.turn();
    assert_eq!(sim.state.phase, Phase::Holding);
    sim.answer(DrainStatus::Unknown);
    assert_eq!((sim.hold.state, activations(&sim)), (BaseOsHoldState::Deferred, 0));
}

#[test]
fn a_verdict_that_falls_back_after_the_command_stops_the_reboot() {
    let mut sim = activated();
    sim.answer(DrainStatus::Unknown);
    assert_eq!(sim.hold.state, BaseOsHoldState::Deferred);
    sim.answer(DrainStatus::Complete);
    assert_eq!(sim.hold.state, BaseOsHoldState::Activated);
    sim.nodeagent(Acting);
    sim.answer(DrainStatus::Unknown);
    assert!(sim.request.is_some(), "too late to withdraw anything");
    assert_eq!(sim.hold.state, BaseOsHoldState::Deferred, "should nodeagent fail, it must not begin anew");
    assert_eq!(activations(&sim), 1, "the image is not activated twice");
}

#[test]
fn a_drain_that_fails_after_the_command_is_withdrawn_once_nodeagent_has_let_go() {
    let mut sim = activated();
    sim.nodeagent(Taken);
    sim.answer(DrainStatus::FailedDrain);
    assert_eq!(sim.hold.state, BaseOsHoldState::Deferred);
    assert!(sim.request.is_some(), "nodeagent still has it");
    sim.nodeagent(Idle);
    assert_eq!((sim.request, sim.hold.state), (None, BaseOsHoldState::Failed));
}

#[test]
fn nodeagent_that_was_there_first_goes_first() {
    for state in [Taken, Acting] {
        let mut sim = Sim::new();
        sim.want(config("a", 1));
        sim.answer = sim.request.as_ref().map(|(at, _)| (*at, DrainStatus::Complete));
        sim.turn();
        assert_eq!(sim.hold.state, BaseOsHoldState::Activating);
        sim.nodeagent_about(state, 7);
        sim.run();
        assert_eq!((sim.hold.state, activations(&sim)), (BaseOsHoldState::Deferred, 0));
        assert!(sim.hold.blocked_by.contains("nodeagent"));
        sim.nodeagent(Idle);
        assert_eq!(activations(&sim), 1);
    }
}

#[test]
fn an_unreadable_nodeagent_is_waited_for() {
    let mut sim = Sim::new();
    sim.nodeagent.action = None;
    sim.want(config("a", 1));
    sim.answer(DrainStatus::Complete);
    assert_eq!(activations(&sim), 0);
    sim.nodeagent(Idle);
    sim.answer(DrainStatus::Complete);
    assert_eq!(activations(&sim), 1);
}

/// D11, as device-op: a failed drain is not the end.
#[test]
fn d11_a_failed_drain_is_tried_again_later_or_for_a_new_counter() {
    let mut sim = Sim::new();
    sim.want(config("a", 1));
    sim.answer(DrainStatus::FailedDrain);
    assert_eq!((sim.request.clone(), sim.hold.state), (None, BaseOsHoldState::Failed));
    assert!(!sim.hold.next_try.is_zero());
    let mut later = sim.clone();
    later.sleep(RETRY_MS - 1);
    later.restart();
    assert_eq!(later.request, None);
    later.sleep(1);
    assert!(later.request.is_some());
    let mut never = sim.clone();
    never.policy.retry = Retry::Never;
    never.sleep(1000 * RETRY_MS);
    assert_eq!(never.request, None);
    sim.want(config("a", 2));
    assert!(sim.request.is_some());
}

/// D14: in EVE a reverted configuration leaves the node drained for ever.
#[test]
fn d14_a_reverted_configuration_withdraws_the_request() {
    let revert: [fn(&mut Sim); 2] =
        [|sim| sim.remove("a"), |sim| sim.want(BaseOsConfig { activate: false, ..config("a", 1) })];
    for revert in revert {
        for answer in [DrainStatus::Unknown, DrainStatus::FailedDrain] {
            let mut sim = Sim::new();
            sim.want(config("a", 1));
            sim.answer(answer);
            revert(&mut sim);
            assert_eq!((sim.request.clone(), sim.hold.state), (None, BaseOsHoldState::Idle));
            assert_eq!(sim.record, None);
        }
        let mut sim = activated();
        sim.nodeagent(Taken);
        revert(&mut sim);
        assert!(sim.request.is_some(), "nodeagent still has it");
        assert_eq!(sim.hold.state, BaseOsHoldState::Deferred);
        let mut too_late = sim.clone();
        sim.nodeagent(Idle);
        assert_eq!((sim.request.clone(), sim.record.clone()), (None, None));
        too_late.nodeagent(Acting);
        assert!(too_late.request.is_some());
        assert!(too_late.hold.blocked_by.contains("too late"), "{}", too_late.hold.blocked_by);
    }
}

#[test]
fn d14_an_image_reverted_while_its_command_runs_is_not_booted() {
    let mut sim = activating();
    sim.remove("a");
    assert!(sim.command.is_some(), "a command that runs is not interrupted");
    sim.end(Ok(()));
    assert_eq!((sim.request.clone(), sim.hold.state), (None, BaseOsHoldState::Idle));
    assert!(!sim.done.contains(&"Activated".to_owned()));
}

#[test]
fn an_absent_configuration_of_an_earlier_boot_is_not_reverted() {
    let mut sim = Sim::new();
    sim.want(config("a", 1));
    sim.boot("boot-2", Running::NotAsked);
    assert!(sim.request.is_some());
    sim.restart();
    assert!(sim.request.is_some());
    sim.want(BaseOsConfig { activate: false, ..config("a", 1) });
    assert_eq!(sim.request, None);
}

#[test]
fn an_unreadable_configuration_says_nothing() {
    let mut sim = Sim::new();
    sim.want(config("a", 1));
    sim.configs.insert("a".to_owned(), Configured::Unreadable);
    sim.restart();
    assert!(sim.request.is_some());
    assert!(sim.statuses.contains_key("a"));
}

#[test]
fn a_failed_activation_withdraws_the_request_and_says_why() {
    let mut sim = activating();
    sim.end(Err("exit status: 3: no space"));
    assert_eq!((sim.request.clone(), sim.hold.state), (None, BaseOsHoldState::Failed));
    for text in [&sim.statuses["a"].error, &sim.hold.blocked_by] {
        assert_eq!(text, "exit status: 3: no space");
    }
    assert_eq!(sim.statuses["a"].error_severity, 3);
    sim.restart();
    sim.sleep(100 * RETRY_MS);
    assert_eq!(sim.request, None, "not by itself");
    sim.boot("boot-2", Running::NotAsked);
    sim.want(config("a", 1));
    assert_eq!(sim.request, None, "not by a boot either");
    sim.want(config("a", 2));
    assert!(sim.request.is_some(), "a new RetryUpdateCounter");
}

#[test]
fn a_crash_while_the_command_runs() {
    let mut sim = activating();
    sim.restart();
    assert_eq!((sim.request.clone(), sim.hold.state), (None, BaseOsHoldState::Failed));
    assert!(sim.hold.blocked_by.starts_with("interrupted"), "{}", sim.hold.blocked_by);
    sim.want(config("a", 2));
    sim.answer(DrainStatus::Complete);
    assert_eq!(activations(&sim), 2);
}

#[test]
fn a_boot_while_the_command_runs() {
    for running in [Running::NotAsked, version("a")] {
        let mut sim = activating();
        sim.boot("boot-2", running);
        sim.want(config("a", 1));
        assert_eq!(shown(&sim, "a"), plain(true, "active"));
    }
    let mut sim = activating();
    for starts in 1..=3 {
        assert_eq!(activations(&sim), starts);
        sim.boot(&format!("boot {starts}"), version("old"));
        sim.want(config("a", 1));
        sim.answer(DrainStatus::Complete);
    }
    assert_eq!(activations(&sim), 3, "at most 3 starts");
    assert!(sim.hold.blocked_by.contains("started 3 times"), "{}", sim.hold.blocked_by);
}

#[test]
fn an_image_that_did_not_stay() {
    let mut sim = activated();
    sim.boot("boot-2", version("old"));
    assert_eq!(
        shown(&sim, "a"),
        (false, String::new(), "image did not stay: version old is running".to_owned())
    );
    sim.want(config("a", 1));
    assert_eq!(sim.request, None);
    sim.want(config("a", 2));
    assert!(sim.request.is_some());
}

#[test]
fn nothing_is_decided_while_the_running_version_is_not_known() {
    let mut sim = activated();
    sim.boot("boot-2", Running::Unknown("exit status: 1".to_owned()));
    sim.want(config("a", 1));
    sim.want(config("b", 1));
    assert_eq!((sim.request.clone(), activations(&sim)), (None, 1));
    sim.running = version("a");
    sim.run();
    assert_eq!(shown(&sim, "a"), plain(true, "active"));
    assert!(sim.request.is_some(), "b is next");
}

#[test]
fn an_image_that_runs_already_is_not_activated() {
    let mut sim = Sim::new();
    sim.running = version("a");
    sim.want(config("a", 1));
    assert_eq!(shown(&sim, "a"), plain(true, "active"));
    assert_eq!(sim.request, None);
}

#[test]
fn two_images_that_are_both_wanted_do_not_take_turns_for_ever() {
    let mut sim = activated();
    for boot in 2..6 {
        let boot_id = format!("boot {boot}");
        sim.boot(&boot_id, Running::NotAsked);
        sim.want(config("a", 1));
        sim.want(config("b", 1));
        sim.answer(DrainStatus::Complete);
        if sim.command.is_some() {
            sim.end(Ok(()));
        }
    }
    assert_eq!(activations(&sim), 2);
    assert_eq!(shown(&sim, "b"), plain(true, "active"));
    assert_eq!(shown(&sim, "a"), plain(false, ""));
}

#[test]
fn the_answer_to_one_image_releases_no_other() {
    let mut sim = Sim::new();
    sim.want(config("a", 1));
    sim.answer(DrainStatus::Complete);
    let first = sim.request.clone().unwrap();
    sim.remove("a");
    sim.want(config("b", 1));
    sim.end(Ok(()));
    let second = sim.request.clone().unwrap();
    assert_eq!(second.1, "b");
    assert_ne!(first.0, second.0);
    assert_eq!(activations(&sim), 1);
    sim.answer(DrainStatus::Complete);
    assert_eq!(activations(&sim), 2);
}

#[test]
fn a_dry_run_only_writes_down() {
    let mut sim = Sim::new();
    sim.policy.dry_run = true;
    sim.want(config("a", 1));
    sim.answer(DrainStatus::Complete);
    for _ in 0..3 {
        assert_eq!((sim.lines.len(), activations(&sim)), (1, 0));
        assert_eq!(sim.hold.state, BaseOsHoldState::Activated);
        assert_eq!(shown(&sim, "a"), plain(false, ""), "the status is left alone");
        assert!(sim.request.is_some());
        sim.restart();
    }
    let mut reverted = sim.clone();
    reverted.remove("a");
    assert_eq!((reverted.request, reverted.hold.state), (None, BaseOsHoldState::Idle));
    sim.boot("boot-2", Running::NotAsked);
    sim.answer(DrainStatus::Complete);
    assert_eq!(sim.lines.len(), 2, "once per boot");
    sim.policy.dry_run = false;
    sim.run();
    sim.answer(DrainStatus::Complete);
    assert_eq!(activations(&sim), 1, "and it stands for nothing once the setting is off");
}

#[test]
fn an_effect_that_fails_at_any_point_only_delays() {
    for fails_when_done in [false, true] {
        for effects_done in 0..16 {
            let mut sim = Sim::new();
            (sim.fails_after, sim.fails_when_done) = (Some(effects_done), fails_when_done);
            sim.want(config("a", 1));
            sim.answer(DrainStatus::Complete);
            sim.answer(DrainStatus::Complete);
            sim.end(Ok(()));
            assert_eq!(sim.hold.state, BaseOsHoldState::Activated, "after {effects_done}");
            assert_eq!(shown(&sim, "a"), plain(true, "updating"));
            assert_eq!(activations(&sim), 1);
        }
    }
}
