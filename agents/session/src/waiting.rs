//! What has to be true before the cordon: the API server answers, it knows this machine, and another node can
//! take the pods.

use drain::time::Moment;
use drain::view::NodeView;

use crate::cordoning;
use crate::policy::{Otherwise, Policy};
use crate::state::{Failed, Outcome, Phase, State, Waiting, WaitingFor};
use crate::step::{Effect, Event, Look, Trouble, finish};

pub(crate) fn step(state: &mut State, event: Event, now: Moment, policy: &Policy, effects: &mut Vec<Effect>) {
    let Phase::Waiting(mut waiting) = state.phase.clone() else { return };
    let next = match event {
        Event::Looked { serial, result } if serial > waiting.after => {
            found(&mut waiting, &result, now, policy)
        }
        Event::Requests(_)
        | Event::Facts(_)
        | Event::Looked { .. }
        | Event::Probed { .. }
        | Event::Cordoned { .. }
        | Event::Uncordoned { .. }
        | Event::Picture(_)
        | Event::Answer { .. }
        | Event::Proof { .. }
        | Event::Found { .. }
        | Event::Tick => Next::Wait,
    };
    if let Some(away) = state.api.away_since.filter(|_| policy.on_unreachable == Otherwise::Complete) {
        waiting.undrained_at = Some(away.max(waiting.since) + policy.unreachable_timeout);
    }
    let next = if next == Next::Wait { time_is_over(state, &waiting, now, policy) } else { next };
    match next {
        Next::Wait => state.enter(Phase::Waiting(waiting), now),
        Next::Cordon => cordoning::begin(state, 1, now, effects),
        Next::Complete(outcome) => finish(state, outcome, now),
        Next::Fail(reason) => {
            state.session.finished = Some(now);
            state.enter(Phase::Failed(Failed::Cordon(reason)), now);
        }
    }
}

#[derive(PartialEq)]
enum Next {
    Wait,
    Cordon,
    Complete(Outcome),
    Fail(String),
}

/// What a fresh list of nodes means.
fn found(waiting: &mut Waiting, result: &Result<Look, Trouble>, now: Moment, policy: &Policy) -> Next {
    let look = match result {
        Ok(look) => look,
        Err(trouble) => return not_found(waiting, trouble, policy),
    };
    waiting.denied = 0;
    waiting.undrained_at = None;
    let own = match &look.own {
        Ok(own) => own,
        Err(problem) => return Next::Fail(problem.clone()),
    };
    let others = || look.nodes.iter().filter(|node| node.uid != own.uid && !node.tie_breaker);
    if others().any(|node| node.ready && !node.cordoned) {
        return Next::Cordon;
    }
    waiting.what = WaitingFor::Peers;
    let since = *waiting.no_peer_since.get_or_insert(now);
    // A node that is not Ready may just be rebooting, cordoned for its own drain, and is waited for.
    let may_return = others().any(|node: &NodeView| !node.ready);
    let window = if may_return { policy.down_max.max(policy.peer_window) } else { policy.peer_window };
    waiting.undrained_at = (policy.on_no_peer == Otherwise::Complete).then_some(since + window);
    match waiting.undrained_at {
        Some(at) if at <= now => Next::Complete(Outcome::NoSchedulablePeer),
        Some(_) | None => Next::Wait,
    }
}

/// What a list that failed means.
fn not_found(waiting: &mut Waiting, trouble: &Trouble, policy: &Policy) -> Next {
    waiting.no_peer_since = None;
    waiting.undrained_at = None;
    match trouble {
        Trouble::Unreachable(_) => {
            waiting.what = WaitingFor::Api;
            Next::Wait
        }
        Trouble::Denied(text) | Trouble::Other(text) => {
            waiting.denied = waiting.denied.saturating_add(1);
            waiting.what = WaitingFor::Rights(text.clone());
            if waiting.denied >= policy.cordon_tries { Next::Fail(text.clone()) } else { Next::Wait }
        }
    }
}

fn time_is_over(state: &State, waiting: &Waiting, now: Moment, policy: &Policy) -> Next {
    if unreachable_too_long(state, waiting.since, now, policy) {
        return Next::Complete(Outcome::ApiUnreachable);
    }
    match policy.wait_limit {
        Some(limit) if now.since(waiting.since) >= limit => Next::Fail(format!(
            "gave up after {} s: {}",
            limit.as_secs(),
            crate::words::waiting_for(state, waiting)
        )),
        Some(_) | None => Next::Wait,
    }
}

/// The API server has been away on end for as long as the policy waits, counted from `since` at the earliest.
pub(crate) fn unreachable_too_long(state: &State, since: Moment, now: Moment, policy: &Policy) -> bool {
    let away = state.api.away_since.map(|away| now.since(away.max(since)));
    policy.on_unreachable == Otherwise::Complete
        && away.is_some_and(|away| away >= policy.unreachable_timeout)
}
