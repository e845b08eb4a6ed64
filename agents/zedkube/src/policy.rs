//! Settings as the limits and choices of the session and of a drain.

use drain::policy::{MaxRetries, Method, OnDetachTimeout, Stateful, StatefulOrder, UnhealthyNode, Volumes};
use drain::rule::{Behaviour, Rule};
use runtime::settings::{self, ClusterMode, Settings, Wait, WithoutDrain};
use session::membership::Mode;
use session::policy::Otherwise;
use session::{Phase, Policy, State};

/// The policy that the settings say.
pub(crate) fn of(settings: &Settings, beside_zedbox: bool) -> Policy {
    Policy {
        drain: drain_policy(settings),
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
        slots_limit: settings.slots.limit,
        has_health_command: settings.health.command.is_some(),
        health_interval: settings.health.interval,
        force_ttl: settings.force.ttl,
        beside_zedbox,
    }
}

/// What the settings say about draining this node: what zedkube's attempts do, and what `ebb plan` shows.
pub fn drain_policy(settings: &Settings) -> drain::Policy {
    drain::Policy {
        force: settings.pods.force,
        ignore_daemonsets: settings.pods.ignore_daemonsets,
        delete_emptydir_data: settings.pods.delete_emptydir_data,
        grace_period: settings.pods.grace_period,
        skip_wait_for_delete: settings.pods.skip_wait_for_delete_timeout,
        keep_apps: settings.pods.keep_apps.clone(),
        pod_selector: None,
        rules: settings.rules.iter().map(rule).collect(),
        method: Method::Evict,
        max_retries: max_retries(settings.evict.max_retries),
        unhealthy_node: unhealthy_node(settings.unhealthy_node),
        stateful: stateful(&settings.stateful),
        volumes: volumes(&settings.volumes),
        concurrency: count(settings.evict.concurrency),
        retry: settings.evict.retry,
        attempt_timeout: settings.attempt_timeout(),
        settle: settings.drain.settle,
        freeze_limit: settings.api.freeze_limit,
        deadline_freezes: true,
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

fn rule(rule: &settings::Rule) -> Rule {
    Rule {
        name: rule.name.as_str().to_owned(),
        selector: rule.selector.clone(),
        namespace: rule.namespace.as_ref().map(|namespace| namespace.as_str().to_owned()),
        owner_kind: rule.owner_kind.as_ref().map(|kind| kind.as_str().to_owned()),
        behaviour: match rule.behaviour {
            settings::Behaviour::Drain => Behaviour::Drain,
            settings::Behaviour::Skip => Behaviour::Skip,
            settings::Behaviour::WaitCompleted => Behaviour::WaitCompleted,
        },
        order: rule.order,
        grace: rule.grace,
    }
}

fn max_retries(limit: Option<settings::MaxRetries>) -> MaxRetries {
    match limit {
        None => MaxRetries::Unlimited,
        Some(settings::MaxRetries::Times(times)) => MaxRetries::Times(times),
        Some(settings::MaxRetries::Auto) => MaxRetries::Auto,
    }
}

fn unhealthy_node(word: settings::UnhealthyNode) -> UnhealthyNode {
    match word {
        settings::UnhealthyNode::Off => UnhealthyNode::Off,
        settings::UnhealthyNode::Force => UnhealthyNode::Force,
    }
}

fn stateful(settings: &settings::StatefulSettings) -> Stateful {
    let order = match settings.order {
        settings::StatefulOrder::HighestFirst => StatefulOrder::HighestFirst,
        settings::StatefulOrder::LowestFirst => StatefulOrder::LowestFirst,
    };
    Stateful { parallel: count(settings.parallel), order }
}

fn volumes(settings: &settings::VolumeSettings) -> Volumes {
    let on_detach_timeout = match settings.on_detach_timeout {
        settings::DetachTimeout::Fail => OnDetachTimeout::Fail,
        settings::DetachTimeout::Proceed => OnDetachTimeout::Proceed,
    };
    Volumes {
        detach_timeout: settings.detach_timeout,
        reattach_timeout: settings.reattach_timeout,
        on_detach_timeout,
    }
}

/// A number of things at a time, which the settings bound far below any `usize`.
fn count(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn otherwise(word: WithoutDrain) -> Otherwise {
    match word {
        WithoutDrain::Complete => Otherwise::Complete,
        WithoutDrain::Wait => Otherwise::Wait,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use drain::{Requirement, Selector};
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

    /// No value is a default, and none is said twice: a key that is mixed up with another one is found.
    const EVERY_KEY: &str = r#"
        unhealthy-node = "force"
        drain.attempt-timeout = "61m"
        drain.settle = "62s"
        api.freeze-limit = "63s"
        evict = { concurrency = 64, retry = "65s", max-retries = 66 }
        stateful = { parallel = 60, order = "lowest-first" }
        volumes = { detach-timeout = "67s", reattach-timeout = "68s", on-detach-timeout = "proceed" }

        [pods]
        force = false
        ignore-daemonsets = false
        delete-emptydir-data = false
        grace-period = "69s"
        skip-wait-for-delete-timeout = "70s"
        keep-apps = ["mine"]

        [[rule]]
        name = "first"
        selector = "app in (db), !canary"
        namespace = "shop"
        owner-kind = "StatefulSet"
        behaviour = "skip"
        order = -7
        grace = "71s"

        [[rule]]
        name = "second"
        behaviour = "wait-completed"

        [[rule]]
        name = "third"
    "#;

    fn loaded(text: &str) -> Settings {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("settings.toml");
        #[expect(clippy::disallowed_methods, reason = "a test file need not be durable")]
        std::fs::write(&file, text).unwrap();
        let flags =
            AgentFlags { root: folder.path().to_owned(), config: vec![file], ..AgentFlags::default() };
        let loaded = load(&flags.root(), &flags, None);
        assert_eq!(loaded.problems, []);
        Settings::clone(&loaded.settings)
    }

    #[test]
    fn every_key_is_found_in_the_policy() {
        let requirements = vec![
            Requirement::In("app".into(), vec!["db".into()]),
            Requirement::DoesNotExist("canary".into()),
        ];
        let first = Rule {
            name: "first".into(),
            selector: Some(Selector { requirements }),
            namespace: Some("shop".into()),
            owner_kind: Some("StatefulSet".into()),
            behaviour: Behaviour::Skip,
            order: -7,
            grace: Some(Duration::from_secs(71)),
        };
        let second = Rule { name: "second".into(), behaviour: Behaviour::WaitCompleted, ..Rule::default() };
        let third = Rule { name: "third".into(), ..Rule::default() };
        let expected = drain::Policy {
            force: false,
            ignore_daemonsets: false,
            delete_emptydir_data: false,
            grace_period: Some(Duration::from_secs(69)),
            skip_wait_for_delete: Some(Duration::from_secs(70)),
            keep_apps: BTreeSet::from(["mine".to_owned()]),
            pod_selector: None,
            rules: vec![first, second, third],
            method: Method::Evict,
            max_retries: MaxRetries::Times(66),
            unhealthy_node: UnhealthyNode::Force,
            stateful: Stateful { parallel: 60, order: StatefulOrder::LowestFirst },
            volumes: Volumes {
                detach_timeout: Duration::from_secs(67),
                reattach_timeout: Duration::from_secs(68),
                on_detach_timeout: OnDetachTimeout::Proceed,
            },
            concurrency: 64,
            retry: Duration::from_secs(65),
            attempt_timeout: Duration::from_mins(61),
            settle: Duration::from_secs(62),
            freeze_limit: Duration::from_secs(63),
            deadline_freezes: true,
        };
        assert_eq!(drain_policy(&loaded(EVERY_KEY)), expected);
    }

    #[test]
    fn each_word_has_its_meaning() {
        for (text, expected) in [
            ("evict.max-retries = \"-\"", MaxRetries::Unlimited),
            ("evict.max-retries = \"auto\"", MaxRetries::Auto),
            ("evict.max-retries = 0", MaxRetries::Times(0)),
        ] {
            assert_eq!(drain_policy(&loaded(text)).max_retries, expected, "{text}");
        }
        let eves = drain_policy(&loaded("kubernetes.drain.timeout = 3"));
        assert_eq!(eves.attempt_timeout, Duration::from_hours(3));
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
