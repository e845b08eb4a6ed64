//! Makes BaseOsHold and BaseOsStatus from the state.

use std::collections::BTreeMap;

use runtime::clock::Moment;
use runtime::refused::with_refused;
use runtime::shown_try::ShownTry;
use schemas::{
    BaseOsConfig, BaseOsHold, BaseOsHoldState, BaseOsStatus, GoTime, SCHEMA_VERSION, Source, SwState,
};

use crate::facts::{Configured, Facts, Origin};
use crate::lines::{RETRY, another_try, lines};
use crate::need::{Need, Needs, Words, cannot_tell, config_in_effect, need};
use crate::nodeagent::is_acting;
use crate::policy::Policy;
use crate::state::{Phase, State};

/// EVE's words for the partition that the device boots next, and for the running one.
const UPDATING: &str = "updating";
const ACTIVE: &str = "active";
/// EVE's value of `ErrorSeverity` for an error.
const SEVERITY_ERROR: i32 = 3;

/// What to do about a content that is not loaded.
const SEE_CONTENT: &str = "volumemgr loads it: ebb topic get volumemgr/ContentTreeStatus";

/// Updates BaseOsHold and BaseOsStatus.
pub(crate) fn show(next: &mut State, facts: &Facts, now: Moment, policy: Policy) {
    next.next_try = shown_next_try(next, now, policy);
    let needs = needs(next, facts, policy);
    let words = words(next, facts);
    // Without the gate a release of the reboot must not be published again, also not with other lines.
    let is_release = words.0 == BaseOsHoldState::Activated && !facts.drain.is_open();
    let images =
        if is_release { next.hold.images.clone() } else { lines(next, facts, &needs, &words, policy) };
    let hold = BaseOsHold { images, ..hold(next, facts, &needs, words) };
    let is_same = hold.state == next.hold.state && hold.content_tree_uuid == next.hold.content_tree_uuid;
    let since = if is_same && !next.hold.since.is_zero() { next.hold.since } else { now.wall };
    next.hold = BaseOsHold { since, ..hold };
    let mut statuses = statuses(next, facts, needs, now);
    for (uuid, configured) in &facts.configs {
        if !statuses.contains_key(uuid)
            && let Some(status) = unusable(uuid, configured, next.statuses.get(uuid), now)
        {
            statuses.insert(uuid.clone(), status);
        }
    }
    next.statuses = statuses;
}

/// The status of an image whose configuration cannot be used: as it was, with the reason if there is one.
fn unusable(
    uuid: &str,
    configured: &Configured,
    shown: Option<&BaseOsStatus>,
    now: Moment,
) -> Option<BaseOsStatus> {
    match configured {
        Configured::Given(_) => None,
        Configured::Unreadable => shown.cloned(),
        Configured::Refused(why) => {
            let before = shown.cloned().unwrap_or_default();
            let known = Some(&before).filter(|before| before.error == *why).map(|before| before.error_time);
            Some(BaseOsStatus {
                content_tree_uuid: uuid.to_owned(),
                error: why.clone(),
                error_time: known.unwrap_or(now.wall),
                error_severity: SEVERITY_ERROR,
                ..before
            })
        }
    }
}

/// BaseOsHold with the reason why an effect failed. None while the hold releases a reboot: that must not be published
/// again without the gate.
///
/// The hold keeps nodeagent from going down only while the activate command runs (`is_running`): a disk that accepts
/// no writes must not stop a reboot or poweroff of device-op.
pub(crate) fn troubled(hold: &BaseOsHold, is_running: bool, error: &str) -> Option<BaseOsHold> {
    let hold = BaseOsHold { blocked_by: error.to_owned(), stuck: true, ..hold.clone() };
    match hold.state {
        BaseOsHoldState::Activating if !is_running => {
            Some(BaseOsHold { state: BaseOsHoldState::Deferred, release: String::new(), ..hold })
        }
        BaseOsHoldState::Idle
        | BaseOsHoldState::Deferred
        | BaseOsHoldState::Failed
        | BaseOsHoldState::Activating => Some(hold),
        BaseOsHoldState::Activated => None,
    }
}

fn needs(next: &State, facts: &Facts, policy: Policy) -> Needs {
    let given = facts.configs.values().filter_map(Configured::given).cloned();
    // The image that an earlier boot activated is shown even if it is not wanted any more.
    let newest = next.record.images.last().filter(|image| image.boot_id != next.record.boot_id);
    let newest = newest.map(|image| image.config.clone());
    let current = next.record.current.as_ref().and_then(|current| config_in_effect(current, facts));
    let all = newest.into_iter().chain(given).chain(current);
    all.map(|config| {
        let need = need(&next.record, &config, &facts.running, policy);
        (config.content_tree_uuid.clone(), (config, need))
    })
    .collect()
}

fn hold(next: &State, facts: &Facts, needs: &Needs, (state, blocked_by, release): Words) -> BaseOsHold {
    let Origin { by, reason, .. } = facts.origin(next.record.current_uuid().unwrap_or_default());
    let source = next.record.current.as_ref().map_or_else(Source::default, |current| current.source);
    let is_at_gate = next.phase == Phase::Deferred && next.obstacle.is_empty();
    let hold = BaseOsHold {
        schema_version: SCHEMA_VERSION,
        content_tree_uuid: next.record.current_uuid().unwrap_or_default().to_owned(),
        state,
        since: GoTime::ZERO,
        blocked_by,
        stuck: false,
        release,
        next_try: next.next_try.map_or(GoTime::ZERO, |next_try| next_try.shown),
        undrained_in_seconds: facts.drain.undrained_in_seconds().filter(|_| is_at_gate),
        source,
        by,
        reason,
        images: Vec::new(),
        boot_id: next.record.boot_id.clone(),
    };
    let hold = if next.phase == Phase::Idle { image_at_rest(hold, needs, facts) } else { hold };
    match hold.state {
        BaseOsHoldState::Idle | BaseOsHoldState::Deferred | BaseOsHoldState::Failed => {
            BaseOsHold { blocked_by: with_refused(hold.blocked_by, &facts.refused), ..hold }
        }
        BaseOsHoldState::Activating | BaseOsHoldState::Activated => hold,
    }
}

/// BaseOsHold while no image is current: about an image that has failed for good, whose next step is not known, or that
/// waits for its content.
fn image_at_rest(hold: BaseOsHold, needs: &Needs, facts: &Facts) -> BaseOsHold {
    use BaseOsHoldState::{Deferred, Failed};
    let about = |(uuid, (_, need)): (&String, &(BaseOsConfig, Need))| {
        let (state, blocked_by, release) = match need {
            Need::Error(error) => {
                let again = another_try(facts.origin(uuid).source);
                (Failed, error.clone(), format!("{again} allows another try"))
            }
            Need::Impossible(why) => {
                (Failed, why.clone(), "set baseos.activate to what writes an image".to_owned())
            }
            Need::Unknown(why) => (Deferred, cannot_tell(why), String::new()),
            Need::Activation => (Deferred, facts.content_obstacle(uuid)?, SEE_CONTENT.to_owned()),
            Need::Nothing | Need::Reboot | Need::DryRun | Need::Active => return None,
        };
        Some((uuid.clone(), state, blocked_by, release))
    };
    let mut all: Vec<_> = needs.iter().filter_map(about).collect();
    // A failed image comes first, because it needs a person.
    all.sort_by_key(|(_, state, ..)| *state != Failed);
    let Some((content_tree_uuid, state, blocked_by, release)) = all.into_iter().next() else {
        return hold;
    };
    let Origin { source, by, reason } = facts.origin(&content_tree_uuid);
    BaseOsHold { content_tree_uuid, state, blocked_by, release, source, by, reason, ..hold }
}

fn words(next: &State, facts: &Facts) -> Words {
    let none = String::new;
    match next.phase {
        Phase::Idle => (BaseOsHoldState::Idle, none(), none()),
        Phase::Deferred if !next.obstacle.is_empty() => {
            (BaseOsHoldState::Deferred, next.obstacle.clone(), none())
        }
        Phase::Deferred => {
            let (blocked_by, hint) = facts.drain.words();
            (BaseOsHoldState::Deferred, blocked_by, hint)
        }
        Phase::Holding | Phase::Activating { .. } => {
            (BaseOsHoldState::Activating, none(), release(next, facts))
        }
        Phase::Adopted => {
            let runs = "a command of an earlier baseos runs; how it ends will not be known";
            (BaseOsHoldState::Activating, next.left_words(runs).to_owned(), release(next, facts))
        }
        Phase::Activated => (BaseOsHoldState::Activated, none(), release(next, facts)),
        Phase::Recalling if is_acting(&facts.nodeagent) => {
            let too_late = "take-back refused: too late, the device is going down".to_owned();
            (BaseOsHoldState::Deferred, too_late, none())
        }
        Phase::Recalling => (
            BaseOsHoldState::Deferred,
            "reverted: waiting for nodeagent to release the reboot".to_owned(),
            none(),
        ),
        Phase::Failed => {
            let error = next.record.failed.as_ref().map_or_else(none, |failure| failure.error.clone());
            let source = next.record.current.as_ref().map_or_else(Source::default, |current| current.source);
            let hint = |next_try: ShownTry| next_try.hint(another_try(source), RETRY);
            (BaseOsHoldState::Failed, error, next.next_try.map_or_else(none, hint))
        }
    }
}

/// Why the gate released the image. While the gate is not read, the text shown before is kept.
pub(crate) fn release(next: &State, facts: &Facts) -> String {
    let is_known = matches!(next.hold.state, BaseOsHoldState::Activating | BaseOsHoldState::Activated);
    facts.drain.release(if is_known { &next.hold.release } else { "" })
}

fn shown_next_try(next: &State, now: Moment, policy: Policy) -> Option<ShownTry> {
    let failure = next.record.failed.as_ref().filter(|_| next.phase == Phase::Failed)?;
    let pause = failure.pause(next.record.setbacks, policy.retry);
    Some(ShownTry::after(next.next_try, failure.at_ms, pause, now))
}

fn statuses(next: &State, facts: &Facts, needs: Needs, now: Moment) -> BTreeMap<String, BaseOsStatus> {
    let being_activated = match next.phase {
        Phase::Activating { .. } | Phase::Adopted => next.record.current_uuid(),
        Phase::Idle
        | Phase::Deferred
        | Phase::Holding
        | Phase::Activated
        | Phase::Recalling
        | Phase::Failed => None,
    };
    let not_booted = next.record.failed.as_ref().filter(|failure| !failure.is_drain);
    let show = |(uuid, (config, need)): (String, (BaseOsConfig, Need))| {
        let need = if being_activated == Some(uuid.as_str()) { Need::Activation } else { need };
        let before = next.statuses.get(&uuid);
        let error = not_booted.filter(|_| next.record.current_uuid() == Some(uuid.as_str()));
        let error = error.map_or_else(String::new, |failure| failure.error.clone());
        let status = status(&config, need, error, facts, before, now);
        (uuid, status)
    };
    needs.into_iter().map(show).collect()
}

/// The status of one image. `not_booted` is the reason why the device could not boot into it.
fn status(
    config: &BaseOsConfig,
    need: Need,
    not_booted: String,
    facts: &Facts,
    before: Option<&BaseOsStatus>,
    now: Moment,
) -> BaseOsStatus {
    let content = facts.content(&config.content_tree_uuid);
    let is_impossible = matches!(need, Need::Impossible(_));
    let (activated, partition_state, state, error) = match need {
        Need::Reboot => (true, UPDATING, SwState::INSTALLED, not_booted),
        Need::Active => (true, ACTIVE, SwState::INSTALLED, String::new()),
        Need::Error(error) | Need::Impossible(error) => (false, "", content.state, error),
        Need::Nothing | Need::Activation | Need::DryRun | Need::Unknown(_) => {
            (false, "", content.state, content.error)
        }
    };
    let has_error = !error.is_empty();
    let known = before.filter(|before| before.error == error).map(|before| before.error_time);
    let retry = match has_error {
        true if is_impossible => "baseos.activate is set",
        true => "a new RetryUpdateCounter",
        false => "",
    };
    BaseOsStatus {
        base_os_version: config.base_os_version.clone(),
        activated,
        content_tree_uuid: config.content_tree_uuid.clone(),
        partition_state: partition_state.to_owned(),
        state,
        error_time: if has_error { known.unwrap_or(now.wall) } else { GoTime::ZERO },
        error_severity: if has_error { SEVERITY_ERROR } else { 0 },
        error_retry_condition: retry.to_owned(),
        error,
        ..BaseOsStatus::default()
    }
}
