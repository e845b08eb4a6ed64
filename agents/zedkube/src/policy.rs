//! The policy of the session: that of the settings, and when a change of it counts.

use runtime::Settings;
use session::{Phase, Policy, State};

/// The policy that the settings say.
pub(crate) fn of(settings: &Settings, beside_zedbox: bool) -> Policy {
    Policy { beside_zedbox, ..settings.policy.clone() }
}

/// The policy from now on: what concerns an attempt changes only between two attempts.
pub(crate) fn take_over(current: &mut Policy, wanted: &Policy, state: &State) {
    let drain = match state.phase {
        Phase::Attempting { .. } => current.drain.clone(),
        Phase::Idle
        | Phase::Waiting(_)
        | Phase::Cordoning(_)
        | Phase::Pausing { .. }
        | Phase::Complete { .. }
        | Phase::Failed(_) => wanted.drain.clone(),
    };
    *current = Policy { drain, ..wanted.clone() };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_keeps_its_policy() {
        let wanted = Policy { attempts: 7, drain: drain::Policy::kubectl(), ..Policy::device() };
        for (phase, taken) in
            [(Phase::Idle, true), (Phase::Attempting { attempt: 1, started: drain::Moment(0) }, false)]
        {
            let state = State { phase, ..State::default() };
            let mut current = Policy::device();
            take_over(&mut current, &wanted, &state);
            assert_eq!((current.attempts, current.drain == wanted.drain), (7, taken));
        }
    }
}
