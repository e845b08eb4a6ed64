//! Makes NodeDrainReport and NodeDrainStatus from the state.

use std::collections::BTreeMap;

use cluster::MOST_REQUESTS;
use drain::diagnosis::{Guard, blockers};
use drain::progress::{self, Line, attempt, lines};
use drain::state::Stage;
use drain::{Moment, Planned, diagnosis};
use schemas::{
    Attempt, Blocked, Blocker, Budget, Disabled, GoTime, HeldBy, Member, NodeDrainReport, NodeDrainStatus,
    Outcome, PodLine, Preflight, PreflightProblem, Progress, RefusedInput, RequestLine, SCHEMA_VERSION, Slot,
    SpentOrder, StandingOrder, VolumeLine,
};
use session::held::held_by;
use session::membership::Mode;
use session::{Answer, Phase, State, words};

use crate::shown_time::ShownTime;

/// Troubles in the report: with more of them a person needs the list of the pods.
const MOST_BLOCKERS: usize = 16;

/// Pods that are named for each trouble.
const MOST_EXAMPLES: usize = 3;

/// What the report contains besides the state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Surroundings {
    /// UUID of the current drain.
    pub(crate) drain_id: String,
    /// Name of our node, once known.
    pub(crate) node: String,
    /// What may be old because its watch has failed, and has not gone on since.
    pub(crate) watch_error: Option<String>,
    /// A request waits because zedkube has sent its most of a minute.
    pub(crate) is_paced: bool,
    /// Why the record cannot be written; `None` if the last write succeeded.
    pub(crate) unrecorded: Option<String>,
    /// Why the membership cannot be stored; `None` if the last write succeeded.
    pub(crate) unstored: Option<String>,
    /// The call that hangs, and why zedkube does not restart for it.
    pub(crate) hanging: Option<String>,
    /// The places in which no kubeconfig was found; `None` if there is one.
    pub(crate) kubeconfig_places: Option<String>,
    /// Input files that are refused now.
    pub(crate) refused: Vec<RefusedInput>,
    /// What the API server has answered to evictions and deletions: number by kind.
    pub(crate) eviction_answers: BTreeMap<String, u64>,
    /// The last result of the preflight.
    pub(crate) preflight: Option<Preflight>,
}

/// NodeDrainStatus for the state.
pub(crate) fn status(state: &State) -> NodeDrainStatus {
    NodeDrainStatus { status: state.published.status, requested_by: state.published.requested_by }
}

/// NodeDrainReport for the state at `now`.
pub(crate) fn report(
    state: &State,
    policy: &session::Policy,
    around: &Surroundings,
    time: &ShownTime,
    now: Moment,
) -> NodeDrainReport {
    let attempt = attempt(&state.drain);
    let blocked = attempt.map(|attempt| diagnosis::blocked(attempt, now)).unwrap_or_default();
    let is_draining = matches!(state.phase, Phase::Attempting { .. } | Phase::Pausing { .. });
    let blockers = blockers(&blocked);
    let holding = if is_draining { blockers.as_slice() } else { &[] };
    NodeDrainReport {
        schema_version: SCHEMA_VERSION,
        drain_id: around.drain_id.clone(),
        boot_id: state.boot_id.clone(),
        node: node(state, around),
        phase: phase(state).to_owned(),
        since: time.show(state.since),
        started_at: time.show_some(state.session.started),
        finished_at: time.show_some(state.session.finished),
        outcome: state.session.ended,
        reason: reason(state, around, now),
        hint: hint(state, around, holding, now),
        held_by: held(state, around, holding, now),
        api_away_since: time.show_some(state.api.away_since),
        outlook: words::outlook(state, policy, now),
        member: state.member_now(),
        disabled: state.orders.disabled.as_ref().map(|disabled| disabled_line(disabled, time)),
        standing_order: waiting_order(state).map(|forced| standing_order(forced, time)),
        spent_order: state.orders.needless.as_ref().map(|needless| spent_order(needless, time)),
        requests: state.requests.iter().map(|request| request_line(request, state)).collect(),
        cordon_attempt: cordon_attempt(state),
        drain_attempt: state.phase.attempt(),
        attempts: state.session.attempts.iter().map(|record| attempt_line(record, time)).collect(),
        deadline: deadline(state, time),
        progress: attempt.map(progress_of).unwrap_or_default(),
        pods: match attempt {
            Some(attempt) => pod_lines(&lines(attempt, now), time),
            None => left_behind(state, policy, time),
        },
        blockers: blockers.into_iter().take(MOST_BLOCKERS).map(blocker).collect(),
        blocked: blocked.into_iter().map(blocked_line).collect(),
        volumes: attempt.map(|attempt| volume_lines(attempt, time)).unwrap_or_default(),
        slot: slot(state, time),
        cordoned: state.is_cordoned(),
        cordoned_before: state.session.cordoned_before,
        refused: around.refused.clone(),
        preflight: around.preflight.clone(),
        eviction_answers: around.eviction_answers.clone(),
        ..NodeDrainReport::default()
    }
}

/// The pods that are still on a node that an operator has forced down.
fn left_behind(state: &State, policy: &session::Policy, time: &ShownTime) -> Vec<PodLine> {
    let Some(snapshot) = state.snapshot.as_deref().filter(|_| state.is_forced()) else {
        return Vec::new();
    };
    let line = |planned: Planned| PodLine {
        namespace: planned.id.namespace.clone(),
        name: planned.id.name.clone(),
        uid: planned.id.uid.clone(),
        verdict: planned.verdict.name().to_owned(),
        reasons: planned.reasons.iter().map(ToString::to_string).collect(),
        stage: "LeftBehind".to_owned(),
        since: time.show(state.since),
        ..PodLine::default()
    };
    drain::plan(snapshot, &policy.drain).into_iter().filter(Planned::must_leave).map(line).collect()
}

fn disabled_line(disabled: &session::orders::Disabled, time: &ShownTime) -> Disabled {
    Disabled { since: time.show(disabled.since), by: disabled.by.clone() }
}

/// The order of COMPLETE that still waits for a request. One that has answered a request is used up.
fn waiting_order(state: &State) -> Option<&session::orders::Forced> {
    state.orders.complete.as_ref().filter(|forced| !forced.used)
}

fn standing_order(forced: &session::orders::Forced, time: &ShownTime) -> StandingOrder {
    StandingOrder {
        requested_by: forced.requester,
        since: time.show(forced.since),
        until: time.show(forced.until),
        by: forced.by.clone(),
    }
}

fn slot(state: &State, time: &ShownTime) -> Slot {
    let waiting_since = match &state.phase {
        Phase::Waiting(waiting) => waiting.slot_since,
        Phase::Idle
        | Phase::Cordoning(_)
        | Phase::Attempting { .. }
        | Phase::Pausing { .. }
        | Phase::Complete { .. }
        | Phase::Failed(_) => None,
    };
    Slot {
        held: state.holds_slot(),
        waiting_since: time.show_some(waiting_since),
        holders: state.slots.holders(),
        passed_over_by: state.slots.passed_over_by.clone(),
    }
}

/// The report's reason: first what stops everything, then the session's reason, then problems of the watches and the
/// disk.
fn reason(state: &State, around: &Surroundings, now: Moment) -> String {
    // While the API server is away, the session's own reason says so.
    let is_shown = state.api.away_since.is_none();
    let watch_error = around.watch_error.clone().filter(|_| is_shown);
    let held_up = [&around.unrecorded, &around.hanging].into_iter().flatten().cloned();
    let unstored = around.unstored.as_ref();
    let unstored =
        unstored.map(|error| format!("the membership cannot be stored for the next boot: {error}"));
    let foreseen = foreseen(state, around, now);
    let foreseen = foreseen.map(|problem| format!("to be fixed before the next drain: {}", problem.text));
    let why = unfound(state, around).map_or_else(
        || words::reason(state),
        |places| {
            format!("no kubeconfig was found, so this device counts as in no cluster: looked at {places}")
        },
    );
    let paced = around.is_paced.then(|| {
        format!(
            "zedkube has sent {MOST_REQUESTS} requests to the API server within a minute, so the next ones wait, for a minute \
             at most"
        )
    });
    let parts = held_up.chain([why]).chain(paced).chain(foreseen).chain(watch_error).chain(unstored);
    parts.collect::<Vec<_>>().join("; ")
}

/// Name of our node; until the API server has shown it, the name of the node that is to be taken back.
fn node(state: &State, around: &Surroundings) -> String {
    let left = state.left_behind().filter(|_| around.node.is_empty() && state.will_take_back());
    left.map_or_else(|| around.node.clone(), |left| left.node.clone())
}

/// What holds the drain up: first what stops everything.
fn held(
    state: &State,
    around: &Surroundings,
    blockers: &[diagnosis::Blocker],
    now: Moment,
) -> Option<HeldBy> {
    let record = around.unrecorded.as_ref().map(|_| HeldBy::Record);
    let call = around.hanging.as_ref().map(|_| HeldBy::Call);
    record.or(call).or_else(|| held_by(state, now)).or_else(|| blockers.first().map(|_| HeldBy::Pods))
}

/// The report's hint: first about what stops everything.
fn hint(state: &State, around: &Surroundings, blockers: &[diagnosis::Blocker], now: Moment) -> String {
    let hint = if around.unrecorded.is_some() {
        "make room in /run, or fix what the reason names: zedkube tries again by itself; `ebb cancel` and \
         `ebb force` work meanwhile"
    } else if around.hanging.is_some() {
        "restart zedkube"
    } else {
        if unfound(state, around).is_some() {
            return "if this machine is in a cluster: set cluster.kubeconfig; until then it goes down WITHOUT a drain"
                .to_owned();
        }
        // Requests that wait for their turn are no reason to look at the API server.
        let is_asked = !around.is_paced || held_by(state, now).is_some();
        let said = if is_asked { words::hint(state, now) } else { String::new() };
        let of_pods = || blockers.first().map(|blocker| blocker.hint.clone());
        let of_drain = || Some(said).filter(|said| !said.is_empty()).or_else(of_pods).unwrap_or_default();
        return foreseen(state, around, now).map_or_else(of_drain, |problem| problem.hint.clone());
    };
    hint.to_owned()
}

/// The places in which no kubeconfig was found, on a device that therefore counts as one in no cluster.
fn unfound<'a>(state: &State, around: &'a Surroundings) -> Option<&'a String> {
    let has_nothing = state.own.is_none() && state.left_behind().is_none();
    let is_alone = state.phase == Phase::Idle && state.member_now() == Member::No && has_nothing;
    let is_searched = state.facts.mode == Mode::Auto && state.facts.eve_config_valid.is_none();
    around.kubeconfig_places.as_ref().filter(|_| is_alone && is_searched && state.orders.disabled.is_none())
}

/// The preflight's first problem, if the session has nothing to say itself. Nodes without confinement do not stop a
/// drain.
fn foreseen<'a>(state: &State, around: &'a Surroundings, now: Moment) -> Option<&'a PreflightProblem> {
    let is_quiet = state.phase == Phase::Idle
        && !state.is_return_due()
        && state.orders.disabled.is_none()
        && words::hint(state, now).is_empty();
    let problem = around.preflight.as_ref()?.problems.first()?;
    let stops_a_drain =
        matches!(problem.what.as_str(), "Rights" | "Slots" | "Credentials" | "Budgets" | "Means");
    (is_quiet && stops_a_drain).then_some(problem)
}

/// The phase's name in the report; restoring has the name `Returning`, also while it waits for the API server.
fn phase(state: &State) -> &'static str {
    let returns = state.phase == Phase::Idle && (state.is_return_due() || state.will_take_back());
    if returns { "Returning" } else { state.phase.name() }
}

fn cordon_attempt(state: &State) -> u32 {
    match &state.phase {
        Phase::Cordoning(cordoning) => cordoning.failures.saturating_add(1),
        Phase::Idle
        | Phase::Waiting(_)
        | Phase::Attempting { .. }
        | Phase::Pausing { .. }
        | Phase::Complete { .. }
        | Phase::Failed(_) => 0,
    }
}

fn deadline(state: &State, time: &ShownTime) -> GoTime {
    match &state.phase {
        Phase::Attempting { .. } => {
            time.show_some(attempt(&state.drain).map(drain::state::Attempt::deadline))
        }
        Phase::Pausing { until, .. } => time.show(*until),
        Phase::Waiting(waiting) => time.show_some(waiting.undrained_at),
        Phase::Idle | Phase::Cordoning(_) | Phase::Complete { .. } | Phase::Failed(_) => GoTime::ZERO,
    }
}

fn spent_order(needless: &session::orders::Needless, time: &ShownTime) -> SpentOrder {
    SpentOrder {
        requested_by: needless.requester,
        since: time.show(needless.since),
        by: needless.by.clone(),
        text: format!("nothing to force: already COMPLETE ({:?})", needless.outcome),
    }
}

/// The answer to a request as it may be shown, and what it was given for.
pub(crate) fn shown_answer(request: &session::Request, state: &State) -> (Answer, Option<Outcome>) {
    let is_shown = request.answer != Answer::Complete || state.is_confirmed(request.requester);
    let answer = if is_shown { request.answer } else { Answer::None };
    let outcome = match answer {
        Answer::Forced => Some(Outcome::Forced),
        // Somebody else may have been answered by an order since.
        Answer::Complete if state.is_forced() => state.session.told,
        Answer::Complete => state.session.ended,
        Answer::None | Answer::FailedCordon | Answer::FailedDrain => None,
    };
    (answer, outcome)
}

fn request_line(request: &session::Request, state: &State) -> RequestLine {
    let (answer, outcome) = shown_answer(request, state);
    RequestLine {
        requested_by: request.requester,
        context: request.context.clone(),
        requested_at: request.requested_at.parse().unwrap_or_default(),
        publisher: request.publisher.clone(),
        answer: answer.status(),
        outcome,
        by: request.forced_by.clone(),
        kept: request.kept,
    }
}

fn attempt_line(record: &session::state::AttemptRecord, time: &ShownTime) -> Attempt {
    Attempt {
        number: record.number,
        started_at: time.show(record.started),
        ended_at: time.show(record.ended),
        error: record.error.clone(),
    }
}

fn progress_of(attempt: &drain::state::Attempt) -> Progress {
    let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    let drain::progress::Progress { total, gone, terminating, blocked, waiting, left, volumes: _ } =
        progress::progress(attempt);
    Progress {
        total: small(total),
        gone: small(gone),
        terminating: small(terminating),
        blocked: small(blocked),
        waiting: small(waiting),
        left: small(left),
    }
}

fn pod_lines(lines: &[Line], time: &ShownTime) -> Vec<PodLine> {
    let line = |line: &Line| PodLine {
        namespace: line.id.namespace.clone(),
        name: line.id.name.clone(),
        uid: line.id.uid.clone(),
        owner: line.owner.clone(),
        verdict: line.verdict.name().to_owned(),
        reasons: line.reasons.iter().map(ToString::to_string).collect(),
        stage: line.stage.as_ref().map_or("Stays", Stage::name).to_owned(),
        since: time.show(line.since),
        tries: line.tries,
        detail: line.detail.clone(),
    };
    lines.iter().map(line).collect()
}

fn blocker(blocker: diagnosis::Blocker) -> Blocker {
    let diagnosis::Blocker { what, hint, by, pods } = blocker;
    Blocker {
        what,
        hint,
        by: by.name().to_owned(),
        pods: u32::try_from(pods.len()).unwrap_or(u32::MAX),
        examples: pods.iter().take(MOST_EXAMPLES).map(ToString::to_string).collect(),
    }
}

fn blocked_line(blocked: diagnosis::Blocked) -> Blocked {
    let budget = |guard: &Guard| Budget {
        name: guard.budget.name.clone(),
        current_healthy: guard.budget.current_healthy,
        desired_healthy: guard.budget.desired_healthy,
        disruptions_allowed: guard.budget.disruptions_allowed,
        unhealthy_pods: guard.unhealthy.clone(),
    };
    Blocked {
        pod: blocked.pod.to_string(),
        cause: blocked.cause,
        budgets: blocked.budgets.iter().map(budget).collect(),
        holder: blocked.holder,
        hint: blocked.hint,
    }
}

fn volume_lines(attempt: &drain::state::Attempt, time: &ShownTime) -> Vec<VolumeLine> {
    let line = |line: progress::VolumeLine| VolumeLine {
        pv: line.volume,
        // Empty if the volume was found attached without a pod.
        pod: if line.claim.is_empty() { String::new() } else { line.pod.to_string() },
        stage: line.stage.to_owned(),
        since: time.show(line.since),
    };
    progress::volume_lines(attempt).into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use schemas::{Member, Preflight};

    use super::*;

    /// Reason and hint of a device at rest with one preflight problem.
    fn said(what: &str) -> (String, String) {
        let state = State::new(Member::Yes, "boot".to_owned(), Moment(0));
        let problem =
            PreflightProblem { what: what.to_owned(), text: "a text".to_owned(), hint: "a hint".to_owned() };
        let preflight = Preflight { problems: vec![problem], ..Preflight::default() };
        let around = Surroundings { preflight: Some(preflight), ..Surroundings::default() };
        (reason(&state, &around, Moment(0)), hint(&state, &around, &[], Moment(0)))
    }

    #[test]
    fn what_stops_the_next_drain_is_the_reason_while_nobody_asks() {
        let quiet = "nobody asks for a drain".to_owned();
        for what in ["Rights", "Slots", "Credentials", "Budgets", "Means"] {
            let (reason, hint) = said(what);
            assert_eq!(reason, format!("{quiet}; to be fixed before the next drain: a text"), "{what}");
            assert_eq!(hint, "a hint", "{what}");
        }
        for what in ["Cluster", "Confinement", "Node"] {
            assert_eq!(said(what), (quiet.clone(), String::new()), "{what} stops no drain");
        }
        let mut state = State::new(Member::Yes, "boot".to_owned(), Moment(0));
        let around = Surroundings { is_paced: true, ..Surroundings::default() };
        assert!(reason(&state, &around, Moment(0)).contains("so the next ones wait, for a minute at most"));
        state.phase = Phase::Waiting(session::phase::Waiting::default());
        let shown = |around: &Surroundings| hint(&state, around, &[], Moment(0));
        assert!(shown(&Surroundings::default()).starts_with("look at the API server"));
        assert_eq!(shown(&around), "", "it was not asked");
    }
}
