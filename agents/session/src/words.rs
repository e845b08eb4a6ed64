//! Why things are as they are, in plain words, and what a person can do.

use drain::progress::{self, Progress};
use drain::state::Attempt;

use crate::membership::Member;
use crate::returning;
use crate::state::{Cordoning, Failed, Outcome, Phase, State, Waiting, WaitingFor};

/// One plain sentence: why the device is where it is.
pub fn reason(state: &State) -> String {
    match &state.phase {
        Phase::Idle => idle(state),
        Phase::Waiting(waiting) => waiting_for(state, waiting),
        Phase::Cordoning(cordoning) => cordoning_text(cordoning),
        Phase::Attempting { attempt, .. } => attempting(state, *attempt),
        Phase::Pausing { failed, .. } => {
            let why = state.session.attempts.last().map(|record| record.error.as_str()).unwrap_or_default();
            format!("attempt {failed} failed because {why}; the next one follows after a pause")
        }
        Phase::Complete { recheck: Some(_), .. } => {
            "drained before; a fresh look has to show that this is still true".to_owned()
        }
        Phase::Complete { outcome, recheck: None } => complete(state, *outcome),
        Phase::Failed(Failed::Cordon(text) | Failed::Drain(text)) => text.clone(),
    }
}

/// What a person can do next; empty when nothing is needed.
pub fn hint(state: &State) -> String {
    let text = match &state.phase {
        Phase::Waiting(waiting) => match &waiting.what {
            WaitingFor::Api => "look at the API server (k3s) of this node and at the kubeconfig",
            WaitingFor::Rights(_) => "give zedkube's user the right that the reason names",
            WaitingFor::Peers => "uncordon or repair another node, or set no-peer",
        },
        Phase::Cordoning(cordoning) if cordoning.failures > 0 => {
            "look at the reason; the next try follows by itself"
        }
        Phase::Attempting { .. } | Phase::Pausing { .. } if has_blocked(state) => {
            "see Blocked in the report: each entry names what holds the pod and what to do"
        }
        Phase::Failed(_) => "mend the cause, then ask again: a new request or command begins a new drain",
        Phase::Idle if returning::is_due(state) && !state.returning.error.is_empty() => {
            "look at the API server; the uncordon is tried again by itself"
        }
        Phase::Idle
        | Phase::Cordoning(_)
        | Phase::Attempting { .. }
        | Phase::Pausing { .. }
        | Phase::Complete { .. } => "",
    };
    text.to_owned()
}

/// What the drain waits for before the cordon.
pub(crate) fn waiting_for(state: &State, waiting: &Waiting) -> String {
    match &waiting.what {
        WaitingFor::Api if state.api.away_since.is_some() => {
            let undrained = undrained(waiting, "api-unreachable");
            format!("the Kubernetes API server cannot be reached: {}{undrained}", state.api.error)
        }
        WaitingFor::Api => "waiting for the Kubernetes API server's first answer".to_owned(),
        WaitingFor::Rights(text) => {
            format!("the Kubernetes API server was asked for its nodes in vain: {text}")
        }
        WaitingFor::Peers => {
            let undrained = undrained(waiting, "no-peer");
            format!("no other node is Ready and schedulable, so the pods have nowhere to go{undrained}")
        }
    }
}

/// Says plainly that a device is about to go down without a drain.
fn undrained(waiting: &Waiting, setting: &str) -> String {
    match waiting.undrained_at {
        Some(_) => {
            format!("; at the deadline the node counts as complete WITHOUT a drain (setting {setting})")
        }
        None => String::new(),
    }
}

fn idle(state: &State) -> String {
    if returning::is_due(state) {
        if let Some(obstacle) = returning::obstacle(state) {
            return format!("our cordon is still on the node: {obstacle}");
        }
        if !state.returning.error.is_empty() {
            return format!("our cordon could not be taken back yet: {}", state.returning.error);
        }
        return "taking our cordon back".to_owned();
    }
    let text = match state.member {
        Member::Yes => "nobody asks for a drain",
        Member::No => "not a member of a cluster: nothing has to be drained",
        Member::Unknown => "nobody asks for a drain; whether this device is in a cluster is not known yet",
    };
    text.to_owned()
}

fn cordoning_text(cordoning: &Cordoning) -> String {
    if cordoning.error.is_empty() {
        "cordoning the node".to_owned()
    } else {
        format!("the node could not be cordoned yet: {}", cordoning.error)
    }
}

fn attempting(state: &State, attempt: u32) -> String {
    if state.api.away_since.is_some() {
        return format!(
            "attempt {attempt} stands still: the API server cannot be reached: {}",
            state.api.error
        );
    }
    let seen = progress::attempt(&state.drain).filter(|attempt| attempt.picture.is_some());
    let Some(Progress { total, gone, blocked, volumes, .. }) = seen.map(progress::progress) else {
        return format!("attempt {attempt} begins: the node is cordoned, its pods are being looked at");
    };
    let held = if blocked > 0 { format!(", {blocked} blocked") } else { String::new() };
    let attached =
        if volumes > 0 { format!(", {volumes} of their volumes still attached") } else { String::new() };
    format!("attempt {attempt}: {gone} of {total} pods have left{held}{attached}")
}

fn has_blocked(state: &State) -> bool {
    let blocked = |attempt: &Attempt| attempt.pods.values().any(|track| progress::is_blocked(&track.stage));
    progress::attempt(&state.drain).is_some_and(blocked)
}

fn complete(state: &State, outcome: Outcome) -> String {
    match outcome {
        Outcome::Drained => {
            let gone = progress::attempt(&state.drain).map_or(0, |attempt| attempt.gone);
            format!("the node is drained: {gone} pods have left, and a fresh list shows none that should")
        }
        Outcome::ApiUnreachable => {
            format!("the API server could not be reached for too long ({}): not drained", state.api.error)
        }
        Outcome::NoSchedulablePeer => {
            "no other node could take the pods for too long: not drained".to_owned()
        }
        Outcome::NodeGone => "the node does not exist in the cluster any more".to_owned(),
    }
}
