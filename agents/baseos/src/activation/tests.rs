//! The rules of the specification, each named after the EVE defect that it avoids, if there is one.

use runtime::agent_state::NOT_TAKEN_LIMIT_MS;
use runtime::settings::Retry;
use runtime::testing::{SimAgent, window};
use schemas::{
    ActedCommand, BaseOsHold, BaseOsHoldState, BaseOsStatus, CommandState, DeviceAction, DeviceActionState,
    DrainStatus, ImageLine, Member, Source, SwState,
};

use super::sim::{A, B, RETRY_MS, Sim, TIMEOUT_MS, config, short, version_of};
use super::*;
use crate::facts::{Content, Running};

use DeviceActionState::{Acting, Failed, Idle, Taken};

/// The drain for image `a` is COMPLETE, and its activate command runs.
fn activating() -> Sim {
    let mut sim = Sim::new();
    sim.want(config(A, 1));
    sim.answer(DrainStatus::Complete);
    assert!(sim.command.is_some());
    sim
}

/// Image `a` is activated, and nodeagent may reboot into it.
fn activated() -> Sim {
    let mut sim = activating();
    sim.end(Ok(()));
    sim
}

/// A device that does not name the running version.
fn untold() -> Running {
    Running::Untold { system: String::new() }
}

fn version(uuid: &str) -> Running {
    Running::Version(version_of(uuid))
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

/// D18: EVE waits for ever for a change that it has missed; here no drain is seen in progress.
#[test]
fn from_configuration_to_reboot() {
    let mut sim = Sim::new();
    sim.want(config(A, 1));
    assert_eq!(sim.done, ["Deferred", "record", "record", "request a"]);
    assert_eq!(shown(&sim, A), plain(false, ""));
    sim.done.clear();
    sim.answer(DrainStatus::Complete);
    assert_eq!(sim.done, ["Activating", "record", "activate a"]);
    sim.done.clear();
    sim.end(Ok(()));
    assert_eq!(sim.done, ["record", "Activated"]);
    assert_eq!(shown(&sim, A), plain(true, "updating"));
    assert!(sim.zedkube.request.is_some(), "stands until the device is down");
    sim.boot("boot-2", untold());
    assert_eq!(shown(&sim, A), plain(true, "active"));
    assert_eq!(sim.hold.state, BaseOsHoldState::Idle);
    sim.want(config(A, 1));
    assert_eq!(shown(&sim, A), plain(true, "active"));
    assert_eq!(sim.zedkube.request, None, "and it is not activated again");
}

/// The fields that EVE's agents read; all others, such as partitions, have the zero value.
#[test]
fn a_status_fills_its_own_fields_and_no_others() {
    let sim = activated();
    let expected = BaseOsStatus {
        base_os_version: version_of(A),
        activated: true,
        content_tree_uuid: A.to_owned(),
        partition_state: "updating".to_owned(),
        state: SwState::INSTALLED,
        ..BaseOsStatus::default()
    };
    assert_eq!(sim.statuses[A], expected);
}

#[test]
fn a_device_that_is_no_member_asks_nobody() {
    let mut sim = Sim::new();
    sim.zedkube.member = Member::No;
    sim.want(config(A, 1));
    assert_eq!(sim.zedkube.request, None);
    assert!(sim.command.is_some());
}

/// EVE's rule: the content is LOADED, and BaseOsStatus says LOADING, LOADED or INSTALLED. An image that waits for its
/// content is shown.
#[test]
fn only_a_loaded_image_that_is_wanted_asks() {
    let of = |state, error: &str| Some(Content { state, error: error.to_owned() });
    for (content, expected) in [
        (None, Some("volumemgr knows nothing of its content")),
        (of(SwState::INITIAL, ""), Some("its content is not loaded yet: INITIAL (100)")),
        (
            of(SwState::DOWNLOADING, "no space"),
            Some("its content is not loaded yet: DOWNLOADING (103): no space"),
        ),
        (of(SwState::VERIFIED, ""), Some("its content is not loaded yet: VERIFIED (106)")),
        (of(SwState::LOADING, ""), Some("its content is not loaded yet: LOADING (107)")),
        (of(SwState(250), ""), Some("its content is not loaded yet: state 250")),
        (of(SwState::LOADED, ""), None),
        (of(SwState::INSTALLED, ""), None),
    ] {
        let mut sim = Sim::new();
        sim.contents = content.clone().map(|content| (A.to_owned(), content)).into_iter().collect();
        sim.want(config(A, 1));
        assert_eq!(sim.zedkube.request.is_none(), expected.is_some(), "{content:?}");
        let hold = (sim.hold.state, sim.hold.content_tree_uuid.as_str());
        assert_eq!(hold, (BaseOsHoldState::Deferred, A), "{content:?}");
        assert!(expected.is_none_or(|words| sim.hold.blocked_by == words), "{}", sim.hold.blocked_by);
        assert!(content.is_none_or(|content| sim.statuses[A].state == content.state));
        sim.want(BaseOsConfig { activate: false, ..config(A, 1) });
        assert_eq!((sim.zedkube.request.clone(), sim.hold.state), (None, BaseOsHoldState::Idle));
        assert_eq!(activations(&sim), 0);
    }
}

/// D5: in EVE a changed configuration, a retry and a forced fallback skip the gate.
#[test]
fn every_way_to_an_activation_leads_through_the_gate() {
    for status in DrainStatus::ALL.into_iter().filter(|status| *status != DrainStatus::Complete) {
        let mut sim = Sim::new();
        sim.want(config(A, 1));
        sim.answer(status);
        for _ in 0..3 {
            sim.want(config(A, 2));
            sim.want(BaseOsConfig { activate: false, ..config(A, 2) });
            sim.want(config(A, 3));
            sim.want(config(B, 1));
            sim.restart();
            sim.sleep(RETRY_MS);
        }
        assert_eq!(activations(&sim), 0, "{status}");
    }
}

/// D21: each time that EVE reads an old status it publishes another request, and zedkube starts another drain.
#[test]
fn a_request_that_stands_is_not_made_again() {
    let mut sim = Sim::new();
    sim.want(config(A, 1));
    let request = sim.zedkube.request.clone();
    for status in DrainStatus::ALL.into_iter().filter(|status| status.is_in_progress()) {
        sim.answer(status);
        sim.want(config(A, 2 + u32::from(status.code())));
        sim.want(config(B, 1));
        sim.restart();
        sim.sleep(RETRY_MS);
    }
    assert_eq!((sim.zedkube.request, sim.zedkube.requests_made), (request, 1));
}

/// D9: EVE releases an image on one change of the status; a later status does not count.
#[test]
fn a_verdict_that_falls_back_before_the_command_stops_it() {
    let mut sim = Sim::new();
    sim.want(config(A, 1));
    sim.zedkube.answer = sim.zedkube.request.as_ref().map(|(at, _)| (*at, DrainStatus::Complete));
    sim.turn();
    assert_eq!(sim.state.phase, Phase::Holding);
    sim.answer(DrainStatus::Unknown);
    assert_eq!((sim.hold.state, activations(&sim)), (BaseOsHoldState::Deferred, 0));
}

/// D9.
#[test]
fn a_verdict_that_falls_back_after_the_command_stops_the_reboot() {
    let mut sim = activated();
    sim.answer(DrainStatus::Unknown);
    assert_eq!(sim.hold.state, BaseOsHoldState::Deferred);
    sim.answer(DrainStatus::Complete);
    assert_eq!(sim.hold.state, BaseOsHoldState::Activated);
    sim.nodeagent(Acting);
    sim.answer(DrainStatus::Unknown);
    assert!(sim.zedkube.request.is_some(), "too late to withdraw anything");
    assert_eq!(sim.hold.state, BaseOsHoldState::Deferred, "should nodeagent fail, it must not begin anew");
    assert_eq!(activations(&sim), 1, "the image is not activated twice");
}

#[test]
fn a_drain_that_fails_after_the_command_is_withdrawn_once_nodeagent_has_let_go() {
    let mut sim = activated();
    sim.nodeagent(Taken);
    sim.answer(DrainStatus::FailedDrain);
    assert_eq!(sim.hold.state, BaseOsHoldState::Deferred);
    assert!(sim.zedkube.request.is_some(), "nodeagent still has it");
    sim.nodeagent(Idle);
    assert_eq!((sim.zedkube.request, sim.hold.state), (None, BaseOsHoldState::Failed));
}

#[test]
fn nodeagent_that_was_there_first_goes_first() {
    for state in [Taken, Acting] {
        let mut sim = Sim::new();
        sim.want(config(A, 1));
        sim.zedkube.answer = sim.zedkube.request.as_ref().map(|(at, _)| (*at, DrainStatus::Complete));
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
    sim.want(config(A, 1));
    sim.answer(DrainStatus::Complete);
    assert_eq!(activations(&sim), 0);
    sim.nodeagent(Idle);
    sim.answer(DrainStatus::Complete);
    assert_eq!(activations(&sim), 1);
}

/// D11, as in device-op: after a failed drain there is another attempt.
#[test]
fn a_failed_drain_is_tried_again_later_or_for_a_new_counter() {
    let mut sim = Sim::new();
    sim.want(config(A, 1));
    sim.answer(DrainStatus::FailedDrain);
    assert_eq!((sim.zedkube.request.clone(), sim.hold.state), (None, BaseOsHoldState::Failed));
    assert!(!sim.hold.next_try.is_zero());
    let mut later = sim.clone();
    later.sleep(RETRY_MS - 1);
    later.restart();
    assert_eq!(later.zedkube.request, None);
    later.sleep(1);
    assert!(later.zedkube.request.is_some());
    let mut never = sim.clone();
    never.policy.retry = Retry::Never;
    never.sleep(1000 * RETRY_MS);
    assert_eq!(never.zedkube.request, None);
    sim.want(config(A, 2));
    assert!(sim.zedkube.request.is_some());
}

/// D11.
#[test]
fn an_operators_word_cuts_the_pause_after_a_failed_drain_short() {
    for retry in [Retry::After(std::time::Duration::from_millis(RETRY_MS)), Retry::Never] {
        let mut sim = Sim::new();
        sim.policy.retry = retry;
        sim.want(config(A, 1));
        sim.answer(DrainStatus::FailedDrain);
        assert_eq!(sim.zedkube.request, None);
        sim.zedkube.needs_no_pause = true;
        sim.run();
        assert!(sim.zedkube.request.is_some(), "{retry:?}");
        sim.answer(DrainStatus::Complete);
        // A failed activation needs a new counter even so.
        sim.end(Err("exit status: 3"));
        sim.run();
        assert_eq!((sim.zedkube.request.clone(), activations(&sim)), (None, 1));
    }
}

/// D14: in EVE a reverted configuration leaves the node drained for ever.
#[test]
fn a_reverted_configuration_withdraws_the_request() {
    let revert: [fn(&mut Sim); 2] =
        [|sim| sim.remove(A), |sim| sim.want(BaseOsConfig { activate: false, ..config(A, 1) })];
    for revert in revert {
        for answer in [DrainStatus::Unknown, DrainStatus::FailedDrain] {
            let mut sim = Sim::new();
            sim.want(config(A, 1));
            sim.answer(answer);
            revert(&mut sim);
            assert_eq!((sim.zedkube.request.clone(), sim.hold.state), (None, BaseOsHoldState::Idle));
            assert_eq!(sim.record.memory, None);
        }
        let mut sim = activated();
        sim.nodeagent(Taken);
        revert(&mut sim);
        assert!(sim.zedkube.request.is_some(), "nodeagent still has it");
        assert_eq!(sim.hold.state, BaseOsHoldState::Deferred);
        let mut too_late = sim.clone();
        sim.nodeagent(Idle);
        assert_eq!((sim.zedkube.request.clone(), sim.record.memory.clone()), (None, None));
        too_late.nodeagent(Acting);
        assert!(too_late.zedkube.request.is_some());
        assert!(too_late.hold.blocked_by.contains("too late"), "{}", too_late.hold.blocked_by);
    }
}

/// D14.
#[test]
fn an_image_reverted_while_its_command_runs_is_not_booted() {
    let mut sim = activating();
    sim.remove(A);
    assert!(sim.command.is_some(), "a command that runs is not interrupted");
    sim.end(Ok(()));
    assert_eq!((sim.zedkube.request.clone(), sim.hold.state), (None, BaseOsHoldState::Idle));
    assert!(!sim.done.contains(&"Activated".to_owned()));
}

/// D14: on a disk that accepts no writes, the parts of a revert that need no write are done.
#[test]
fn a_revert_that_cannot_be_recorded_still_takes_effect() {
    for begin in [activated, activated_on_a_disk_that_fails, waiting] {
        let mut sim = begin();
        sim.faults.takes_no_record = true;
        sim.nodeagent_about(Taken, 0);
        sim.configs.remove(A);
        sim.run_a_few_steps();
        assert_eq!(sim.hold.state, BaseOsHoldState::Deferred, "nodeagent must not go on");
        sim.nodeagent_about(Idle, 0);
        sim.run_a_few_steps();
        assert_eq!(sim.zedkube.request, None, "the node is given back");
        sim.reload();
        sim.run_a_few_steps();
        assert_eq!((sim.zedkube.request.clone(), sim.command), (None, None));
        assert!(!sim.statuses.values().any(|status| status.activated), "{:?}", sim.statuses);
        sim.faults.takes_no_record = false;
        sim.run();
        assert_eq!((sim.record.memory.clone(), sim.hold.state), (None, BaseOsHoldState::Idle));
    }
}

fn waiting() -> Sim {
    let mut sim = Sim::new();
    sim.want(config(A, 1));
    sim
}

/// Image `a` is activated, and a later change of the record could not be written.
fn activated_on_a_disk_that_fails() -> Sim {
    let mut sim = activated();
    sim.faults.takes_no_record = true;
    sim.configs.insert(A.to_owned(), Configured::Given(config(A, 2)));
    sim.run_a_few_steps();
    sim
}

/// D14.
#[test]
fn an_image_that_was_seen_again_after_a_boot_can_be_reverted_by_removing_it() {
    for is_seen_again in [false, true] {
        let mut sim = Sim::new();
        sim.want(config(A, 1));
        sim.boot("boot-2", version("old"));
        if is_seen_again {
            sim.want(config(A, 1));
            sim.restart();
        }
        sim.remove(A);
        assert_eq!(sim.zedkube.request.is_some(), !is_seen_again);
    }
}

/// D14.
#[test]
fn another_image_that_came_with_a_boot_takes_the_place_of_the_one_before() {
    for (other, is_replaced) in [("version b", true), ("version old", false)] {
        let mut sim = Sim::new();
        sim.want(config(A, 1));
        sim.boot("boot-2", version("old"));
        sim.want(BaseOsConfig { base_os_version: other.to_owned(), ..config(B, 1) });
        let asks_for = sim.record.memory.as_ref().and_then(|record| record.current_uuid());
        assert_eq!(asks_for, Some(if is_replaced { B } else { A }));
    }
}

#[test]
fn an_absent_configuration_of_an_earlier_boot_is_not_reverted() {
    let mut sim = Sim::new();
    sim.want(config(A, 1));
    sim.boot("boot-2", version("old"));
    assert!(sim.zedkube.request.is_some());
    sim.restart();
    assert!(sim.zedkube.request.is_some());
    sim.want(BaseOsConfig { activate: false, ..config(A, 1) });
    assert_eq!(sim.zedkube.request, None);
}

/// The controller wants the image that runs, and another source wants another one. After each boot their files come back
/// one after the other, some of them before baseos looks. The controller gets its image back, and that is all.
#[test]
fn two_sources_that_want_different_images_do_not_take_turns_for_ever() {
    for (order, early) in [([A, B], 0), ([A, B], 1), ([A, B], 2), ([B, A], 0), ([B, A], 1)] {
        let mut sim = Sim::new();
        sim.running = version(A);
        sim.want(config(A, 1));
        sim.want(config(B, 1));
        let mut booted = Vec::new();
        for boot in 2..8 {
            sim.answer(DrainStatus::Complete);
            if sim.command.is_some() {
                sim.end(Ok(()));
            }
            if sim.hold.state == BaseOsHoldState::Activated {
                let uuid = sim.hold.content_tree_uuid.clone();
                booted.push(short(&uuid).to_owned());
                sim.running = version(&uuid);
            }
            sim.power_cycle(&format!("boot-{boot}"));
            for (count, uuid) in order.into_iter().enumerate() {
                if count == early {
                    sim.run();
                }
                sim.configs.insert(uuid.to_owned(), Configured::Given(config(uuid, 1)));
            }
            sim.run();
        }
        assert!(booted.len() <= 3, "{booted:?} {order:?} {early}");
    }
}

/// What the cluster wants goes on over a boot, and its line is there before its file is. It ends if the cluster may not
/// command any more, or takes it back.
#[test]
fn an_image_of_the_cluster_is_kept_over_a_boot_for_as_long_as_it_counts() {
    for (obeys_cluster, takes_back, is_kept) in
        [(true, false, true), (false, false, false), (true, true, false)]
    {
        let mut sim = Sim::new();
        sim.sources.insert(A.to_owned(), Origin { source: Source::Cluster, ..Origin::default() });
        sim.want(config(A, 7));
        sim.sources.clear();
        sim.obeys_cluster = obeys_cluster;
        sim.boot("boot-2", version("old"));
        let lines: Vec<_> =
            sim.hold.images.iter().map(|line| (line.source, line.retry_update_counter)).collect();
        let expected = if obeys_cluster { vec![(Source::Cluster, 7)] } else { vec![] };
        assert_eq!(lines, expected, "{obeys_cluster}");
        if takes_back {
            sim.want(BaseOsConfig { activate: false, ..config(A, 7) });
            sim.remove(A);
        }
        assert_eq!((sim.zedkube.request.is_some(), sim.hold.images.len()), (is_kept, usize::from(is_kept)));
    }
}

/// Each source is told how far its image is: the controller wants `a`, and the cluster wants `b` and also `a`.
#[test]
fn each_source_is_told_how_far_its_image_is() {
    use CommandState::{Done, Failed, HandedOver, Waiting};
    let mut sim = Sim::new();
    let told = |sim: &Sim| {
        let line =
            |line: &ImageLine| (short(&line.content_tree_uuid).to_owned(), line.state, line.reason.clone());
        sim.hold.images.iter().map(line).collect::<Vec<_>>()
    };
    let line = |image: &str, state, reason: &str| (image.to_owned(), state, reason.to_owned());
    let behind = format!("image {A} comes first");
    let outranked = "source controller configures the same image, and comes first";
    sim.contents.remove(B);
    sim.outranked = vec![(Source::Cluster, config(A, 7))];
    sim.want(config(A, 1));
    sim.want(config(B, 1));
    let (blocked, content) = (sim.hold.blocked_by.clone(), "volumemgr knows nothing of its content");
    assert!(!blocked.is_empty());
    assert_eq!(
        told(&sim),
        [line("a", Waiting, &blocked), line("b", Waiting, content), line("a", Waiting, outranked)]
    );
    assert_eq!(sim.hold.images.iter().map(|line| line.retry_update_counter).collect::<Vec<_>>(), [1, 1, 7]);
    sim.contents.insert(B.to_owned(), Content::LOADED);
    sim.answer(DrainStatus::Complete);
    let release = sim.hold.release.clone();
    assert_eq!(told(&sim)[..2], [line("a", HandedOver, &release), line("b", Waiting, &behind)]);
    sim.end(Err("no space"));
    let failed = "no space; a new RetryUpdateCounter allows another try";
    assert_eq!(told(&sim)[0], line("a", Failed, failed));
    sim.remove(B);
    sim.want(config(A, 2));
    // A drain that failed says whether it is tried again.
    sim.answer(DrainStatus::FailedDrain);
    let BaseOsHold { blocked_by, next_try, .. } = sim.hold.clone();
    let again = "a new RetryUpdateCounter tries again at once";
    let failed = format!("{blocked_by}; tried again at {next_try}; {again}");
    assert_eq!(told(&sim)[0], line("a", Failed, &failed));
    sim.sleep(RETRY_MS);
    sim.answer(DrainStatus::Complete);
    sim.end(Ok(()));
    assert_eq!(told(&sim)[0], line("a", HandedOver, &sim.hold.release.clone()));
    sim.boot("boot-2", version(A));
    sim.want(config(A, 2));
    assert_eq!(told(&sim), [line("a", Done, ""), line("a", Done, "")]);
    // Another image replaces it, and it is not taken up again.
    sim.outranked.clear();
    sim.want(config(B, 1));
    sim.answer(DrainStatus::Complete);
    sim.end(Ok(()));
    sim.boot("boot-3", version(B));
    sim.want(config(A, 2));
    let replaced = "another image was activated after this one; a new RetryUpdateCounter activates it";
    assert_eq!(told(&sim), [line("a", Failed, replaced)]);
    sim.want(BaseOsConfig { activate: false, ..config(A, 2) });
    assert_eq!(told(&sim), []);
}

#[test]
fn an_unreadable_configuration_says_nothing() {
    let mut sim = Sim::new();
    sim.want(config(A, 1));
    sim.configs.insert(A.to_owned(), Configured::Unreadable);
    sim.restart();
    assert!(sim.zedkube.request.is_some());
    assert!(sim.statuses.contains_key(A));
}

#[test]
fn a_refused_configuration_counts_for_nothing_and_is_shown() {
    let why = "refused BaseOsConfig of controller: too long";
    let mut sim = Sim::new();
    sim.configs.insert(A.to_owned(), Configured::Refused(why.to_owned()));
    sim.refused.push(why.to_owned());
    sim.run();
    assert_eq!((sim.zedkube.request.clone(), shown(&sim, A)), (None, (false, String::new(), why.to_owned())));
    assert_eq!((sim.hold.state, sim.hold.blocked_by.as_str()), (BaseOsHoldState::Idle, why));
    assert_eq!((sim.statuses[A].error_severity, sim.statuses[A].content_tree_uuid.as_str()), (3, A));
    sim.want(config(B, 1));
    assert_eq!(sim.zedkube.request.as_ref().unwrap().1, B, "others are served");
    assert!(sim.hold.blocked_by.ends_with(&format!("; {why}")), "{}", sim.hold.blocked_by);
    // The accepted configuration stays in effect while its file is refused.
    sim.configs.insert(B.to_owned(), Configured::Refused(why.to_owned()));
    sim.restart();
    assert_eq!(sim.zedkube.request.as_ref().unwrap().1, B);
    sim.answer(DrainStatus::Complete);
    assert_eq!((activations(&sim), sim.hold.blocked_by.as_str()), (1, ""));
    // A good configuration replaces it.
    sim.end(Err("exit 1"));
    sim.want(config(A, 1));
    assert_eq!(sim.zedkube.request.as_ref().unwrap().1, A);
}

#[test]
fn a_failed_activation_withdraws_the_request_and_says_why() {
    let mut sim = activating();
    sim.end(Err("exit status: 3: no space"));
    assert_eq!((sim.zedkube.request.clone(), sim.hold.state), (None, BaseOsHoldState::Failed));
    for text in [&sim.statuses[A].error, &sim.hold.blocked_by] {
        assert_eq!(text, "exit status: 3: no space");
    }
    assert_eq!(sim.statuses[A].error_severity, 3);
    sim.restart();
    sim.sleep(100 * RETRY_MS);
    assert_eq!(sim.zedkube.request, None, "not by itself");
    sim.boot("boot-2", untold());
    sim.want(config(A, 1));
    assert_eq!(sim.zedkube.request, None, "not by a boot either");
    sim.want(config(A, 2));
    assert!(sim.zedkube.request.is_some(), "a new RetryUpdateCounter");
}

/// As a failed device operation (D11): nodeagent could not reboot into the image.
#[test]
fn a_reboot_that_fails_gives_the_node_back_and_is_tried_again_later() {
    let mut sim = activated();
    sim.zedkube.needs_no_pause = true;
    sim.nodeagent(Taken);
    sim.nodeagent(Acting);
    sim.done.clear();
    sim.nodeagent(Failed);
    assert_eq!(sim.done, ["record", "Failed", "withdraw", "record"], "recorded before it is let go");
    assert_eq!((sim.hold.state, sim.hold.blocked_by.as_str()), (BaseOsHoldState::Failed, "no means"));
    assert_eq!(shown(&sim, A), (true, "updating".to_owned(), "no means".to_owned()));
    sim.nodeagent(Idle);
    sim.sleep(RETRY_MS - 1);
    sim.restart();
    assert_eq!(sim.zedkube.request, None, "an operator's word about drains helps no reboot");
    sim.sleep(1);
    sim.answer(DrainStatus::Complete);
    assert_eq!((sim.hold.state, activations(&sim)), (BaseOsHoldState::Activated, 0), "only the reboot");
    assert_eq!(shown(&sim, A), plain(true, "updating"));
}

#[test]
fn a_reboot_of_device_op_that_fails_is_not_the_images() {
    let mut sim = activated();
    sim.nodeagent_about(Failed, 7);
    sim.run();
    assert_eq!(sim.hold.state, BaseOsHoldState::Activated);
}

#[test]
fn a_crash_while_the_command_runs() {
    let mut sim = activating();
    sim.restart();
    assert_eq!((sim.zedkube.request.clone(), sim.hold.state), (None, BaseOsHoldState::Failed));
    assert!(sim.hold.blocked_by.starts_with("interrupted"), "{}", sim.hold.blocked_by);
    sim.want(config(A, 2));
    sim.answer(DrainStatus::Complete);
    assert_eq!(activations(&sim), 2);
}

#[test]
fn a_boot_while_the_command_runs() {
    let mut sim = activating();
    sim.boot("boot-2", version(A));
    sim.want(config(A, 1));
    assert_eq!(shown(&sim, A), plain(true, "active"));
    // An image whose activation has no result may be half written: it is not the running one.
    let mut sim = activating();
    sim.boot("boot-2", untold());
    sim.want(config(A, 1));
    let (activated, _, error) = shown(&sim, A);
    assert!(!activated && error.starts_with("interrupted") && error.contains("set baseos.current"));
    assert_eq!((sim.zedkube.request.clone(), sim.hold.state), (None, BaseOsHoldState::Failed));
    let mut sim = activating();
    for starts in 1..=3 {
        assert_eq!(activations(&sim), starts);
        sim.boot(&format!("boot {starts}"), version("old"));
        sim.want(config(A, 1));
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
        shown(&sim, A),
        (false, String::new(), "image did not stay: version old is running".to_owned())
    );
    sim.want(config(A, 1));
    assert_eq!(sim.zedkube.request, None);
    sim.want(config(A, 2));
    assert!(sim.zedkube.request.is_some());
}

#[test]
fn nothing_is_decided_while_the_running_version_is_not_known() {
    let mut sim = activated();
    sim.boot("boot-2", Running::Unknown("exit status: 1".to_owned()));
    sim.want(config(A, 1));
    sim.want(config(B, 1));
    assert_eq!((sim.zedkube.request.clone(), activations(&sim)), (None, 1));
    sim.running = version(A);
    sim.run();
    assert_eq!(shown(&sim, A), plain(true, "active"));
    assert!(sim.zedkube.request.is_some(), "b is next");
}

#[test]
fn an_image_that_runs_already_is_not_activated() {
    let mut sim = Sim::new();
    sim.running = version(A);
    sim.want(config(A, 1));
    assert_eq!(shown(&sim, A), plain(true, "active"));
    assert_eq!(sim.zedkube.request, None);
}

#[test]
fn two_images_that_are_both_wanted_do_not_take_turns_for_ever() {
    let mut sim = activated();
    for boot in 2..6 {
        let boot_id = format!("boot {boot}");
        let newest = sim.record.memory.as_ref().and_then(|record| record.images.last());
        let running = newest.map_or_else(|| "old".to_owned(), |image| image.config.base_os_version.clone());
        sim.boot(&boot_id, Running::Version(running));
        sim.want(config(A, 1));
        sim.want(config(B, 1));
        sim.answer(DrainStatus::Complete);
        if sim.command.is_some() {
            sim.end(Ok(()));
        }
    }
    assert_eq!(activations(&sim), 2);
    assert_eq!(shown(&sim, B), plain(true, "active"));
    assert_eq!(shown(&sim, A), plain(false, ""));
}

/// D28: a COMPLETE for one request does not release another image.
#[test]
fn the_answer_to_one_image_releases_no_other() {
    let mut sim = Sim::new();
    sim.want(config(A, 1));
    sim.answer(DrainStatus::Complete);
    let first = sim.zedkube.request.clone().unwrap();
    sim.remove(A);
    sim.want(config(B, 1));
    sim.end(Ok(()));
    let second = sim.zedkube.request.clone().unwrap();
    assert_eq!(second.1, B);
    assert_ne!(first.0, second.0);
    assert_eq!(activations(&sim), 1);
    sim.answer(DrainStatus::Complete);
    assert_eq!(activations(&sim), 2);
}

#[test]
fn a_dry_run_only_writes_down() {
    let mut sim = Sim::new();
    sim.policy.dry_run = true;
    sim.want(config(A, 1));
    sim.answer(DrainStatus::Complete);
    for _ in 0..3 {
        assert_eq!((sim.lines.len(), activations(&sim)), (1, 0));
        assert_eq!(sim.hold.state, BaseOsHoldState::Activated);
        assert_eq!(shown(&sim, A), plain(false, ""), "the status is left alone");
        assert!(sim.zedkube.request.is_some());
        sim.restart();
    }
    let mut reverted = sim.clone();
    reverted.remove(A);
    assert_eq!((reverted.zedkube.request, reverted.hold.state), (None, BaseOsHoldState::Idle));
    sim.boot("boot-2", version("old"));
    sim.answer(DrainStatus::Complete);
    assert_eq!(sim.lines.len(), 2, "once per boot");
    sim.policy.dry_run = false;
    sim.run();
    sim.answer(DrainStatus::Complete);
    assert_eq!(activations(&sim), 1, "and it stands for nothing once the setting is off");
}

#[test]
fn trouble_keeps_nodeagent_only_while_the_command_runs() {
    use BaseOsHoldState::{Activated, Activating, Deferred, Failed, Idle};
    for (state, is_running, shown) in [
        (Idle, false, Some(Idle)),
        (Deferred, false, Some(Deferred)),
        (Failed, false, Some(Failed)),
        (Activating, false, Some(Deferred)),
        (Activating, true, Some(Activating)),
        (Activated, false, None),
    ] {
        let hold = BaseOsHold { state, release: "answered".to_owned(), ..BaseOsHold::default() };
        let troubled = crate::status::troubled(&hold, is_running, "disk full");
        assert_eq!(troubled.as_ref().map(|hold| hold.state), shown, "{state:?} {is_running}");
        assert!(troubled.is_none_or(|hold| hold.blocked_by == "disk full"));
    }
}

/// baseos is killed, and its activate command goes on writing.
#[test]
fn an_activation_lasts_as_long_as_its_command_lives() {
    let mut sim = activating();
    sim.outlives = true;
    sim.done.clear();
    for _ in 0..3 {
        sim.restart();
        sim.want(config(A, 2));
        sim.want(config(B, 1));
        sim.remove(B);
        assert_eq!((sim.hold.state, activations(&sim)), (BaseOsHoldState::Activating, 0));
        assert_eq!(sim.hold.content_tree_uuid, A);
        assert!(sim.zedkube.request.is_some(), "the node stays drained");
    }
    let mut reverted = sim.clone();
    reverted.remove(A);
    assert_eq!(reverted.hold.state, BaseOsHoldState::Activating);
    reverted.left_running = None;
    reverted.run();
    assert_eq!((reverted.hold.state, reverted.zedkube.request), (BaseOsHoldState::Idle, None));
    sim.want(config(A, 1));
    sim.left_running = None;
    sim.run();
    assert_eq!(sim.hold.state, BaseOsHoldState::Failed);
    assert!(sim.hold.blocked_by.starts_with("interrupted"), "{}", sim.hold.blocked_by);
    sim.want(config(A, 2));
    sim.answer(DrainStatus::Complete);
    assert_eq!(activations(&sim), 1, "one after the other");
}

/// Every wait has a time limit, also the wait for a command of an earlier process.
#[test]
fn a_command_that_was_left_running_has_its_time_and_no_more() {
    let mut sim = activating();
    sim.outlives = true;
    sim.restart();
    sim.sleep(TIMEOUT_MS - 1);
    assert!(sim.left_running.is_some() && !sim.done.contains(&"end".to_owned()));
    sim.sleep(1);
    assert!(sim.done.contains(&"end".to_owned()));
    assert_eq!(sim.hold.state, BaseOsHoldState::Failed);
}

/// A process that waits for a broken disk does not end when it is killed: it is killed again once a minute, and the
/// hold says so.
#[test]
fn what_does_not_end_when_it_is_killed_is_waited_for_with_a_word() {
    let mut sim = activating();
    (sim.outlives, sim.survives) = (true, true);
    sim.restart();
    sim.sleep(TIMEOUT_MS);
    let kills = |sim: &Sim| sim.done.iter().filter(|done| *done == "end").count();
    assert_eq!(kills(&sim), 1);
    assert!(sim.hold.blocked_by.contains("do not end"), "{}", sim.hold.blocked_by);
    sim.sleep(KILL_AGAIN_MS - 1);
    assert_eq!(kills(&sim), 1);
    sim.sleep(1);
    assert_eq!((kills(&sim), sim.hold.state), (2, BaseOsHoldState::Activating));
    sim.left_running = None;
    sim.run();
    assert_eq!(sim.hold.state, BaseOsHoldState::Failed);
}

/// Processes of a failed command still write: no second command begins beside them.
#[test]
fn what_a_failed_activation_left_running_is_waited_for() {
    let mut sim = activating();
    sim.left_running = Some(sim.now.boot_ms + TIMEOUT_MS);
    sim.end(Err("exit status: 1"));
    assert_eq!(sim.hold.state, BaseOsHoldState::Failed);
    sim.want(config(A, 2));
    sim.answer(DrainStatus::Complete);
    assert_eq!(
        (sim.hold.blocked_by.as_str(), activations(&sim)),
        ("an earlier activation is still running", 1)
    );
    sim.left_running = None;
    sim.run();
    sim.answer(DrainStatus::Complete);
    assert_eq!(activations(&sim), 2);
}

#[test]
fn without_a_command_an_image_fails_until_there_is_one() {
    let mut sim = Sim::new();
    sim.policy.can_activate = false;
    sim.want(config(A, 1));
    let words = "cannot activate: setting baseos.activate is not set";
    assert_eq!((sim.hold.state, sim.hold.blocked_by.as_str()), (BaseOsHoldState::Failed, words));
    assert_eq!(shown(&sim, A), (false, String::new(), words.to_owned()));
    assert_eq!((sim.zedkube.request.clone(), sim.record.memory.clone()), (None, None));
    sim.policy.can_activate = true;
    sim.run();
    assert!(sim.zedkube.request.is_some());
}

#[test]
fn nothing_begins_during_a_freeze_and_the_node_is_given_back() {
    for begin in [waiting, activated] {
        let mut sim = begin();
        sim.frozen = Some("frozen by root: audit".to_owned());
        sim.run();
        assert_eq!(
            (sim.hold.state, sim.hold.blocked_by.as_str()),
            (BaseOsHoldState::Deferred, "frozen by root: audit")
        );
        assert_eq!(sim.zedkube.request, None);
        sim.frozen = None;
        sim.run();
        sim.answer(DrainStatus::Complete);
        assert!(matches!(sim.hold.state, BaseOsHoldState::Activating | BaseOsHoldState::Activated));
    }
    let mut running = activating();
    running.frozen = Some("frozen".to_owned());
    running.run();
    assert!(running.command.is_some(), "what runs goes on");
}

/// A device on which the cluster wants image `a`, with a window.
fn of_cluster(is_open: bool) -> Sim {
    let mut sim = Sim::new();
    sim.window = Some(window(is_open));
    sim.sources.insert(A.to_owned(), Origin { source: Source::Cluster, ..Origin::default() });
    sim.want(config(A, 1));
    sim
}

#[test]
fn no_drain_begins_outside_the_window_and_what_has_begun_goes_on() {
    let mut sim = of_cluster(false);
    let held = (BaseOsHoldState::Deferred, "outside the window");
    assert_eq!(
        (sim.hold.state, sim.hold.blocked_by.as_str(), sim.zedkube.request.is_some()),
        (held.0, held.1, false)
    );
    let facts = sim.look();
    let (_, effects) = BaseOs::step(sim.state.clone(), &facts, sim.now, &sim.policy);
    assert_eq!(effects, [Effect::WakeAt(sim.now.boot_ms + 60_000)], "it may wait for a week");
    sim.window = Some(window(true));
    sim.run();
    assert!(sim.zedkube.request.is_some());

    // It closes in mid-drain, also over a restart; the activation and the reboot follow.
    sim.window = Some(window(false));
    sim.answer(DrainStatus::Cordoned);
    sim.restart();
    assert!(sim.zedkube.request.is_some());
    sim.answer(DrainStatus::Complete);
    assert!(sim.command.is_some());
    sim.end(Ok(()));
    assert_eq!(sim.hold.state, BaseOsHoldState::Activated);

    // The reboot fails: the next try needs a drain, and the window is closed.
    sim.nodeagent(Taken);
    sim.nodeagent(Acting);
    sim.nodeagent(Failed);
    sim.nodeagent(Idle);
    sim.sleep(RETRY_MS);
    assert_eq!((sim.hold.blocked_by.as_str(), sim.zedkube.request.is_some()), (held.1, false));
}

#[test]
fn outside_the_window_a_pause_of_the_drain_or_a_lost_request_ends_it() {
    for is_lost in [false, true] {
        let mut sim = of_cluster(true);
        sim.window = Some(window(false));
        if is_lost {
            sim.zedkube.request = None;
            sim.run();
        } else {
            sim.is_pausing = true;
            sim.answer(DrainStatus::DrainRetrying);
        }
        assert_eq!(
            (sim.zedkube.request.is_some(), sim.hold.blocked_by.as_str()),
            (false, "outside the window")
        );
        sim.is_pausing = false;
        sim.window = Some(window(true));
        sim.run();
        assert!(sim.zedkube.request.is_some());
    }
}

/// A device that cannot reboot must not empty its node again and again.
#[test]
fn no_drain_for_a_reboot_that_will_not_be() {
    let mut sim = Sim::new();
    sim.nodeagent.action = Some(DeviceAction { means: Some(Vec::new()), ..DeviceAction::default() });
    sim.want(config(A, 1));
    assert_eq!((sim.zedkube.request.clone(), sim.hold.state), (None, BaseOsHoldState::Deferred));
    assert!(sim.hold.blocked_by.contains("set device.command"), "{}", sim.hold.blocked_by);
    sim.nodeagent.action = Some(DeviceAction { means: None, ..DeviceAction::default() });
    sim.run();
    assert!(sim.zedkube.request.is_some(), "not known is not none");
    sim.nodeagent.action = Some(DeviceAction { means: Some(Vec::new()), ..DeviceAction::default() });
    sim.run();
    assert_eq!(sim.zedkube.request, None, "the node is not kept empty for what will not be");

    let mut sim = activated();
    sim.nodeagent(Taken);
    sim.nodeagent(Acting);
    sim.nodeagent(Failed);
    sim.nodeagent(Idle);
    let acted = ActedCommand { content_tree_uuid: A.to_owned(), ..ActedCommand::default() };
    let tried = |tries| DeviceAction { acted: Some(acted.clone()), tries, ..DeviceAction::default() };
    sim.nodeagent.action = Some(tried(3));
    sim.sleep(RETRY_MS);
    assert_eq!(sim.zedkube.request, None);
    assert!(sim.hold.blocked_by.contains("3 times in this boot"), "{}", sim.hold.blocked_by);
    sim.nodeagent.action = Some(tried(2));
    sim.run();
    assert!(sim.zedkube.request.is_some());
}

/// An activated image without a nodeagent keeps the node cordoned and its slot taken: that ends after a while, is said,
/// and is tried again less and less often.
#[test]
fn an_image_that_nobody_reboots_into_gives_the_node_back() {
    let mut sim = activated();
    sim.nodeagent.is_running = false;
    sim.run();
    for pause in [RETRY_MS, 2 * RETRY_MS] {
        sim.sleep(NOT_TAKEN_LIMIT_MS - 1);
        assert_eq!(sim.hold.state, BaseOsHoldState::Activated);
        sim.sleep(1);
        assert_eq!((sim.hold.state, sim.zedkube.request.clone()), (BaseOsHoldState::Failed, None));
        assert!(sim.hold.blocked_by.contains("start it with `ebb nodeagent`"), "{}", sim.hold.blocked_by);
        sim.sleep(pause - 1);
        assert_eq!(sim.zedkube.request, None);
        sim.sleep(1);
        assert!(sim.zedkube.request.is_some());
        sim.answer(DrainStatus::Complete);
    }
    sim.nodeagent.is_running = true;
    sim.nodeagent(Taken);
    sim.sleep(10 * NOT_TAKEN_LIMIT_MS);
    assert_eq!(sim.hold.state, BaseOsHoldState::Activated, "hooks and inhibitors take their time");
}
