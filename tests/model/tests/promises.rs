//! Checks that the promises hold in every short run, and that the search finds a run for each promise when a defect is
//! built in.

use std::time::Duration;

use model::catalog;
use model::rule::Rule;
use model::scenario::Order::{Activate, Command, CordonByHand, Retry, TakeBack};
use model::scenario::{Kind, Mutation, Scenario};
use model::search::{Found, search, walk};
use schemas::Operation::{Reboot, Shutdown};
use session::Policy;

/// No search of these tests has as many states.
const MOST: usize = 200_000;

#[track_caller]
fn keeps_all(found: &Found) {
    let broken: Vec<String> =
        found.broken.iter().map(|(name, trace)| format!("{name} is broken:\n{trace}")).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(found.worlds < MOST, "not all runs were searched");
}

fn named(name: &str, deviations: u8) -> Scenario {
    let scenario = catalog::all(deviations).into_iter().find(|scenario| scenario.name == name);
    assert!(scenario.is_some(), "no scenario {name}");
    scenario.unwrap_or_else(|| Scenario::new("none", &[]))
}

/// One test for each scenario, so that they run in parallel.
macro_rules! one_deviation {
    ($($test:ident: $name:literal,)*) => {$(
        #[test]
        fn $test() {
            keeps_all(&search(&named($name, 1), MOST));
        }
    )*};
}

one_deviation! {
    a_reboot_with_anything_going_wrong_once: "reboot",
    an_update_with_anything_going_wrong_once: "update",
    a_reboot_and_an_update_with_anything_going_wrong_once: "both",
    a_shutdown_with_anything_going_wrong_once: "shutdown",
    a_poweroff_with_anything_going_wrong_once: "poweroff",
    an_override_with_anything_going_wrong_once: "override",
    cordons_by_hand_with_anything_going_wrong_once: "by-hand",
    a_run_folder_that_is_kept_over_boots_with_anything_going_wrong_once: "kept-run",
    a_controller_that_repeats_itself_with_anything_going_wrong_once: "controller",
}

#[test]
fn a_pod_that_returns_and_any_other_order_of_steps() {
    let scenario = Scenario { has_hooks: true, ..Scenario::new("returns", &[Command(Reboot)]) };
    keeps_all(&search(&scenario.with(2, &[Kind::PodReturns, Kind::LongCrash]), MOST));
}

#[test]
fn two_crashes() {
    keeps_all(&search(
        &Scenario::new("crashes", &[Command(Reboot)]).with(2, &[Kind::Crash, Kind::PowerCut]),
        MOST,
    ));
}

#[test]
fn many_things_go_wrong() {
    for (seed, name) in [(1, "reboot"), (2, "both"), (3, "controller"), (4, "override")] {
        keeps_all(&walk(&named(name, 6), seed, 1_500));
    }
}

/// Checks that the search finds this defect by this promise.
#[track_caller]
fn breaks(mutation: Mutation, scenario: Scenario, rule: Rule) {
    let found = search(&scenario.broken(mutation), MOST);
    let names: Vec<&str> = found.broken.iter().map(|(name, _)| *name).collect();
    assert!(names.contains(&rule.name()), "{mutation:?} breaks {names:?} in {} worlds", found.worlds);
}

#[test]
fn an_answer_to_an_earlier_request_is_found() {
    let scenario = Scenario::new("again", &[Command(Reboot)]).with(2, &[Kind::MeansFail, Kind::LongCrash]);
    breaks(Mutation::AnswerToAnyRequest, scenario, Rule::NoRebootWithoutAnswer);
}

#[test]
fn an_absence_that_counts_on_is_found() {
    let scenario = Scenario::new("away", &[Command(Reboot)]).with(2, &[Kind::MeansFail, Kind::LongCrash]);
    breaks(Mutation::AbsenceGoesOn, scenario, Rule::NoRebootWithoutAnswer);
}

#[test]
fn a_nodeagent_that_does_not_look_again_is_found() {
    let scenario = Scenario { has_hooks: true, ..Scenario::new("blind", &[Command(Reboot)]) };
    let scenario = scenario.with(1, &[Kind::PodReturns]);
    breaks(Mutation::NodeAgentDoesNotLookAgain, scenario, Rule::NoRebootWithoutAnswer);
}

#[test]
fn pods_that_are_not_seen_are_found() {
    let scenario = Scenario { has_hooks: true, ..Scenario::new("unseen", &[Command(Reboot)]) };
    breaks(Mutation::NoSnapshots, scenario.with(1, &[Kind::PodReturns]), Rule::NoRebootWithPods);
}

#[test]
fn a_cordon_that_is_left_is_found() {
    let scenario = Scenario::new("left", &[Command(Reboot)]).with(1, &[]);
    breaks(Mutation::NoUncordon, scenario.orders(&[TakeBack(Reboot)]), Rule::NoCordonIsLeft);
}

#[test]
fn somebody_elses_cordon_that_is_lifted_is_found() {
    let scenario =
        Scenario::new("foreign", &[Command(Reboot)]).with(2, &[]).orders(&[CordonByHand, TakeBack(Reboot)]);
    breaks(Mutation::UncordonsAll, scenario, Rule::ForeignCordonStays);
}

#[test]
fn a_command_that_is_repeated_is_found() {
    let scenario = Scenario { republishes: true, ..Scenario::new("twice", &[Command(Reboot)]) };
    breaks(Mutation::PersistIsLost, scenario.with(1, &[Kind::Crash]), Rule::NothingTwice);
}

#[test]
fn a_zedkube_that_does_not_hear_is_found() {
    let scenario = Scenario::new("deaf", &[Command(Reboot)]).with(1, &[]).orders(&[TakeBack(Reboot)]);
    breaks(Mutation::DeafToWithdrawal, scenario, Rule::NoCordonIsLeft);
}

#[test]
fn a_zedkube_that_did_not_run_looks_before_it_gives_up() {
    let scenario = Scenario::new("suspended", &[Command(Reboot)]);
    keeps_all(&search(&scenario.with(2, &[Kind::PeerDown, Kind::Turn]), MOST));
}

#[test]
fn a_zedkube_that_starts_after_an_outage_looks_before_it_gives_up() {
    let scenario = Scenario::new("after", &[Command(Reboot)]);
    keeps_all(&search(&scenario.with(2, &[Kind::LongOutage, Kind::Crash]), MOST));
}

/// Another node has a slot, the API server stops answering together with it, and zedkube or the device dies meanwhile.
fn beside_a_holder() -> Scenario {
    let scenario = Scenario::new("holder", &[Command(Reboot)]);
    let policy = Policy { down_max: Duration::from_secs(20), ..scenario.policy.clone() };
    // The peer has its slot until 20 s after the command.
    let peer_holds_ms = 200_000;
    Scenario { policy, peer_holds_ms, ..scenario.with(2, &[Kind::LongOutage, Kind::Crash, Kind::PowerCut]) }
}

#[test]
fn a_holder_is_remembered_in_an_outage_whoever_dies() {
    keeps_all(&search(&beside_a_holder(), MOST));
}

#[test]
fn a_holder_that_is_forgotten_is_found() {
    breaks(Mutation::ForgetsHolders, beside_a_holder(), Rule::AnswersAreTrue);
}

/// The hooks end before the pod that came back is gone again.
fn dead() -> Scenario {
    let mut scenario = Scenario { has_hooks: true, ..Scenario::new("dead", &[Command(Reboot)]) };
    scenario.limits.short_ms = 100;
    scenario.with(2, &[Kind::PodReturns, Kind::LongCrash])
}

#[test]
fn a_requester_that_is_dead_when_its_answer_is_taken_back() {
    keeps_all(&search(&dead(), MOST));
}

#[test]
fn a_dead_requester_that_is_believed_is_found() {
    breaks(Mutation::NodeAgentBelievesTheDead, dead(), Rule::NoRebootForTheDead);
}

#[test]
fn an_answer_that_is_not_true_is_found() {
    breaks(Mutation::BlindToPods, Scenario::new("blind", &[Command(Reboot)]), Rule::AnswersAreTrue);
}

#[test]
fn a_request_without_an_answer_is_found() {
    let scenario = Scenario::new("deaf", &[Command(Reboot)]).with(1, &[Kind::Turn]);
    breaks(Mutation::DeafToRequests, scenario, Rule::EveryRequestIsAnswered);
}

#[test]
fn a_slot_that_is_left_is_found() {
    let scenario = Scenario::new("slot", &[Command(Reboot), TakeBack(Reboot)]);
    breaks(Mutation::NoGiveBack, scenario, Rule::NoSlotIsLeft);
}

#[test]
fn a_drain_without_a_slot_is_found() {
    let scenario = Scenario::new("no slot", &[Command(Reboot)]);
    breaks(Mutation::ImaginedSlots, scenario, Rule::EvictsOnlyWithCordonAndSlot);
}

#[test]
fn a_reboot_in_the_middle_of_an_activation_is_found() {
    let scenario = Scenario::new("middle", &[Activate]).with(1, &[]).orders(&[Command(Reboot)]);
    breaks(Mutation::BlindToActivation, scenario, Rule::NoRebootDuringActivation);
}

#[test]
fn an_activation_that_outlives_its_agent() {
    let orders = [Retry, Command(Reboot)];
    let scenario = Scenario::new("writer", &[Activate]).with(2, &[Kind::Crash]).orders(&orders);
    keeps_all(&search(&scenario, MOST));
    let found = search(&scenario.broken(Mutation::NoActivationLock), MOST);
    for rule in [Rule::OneWriter, Rule::NoRebootDuringActivation] {
        assert!(found.broken.iter().any(|(name, _)| *name == rule.name()), "{}", rule.name());
    }
}

#[test]
fn a_command_that_is_not_carried_out_is_found() {
    let scenario = Scenario { has_hooks: true, ..Scenario::new("endless", &[Command(Reboot)]) };
    breaks(Mutation::EndlessHooks, scenario, Rule::EveryCommandIsCarriedOut);
}

#[test]
fn a_shutdown_that_is_recalled_too_late_is_not_done_twice() {
    let scenario = Scenario::new("too late", &[Command(Shutdown)]).with(2, &[Kind::PodReturns, Kind::Turn]);
    keeps_all(&search(&scenario, MOST));
}
