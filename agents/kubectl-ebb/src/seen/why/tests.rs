use cluster::NodeFacts;
use cluster::node_commands::{NodeCommand, NodeCommands};
use cluster::node_conditions::{DrainConditions, DrainSaid, DrainState, DrainTrouble};
use drain::view::NodeCondition;
use serde_json::json;

use super::*;

/// A Ready node at half past five.
fn seen() -> Seen {
    let mut node = NodeFacts::default();
    (node.view.name, node.view.ready) = ("edge-a".to_owned(), true);
    Seen { node, now: "2026-11-29T17:30:00Z".parse().ok(), slot: Slot::Free(Table::default()) }
}

fn telling(state: DrainState, reason: &'static str, story: &DrainStory) -> Seen {
    let mut seen = seen();
    seen.node.drain = DrainConditions::telling(Some(&DrainSaid::new(state, reason, &story.text())));
    if let Some(shown) = &mut seen.node.drain.in_progress {
        shown.since = "2026-11-29T17:20:00Z".to_owned();
    }
    seen
}

fn commanded(mut seen: Seen, given: bool, state: &str) -> Seen {
    let answer = json!({"command": "reboot", "counter": 7, "state": state, "reason": "why", "since": "then"});
    let command = GivenCommand { command: NodeCommand::Reboot, counter: 7, text: Ok("a fan".to_owned()) };
    seen.node.commands = NodeCommands {
        given: given.then_some(command).into_iter().collect(),
        state: (!state.is_empty()).then(|| answer.to_string()),
    };
    seen
}

fn lines(seen: &Seen) -> Vec<String> {
    let mut page = Page::new(None, 100);
    present(seen, &mut page);
    show_slot(&seen.slot, &mut page);
    page.lines("")
}

#[test]
fn a_page_says_what_holds_a_drain_up_and_what_to_do() {
    let trouble = |what: &str, hint: &str| DrainTrouble { what: what.to_owned(), hint: hint.to_owned() };
    let mut seen = commanded(
        telling(
            DrainState::InProgress,
            "AdminRequested",
            &DrainStory {
                head: "Attempting: 3 of 9 pods; more".to_owned(),
                hint: "look at ebb status".to_owned(),
                end: Some((DrainEnd::Attempt, "2026-11-29T17:42:00Z".to_owned())),
                troubles: vec![
                    trouble("budget shop/db (1 pod: shop/db-0)", "scale it up"),
                    trouble("a volume", ""),
                ],
            },
        ),
        true,
        "Draining",
    );
    (seen.node.view.cordoned, seen.node.view.cordoned_by) = (true, Some("zedkube".to_owned()));
    (seen.node.cordon_reason, seen.node.view.ready) = ("reboot".to_owned(), false);
    seen.node.view.conditions = vec![NodeCondition {
        kind: "DiskPressure".to_owned(),
        since: "noon".to_owned(),
        message: "full".to_owned(),
    }];
    let holders: Vec<String> = (0..12).map(|number| format!("n{number}")).collect();
    seen.slot = Slot::Held(Table { name: "kube-system/ebb-slots-default".to_owned(), holders });
    assert_eq!(
        lines(&seen),
        [
            "edge-a is Draining for 10m (since 2026-11-29T17:20:00Z)",
            "It is NotReady: the device may be down, and what follows may be old",
            "  why:   Attempting: 3 of 9 pods; more",
            "  do:    look at ebb status",
            "  then:  this attempt ends at 2026-11-29T17:42:00Z (in 12m)",
            "BLOCKED: budget shop/db (1 pod: shop/db-0)",
            "  do:    scale it up",
            "BLOCKED: a volume",
            "  who:   cordoned by zedkube: reboot",
            "  check: DiskPressure since noon: full",
            "  asked: reboot \"a fan\": Draining: why (since then)",
            "  slot:  held; those of kube-system/ebb-slots-default are held by n0, n1, n2, n3, n4, n5, n6, n7,",
            "         n8, n9 and 2 more",
        ]
    );
}

#[test]
fn where_little_is_known_little_is_said() {
    let undrained = |at: &str| {
        let end = Some((DrainEnd::Undrained, at.to_owned()));
        let head = "Waiting: the API server is away".to_owned();
        telling(DrainState::Neither, "DrainPending", &DrainStory { head, end, ..DrainStory::default() })
    };
    let mut others = telling(DrainState::InProgress, "Theirs", &DrainStory::default());
    others.node.drain.in_progress.as_mut().unwrap().message = "kubectl drain".to_owned();
    let mut over = telling(DrainState::Neither, "Theirs", &DrainStory::default());
    (over.node.view.cordoned, over.node.drain.drained) = (true, None);
    over.node.drain.in_progress.as_mut().unwrap().message = "gave up".to_owned();
    let mut unknown = seen();
    unknown.slot = Slot::Unknown("no right".to_owned());
    let down = "GOING DOWN WITHOUT A DRAIN at";
    for (seen, first, last) in [
        (seen(), "edge-a is in service: nobody drains it", "edge-a is in service: nobody drains it"),
        (unknown, "edge-a is in service: nobody drains it", "  slot:  not known: no right"),
        (
            others,
            "edge-a is Draining for 10m (since 2026-11-29T17:20:00Z)",
            "  why:   kubectl drain (not by ebb)",
        ),
        (over, "edge-a is Cordoned", "  said:  DrainInProgress is False: gave up (not by ebb)"),
        (undrained("2026-11-29T17:29:00Z"), "", &format!("{down} 2026-11-29T17:29:00Z (that is over)")),
        (undrained("noon"), "", &format!("{down} noon")),
        (commanded(seen(), true, ""), "", "  asked: reboot \"a fan\": no answer from the device"),
        (commanded(seen(), false, "Acting"), "", "  asked: an earlier reboot: Acting: why (since then)"),
        (commanded(seen(), false, "Done"), "", "edge-a is in service: nobody drains it"),
    ] {
        let lines = lines(&seen);
        assert_eq!(lines.last().map(String::as_str), Some(last), "{lines:?}");
        assert!(lines[0].starts_with(first), "{lines:?}");
    }
}
