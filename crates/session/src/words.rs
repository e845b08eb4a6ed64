//! The texts for people: why the device is where it is, and what a person can do.

use drain::progress::{self, Progress};
use drain::state::Attempt;
use drain::time::Moment;

use schemas::{HeldBy, Member, OtherHolders, Outcome};

use crate::health::Purpose;
use crate::held::{held_by, missing};
use crate::phase::{Cordoning, Failed, Phase, Stage, Waiting};
use crate::policy::Policy;
use crate::requests::Answer;
use crate::state::State;

/// One plain sentence that says why the device is where it is.
pub fn reason(state: &State) -> String {
    match &state.phase {
        Phase::Idle => idle(state),
        Phase::Waiting(waiting) => waiting_for(state, waiting),
        Phase::Cordoning(cordoning) => cordoning_text(state, cordoning),
        Phase::Attempting { attempt, .. } => attempting(state, *attempt),
        Phase::Pausing { failed, .. } => {
            let why = state.session.attempts.last().map(|record| record.error.as_str()).unwrap_or_default();
            format!("attempt {failed} failed because {why}; the next one follows after a pause")
        }
        Phase::Complete { outcome, recheck } => {
            let is_to_confirm = *outcome == Outcome::Drained && state.is_unseen;
            if recheck.is_some() || (is_to_confirm && !state.facts.nodeagent.is_acting()) {
                return "the node was drained; a fresh list has to confirm that this is still true"
                    .to_owned();
            }
            complete(state, *outcome)
        }
        Phase::Failed(Failed::Cordon(text) | Failed::Drain(text)) => text.clone(),
    }
}

/// One sentence that says what a person can do next; empty if nothing is needed.
pub fn hint(state: &State, now: Moment) -> String {
    let text = match &state.phase {
        _ if state.nodes_error.is_elsewhere => {
            "put the old kubeconfig back, or take the request back (ebb cancel) and ask again"
        }
        Phase::Cordoning(_) | Phase::Attempting { .. } | Phase::Pausing { .. }
            if state.api.away_since.is_some() =>
        {
            LOOK_AT_API
        }
        Phase::Waiting(waiting) => waiting_hint(state, waiting),
        Phase::Cordoning(cordoning) if cordoning.failures > 0 => {
            "see the reason; zedkube tries again by itself"
        }
        Phase::Attempting { .. } | Phase::Pausing { .. } if held_by(state, now) == Some(HeldBy::Rights) => {
            GIVE_RIGHTS
        }
        Phase::Attempting { .. } if held_by(state, now) == Some(HeldBy::Volumes) => {
            "kubectl get volumeattachments: find out why the volume's driver does not detach it from this node"
        }
        Phase::Failed(_) if state.is_set_aside => {
            "fix the cause, then ask again with `ebb request --keep`; the node stays cordoned until `ebb cancel`"
        }
        Phase::Failed(_) => "fix the cause, then ask again: a new request or command begins a new drain",
        Phase::Idle => return idle_hint(state),
        Phase::Cordoning(_) | Phase::Attempting { .. } | Phase::Pausing { .. } | Phase::Complete { .. } => "",
    };
    text.to_owned()
}

const LOOK_AT_API: &str = "look at the API server (k3s) of this node and at the kubeconfig";

const GIVE_RIGHTS: &str = "give zedkube's user the right that the reason names";

fn waiting_hint(state: &State, waiting: &Waiting) -> &'static str {
    if state.api.away_since.is_some() {
        return match waiting.undrained_at {
            Some(_) => LOOK_AT_API,
            None => {
                "look at the API server (k3s) of this node and at the kubeconfig; to go down WITHOUT a drain: ebb force \
                 complete"
            }
        };
    }
    if !waiting.denied.is_empty() {
        return if waiting.denials > 0 { GIVE_RIGHTS } else { LOOK_AT_API };
    }
    match waiting.stage {
        Stage::Api if waiting.unknown.is_some() => {
            "wait until this node has joined the cluster; if it has, set node.name (kubectl get nodes)"
        }
        Stage::Api => LOOK_AT_API,
        Stage::Health | Stage::HealthHeld | Stage::Releasing => {
            "fix what the health command reports, or change health.command"
        }
        Stage::Slot if !state.slots.error.is_empty() => {
            "fix what the reason names (rights, the ConfigMap), or set slots.limit = 0"
        }
        Stage::Slot => "wait for the other nodes; if one of them will not come back: ebb slots release NODE",
        Stage::Peers if waiting.no_peer_since.is_some() && waiting.undrained_at.is_none() => {
            "uncordon or repair another node; to go down WITHOUT a drain: ebb force complete"
        }
        Stage::Peers => "uncordon or repair another node, or set no-peer",
    }
}

/// The precondition of the cordon that the drain waits for, in words.
pub(crate) fn waiting_for(state: &State, waiting: &Waiting) -> String {
    if state.api.away_since.is_some() {
        let undrained = undrained(waiting, "api-unreachable");
        let error = &state.api.error;
        let longer = waiting.undrained_at.map(|_| longer(state, waiting.is_patient, waiting.turns_before));
        let longer = longer.unwrap_or_default();
        return format!("the Kubernetes API server cannot be reached: {error}{longer}{undrained}");
    }
    if let Some((_, why)) = &waiting.unknown {
        return format!("{why}; it may be joining the cluster just now, and gets 5 minutes for that");
    }
    if !waiting.denied.is_empty() {
        return format!("the nodes of the cluster could not be read: {}", waiting.denied);
    }
    match waiting.stage {
        Stage::Api => "waiting for the Kubernetes API server's first answer".to_owned(),
        Stage::Health => health(state, Purpose::Before),
        Stage::HealthHeld | Stage::Releasing => health(state, Purpose::Held),
        Stage::Slot => slot(state),
        Stage::Peers => {
            let undrained = undrained(waiting, "no-peer");
            match waiting.no_peer_since {
                Some(_) => format!(
                    "no other node is Ready and schedulable, so the pods have nowhere to go{undrained}"
                ),
                None => "looking for another node that can take the pods".to_owned(),
            }
        }
    }
}

/// Why the wait in an outage is longer than setting `api.unreachable-timeout`.
fn longer(state: &State, is_patient: bool, turns_before: u32) -> String {
    let holders = match state.slots.others {
        _ if !is_patient => "",
        OtherHolders::Hold => {
            "; when it last answered, another node had a slot or was down, and that node gets slots.down-max to \
             return"
        }
        OtherHolders::Unknown => {
            "; it is not known whether another node has a slot; such a node gets slots.down-max to return"
        }
        OtherHolders::Nobody => "",
    };
    let turns = match turns_before {
        0 => String::new(),
        turns => format!(
            "; in an outage nodes go down one after another, by name: those before this one get {turns} times \
             slots.down-max"
        ),
    };
    format!("{holders}{turns}")
}

/// What a request for a drain meets now, as the end of "the device goes down ..."; empty if the node can be drained for
/// it, as far as is known, and in the phases in which the reason says more.
pub fn outlook(state: &State, policy: &Policy, now: Moment) -> String {
    let since = match &state.phase {
        Phase::Idle | Phase::Failed(_) => now,
        Phase::Waiting(waiting) => waiting.since,
        Phase::Cordoning(_) | Phase::Attempting { .. } | Phase::Pausing { .. } | Phase::Complete { .. } => {
            return String::new();
        }
    };
    if state.member_now() == Member::No || state.orders.disabled.is_some() {
        return String::new();
    }
    let (why, mended, at) = if state.api.away_since.is_some() {
        let longer = longer(state, state.others_get_time(policy), state.turns_before(policy));
        let at = state.unreachable_at(since, policy);
        let longer = at.map(|_| longer).unwrap_or_default();
        let why = format!("the Kubernetes API server cannot be reached: {}{longer}", state.api.error);
        (why, "the Kubernetes API server answers", at)
    } else if let Some(own) = state.own.as_ref().filter(|_| !state.nodes.is_empty() && !state.has_peer()) {
        let at = state.no_peer_until(own, since, policy);
        let why = "no other node is Ready and schedulable, so the pods have nowhere to go".to_owned();
        (
            why,
            "another node can take the pods",
            Some(at).filter(|_| state.completes(policy.on_no_peer, policy)),
        )
    } else {
        return String::new();
    };
    match at.map(|at| at.since(since).as_secs()) {
        Some(seconds) if seconds.is_multiple_of(60) => {
            format!("WITHOUT a drain after {} min, because {why}", seconds / 60)
        }
        Some(seconds) => format!("WITHOUT a drain after {seconds} s, because {why}"),
        None => format!(
            "once {mended} and the node is drained; now {why}; to go down WITHOUT a drain: ebb force complete"
        ),
    }
}

fn health(state: &State, purpose: Purpose) -> String {
    match state.health.failure(purpose) {
        Some(error) => format!("the site's health command does not pass: {error}"),
        None => "asking the site's health command".to_owned(),
    }
}

fn slot(state: &State) -> String {
    if !state.slots.error.is_empty() {
        return format!("the slots of the cluster cannot be read or written: {}", state.slots.error);
    }
    if state.slots.taken_by.is_empty() {
        return "taking a slot".to_owned();
    }
    let taken_by = &state.slots.taken_by;
    let is_lost = |node: &&String| taken_by.contains(node);
    let lost: Vec<&str> = state.slots.observed.lost().filter(is_lost).map(String::as_str).collect();
    let why = match lost.as_slice() {
        [] => String::new(),
        lost => format!(
            " (the ConfigMap of the slots was lost with the entry of {}, not seen back since)",
            lost.join(", ")
        ),
    };
    format!("all slots are taken, by nodes that are down or being drained: {}{why}", taken_by.join(", "))
}

/// The warning that the device is about to go down without a drain.
fn undrained(waiting: &Waiting, setting: &str) -> String {
    match waiting.undrained_at {
        Some(_) => {
            format!("; at the deadline the node counts as complete WITHOUT a drain (setting {setting})")
        }
        None => String::new(),
    }
}

fn idle(state: &State) -> String {
    if let Some(disabled) = &state.orders.disabled {
        return format!("drains are switched off until the next boot: {}", disabled.by);
    }
    if state.is_return_due() {
        if let Some(obstacle) = state.return_obstacle() {
            return format!("our cordon or slot is still there: {obstacle}");
        }
        if !state.restoring.error.is_empty() {
            return format!("our cordon could not be taken back yet: {}", state.restoring.error);
        }
        if !state.slots.error.is_empty() {
            return format!("our slot could not be given back yet: {}", state.slots.error);
        }
        return "taking our cordon and slot back".to_owned();
    }
    if state.is_mark_lost() {
        let error = &state.restoring.error;
        let asks = if error.is_empty() { String::new() } else { format!(" ({error})") };
        return format!(
            "the annotation of our cordon was removed: asking the API server whose the cordon is{asks}"
        );
    }
    if let Some(node) = state.own.as_ref().filter(|node| node.cordoned) {
        let who =
            node.cordoned_by.as_ref().map_or_else(|| "not by zedkube".to_owned(), |by| format!("by {by}"));
        return format!("the node is cordoned, {who}, and zedkube leaves it so");
    }
    let quiet = match state.member_now() {
        Member::Yes => "nobody asks for a drain",
        Member::No => "not a member of a cluster: nothing has to be drained",
        Member::Unknown => "nobody asks for a drain; whether this device is in a cluster is not known yet",
    };
    let text = match unseen(state) {
        Some((why, _)) => format!("no drain would be possible now: {why}"),
        None => quiet.to_owned(),
    };
    let Some(left) = state.left_behind() else { return text };
    let node = &left.node;
    if state.will_take_back() {
        let text = unseen(state).map_or(text, |(why, _)| why);
        return format!(
            "node {node} was cordoned for a drain earlier, or still has its slot; that is taken back as soon as the \
             API server answers: {text}"
        );
    }
    let cluster = left.cluster.as_ref().filter(|_| state.is_elsewhere(left));
    let of = cluster
        .map(|cluster| format!(" of another cluster (whose namespace kube-system has UID {cluster})"))
        .unwrap_or_default();
    format!("our cordon or slot may still be on node {node}{of}, and nobody takes it back: {text}")
}

/// What a drain would need and cannot have now, and what a person can do. It is said while there is no request, because
/// when the request comes it is too late.
fn unseen(state: &State) -> Option<(String, &'static str)> {
    let (why, hint) = match missing(state)? {
        HeldBy::Kubeconfig => (
            "a kubelet runs on this machine, and zedkube has no kubeconfig".to_owned(),
            "give zedkube access (cluster.kubeconfig, /usr/share/ebb/kubernetes), or set cluster.mode = never if nothing here \
             needs a drain; ebb force complete lets one operation pass",
        ),
        HeldBy::ApiServer => {
            (format!("the Kubernetes API server cannot be reached: {}", state.api.error), LOOK_AT_API)
        }
        HeldBy::Rights => (
            format!("the nodes of the cluster could not be read: {}", state.nodes_error.refused),
            "give zedkube's user the right that the reason names, or valid credentials; a token that is bound to a Node ends \
             with that Node: if it was deleted and created again, an administrator has to make a new token",
        ),
        HeldBy::Identity => (
            state.nodes_error.identity.clone(),
            "set node.name to this machine's own Node, or cluster.mode = never, and restart zedkube",
        ),
        HeldBy::SlotTable => (
            format!("the slots of the cluster cannot be read or written: {}", state.slots.error),
            "fix what the reason names (rights, the ConfigMap), or set slots.limit = 0",
        ),
        HeldBy::OtherCluster
        | HeldBy::Health
        | HeldBy::Slot
        | HeldBy::Peers
        | HeldBy::Cordon
        | HeldBy::Pods
        | HeldBy::Volumes
        | HeldBy::Record
        | HeldBy::Call => return None,
    };
    Some((why, hint))
}

fn idle_hint(state: &State) -> String {
    let mut hints = Vec::new();
    if state.orders.disabled.is_none() {
        if state.is_return_due() {
            let fails = !state.restoring.error.is_empty();
            return if fails { "look at the API server; the uncordon is tried again by itself" } else { "" }
                .to_owned();
        }
        let cordoned = state.own.as_ref().filter(|node| node.cordoned && !state.is_mark_lost());
        hints.extend(cordoned.map(|node| format!("to take pods again: ebb uncordon --force {}", node.name)));
        hints.extend(unseen(state).map(|(_, hint)| hint.to_owned()));
        hints.extend(state.left_behind().filter(|_| !state.will_take_back()).map(|left| {
            let node = &left.node;
            let there = if state.is_elsewhere(left) { " with --kubeconfig of that cluster" } else { "" };
            format!(
                "if this machine is no longer node {node}, remove them by hand{there}: ebb uncordon --force {node}, \
                 ebb slots release {node}; then: ebb slots forget"
            )
        }));
    }
    hints.join("; ")
}

fn cordoning_text(state: &State, cordoning: &Cordoning) -> String {
    if cordoning.unseen {
        let error = &state.nodes_error.refused;
        let error = if error.is_empty() { String::new() } else { format!(", which cannot be read: {error}") };
        return format!("after a restart: checking whether the node is still cordoned{error}");
    }
    if cordoning.cordoned {
        return match state.slots.error.as_str() {
            "" => "cordoned; confirming our slot before a pod leaves".to_owned(),
            error => format!("cordoned, but our slot cannot be confirmed: {error}"),
        };
    }
    if cordoning.error.is_empty() {
        "cordoning the node".to_owned()
    } else {
        format!("the node could not be cordoned yet: {}", cordoning.error)
    }
}

fn attempting(state: &State, attempt: u32) -> String {
    if state.api.away_since.is_some() {
        return format!("attempt {attempt} waits: the API server cannot be reached: {}", state.api.error);
    }
    let seen = progress::attempt(&state.drain);
    let mut why = seen.and_then(Attempt::wait_reason).map(|reason| format!("; {reason}")).unwrap_or_default();
    if !state.nodes_error.refused.is_empty() {
        why = format!("; the node cannot be read: {}{why}", state.nodes_error.refused);
    }
    let seen = seen.filter(|attempt| attempt.snapshot().is_some());
    let Some(Progress { total, gone, blocked, volumes, .. }) = seen.map(progress::progress) else {
        return format!("attempt {attempt} begins: the node is cordoned, its pods are being looked at{why}");
    };
    let held = if blocked > 0 { format!(", {blocked} blocked") } else { String::new() };
    let attached =
        if volumes > 0 { format!(", {volumes} of their volumes still attached") } else { String::new() };
    format!("attempt {attempt}: {gone} of {total} pods have left{held}{attached}{why}")
}

/// What follows for the slot of a node that is set aside.
fn set_aside(state: &State) -> String {
    if !state.is_slot_still_there() {
        return "; it stays drained without a slot, so other nodes may go down beside it".to_owned();
    }
    let errors = [&state.restoring.error, &state.slots.error].into_iter().find(|error| !error.is_empty());
    let why = errors.map(|error| format!(" ({error})")).unwrap_or_default();
    format!("; its slot is being given back{why}")
}

fn complete(state: &State, outcome: Outcome) -> String {
    match outcome {
        Outcome::Drained => {
            let gone = state.session.gone;
            let kept = if state.is_set_aside { set_aside(state) } else { String::new() };
            format!(
                "the node is drained: {gone} pods have left, and a fresh list shows none that should{kept}"
            )
        }
        Outcome::ApiUnreachable => {
            format!("the API server could not be reached for too long ({}): not drained", state.api.error)
        }
        Outcome::NoSchedulablePeer => {
            "no other node could take the pods for too long: not drained".to_owned()
        }
        Outcome::Forced => {
            let forced = state.requests.iter().find(|request| request.answer == Answer::Forced);
            let by_order = state.orders.complete.as_ref().map(|forced| &forced.by);
            let by =
                by_order.or_else(|| forced.map(|request| &request.forced_by)).or_else(|| state.orders.by());
            let by = by.map_or_else(String::new, |by| format!(": {by}"));
            format!("an operator forced it, NOT drained{by}")
        }
        Outcome::NodeGone => "the node does not exist in the cluster any more".to_owned(),
        // With these outcomes the phase is never Complete.
        Outcome::CordonFailed | Outcome::DrainFailed | Outcome::Cancelled => String::new(),
    }
}
