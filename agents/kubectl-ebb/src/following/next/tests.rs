use cluster::node_commands::NodeCommands;
use serde_json::json;

use super::*;

const REBOOT: NodeCommand = NodeCommand::Reboot;

/// Node `edge-a` with these commands and this answer.
fn node(given: &[(NodeCommand, u32)], state: Option<String>) -> NodeFacts {
    let given = given.iter().map(|&(command, counter)| GivenCommand {
        command,
        counter,
        text: Ok(format!("text {counter}")),
    });
    let mut node = NodeFacts::default();
    node.view.uid = "uid".to_owned();
    node.commands = NodeCommands { given: given.collect(), state };
    node
}

fn answer(counter: u32, state: &str) -> String {
    json!({"command": "reboot", "counter": counter, "state": state, "reason": "why", "since": "2026"})
        .to_string()
}

#[test]
fn what_a_node_means_for_a_command() {
    let followed = Followed { name: "edge-a".into(), uid: "uid".into(), goal: Goal::Done(REBOOT, 7) };
    let wait = |answer: &str| Next::Wait(Some(answer.to_owned()));
    let failed = |why: &str| Next::Failed(why.to_owned());
    let (ours, none): (&[_], &[_]) = (&[(REBOOT, 7)], &[]);
    let others = [(NodeCommand::Shutdown, 7), (REBOOT, 8)];
    for (given, state, expected) in [
        (ours, Some(answer(7, "Waiting")), wait("Waiting: why")),
        (ours, Some(answer(7, "Draining")), wait("Draining: why")),
        (ours, Some(answer(7, "Drained")), wait("Drained: why")),
        (ours, Some(answer(7, "Acting")), wait("Acting: why")),
        (ours, Some(answer(7, "Done")), Next::Done),
        (ours, Some(answer(7, "Recorded")), failed("Recorded: why")),
        (ours, Some(answer(7, "Failed")), failed("Failed: why")),
        (ours, Some(answer(8, "Failed")), Next::Wait(None)),
        (ours, Some("garbage".to_owned()), Next::Wait(None)),
        (ours, None, Next::Wait(None)),
        (none, Some(answer(7, "Done")), Next::Done),
        (
            none,
            Some(answer(7, "Acting")),
            failed("the command was taken back (the last answer: Acting: why)"),
        ),
        (none, None, failed("the command was taken back")),
        (&others, Some(answer(8, "Draining")), failed("another reboot was commanded in its place: text 8")),
    ] {
        assert_eq!(next(&followed, Some(&node(given, state.clone()))), expected, "{given:?} {state:?}");
    }
    let anew = Followed { uid: "other".into(), ..followed.clone() };
    let gone = failed("its Node was deleted, and the command with it");
    assert_eq!(next(&anew, Some(&node(ours, Some(answer(7, "Done"))))), gone);
    assert_eq!(next(&followed, None), gone);
}

#[test]
fn what_a_node_means_for_a_command_that_was_taken_back() {
    let followed = Followed { name: "edge-a".into(), uid: "uid".into(), goal: Goal::TakenBack };
    for (given, state, expected) in [
        (&[][..], None, Next::Done),
        (&[], Some(answer(7, "Draining")), Next::Wait(None)),
        (&[], Some("garbage".to_owned()), Next::Wait(None)),
        (
            &[],
            Some(answer(7, "Acting")),
            Next::Failed("too late: the device is going down for its reboot, since 2026".into()),
        ),
        (&[(REBOOT, 7)], Some(answer(7, "Acting")), Next::Done),
        (&[(REBOOT, 8)], Some(answer(7, "Draining")), Next::Wait(None)),
    ] {
        assert_eq!(next(&followed, Some(&node(given, state.clone()))), expected, "{given:?} {state:?}");
    }
}
