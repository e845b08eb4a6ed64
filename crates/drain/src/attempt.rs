//! One attempt to empty the node: the coordinator of the machines for pods, volumes, turns and relists.
//!
//! The machines do not know each other. Whatever one of them needs of another goes through here: snapshots and answers
//! come in ([`knowing`]), evictions go out ([`sending`]), clocks run ([`timing`]), and the end is judged ([`ending`]).

mod ending;
mod knowing;
mod sending;
mod timing;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::event::Record;
use crate::findings::Findings;
use crate::plan::Planned;
use crate::pod::{Stage, Track};
use crate::pods::Pods;
use crate::relist::Relists;
use crate::time::Moment;
use crate::turns::{Turn, Turns};
use crate::view::Snapshot;
use crate::volumes::{VolumeTrack, Volumes};

pub(crate) use self::knowing::Relisted;
#[cfg(test)]
pub(crate) use self::timing::{LATE_BINDING, REFRESH};

/// Missing knowledge of volumes is reported only after this long.
const QUIET: Duration = Duration::from_secs(5);

/// One attempt to empty the node.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    number: u32,
    started: Moment,
    deadline: Moment,
    /// The newest knowledge of the node, from watches and relists; `None` until the first of them comes.
    snapshot: Option<Arc<Snapshot>>,
    /// When the last snapshot came.
    seen: Moment,
    /// The verdicts on the last snapshot, in its order.
    planned: Vec<Planned>,
    pods: Pods,
    volumes: Volumes,
    turns: Turns,
    relists: Relists,
    /// When questions about blocked pods were last asked.
    inquired: Option<Moment>,
    findings: Arc<Findings>,
    /// Pods came after the first snapshot, or left that tolerate the cordon and so may come back.
    arrivals: bool,
    /// A snapshot has shown the node cordoned.
    seen_cordoned: bool,
    away_since: Option<Moment>,
    /// How long the API server was away in this attempt before.
    away_total: Duration,
    api_back: Option<Moment>,
}

impl Attempt {
    /// A new attempt that has seen nothing yet.
    pub(crate) fn new(number: u32, now: Moment, timeout: Duration, api_back: Option<Moment>) -> Self {
        Self {
            number,
            started: now,
            deadline: now + timeout,
            snapshot: None,
            seen: now,
            planned: Vec::new(),
            pods: Pods::default(),
            volumes: Volumes::default(),
            turns: Turns::default(),
            relists: Relists::default(),
            inquired: None,
            findings: Arc::default(),
            arrivals: false,
            seen_cordoned: false,
            away_since: None,
            away_total: Duration::ZERO,
            api_back,
        }
    }

    /// An attempt that another process began.
    pub(crate) fn resumed(number: u32, now: Moment, api_back: Option<Moment>, record: Record) -> Self {
        Self {
            started: record.started,
            deadline: record.deadline,
            away_total: record.away_total,
            pods: Pods::resumed(record.refused_since),
            ..Self::new(number, now, Duration::ZERO, api_back)
        }
    }

    /// The record from which another process can go on with this attempt. An outage that is not over yet is left out: its
    /// time counts against the deadline.
    pub fn record(&self) -> Record {
        Record {
            started: self.started,
            deadline: self.deadline,
            away_total: self.away_total,
            refused_since: self.pods.refused_since(),
        }
    }

    /// 1 for the first attempt; answers carry it, so that a late one is recognised.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// When the attempt began.
    pub fn started(&self) -> Moment {
        self.started
    }

    /// When the attempt has failed. Moves on while the API server is away, if the policy says so.
    pub fn deadline(&self) -> Moment {
        self.deadline
    }

    /// The newest knowledge of the node; `None` until the first snapshot comes.
    pub fn snapshot(&self) -> Option<&Arc<Snapshot>> {
        self.snapshot.as_ref()
    }

    /// When the last snapshot came.
    pub fn seen(&self) -> Moment {
        self.seen
    }

    /// A snapshot has shown the node cordoned.
    pub fn has_seen_cordon(&self) -> bool {
        self.seen_cordoned
    }

    /// The verdicts on the last snapshot, in its order.
    pub fn planned(&self) -> &[Planned] {
        &self.planned
    }

    /// The pods that have to leave, by UID.
    pub fn pods(&self) -> &BTreeMap<String, Track> {
        self.pods.all()
    }

    /// How many pods have left.
    pub fn gone(&self) -> u64 {
        self.pods.gone()
    }

    /// The volumes of pods that leave or have left, and what a proof found attached to the node without a pod, by name.
    pub fn volumes(&self) -> &BTreeMap<String, VolumeTrack> {
        self.volumes.all()
    }

    /// The turns of pods with attached volumes.
    pub(crate) fn turns(&self) -> impl Iterator<Item = &Turn> {
        self.turns.iter()
    }

    /// The server does not know evictions.
    #[cfg(test)]
    pub(crate) fn no_evictions(&self) -> bool {
        self.pods.no_evictions()
    }

    /// Findings about blocked pods, for the report.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Since when the API server is away.
    pub fn away_since(&self) -> Option<Moment> {
        self.away_since
    }

    /// When the API server last came back, in this attempt or shortly before it.
    pub fn api_back(&self) -> Option<Moment> {
        self.api_back
    }

    /// Why the last fresh list told nothing, if it did not.
    pub fn relist_error(&self) -> Option<&str> {
        self.relists.error()
    }

    /// For a dry run, which sends nothing: the pod with this UID would be in this stage.
    pub fn assume(&mut self, uid: &str, stage: Stage) {
        if let Some(track) = self.pods.get_mut(uid) {
            track.assume(stage);
        }
    }

    /// Takes in findings about blocked pods.
    pub fn find(&mut self, findings: Arc<Findings>) {
        self.findings = findings;
    }

    /// Reasons for waiting besides pods and volumes, in words that do not change from second to second: a relist
    /// that keeps failing, a first snapshot, or knowledge of volumes. `None` if all is well.
    pub fn wait_reason(&self) -> Option<String> {
        if let Some(why) = self.relists.error() {
            return Some(format!("a fresh look at the node told nothing, and is tried again: {why}"));
        }
        let asked = self.relists.asked();
        if self.snapshot.is_none() {
            let text = "the watches have not shown the node, its pods and their volumes yet, so a fresh look is taken; \
                        nothing is evicted before";
            return (asked > self.started).then(|| text.to_owned());
        }
        let latest = self.seen.max(asked);
        let is_long = |since: &Moment| latest.since(*since) >= QUIET;
        let unknown = self.pods.iter().filter_map(Track::volumes_unknown).filter(is_long).count();
        (unknown > 0).then(|| {
            format!(
                "it is not known yet which volumes {unknown} of the pods have; they are not evicted before"
            )
        })
    }
}
