//! Settings as the limits and choices of the session.

use runtime::settings::{ClusterMode, Settings, Wait, WithoutDrain};
use session::membership::Mode;
use session::policy::Otherwise;
use session::state::Phase;
use session::{Policy, State};

/// The policy that the settings say.
pub(crate) fn of(settings: &Settings, beside_zedbox: bool) -> Policy {
    Policy {
        drain: of_attempts(settings),
        attempts: settings.drain.attempts,
        retry_pause: settings.drain.retry_pause,
        cordon_tries: settings.cordon.tries,
        cordon_pause: settings.cordon.pause,
        unreachable_timeout: settings.unreachable_timeout(),
        on_unreachable: otherwise(settings.api.unreachable),
        peer_window: settings.peer_window(),
        on_no_peer: otherwise(settings.peer.none),
        down_max: settings.slots.down_max,
        wait_limit: match settings.slots.wait {
            Wait::ForEver => None,
            Wait::AtMost(limit) => Some(limit),
        },
        beside_zedbox,
    }
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

/// Setting `cluster.mode`.
pub(crate) fn mode(settings: &Settings) -> Mode {
    match settings.cluster.mode {
        ClusterMode::Auto => Mode::Auto,
        ClusterMode::Always => Mode::Always,
        ClusterMode::Never => Mode::Never,
    }
}

fn of_attempts(settings: &Settings) -> drain::Policy {
    drain::Policy {
        force: settings.pods.force,
        ignore_daemonsets: settings.pods.ignore_daemonsets,
        delete_emptydir_data: settings.pods.delete_emptydir_data,
        grace_period: settings.pods.grace_period,
        skip_wait_for_delete: settings.pods.skip_wait_for_delete_timeout,
        keep_apps: settings.pods.keep_apps.clone(),
        concurrency: usize::try_from(settings.evict.concurrency).unwrap_or(usize::MAX),
        retry: settings.evict.retry,
        attempt_timeout: settings.attempt_timeout(),
        settle: settings.drain.settle,
        freeze_limit: settings.api.freeze_limit,
        ..drain::Policy::device()
    }
}

fn otherwise(word: WithoutDrain) -> Otherwise {
    match word {
        WithoutDrain::Complete => Otherwise::Complete,
        WithoutDrain::Wait => Otherwise::Wait,
    }
}

#[cfg(test)]
mod tests {
    use runtime::AgentFlags;
    use runtime::settings::load;

    use super::*;

    #[test]
    fn default_settings_are_the_default_policy() {
        let folder = tempfile::tempdir().unwrap();
        let flags = AgentFlags { root: folder.path().to_owned(), ..AgentFlags::default() };
        let loaded = load(&flags.root(), &flags, None);
        assert_eq!(of(&loaded.settings, false), Policy::device());
    }

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
