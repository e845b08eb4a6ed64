//! The log of a drain: each change once, with the words that EVE's users search for.

use std::collections::BTreeMap;

use drain::progress::{attempt, lines};
use drain::state::Stage;
use drain::{Moment, PodId};
use schemas::{NOT_DRAINED, NodeDrainStatus, Outcome};
use session::{Phase, State, words};

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
    pods: BTreeMap<String, (PodId, &'static str)>,
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
        self.tell_status(state, drain_id);
        self.tell_phase(state, drain_id);
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

    fn tell_status(&mut self, state: &State, drain_id: &str) {
        let status = crate::report::status(state);
        if self.status != Some(status) {
            let (name, by) = (status.status.constant(), status.requested_by);
            let reason = words::reason(state);
            if is_undrained(state) {
                tracing::warn!(drain_id, "NodeDrainStatus: {name} for {by}: {NOT_DRAINED}: {reason}");
            } else if status.status.is_failed() {
                tracing::warn!(drain_id, "NodeDrainStatus: {name} for {by}: {reason}");
            } else {
                tracing::info!(drain_id, "NodeDrainStatus: {name} for {by}: {reason}");
            }
            self.status = Some(status);
        }
    }

    fn tell_phase(&mut self, state: &State, drain_id: &str) {
        let phase = state.phase.name();
        let is_new = self.phase != phase || self.drain != state.session.number;
        // The reason of a wait, or of a drain that would be impossible, may change without a change of phase. How many
        // pods have left is logged pod by pod.
        let waits = matches!(state.phase, Phase::Idle | Phase::Waiting(_) | Phase::Cordoning(_));
        let reason = words::reason(state);
        if !is_new && (!waits || self.reason == reason) {
            return;
        }
        tracing::info!(drain_id, "cordonAndDrainNode: {phase}: {reason}");
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
        let mut seen = BTreeMap::new();
        for line in lines(attempt, now) {
            let Some(stage) = line.stage.as_ref() else { continue };
            let uid = line.id.uid.clone();
            let known = self.pods.get(&uid).map(|(_, known)| *known);
            // A pod that is refused and tried again is not logged again.
            let is_next = matches!(stage, Stage::Waiting | Stage::Evicting) && line.tries > 0;
            let stage = known.filter(|_| is_next).unwrap_or_else(|| stage.phrase());
            if known != Some(stage) {
                let pod = line.id.to_string();
                tracing::info!(
                    drain_id,
                    pod,
                    attempt = number,
                    "nodedrain-step:pod-evict-progress msg:{stage} {pod} {}",
                    line.detail
                );
            }
            seen.insert(uid, (line.id, stage));
        }
        for (uid, (pod, _)) in &self.pods {
            if !seen.contains_key(uid) {
                let pod = pod.to_string();
                tracing::info!(drain_id, pod, "nodedrain-step:pod-evict-progress msg:gone {pod}");
            }
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
            Narrator::default().tell_status(&state, "");
            let said = log.take();
            assert!(said.contains(level) && said.contains(word), "{level}{word} {said}");
        }
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
