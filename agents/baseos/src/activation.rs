//! The state machine of an image: from its configuration to the reboot into it.
//!
//! Level-triggered: each snapshot shows everything, and every way to an activation leads through the gate (D5). A
//! state is valid only when all its effects are carried out.

use runtime::agent_state::{LOOK_AT_LOCK_MS, not_taken_at};
use runtime::clock::Moment;
use runtime::machine::Machine;
use runtime::retry::{NextTry, next_try};
use runtime::window::wake_at;
use schemas::{BaseOsConfig, BaseOsHoldState, DeviceAction, DeviceLine, Verdict, commanded_by};

use crate::effect::{Effect, between};
use crate::facts::{Configured, Event, Facts, Origin};
use crate::need::{Need, cannot_tell, config_in_effect, need};
use crate::nodeagent::{has_released, is_busy, reboot_failure, reboot_obstacle};
use crate::policy::Policy;
use crate::record::{Accepted, Failure, Stage};
use crate::state::{Phase, State};
use crate::status::{release, show};

/// Pause before what an earlier baseos left running is killed again, in milliseconds.
const KILL_AGAIN_MS: u64 = 60_000;

/// The state machine of images.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BaseOs;

impl Machine for BaseOs {
    type Event = Event;
    type State = State;
    type Effect = Effect;
    type Policy = Policy;

    fn step(state: State, event: &Event, now: Moment, policy: &Policy) -> (State, Vec<Effect>) {
        let policy = *policy;
        let before = state.clone();
        let mut next = State { is_unsure: false, ..state };
        let effects = match event {
            Event::Looked(facts) => looked(&mut next, &before, facts, now, policy),
            Event::Ended { serial, result } => {
                ended(&mut next, *serial, result);
                next.is_unsure = before.is_unsure;
                let is_new = before.record != next.record;
                is_new.then(|| Effect::Record(next.record.clone())).into_iter().collect()
            }
        };
        let facts = match event {
            Event::Looked(facts) => Some(&**facts),
            Event::Ended { .. } => None,
        };
        let wake = wake(&next, facts, now).map(Effect::WakeAt);
        (next, effects.into_iter().chain(wake).collect())
    }

    fn wake_at(effect: &Effect) -> Option<u64> {
        if let Effect::WakeAt(at_ms) = effect { Some(*at_ms) } else { None }
    }

    fn after_failure(failed: State, resumed: State) -> State {
        failed.after_failure(resumed)
    }
}

/// The command's result is recorded at once; everything else waits for the next snapshot.
fn ended(next: &mut State, serial: u32, result: &Result<(), String>) {
    match next.phase {
        Phase::Activating { serial: running } if running == serial => {
            let uuid = next.record.current_uuid().unwrap_or_default().to_owned();
            next.record.end(&uuid, result);
            next.phase = Phase::of(&next.record);
        }
        Phase::Activating { .. }
        | Phase::Idle
        | Phase::Deferred
        | Phase::Holding
        | Phase::Adopted
        | Phase::Activated
        | Phase::Recalling
        | Phase::Failed => {}
    }
}

fn looked(next: &mut State, before: &State, facts: &Facts, now: Moment, policy: Policy) -> Vec<Effect> {
    next.obstacle.clear();
    next.record.request = facts.drain.own;
    adopt(next, facts);
    let mut effects = advance(next, facts, now, policy);
    if next.phase != Phase::Activated {
        next.not_taken_since = None;
    }
    effects.extend(end_left_running(next, facts, now));
    forget_unwanted(next, facts);
    if is_request_superfluous(next, facts, policy) {
        effects.push(Effect::Withdraw);
    }
    effects.extend(written_down(next, before, facts, now, policy));
    show(next, facts, now, policy);
    between(before, next, effects)
}

/// Takes note of an activate command that an earlier process started: the activation lasts as long as the command
/// runs. Its result is not known; the snapshot that shows its end decides by the record.
fn adopt(next: &mut State, facts: &Facts) {
    let is_ours = matches!(next.phase, Phase::Activating { .. });
    match facts.left_running {
        Some(_) if !is_ours && next.record.has_start_without_result() => next.phase = Phase::Adopted,
        None if next.phase == Phase::Adopted => next.phase = Phase::of(&next.record),
        Some(_) | None => {}
    }
}

/// Kills what an earlier baseos left running when its time is over. A process that waits for a broken disk does not
/// end when it is killed, so that this is repeated, but seldom.
fn end_left_running(next: &mut State, facts: &Facts, now: Moment) -> Option<Effect> {
    let is_over = facts.left_running.is_some_and(|until_ms| until_ms <= now.boot_ms);
    let last = next.left_killed_at.filter(|_| is_over);
    let is_due = is_over && last.is_none_or(|at| at.saturating_add(KILL_AGAIN_MS) <= now.boot_ms);
    next.left_killed_at = if is_due { Some(now.boot_ms) } else { last };
    is_due.then_some(Effect::EndLeftRunning)
}

/// Runs the function of the current phase.
fn advance(next: &mut State, facts: &Facts, now: Moment, policy: Policy) -> Vec<Effect> {
    match next.phase {
        Phase::Idle => idle(next, facts, policy),
        Phase::Deferred => return deferred(next, facts, now, policy),
        Phase::Holding => return holding(next, facts, policy),
        // Nothing can be taken back while the command runs. The snapshot after its end decides about the rest.
        Phase::Activating { .. } | Phase::Adopted => {}
        Phase::Activated => activated(next, facts, now, policy),
        Phase::Recalling => recalling(next, facts),
        Phase::Failed => failed(next, facts, now, policy),
    }
    Vec::new()
}

/// Recalls an image that is not wanted any more. If BaseOsHold was cleared before this snapshot, the snapshot already
/// shows whether nodeagent has released the reboot.
fn recall(next: &mut State, facts: &Facts) {
    next.phase = Phase::Recalling;
    recalling(next, facts);
}

/// Accepts the next image that needs an activation or a reboot.
fn idle(next: &mut State, facts: &Facts, policy: Policy) {
    next.record.current = candidate(next, facts, policy);
    next.phase = Phase::of(&next.record);
}

fn deferred(next: &mut State, facts: &Facts, now: Moment, policy: Policy) -> Vec<Effect> {
    let Some((config, need)) = wanted(next, facts, policy) else {
        return Vec::new();
    };
    if let Some(obstacle) = obstacle(next, &config, &need, facts) {
        next.obstacle = obstacle;
        return Vec::new();
    }
    if let Some(words) = waits_for_window(next, facts) {
        words.clone_into(&mut next.obstacle);
        return Vec::new();
    }
    let Some(gate) = &facts.drain.gate else {
        return Vec::new();
    };
    match gate.verdict {
        // This answers the request for another image: a new request is needed.
        Verdict::Proceed(_) if gate.is_answer() && next.record.asked_for != config.content_tree_uuid => {
            publish(next, &config, facts)
        }
        Verdict::Proceed(_) => {
            next.phase = if need == Need::Activation { Phase::Holding } else { Phase::Activated };
            Vec::new()
        }
        Verdict::Publish => publish(next, &config, facts),
        Verdict::Defer(_) => Vec::new(),
        // BaseOsHold may have released a reboot until now.
        Verdict::Failed(_) if !may_withdraw(next, facts) => {
            next.obstacle = format!("{}; waiting for nodeagent to release the reboot", gate.blocked_by);
            Vec::new()
        }
        Verdict::Failed(_) => {
            let error = gate.blocked_by.clone();
            next.record.failed = Some(Failure { error, at_ms: now.boot_ms, is_drain: true });
            next.phase = Phase::Failed;
            Vec::new()
        }
    }
}

/// BaseOsHold was on disk before this snapshot, so nodeagent keeps the device up from here on, unless it had taken a
/// command before.
fn holding(next: &mut State, facts: &Facts, policy: Policy) -> Vec<Effect> {
    let Some((config, need)) = wanted(next, facts, policy) else {
        return Vec::new();
    };
    let is_free = obstacle(next, &config, &need, facts).is_none() && !is_busy(&facts.nodeagent);
    if need != Need::Activation || !is_free || !facts.drain.is_open() {
        next.phase = Phase::Deferred;
        return Vec::new();
    }
    if policy.dry_run {
        next.record.start(&config, Stage::DryRun);
        next.phase = Phase::Activated;
        return Vec::new();
    }
    next.record.start(&config, Stage::Started);
    let serial = next.next_serial();
    next.phase = Phase::Activating { serial };
    vec![Effect::Activate { serial, config }]
}

/// The gate may still close. Once nodeagent is Acting that is too late, but BaseOsHold is cleared even so: nodeagent
/// does not need it any more, and must not find it again if it fails.
///
/// A failed reboot is recorded before BaseOsHold is cleared; otherwise a crash in between would attempt it again at
/// once.
fn activated(next: &mut State, facts: &Facts, now: Moment, policy: Policy) {
    let Some((config, need)) = wanted(next, facts, policy) else {
        return;
    };
    let not_booted = |next: &mut State, error: String| {
        next.record.failed = Some(Failure { error, at_ms: now.boot_ms, is_drain: false });
        next.record.setbacks = next.record.setbacks.saturating_add(1);
    };
    if next.record.failed.is_some() {
        next.phase = Phase::Failed;
    } else if let Some(error) = reboot_failure(&facts.nodeagent, &config.content_tree_uuid) {
        not_booted(next, error.to_owned());
    } else if need == Need::Activation || facts.frozen.is_some() || !facts.drain.is_open() {
        next.phase = Phase::Deferred;
    } else if need == Need::Reboot {
        let is_about = |action: &DeviceAction| action.content_tree_uuid == config.content_tree_uuid;
        if let Some(error) = facts.nodeagent.not_taken(is_about, &mut next.not_taken_since, now.boot_ms) {
            not_booted(next, error);
        }
    }
}

/// Waits until nodeagent has released the reboot. BaseOsHold was cleared before this snapshot, so nodeagent's file is
/// final.
fn recalling(next: &mut State, facts: &Facts) {
    if may_withdraw(next, facts) {
        let uuid = next.record.current_uuid().unwrap_or_default().to_owned();
        next.record.forget(&uuid);
        next.record.drop_current();
        next.phase = Phase::Idle;
    }
}

fn failed(next: &mut State, facts: &Facts, now: Moment, policy: Policy) {
    let counter = |current: &Option<Accepted>| current.as_ref().map(|current| current.config.clone());
    let before = counter(&next.record.current);
    if wanted(next, facts, policy).is_none() {
        return;
    }
    let is_due = next.record.failed.as_ref().is_none_or(|failure| {
        let needs_no_pause = failure.is_drain && facts.drain.needs_no_pause;
        let pause = failure.pause(next.record.setbacks, policy.retry);
        needs_no_pause || next_try(failure.at_ms, pause).is_due(now.boot_ms)
    });
    let is_anew = counter(&next.record.current) != before;
    if is_anew {
        next.record.setbacks = 0;
    }
    if is_due || is_anew {
        next.record.failed = None;
        next.phase = Phase::of(&next.record);
    }
}

/// The current image as it is configured now, and the next step that it needs. None if the image is not wanted any
/// more or needs neither activation nor reboot; then it is dropped.
fn wanted(next: &mut State, facts: &Facts, policy: Policy) -> Option<(BaseOsConfig, Need)> {
    let Some(config) = wanted_config(next, facts) else {
        if next.record.current.is_some() {
            recall(next, facts);
        } else {
            next.phase = Phase::Idle;
        }
        return None;
    };
    if let Some(current) = &mut next.record.current {
        current.config = config.clone();
        if facts.configs.get(&config.content_tree_uuid).and_then(Configured::given).is_some() {
            current.carried_over = false;
            current.source = facts.origin(&config.content_tree_uuid).source;
        }
    }
    let need = need(&next.record, &config, &facts.running, policy);
    match &need {
        Need::Activation | Need::Reboot | Need::DryRun | Need::Unknown(_) => Some((config, need)),
        Need::Nothing | Need::Active | Need::Error(_) | Need::Impossible(_) => {
            next.record.drop_current();
            next.phase = Phase::Idle;
            None
        }
    }
}

fn wanted_config(next: &State, facts: &Facts) -> Option<BaseOsConfig> {
    next.record.current.as_ref().and_then(|current| config_in_effect(current, facts))
}

/// The reason why an image has to wait, other than the gate.
fn obstacle(next: &State, config: &BaseOsConfig, need: &Need, facts: &Facts) -> Option<String> {
    match need {
        Need::Unknown(why) => Some(cannot_tell(why)),
        Need::Activation => {
            let content = facts.content_obstacle(&config.content_tree_uuid);
            let left = facts
                .left_running
                .map(|_| next.left_words("an earlier activation is still running").to_owned());
            let busy =
                || is_busy(&facts.nodeagent).then(|| "nodeagent is about to take the device down".to_owned());
            content.or(left).or_else(busy).or_else(|| drain_is_futile(config, facts))
        }
        Need::Reboot => drain_is_futile(config, facts),
        Need::DryRun => facts.frozen.clone(),
        Need::Nothing | Need::Active | Need::Error(_) | Need::Impossible(_) => None,
    }
}

/// Why the drain for the current image has to wait for the window. One that has begun goes on past the end, but no further
/// attempt begins.
fn waits_for_window<'a>(next: &State, facts: &'a Facts) -> Option<&'a str> {
    let is_asked_for =
        facts.drain.own.is_some() && next.record.current_uuid() == Some(next.record.asked_for.as_str());
    outside_window(next, facts).filter(|_| !is_asked_for || facts.is_pausing)
}

/// Why no drain may begin for the current image now, if the window is the reason.
fn outside_window<'a>(next: &State, facts: &'a Facts) -> Option<&'a str> {
    facts.window.as_ref()?.holds(next.record.current.as_ref()?.source)
}

/// The reason why a drain would be in vain.
fn drain_is_futile(config: &BaseOsConfig, facts: &Facts) -> Option<String> {
    let reboot = reboot_obstacle(&facts.nodeagent, &config.content_tree_uuid).map(str::to_owned);
    facts.frozen.clone().or(reboot)
}

/// The image to be served next: one that is activated already, otherwise the first whose content is loaded.
fn candidate(next: &State, facts: &Facts, policy: Policy) -> Option<Accepted> {
    let need_of = |config: &&BaseOsConfig| need(&next.record, config, &facts.running, policy);
    let given = || facts.configs.values().filter_map(Configured::given);
    let is_activated = |config: &&BaseOsConfig| matches!(need_of(config), Need::Reboot | Need::DryRun);
    let is_ready = |config: &&BaseOsConfig| {
        need_of(config) == Need::Activation && facts.content_obstacle(&config.content_tree_uuid).is_none()
    };
    let config = given().find(is_activated).or_else(|| given().find(is_ready))?;
    let source = facts.origin(&config.content_tree_uuid).source;
    Some(Accepted { config: config.clone(), carried_over: false, source })
}

/// Records the next request as baseos's own, and publishes it. Outside the window the image waits instead: its request was
/// lost, or never published, so that its drain would begin now.
fn publish(next: &mut State, config: &BaseOsConfig, facts: &Facts) -> Vec<Effect> {
    if let Some(words) = outside_window(next, facts) {
        words.clone_into(&mut next.obstacle);
        return Vec::new();
    }
    next.record.request = Some(facts.drain.next);
    next.record.asked_for.clone_from(&config.content_tree_uuid);
    vec![Effect::Request { own: facts.drain.next, uuid: config.content_tree_uuid.clone() }]
}

/// Removes images from the record whose configuration says that they are not wanted. If such an image is wanted again
/// later, it counts as new.
fn forget_unwanted(next: &mut State, facts: &Facts) {
    let current = next.record.current_uuid().map(str::to_owned);
    let given = facts.configs.values().filter_map(Configured::given);
    let unwanted = given.filter(|config| !config.activate).map(|config| &config.content_tree_uuid);
    for uuid in unwanted.filter(|uuid| current.as_ref() != Some(uuid)) {
        next.record.forget(uuid);
    }
}

/// True if baseos's request is published although no image waits for a drain or for the reboot.
fn is_request_superfluous(next: &State, facts: &Facts, policy: Policy) -> bool {
    match next.phase {
        Phase::Idle | Phase::Failed => facts.drain.own.is_some() && may_withdraw(next, facts),
        // A freeze may last long, the window may be closed, and a device without means to reboot may never get one: the
        // node is not kept empty for that.
        Phase::Deferred => {
            // A dry run needs no means: its request would be published again at once.
            let is_futile = |config: BaseOsConfig| {
                let need = need(&next.record, &config, &facts.running, policy);
                need != Need::DryRun && reboot_obstacle(&facts.nodeagent, &config.content_tree_uuid).is_some()
            };
            let is_in_vain = facts.frozen.is_some()
                || waits_for_window(next, facts).is_some()
                || wanted_config(next, facts).is_some_and(is_futile);
            is_in_vain && facts.drain.own.is_some() && may_withdraw(next, facts)
        }
        Phase::Holding | Phase::Activating { .. } | Phase::Adopted | Phase::Activated | Phase::Recalling => {
            false
        }
    }
}

/// True if nodeagent can no longer reboot into the image: BaseOsHold was cleared before this snapshot, and nodeagent
/// has released the reboot.
fn may_withdraw(next: &State, facts: &Facts) -> bool {
    next.hold.state != BaseOsHoldState::Activated && has_released(&facts.nodeagent)
}

/// The effect that appends the line of a dry run. It is repeated after a restart, because a crash may have come between
/// the record and the line; [`runtime::device_actions`] writes each line once.
fn written_down(next: &State, before: &State, facts: &Facts, now: Moment, policy: Policy) -> Option<Effect> {
    let Accepted { config, source, .. } = next.record.current.as_ref()?;
    let is_dry_run = next.record.image(&config.content_tree_uuid)?.stage == Stage::DryRun;
    let begins = next.phase == Phase::Activated && (before.is_unsure || before.phase != Phase::Activated);
    let Origin { by, reason, .. } = facts.origin(&config.content_tree_uuid);
    let (version, release, by) = (&config.base_os_version, release(next, facts), commanded_by(&by, &reason));
    let line = DeviceLine {
        action: "activate".to_owned(),
        reason: format!("image {version} of {source}: {release}{by}"),
        counter: config.retry_update_counter,
        content_tree_uuid: config.content_tree_uuid.clone(),
        source: *source,
        boot_id: next.record.boot_id.clone(),
        at: now.wall,
    };
    (policy.dry_run && is_dry_run && begins).then_some(Effect::WriteDown(line))
}

/// When to run the next step although no file changes. `facts` are those of the step that has just been made, if it had
/// any.
fn wake(next: &State, facts: Option<&Facts>, now: Moment) -> Option<u64> {
    let window = facts.and_then(|facts| Some(wake_at(facts.window.as_ref()?, now)));
    let waits =
        facts.is_some_and(|facts| facts.drain.own.is_none() && waits_for_window(next, facts).is_some());
    let own = if waits && next.phase == Phase::Deferred { None } else { own_wake(next, now) };
    own.into_iter().chain(window).min()
}

fn own_wake(next: &State, now: Moment) -> Option<u64> {
    let soon = now.after(LOOK_AT_LOCK_MS);
    match (&next.phase, next.next_try.map(|next_try| next_try.at)) {
        (Phase::Recalling | Phase::Adopted, _) => Some(soon),
        (Phase::Deferred, _) if !next.obstacle.is_empty() => Some(soon),
        (Phase::Idle | Phase::Failed, _) if next.record.request.is_some() => Some(soon),
        (Phase::Failed, Some(NextTry::At(at))) => Some(at),
        (Phase::Activated, _) => not_taken_at(next.not_taken_since, now),
        _ => None,
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod sim;
#[cfg(test)]
mod tests;
