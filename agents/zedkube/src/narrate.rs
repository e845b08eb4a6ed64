//! The log of a drain: each change once, with the words that EVE's users search for.

use std::collections::BTreeMap;

use drain::progress::{attempt, lines};
use drain::state::Stage;
use drain::{Moment, PodId};
use schemas::NodeDrainStatus;
use session::state::Phase;
use session::{State, words};

/// Remembers what was said, so that nothing is said twice.
#[derive(Debug, Default)]
pub(crate) struct Narrator {
    status: Option<NodeDrainStatus>,
    phase: &'static str,
    drain: u64,
    pods: BTreeMap<String, (PodId, &'static str)>,
}

impl Narrator {
    /// Says what has changed.
    pub(crate) fn tell(&mut self, state: &State, drain_id: &str, now: Moment) {
        self.tell_status(state, drain_id);
        self.tell_phase(state, drain_id);
        self.tell_pods(state, drain_id, now);
    }

    fn tell_status(&mut self, state: &State, drain_id: &str) {
        let status = crate::report::status(state);
        if self.status != Some(status) {
            let (name, by) = (status.status.constant(), status.requested_by);
            tracing::info!(drain_id, "NodeDrainStatus: {name} for {by}: {}", words::reason(state));
            self.status = Some(status);
        }
    }

    fn tell_phase(&mut self, state: &State, drain_id: &str) {
        let phase = state.phase.name();
        if self.phase == phase && self.drain == state.session.number {
            return;
        }
        (self.phase, self.drain) = (phase, state.session.number);
        tracing::info!(drain_id, "cordonAndDrainNode: {phase}: {}", words::reason(state));
        if matches!(state.phase, Phase::Complete { .. }) {
            let (started, finished) = (state.session.started, state.session.finished);
            let seconds = started.zip(finished).map_or(0.0, |(from, to)| to.since(from).as_secs_f64());
            // Exactly this text: it is mined for statistics.
            tracing::info!("kubevirt_node_drain_completion_time_seconds:{seconds:.6}");
        }
    }

    fn tell_pods(&mut self, state: &State, drain_id: &str, now: Moment) {
        let Phase::Attempting { attempt: number, .. } = state.phase else {
            self.pods.clear();
            return;
        };
        let Some(attempt) = attempt(&state.drain) else { return };
        let mut seen = BTreeMap::new();
        for line in lines(attempt, now) {
            let Some(stage) = line.stage.as_ref().map(word) else { continue };
            let uid = line.id.uid.clone();
            if self.pods.get(&uid).map(|(_, known)| *known) != Some(stage) {
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

/// The stages that are worth a line.
fn word(stage: &Stage) -> &'static str {
    match stage {
        Stage::Waiting | Stage::Sent => "to be evicted",
        Stage::Blocked { .. } => "blocked",
        Stage::Paused { .. } => "to be tried again",
        Stage::Accepted | Stage::Terminating => "terminating",
        Stage::Awaiting => "awaited",
        Stage::Refused => "refused",
        Stage::Final { .. } => "failed",
    }
}
