//! The log of a drain: each change once, with the words that EVE's users search for.

use std::collections::{BTreeMap, BTreeSet};

use drain::progress::{attempt, lines};
use drain::state::Stage;
use drain::{Moment, PodId};
use schemas::{NOT_DRAINED, NodeDrainStatus, Outcome};
use session::{Phase, Request, State, words};

/// Remembers what was logged, so that nothing is logged twice.
#[derive(Debug, Default)]
pub(crate) struct Narrator {
    status: Option<NodeDrainStatus>,
    phase: &'static str,
    drain: u64,
    /// The drain whose duration was logged last.
    measured: Option<u64>,
    reason: String,
    cluster: Option<String>,
    /// The requests that were logged: publisher, and what it asks for.
    requests: BTreeMap<String, String>,
    pods: BTreeMap<String, Told>,
}

/// What was logged about a pod.
#[derive(Debug)]
struct Told {
    pod: PodId,
    stage: &'static str,
    /// When it was first asked to leave, or was seen to leave.
    began: Option<Moment>,
}

impl Narrator {
    /// If the drain had ended before this process began, the earlier process has logged its duration.
    pub(crate) fn going_on_from(state: &State) -> Self {
        let is_over = matches!(state.phase, Phase::Complete { .. });
        Self { measured: is_over.then_some(state.session.number), ..Self::default() }
    }

    /// Logs what has changed since the last call.
    pub(crate) fn tell(&mut self, state: &State, drain_id: &str, now: Moment) {
        self.tell_cluster(state);
        self.tell_requests(state, drain_id);
        self.tell_step(state, drain_id);
        self.tell_pods(state, drain_id, now);
    }

    fn tell_cluster(&mut self, state: &State) {
        let Some(cluster) = state.cluster.as_ref().filter(|cluster| self.cluster.as_ref() != Some(*cluster))
        else {
            return;
        };
        if let Some(old) = self.cluster.replace(cluster.clone()) {
            tracing::warn!(
                "the kubeconfig leads to another cluster: drains are done in {cluster} from now on, no more in {old} (UIDs of \
                 namespace kube-system)"
            );
        }
    }

    /// Each request that is new, and each that was withdrawn.
    fn tell_requests(&mut self, state: &State, drain_id: &str) {
        let asks = |request: &Request| {
            (
                request.publisher.clone(),
                format!("{} for {}, {}", request.context, request.requester, request.requested_at),
            )
        };
        let now: BTreeMap<String, String> = state.requests.iter().map(asks).collect();
        for (publisher, asks) in &now {
            if self.requests.get(publisher) != Some(asks) {
                tracing::info!(drain_id, "NodeDrainRequest of {publisher}: {asks}");
            }
        }
        for (publisher, asked) in self.requests.iter().filter(|(publisher, _)| !now.contains_key(*publisher))
        {
            tracing::info!(drain_id, "NodeDrainRequest of {publisher} withdrawn: {asked}");
        }
        self.requests = now;
    }

    /// A step of the drain, in one line: the phase, the status if it has changed with it, and the reason.
    fn tell_step(&mut self, state: &State, drain_id: &str) {
        let status = crate::report::status(state);
        let (phase, reason) = (state.phase.name(), words::reason(state));
        let is_new_status = self.status != Some(status);
        let is_new_phase = self.phase != phase || self.drain != state.session.number;
        // The reason of a wait, or of a drain that would be impossible, may change without a change of phase. How many
        // pods have left is logged pod by pod.
        let waits = matches!(state.phase, Phase::Idle | Phase::Waiting(_) | Phase::Cordoning(_));
        if !is_new_status && !is_new_phase && (!waits || self.reason == reason) {
            return;
        }
        let undrained = if is_undrained(state) { format!("{NOT_DRAINED}: ") } else { String::new() };
        let shown = if is_new_status {
            format!(" NodeDrainStatus: {} for {}:", status.status.constant(), status.requested_by)
        } else {
            String::new()
        };
        let step = format!("nodedrain-step: cordonAndDrainNode: {phase}:{shown} {undrained}{reason}");
        if is_new_status && (is_undrained(state) || status.status.is_failed()) {
            tracing::warn!(drain_id, "{step}");
        } else {
            tracing::info!(drain_id, "{step}");
        }
        self.status = Some(status);
        (self.phase, self.drain, self.reason) = (phase, state.session.number, reason);
        if let Some(seconds) = self.duration(state) {
            // Exactly this text: EVE's users search for it to make statistics.
            tracing::info!("kubevirt_node_drain_completion_time_seconds:{seconds:.6}");
        }
    }

    /// The duration of the drain in seconds; once for each drain that has emptied the node.
    fn duration(&mut self, state: &State) -> Option<f64> {
        let is_drained = matches!(state.phase, Phase::Complete { outcome: Outcome::Drained, .. });
        if !is_drained || self.measured == Some(state.session.number) {
            return None;
        }
        self.measured = Some(state.session.number);
        let (started, finished) = (state.session.started, state.session.finished);
        Some(started.zip(finished).map_or(0.0, |(from, to)| to.since(from).as_secs_f64()))
    }

    fn tell_pods(&mut self, state: &State, drain_id: &str, now: Moment) {
        let Phase::Attempting { attempt: number, .. } = state.phase else {
            self.pods.clear();
            return;
        };
        let Some(attempt) = attempt(&state.drain) else { return };
        let (mut seen, mut staying) = (BTreeMap::new(), BTreeSet::new());
        for line in lines(attempt, now) {
            let uid = line.id.uid.clone();
            let Some(stage) = line.stage.as_ref() else {
                staying.insert(uid);
                continue;
            };
            let known = self.pods.get(&uid);
            // A pod that is refused and tried again is not logged again.
            let is_next = matches!(stage, Stage::Waiting | Stage::Evicting) && line.tries > 0;
            let leaves = line.tries > 0 || *stage == Stage::Terminating;
            let began = known.and_then(|known| known.began).or_else(|| leaves.then_some(now));
            let before = known.map(|known| known.stage);
            let stage = before.filter(|_| is_next).unwrap_or_else(|| stage.phrase());
            if before != Some(stage) {
                let pod = line.id.to_string();
                tracing::info!(
                    drain_id,
                    pod,
                    attempt = number,
                    "nodedrain-step:pod-evict-progress msg:{stage} {pod} {}",
                    line.detail
                );
            }
            seen.insert(uid, Told { pod: line.id, stage, began });
        }
        for (uid, Told { pod, began, .. }) in self.pods.iter().filter(|(uid, _)| !seen.contains_key(*uid)) {
            let pod = pod.to_string();
            // A pod that is asked and gone between two looks has no beginning.
            let after = began.map(|began| format!(" after {:.1} s", now.since(began).as_secs_f64()));
            let what = if staying.contains(uid) { "not waited for any more" } else { "gone" };
            let after = after.unwrap_or_default();
            tracing::info!(drain_id, pod, "nodedrain-step:pod-evict-progress msg:{what} {pod}{after}");
        }
        self.pods = seen;
    }
}

/// The device may go down although its pods were not moved.
fn is_undrained(state: &State) -> bool {
    let Phase::Complete { outcome, .. } = state.phase else { return false };
    match outcome {
        Outcome::ApiUnreachable | Outcome::NoSchedulablePeer | Outcome::Forced => true,
        Outcome::Drained
        | Outcome::NodeGone
        | Outcome::CordonFailed
        | Outcome::DrainFailed
        | Outcome::Cancelled => false,
    }
}

#[cfg(test)]
mod tests {
    use runtime::testing::CapturedLog;

    use super::*;

    /// A person who searches the log for the word, or for warnings, must find each of these lines.
    #[test]
    fn a_node_that_is_not_drained_and_a_failed_drain_are_warnings() {
        use schemas::DrainStatus::{Complete, FailedCordon, FailedDrain};
        let of = |outcome| Phase::Complete { outcome, recheck: None };
        for (phase, status, level, word) in [
            (of(Outcome::ApiUnreachable), Complete, " WARN ", ": NOT DRAINED: "),
            (of(Outcome::NoSchedulablePeer), Complete, " WARN ", ": NOT DRAINED: "),
            (of(Outcome::Forced), Complete, " WARN ", ": NOT DRAINED: "),
            (of(Outcome::Drained), Complete, " INFO ", "NodeDrainStatus: COMPLETE "),
            (Phase::Idle, FailedCordon, " WARN ", "NodeDrainStatus: FAILEDCORDON "),
            (Phase::Idle, FailedDrain, " WARN ", "NodeDrainStatus: FAILEDDRAIN "),
        ] {
            let mut state = State::new(schemas::Member::Yes, String::new(), Moment(0));
            state.phase = phase;
            (state.published.status, state.published.requested_by) =
                (status, schemas::DrainRequester::DeviceOp);
            let log = CapturedLog::begin();
            Narrator::default().tell_step(&state, "");
            let said = log.take();
            assert!(said.contains(level) && said.contains(word), "{level}{word} {said}");
        }
    }

    /// EVE's users search for these words; one change is one line.
    #[test]
    fn a_step_is_one_line_with_all_words() {
        let mut state = State::new(schemas::Member::Yes, String::new(), Moment(0));
        let mut narrator = Narrator::default();
        let mut said = |state: &State| {
            let log = CapturedLog::begin();
            narrator.tell(state, "", Moment(0));
            log.take()
        };
        let first = said(&state);
        assert_eq!(first.lines().count(), 1, "{first}");
        assert_eq!(said(&state), "", "nothing has changed");
        state.published.status = schemas::DrainStatus::Complete;
        state.phase = Phase::Complete { outcome: Outcome::NodeGone, recheck: None };
        let step = said(&state);
        let words = "nodedrain-step: cordonAndDrainNode: Complete: NodeDrainStatus: COMPLETE for ";
        assert!(step.contains(words) && step.lines().count() == 1, "{step}");
        state.published.requested_by = schemas::DrainRequester::Update;
        let other = said(&state);
        assert!(
            other.contains("NodeDrainStatus: COMPLETE for UPDATE: ") && other.lines().count() == 1,
            "{other}"
        );
    }

    #[test]
    fn a_drain_is_measured_once_whoever_restarts() {
        let mut state = State::new(schemas::Member::Yes, String::new(), Moment(0));
        state.phase = Phase::Complete { outcome: Outcome::Drained, recheck: None };
        (state.session.number, state.session.started, state.session.finished) =
            (1, Some(Moment(1000)), Some(Moment(3500)));
        let mut narrator = Narrator::going_on_from(&State::default());
        assert_eq!((narrator.duration(&state), narrator.duration(&state)), (Some(2.5), None));
        let mut restarted = Narrator::going_on_from(&state);
        assert_eq!(restarted.duration(&state), None, "logged by the process before");
        state.session.number = 2;
        assert_eq!(restarted.duration(&state), Some(2.5), "another drain");
        state.session.number = 3;
        state.phase = Phase::Complete { outcome: Outcome::Forced, recheck: None };
        assert_eq!(restarted.duration(&state), None, "nothing was drained");
    }
}
