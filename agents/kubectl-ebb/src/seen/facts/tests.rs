use cluster::node_commands::{NodeCommand, NodeCommands};
use cluster::node_conditions::{DrainConditions, DrainSaid, DrainState};
use serde_json::json;

use super::*;
use crate::seen::slots::Table;

const NOW: &str = "2026-11-29T17:30:00Z";

/// A Ready node without conditions of a drain.
fn seen() -> Seen {
    let mut node = NodeFacts::default();
    (node.view.name, node.view.ready) = ("edge-a".to_owned(), true);
    Seen { node, now: NOW.parse().ok(), slot: Slot::Free(Table::default()) }
}

/// The same with what zedkube has said; both conditions have changed at these minutes past five.
fn told(state: DrainState, reason: &'static str, text: &str, minutes: [u32; 2]) -> Seen {
    let mut seen = seen();
    seen.node.drain = DrainConditions::telling(Some(&DrainSaid::new(state, reason, text)));
    let DrainConditions { in_progress, drained } = &mut seen.node.drain;
    for (shown, minute) in [in_progress, drained].into_iter().zip(minutes) {
        shown.as_mut().unwrap().since = format!("2026-11-29T17:{minute:02}:00Z");
    }
    seen
}

fn cordoned(by: Option<&str>, reason: &str) -> Seen {
    let mut seen = seen();
    (seen.node.view.cordoned, seen.node.view.cordoned_by) = (true, by.map(str::to_owned));
    seen.node.cordon_reason = reason.to_owned();
    seen
}

fn not_ready(mut seen: Seen, message: &str) -> Seen {
    seen.node.view.ready = false;
    seen.node.view.conditions = vec![NodeCondition {
        kind: "Ready".to_owned(),
        since: "2026-11-29T17:27:00Z".to_owned(),
        message: message.to_owned(),
    }];
    seen
}

/// Another program says this in one of the two conditions, or both.
fn of_others(in_progress: Option<&str>, drained: Option<&str>) -> Seen {
    let mut seen = seen();
    let shown = |status: &str| DrainCondition {
        status: status.to_owned(),
        reason: "Theirs".to_owned(),
        ..DrainCondition::default()
    };
    seen.node.drain = DrainConditions { in_progress: in_progress.map(shown), drained: drained.map(shown) };
    seen
}

#[test]
fn the_state_since_when_and_why() {
    use DrainState::{Drained, InProgress, Neither};
    let nameless = "by somebody who has left no name";
    let held = "Attempting: 1 of 9; BLOCKED: budget web (2 pods: a, b); do: wait";
    let silent = not_ready(told(InProgress, "AdminRequested", "Attempting: 1 of 9", [20, 0]), "silence");
    for (seen, state, age, why, rank) in [
        (seen(), "InService", "-", "-", 3),
        (told(InProgress, "AdminRequested", "Attempting: 1 of 9", [20, 5]), "Draining", "10m", "1 of 9", 1),
        (
            told(InProgress, "AdminRequested", held, [29, 5]),
            "Draining",
            "60s",
            "BLOCKED: budget web (2 pods: a, b)",
            0,
        ),
        (silent, "Draining", "10m", "NotReady; 1 of 9", 0),
        (told(Drained, "DrainCompleted", "Complete: all", [5, 20]), "Drained", "10m", "all", 2),
        (
            not_ready(told(Drained, "DrainCompleted", "Complete: all", [5, 20]), ""),
            "Drained",
            "10m",
            "NotReady; all",
            2,
        ),
        (
            told(
                Neither,
                PENDING,
                "Waiting: away; the node goes down WITHOUT a drain at 2026-11-29T17:42:00Z",
                [20, 20],
            ),
            "Pending",
            "10m",
            "WITHOUT A DRAIN at 2026-11-29T17:42:00Z (in 12m)",
            0,
        ),
        (told(Neither, PENDING, "Waiting: a slot", [20, 20]), "Pending", "10m", "a slot", 1),
        (
            told(Neither, NOT_DRAINED, "Complete: NOT DRAINED: forced", [25, 0]),
            "NotDrained",
            "5m",
            "NOT DRAINED: forced",
            0,
        ),
        (told(Neither, FAILED, "Failed: x", [25, 0]), "Failed", "5m", "x", 0),
        // It was drained until it came back.
        (told(Neither, RETURNING, "Returning: boot", [5, 26]), "Returning", "4m", "boot", 1),
        (told(Neither, "OfTomorrow", "Dreaming: x", [5, 26]), "InService", "-", "-", 3),
        (cordoned(Some("ebb:eve"), "disk"), "Cordoned", "-", "by ebb:eve: disk", 2),
        (cordoned(Some("zedkube"), ""), "Cordoned", "-", "by zedkube", 2),
        (cordoned(None, ""), "Cordoned", "-", nameless, 2),
        (not_ready(cordoned(None, ""), "Kubelet is silent"), "NotReady", "3m", "Kubelet is silent", 0),
        (not_ready(seen(), ""), "NotReady", "3m", "its kubelet has not said that it is Ready", 0),
        (of_others(Some("True"), None), "Draining", "-", "Theirs (not by ebb)", 1),
        (of_others(Some("False"), Some("True")), "Drained", "-", "Theirs (not by ebb)", 2),
        (of_others(Some("False"), None), "InService", "-", "-", 3),
    ] {
        let shown = (seen.state().name(), seen.age(), seen.why(), seen.rank());
        assert_eq!(shown, (state, age.to_owned(), why.to_owned(), rank), "{seen:?}");
    }
}

#[test]
fn the_command_that_stands_and_how_far_it_is() {
    let all = [NodeCommand::Reboot, NodeCommand::Shutdown];
    for (given, answered, next) in [
        (&all[..0], None, "-"),
        (&all[..1], None, "reboot: no answer"),
        (&all[..1], Some((NodeCommand::Reboot, "Draining")), "reboot: Draining"),
        (&all[..1], Some((NodeCommand::Reboot, "Failed")), "reboot: Failed"),
        (&all[..1], Some((NodeCommand::Reboot, "Done")), "-"),
        (&all, Some((NodeCommand::Reboot, "Done")), "shutdown: no answer"),
        (&all, Some((NodeCommand::Shutdown, "Waiting")), "shutdown: Waiting"),
        // Taken back: the device goes down all the same, or it is over.
        (&[], Some((NodeCommand::Reboot, "Acting")), "reboot: Acting"),
        (&[], Some((NodeCommand::Reboot, "Failed")), "-"),
    ] {
        let mut seen = seen();
        let of =
            |command: &NodeCommand| GivenCommand { command: *command, counter: 7, text: Ok(String::new()) };
        let answer = |(command, state): (NodeCommand, &str)| {
            json!({"command": command, "counter": 7, "state": state, "reason": "", "since": ""}).to_string()
        };
        seen.node.commands =
            NodeCommands { given: given.iter().map(of).collect(), state: answered.map(answer) };
        assert_eq!(seen.next(), next, "{given:?} {answered:?}");
    }
}

#[test]
fn an_age_as_kubectl_shows_it() {
    for (seconds, expected) in [
        (-5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (599, "9m59s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (28_799, "7h59m"),
        (28_800, "8h"),
        (172_799, "47h"),
        (172_800, "2d"),
        (691_199, "7d23h"),
        (691_200, "8d"),
        (63_071_999, "729d"),
        (63_072_000, "2y"),
        (252_287_999, "7y364d"),
        (252_288_000, "8y"),
    ] {
        assert_eq!(age(seconds), expected, "{seconds}");
    }
}
