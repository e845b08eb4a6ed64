//! Limits and choices of the device around a drain.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What to do when a precondition of a drain cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnUnavailable {
    /// As `Complete` beside EVE, and while the last list of nodes showed no other node; otherwise as `Wait`.
    Auto,
    /// Call the drain complete, with an outcome that says why (EVE's way).
    Complete,
    /// Wait on.
    Wait,
}

/// Whether this device counts as a member of a cluster when EVE does not say so (`cluster.mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// What the API server says decides.
    #[default]
    Auto,
    /// Always a member.
    Always,
    /// Never one.
    Never,
}

/// All limits and choices, from settings. Durations are complete: nothing is left open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// What one attempt may do.
    pub drain: drain::Policy,
    /// Attempts until the drain has failed (setting `drain.attempts`; EVE documents 5 and makes 4).
    pub attempts: u32,
    /// Pause between attempts (`drain.retry-pause`).
    pub retry_pause: Duration,
    /// Tries to cordon (`cordon.tries`).
    pub cordon_tries: u32,
    /// Pause between them (`cordon.pause`).
    pub cordon_pause: Duration,
    /// The API server has to be away for so long on end before [`Policy::on_unreachable`] applies.
    pub unreachable_timeout: Duration,
    /// What then (`api-unreachable`).
    pub on_unreachable: OnUnavailable,
    /// No other node can take pods for so long before [`Policy::on_no_peer`] applies.
    pub peer_window: Duration,
    /// What then (`no-peer`).
    pub on_no_peer: OnUnavailable,
    /// A node that is not Ready may be rebooting, and is waited for this long (`slots.down-max`).
    pub down_max: Duration,
    /// Everything before the cordon together may take so long (`slots.wait`); `None` = for ever.
    pub wait_limit: Option<Duration>,
    /// Nodes of the group that may be down for a drain at a time (`slots.limit`); 0 = no limit.
    pub slots_limit: u32,
    /// The slots that this node uses, `slots.namespace`, `/` and `slots.group`; `None` is `kube-system/default`.
    pub slots_group: Option<String>,
    /// There is a `health.command`.
    pub has_health_command: bool,
    /// Between two times that it is asked (`health.interval`).
    pub health_interval: Duration,
    /// An override that finds no request waits so long for one (`force.ttl`).
    pub force_ttl: Duration,
    /// EVE's own agents run beside ours: they let a command through at CORDONED (D1) and dial our socket again
    /// only every 10 s (D18).
    pub beside_zedbox: bool,
}

impl Policy {
    /// The defaults of `settings.md`.
    pub fn device() -> Self {
        Self {
            drain: drain::Policy::device(),
            attempts: 5,
            retry_pause: Duration::from_mins(5),
            cordon_tries: 10,
            cordon_pause: Duration::from_secs(5),
            unreachable_timeout: Duration::from_mins(5),
            on_unreachable: OnUnavailable::Auto,
            peer_window: Duration::from_mins(2),
            on_no_peer: OnUnavailable::Auto,
            down_max: Duration::from_mins(30),
            wait_limit: Some(Duration::from_hours(24)),
            slots_limit: 1,
            slots_group: None,
            has_health_command: false,
            health_interval: Duration::from_secs(15),
            force_ttl: Duration::from_mins(10),
            beside_zedbox: false,
        }
    }
}
