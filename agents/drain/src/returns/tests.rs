//! T26: a pod that its owner makes anew on this node for ever.

use super::*;
use crate::diagnosis::blocked;
use crate::testing::{Bench, evicted, pod, terminating, with};
use crate::view::{Controller, PodView};

fn of(owner: &str, uid: &str) -> PodView {
    let controller = Controller {
        kind: "StatefulSet".into(),
        name: "db".into(),
        uid: owner.into(),
        ..Controller::default()
    };
    PodView { controller: Some(controller), ..pod(uid) }
}

#[test]
fn t26_a_pod_that_returns_for_ever_is_evicted_slowly_and_named() {
    let mut bench = Bench::start();
    assert_eq!(evicted(&bench.picture(with(vec![of("set", "0")]))), ["0"]);
    for uid in ["1", "2"] {
        assert_eq!(evicted(&bench.picture(with(vec![of("set", uid)]))), [uid], "at once");
    }
    assert_eq!(evicted(&bench.picture(with(vec![of("set", "3")]))), [""; 0], "the third time");
    let told = blocked(bench.attempt(), bench.now).remove(0);
    assert!(
        told.cause.contains("ReturnsToNode: StatefulSet/db has made it anew on this node 3 times"),
        "{told:?}"
    );
    assert!(told.hint.contains("spec.nodeName"), "{told:?}");
    assert!(told.hint.contains("delete StatefulSet/db"), "{told:?}");
    assert_eq!(evicted(&bench.after(PAUSE.checked_sub(Duration::from_millis(1)).unwrap())), [""; 0]);
    assert_eq!(evicted(&bench.after(Duration::from_millis(1))), ["3"]);
}

#[test]
fn a_toleration_has_another_remedy_than_a_node_name() {
    let mut bench = Bench::start();
    bench.picture(with(vec![of("set", "0")]));
    bench.picture(with(vec![PodView { tolerates_cordon: true, ..of("set", "1") }]));
    let told = blocked(bench.attempt(), bench.now).remove(0);
    assert!(told.hint.contains("tolerates the cordon"), "{told:?}");
    assert_eq!(told.holder, "StatefulSet/db");
}

#[test]
fn a_replacement_beside_a_pod_that_is_still_going_counts_too() {
    let mut bench = Bench::start();
    bench.picture(with(vec![of("set", "0")]));
    let going = PodView { controller: of("set", "0").controller, ..terminating("0") };
    bench.picture(with(vec![going.clone()]));
    bench.picture(with(vec![going, of("set", "1")]));
    assert_eq!(bench.track("1").returns, 1);
}

#[test]
fn others_do_not_return() {
    let bare = |uid: &str| PodView { controller: None, ..pod(uid) };
    for (before, after) in
        [(of("set", "0"), of("other", "1")), (bare("0"), bare("1")), (of("set", "0"), bare("1"))]
    {
        let mut bench = Bench::start();
        bench.picture(with(vec![before.clone()]));
        bench.picture(with(vec![after.clone()]));
        assert_eq!(bench.track("1").returns, 0, "{before:?} {after:?}");
    }
    let mut bench = Bench::start();
    bench.picture(with(vec![of("set", "0"), of("set", "1")]));
    assert_eq!(bench.track("1").returns, 0, "both were there from the beginning");
    bench.picture(with(vec![of("set", "0"), of("set", "1"), of("set", "2")]));
    assert_eq!(bench.track("2").returns, 0, "nobody has left yet");
}
