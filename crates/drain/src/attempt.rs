//! One attempt to drain the node: the coordinator of the machines for pods, volumes, turns and relists.
//!
//! The machines do not know each other; data that one of them needs from another goes through here. Snapshots and
//! answers are applied in [`knowing`], evictions are sent in [`sending`], times are computed in [`timing`], and the end
//! is decided in [`ending`].

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
use crate::policy::STALE_SCHEDULER;
use crate::relist::Relists;
use crate::time::Moment;
use crate::turns::{Turn, Turns};
use crate::view::Snapshot;
use crate::volumes::{VolumeTrack, Volumes};

pub(crate) use self::knowing::Relisted;
#[cfg(test)]
pub(crate) use self::timing::{LATE_BINDING, REFRESH};

/// Unknown volumes are reported only after this long.
const QUIET: Duration = Duration::from_secs(5);

/// One attempt to drain the node.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    number: u32,
    started: Moment,
    deadline: Moment,
    /// Latest state of the node, from watches and relists; `None` until the first snapshot comes.
    snapshot: Option<Arc<Snapshot>>,
    /// Time of the last snapshot.
    seen: Moment,
    /// Verdicts on the last snapshot, in its order.
    planned: Vec<Planned>,
    pods: Pods,
    volumes: Volumes,
    turns: Turns,
    relists: Relists,
    /// Time of the last inquiry about blocked pods, and how many inquiries there were.
    inquired: Option<(Moment, u32)>,
    findings: Arc<Findings>,
    /// True if pods came after the first snapshot, or left that tolerate the cordon and so may come back.
    arrivals: bool,
    /// True if a snapshot has shown the node cordoned.
    seen_cordoned: bool,
    away_since: Option<Moment>,
    /// Sum of the earlier outages of the API server in this attempt.
    away_total: Duration,
    api_back: Option<Moment>,
}

impl Attempt {
    /// A new attempt without a snapshot.
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

    /// Record with which another process can continue this attempt. A present outage is left out: its time counts
    /// against the deadline.
    pub fn record(&self) -> Record {
        Record {
            started: self.started,
            deadline: self.deadline,
            away_total: self.away_total,
            refused_since: self.pods.refused_since(),
        }
    }

    /// Number of the attempt, from 1. Answers carry it, so that a late one can be recognised.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Start of the attempt.
    pub fn started(&self) -> Moment {
        self.started
    }

    /// Time at which the attempt fails. If the policy says so, it is moved by each outage of the API server.
    pub fn deadline(&self) -> Moment {
        self.deadline
    }

    /// Latest state of the node; `None` until the first snapshot comes.
    pub fn snapshot(&self) -> Option<&Arc<Snapshot>> {
        self.snapshot.as_ref()
    }

    /// Time of the last snapshot.
    pub fn seen(&self) -> Moment {
        self.seen
    }

    /// True if a snapshot has shown the node cordoned.
    pub fn has_seen_cordon(&self) -> bool {
        self.seen_cordoned
    }

    /// Verdicts on the last snapshot, in its order.
    pub fn planned(&self) -> &[Planned] {
        &self.planned
    }

    /// The pods that have to leave, by UID.
    pub fn pods(&self) -> &BTreeMap<String, Track> {
        self.pods.all()
    }

    /// Number of pods that have left.
    pub fn gone(&self) -> u64 {
        self.pods.gone()
    }

    /// Volumes of pods that leave or have left, and volumes without a pod that the final check found attached; by name.
    pub fn volumes(&self) -> &BTreeMap<String, VolumeTrack> {
        self.volumes.all()
    }

    /// The turns of pods with attached volumes.
    pub(crate) fn turns(&self) -> impl Iterator<Item = &Turn> {
        self.turns.iter()
    }

    /// True if the server does not support evictions.
    #[cfg(test)]
    pub(crate) fn no_evictions(&self) -> bool {
        self.pods.no_evictions()
    }

    /// Findings about blocked pods, for the report.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Start of the present outage of the API server.
    pub fn away_since(&self) -> Option<Moment> {
        self.away_since
    }

    /// End of the last outage of the API server, in this attempt or shortly before it.
    pub fn api_back(&self) -> Option<Moment> {
        self.api_back
    }

    /// Error of the last relist, if it had no usable result.
    pub fn relist_error(&self) -> Option<&str> {
        self.relists.error()
    }

    /// For a dry run, which sends no eviction: sets the stage that the pod with this UID would have.
    pub fn assume(&mut self, uid: &str, stage: Stage) {
        if let Some(track) = self.pods.get_mut(uid) {
            track.assume(stage);
        }
    }

    /// Stores findings about blocked pods.
    pub fn find(&mut self, findings: Arc<Findings>) {
        self.findings = findings;
    }

    /// The pod that has to leave before this one, because this one belongs to it.
    pub(crate) fn parent(&self, track: &Track) -> Option<&Track> {
        self.pods.parent(track)
    }

    /// Reason for waiting other than pods and volumes: a relist that keeps failing, a missing first snapshot, unknown
    /// volumes, or a scheduler that may still be out of date. The text does not change from second to second. `None` if there is none.
    pub fn wait_reason(&self) -> Option<String> {
        if let Some(why) = self.relists.error() {
            return Some(format!("a relist of the node gave no usable result, and is tried again: {why}"));
        }
        let asked = self.relists.asked();
        if self.snapshot.is_none() {
            let text = "the watches have not shown the node, its pods and their volumes yet, so they are listed; \
                        no pod is evicted before";
            return (asked > self.started).then(|| text.to_owned());
        }
        let latest = self.seen.max(asked);
        let is_long = |since: &Moment| latest.since(*since) >= QUIET;
        let unknown = self.pods.iter().filter_map(Track::volumes_unknown).filter(is_long).count();
        if unknown > 0 {
            return Some(format!(
                "it is not known yet which volumes {unknown} of the pods have; they are not evicted before"
            ));
        }
        let is_empty = !self.has_pods_left() && !self.volumes.iter().any(VolumeTrack::is_attached);
        (is_empty && latest < self.scheduler_is_fresh_at()).then(|| {
            format!(
                "the API server was away, and until {} s after that a scheduler may still bind pods to this node: the final \
                 check waits for that",
                STALE_SCHEDULER.as_secs()
            )
        })
    }
}
