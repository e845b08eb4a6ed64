//! Pods that are terminating for longer than they should.

use std::time::Duration;

use super::Blocked;
use crate::progress::overdue;
use crate::state::{Attempt, Track};
use crate::time::Moment;
use crate::view::{Picture, PodView};

/// A pod that is still there this long after its time is over is called stuck. The kubelet needs some of it itself.
pub(crate) const STUCK_AFTER: Duration = Duration::from_secs(30);

/// The pod should have ended long ago.
pub(super) fn stuck(
    attempt: &Attempt,
    picture: &Picture,
    pod: &PodView,
    track: &Track,
    now: Moment,
) -> Option<Blocked> {
    let overdue = overdue(attempt, pod, track, now).filter(|overdue| *overdue > STUCK_AFTER)?;
    let late = format!("still terminating {} s after its time", overdue.as_secs());
    let is_ready = picture.node.as_ref().is_some_and(|node| node.ready);
    let (cause, hint) = if !pod.finalizers.is_empty() {
        let names = pod.finalizers.join(", ");
        (
            format!("{late}: held by finalizers {names}"),
            format!("look at who has to remove {names}; removing it by hand skips that one's work"),
        )
    } else if is_ready {
        (
            format!("{late}: the kubelet has not ended its containers"),
            "look at the kubelet and the container runtime of this node: a process that cannot be killed, a mount that \
             hangs"
                .to_owned(),
        )
    } else {
        (
            format!("{late}: the kubelet of this node does not answer"),
            "start the kubelet; if the node will never come back, setting unhealthy-node or `ebb drain --force-delete` \
             removes the pod without it"
                .to_owned(),
        )
    };
    Some(Blocked { pod: pod.id.clone(), cause, hint, since: track.since, ..Blocked::default() })
}
