//! A kubeconfig that is replaced by that of another cluster.

use super::*;
use crate::event::NodeList;
use crate::record::resume;
use crate::requests::Requests;
use crate::state::Remembered;
use crate::step::sim::{Fault, SECOND, Sim};
use crate::words;

const MINUTE: Duration = Duration::from_mins(1);

/// A list of another cluster, which has a Node of the same name.
fn list_of(cluster: Option<&str>, uid: &str) -> Event {
    let node = |name: &str, uid: &str| NodeView {
        name: name.into(),
        uid: uid.into(),
        ready: true,
        ..NodeView::default()
    };
    let nodes = vec![node("own", uid), node("peer", "peer")];
    let own = Ok(nodes[0].clone());
    Event::NodesListed {
        serial: u32::MAX,
        result: Ok(NodeList { nodes, own, cluster: cluster.map(str::to_owned) }),
    }
}

#[test]
fn only_the_cluster_in_which_a_drain_began_counts_for_it() {
    for (fault, phase) in [
        (Some(Fault::SlotsRefused), "Waiting"),
        (Some(Fault::CordonRefused), "Cordoning"),
        (Some(Fault::EvictionRefused), "Attempting"),
        (None, "Complete"),
    ] {
        let mut sim = Sim::new();
        sim.pass(MINUTE);
        sim.faults.extend(fault);
        sim.reboot();
        sim.pass(20 * SECOND);
        assert_eq!(sim.state.phase.name(), phase);
        for other in [Some("second"), None] {
            sim.send(list_of(other, "new"));
            assert_eq!(sim.state.own.as_ref().map(|own| own.uid.as_str()), Some("own"), "{phase} {other:?}");
            assert_eq!((sim.state.cluster.as_deref(), sim.state.phase.name()), (Some("first"), phase));
            let refused = &sim.state.nodes_error.refused;
            assert!(refused.contains(other.unwrap_or("may not get namespaces")), "{phase}: {refused}");
            let hint = words::hint(&sim.state, sim.now);
            let advice = if other.is_some() {
                "put the old kubeconfig back"
            } else {
                "the right that the reason names"
            };
            let is_said = hint.contains(advice) || (other.is_none() && phase != "Waiting");
            assert!(is_said, "{phase} {other:?}: {hint}");
        }
        let restarted = resume(sim.recorded.clone(), Member::Yes, "boot".into(), sim.now);
        assert_eq!(restarted.cluster.as_deref(), Some("first"), "{phase}, after a restart");
    }
}

#[test]
fn without_a_drain_zedkube_moves_on_and_remembers_what_it_left_in_the_old_cluster() {
    let mut sim = Sim::new();
    sim.reboot();
    sim.pass(MINUTE);
    let left = Remembered { node: "own".into(), node_uid: "own".into(), cluster: Some("first".into()) };
    // The request is withdrawn, and the kubeconfig is replaced before the old node is uncordoned.
    sim.set(Fault::LooksDenied, true);
    sim.state.requests = Requests::default();
    sim.state.phase = Phase::Idle;
    sim.send(list_of(Some("second"), "new"));
    let state = &sim.state;
    assert_eq!(state.own.as_ref().map(|own| own.uid.as_str()), Some("new"));
    assert_eq!(
        (state.has_cordon(), state.has_place(), state.cluster.as_deref()),
        (false, false, Some("second"))
    );
    assert_eq!(state.remembered, Some(left), "a list of another cluster does not say that the node is gone");
    let (said, hint) = (words::reason(state), words::hint(state, sim.now));
    assert!(
        said.starts_with("our cordon or slot may still be on node own of another cluster (whose namespace kube-system has UID first)"),
        "{said}"
    );
    assert!(
        hint.contains("with --kubeconfig of that cluster") && hint.contains("ebb slots forget"),
        "{hint}"
    );

    // Back in the old cluster everything is given back.
    sim.faults.clear();
    sim.pass(5 * MINUTE);
    assert_eq!((sim.own.cordoned, sim.slots.holders.len()), (false, 0));
    assert_eq!((sim.state.cluster.as_deref(), sim.state.remembered.as_ref()), (Some("first"), None));
}

/// A request that comes just after the kubeconfig was replaced is the new cluster's, also if the old one was asked last.
#[test]
fn a_drain_that_has_seen_no_cluster_yet_takes_the_one_that_answers() {
    let mut sim = Sim::new();
    sim.pass(MINUTE);
    sim.set(Fault::Unreachable, true);
    sim.reboot();
    sim.send(list_of(Some("second"), "new"));
    assert_eq!((sim.state.cluster.as_deref(), sim.state.phase.name()), (Some("second"), "Waiting"));
    assert_eq!(sim.state.own.as_ref().map(|own| own.uid.as_str()), Some("new"));
}
