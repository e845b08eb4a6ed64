use std::cell::RefCell;

use cluster::node_commands::{GivenCommand, NodeCommand, NodeCommands};
use serde_json::json;

use super::*;

/// `edge-a` with reboot 7, and this state of it.
fn seen(state: Option<&str>) -> NodeFacts {
    let answer =
        |state| json!({"command": "reboot", "counter": 7, "state": state, "reason": "", "since": ""});
    let mut node = NodeFacts::default();
    node.commands = NodeCommands {
        given: vec![GivenCommand { command: NodeCommand::Reboot, counter: 7, text: Ok(String::new()) }],
        state: state.map(|state| answer(state).to_string()),
    };
    node
}

/// Each of these is told once: a state, an API server that does not answer, a device that does not, the time that is over.
#[tokio::test(start_paused = true)]
async fn everything_is_told_once() {
    let away = || Err(ApiFailure::Unreachable { text: "refused".to_owned() });
    let warning =
        "Warning: the API server does not answer (refused); the command stands, and this goes on waiting";
    let silence = "no answer from node/edge-a yet: does ebb run on it, with commands.from-cluster = true?";
    let over =
        "error: unable to reboot node \"edge-a\": --timeout is over; the command stands; the last answer: ";
    let (over_waiting, over_silent) = (format!("{over}Waiting"), format!("{over}none"));
    let followed =
        Followed { name: "edge-a".into(), uid: String::new(), goal: Goal::Done(NodeCommand::Reboot, 7) };
    for (shown, seconds, is_reached, expected) in [
        (vec![Ok(seen(None)), away(), away()], 100, false, vec![warning, silence, &over_silent]),
        (vec![Ok(seen(None))], 29, false, vec![&over_silent]),
        (
            vec![Ok(seen(Some("Waiting"))), away(), Ok(seen(Some("Waiting")))],
            100,
            false,
            vec!["node/edge-a Waiting", warning, &over_waiting],
        ),
        (
            vec![Ok(seen(Some("Draining"))), Ok(seen(Some("Done")))],
            100,
            true,
            vec!["node/edge-a Draining", "node/edge-a rebooted"],
        ),
    ] {
        let printed = RefCell::new(Vec::new());
        let print = |line| match line {
            Print::Out(text) | Print::Err(text) => printed.borrow_mut().push(text),
        };
        let stream = stream::iter(shown).map(|facts| facts.map(Some)).chain(stream::pending());
        let limit = Duration::from_secs(seconds);
        assert_eq!(follow(&followed, stream, limit, &Cell::new(false), &print).await, is_reached);
        assert_eq!(*printed.borrow(), expected);
    }
}
