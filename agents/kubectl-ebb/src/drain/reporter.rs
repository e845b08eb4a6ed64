//! Reporter of the drain of one node: prints each change of a pod once, and repeats blocked pods now and then.
//!
//! Pure: the state of the drain ([`NodeDrainView`]) goes in, lines come out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cluster::drainer::Drain;
use drain::diagnosis::Blocked;
use drain::kubectl::{Judged, warnings};
use drain::policy::Method;
use drain::progress::{Line, Progress, VolumeLine, attempt};
use drain::state::{DeletionMethod, Stage, State};
use drain::stuck_pods::{StuckPod, stuck_pods};
use drain::{Moment, PodId, Reason, Verdict};

use super::ending::{problem_lines, reminder_lines};
use crate::screen::Print;

/// Pause between two lines about the same blocked pod.
const REMINDER: Duration = Duration::from_mins(1);

/// State of the drain of one node, as far as it is printed.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeDrainView {
    /// Number of pods and volumes in each stage.
    pub(crate) progress: Progress,
    /// One line for each pod that is on the node.
    pub(crate) lines: Vec<Line>,
    /// Pods that do not leave, with the reasons.
    pub(crate) blocked: Vec<Blocked>,
    /// Volumes that the drain waits for.
    pub(crate) volumes: Vec<VolumeLine>,
    /// How each pod that has to leave is removed (evicted or deleted), by UID.
    pub(crate) by: BTreeMap<String, DeletionMethod>,
    /// True once a first snapshot of the node has come.
    pub(crate) has_snapshot: bool,
    /// True during the final check: all pods that had to leave are gone, and fresh lists must confirm it.
    pub(crate) is_verifying: bool,
    /// Start of the current outage of the API server, if there is one.
    pub(crate) away_since: Option<Moment>,
    /// True if the Node object does not exist any more.
    pub(crate) is_node_gone: bool,
    /// Time of this view, by the same clock as `since` in the lines.
    pub(crate) now: Moment,
}

impl NodeDrainView {
    /// The blocked pods by UID. A map, because there may be a thousand of them.
    pub(crate) fn blocked_by_uid(&self) -> BTreeMap<&str, &Blocked> {
        self.blocked.iter().map(|blocked| (blocked.pod.uid.as_str(), blocked)).collect()
    }

    /// The state of the drain now.
    pub(crate) fn of(drain: &Drain, now: Moment) -> Self {
        let attempt = attempt(drain.state());
        let snapshot = attempt.and_then(drain::state::Attempt::snapshot);
        let tracks = attempt.into_iter().flat_map(drain::state::Attempt::pods);
        Self {
            progress: drain.progress(),
            lines: drain.lines(),
            blocked: drain.blocked(),
            volumes: drain.volumes(),
            by: tracks.map(|(uid, track)| (uid.clone(), track.by())).collect(),
            has_snapshot: snapshot.is_some(),
            is_verifying: matches!(drain.state(), State::Verifying(..)),
            away_since: attempt.and_then(drain::state::Attempt::away_since),
            is_node_gone: snapshot.is_some_and(|snapshot| snapshot.node.is_none()),
            now,
        }
    }
}

/// Options of the reporter: which lines it prints, and how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportStyle {
    /// How pods are removed as long as the drain has not chosen for the single pod.
    pub(crate) method: Method,
    /// Pause after a refused eviction.
    pub(crate) retry: Duration,
    /// Print each stage of each pod (`-v`).
    pub(crate) is_verbose: bool,
    /// Repeat blocked pods each minute: without bars there is no other place on the screen that keeps showing them.
    pub(crate) reminds: bool,
}

/// Pods and volumes of one node as last seen, and the lines that were printed about them.
#[derive(Debug)]
pub(crate) struct NodeReporter {
    style: ReportStyle,
    pods: BTreeMap<String, Pod>,
    volumes: BTreeMap<String, &'static str>,
    awaits_volumes: bool,
    is_away: bool,
    warnings: Vec<String>,
}

/// One pod, as it was last seen.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) line: Line,
    pub(crate) is_gone: bool,
    /// How the pod was removed (evicted or deleted), once that was printed.
    going: Option<DeletionMethod>,
    reported: Option<Reported>,
}

/// A problem that was printed, and when.
#[derive(Clone, Debug)]
struct Reported {
    sign: String,
    at: Moment,
}

impl NodeReporter {
    /// A reporter that has not seen anything yet.
    pub(crate) fn new(style: ReportStyle) -> Self {
        Self {
            style,
            pods: BTreeMap::new(),
            volumes: BTreeMap::new(),
            awaits_volumes: false,
            is_away: false,
            warnings: Vec::new(),
        }
    }

    /// Every pod that was ever seen on the node, sorted by name.
    pub(crate) fn pods(&self) -> Vec<&Pod> {
        let mut pods: Vec<&Pod> = self.pods.values().collect();
        pods.sort_by(|a, b| a.line.id.cmp(&b.line.id));
        pods
    }

    /// All warnings that were printed.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Takes the state of the drain and returns the lines that are new.
    pub(crate) fn see(&mut self, view: &NodeDrainView) -> Vec<Print> {
        let mut prints = self.warn(view);
        for line in &view.lines {
            self.step(line, self.by(view, line), &mut prints);
        }
        self.depart(view, &mut prints);
        self.volumes(view, &mut prints);
        self.stuck_pod(view, &mut prints);
        prints.extend(self.away(view));
        prints
    }

    fn away(&mut self, view: &NodeDrainView) -> Option<Print> {
        let is_away = view.away_since.is_some();
        if self.is_away == is_away {
            return None;
        }
        self.is_away = is_away;
        Some(Print::Err(if is_away {
            "error: the API server does not answer; the drain goes on when it does".to_owned()
        } else {
            "the API server answers again".to_owned()
        }))
    }

    /// Warnings about pods that are new, or whose verdict or reasons have changed.
    fn warn(&mut self, view: &NodeDrainView) -> Vec<Print> {
        let is_known = |line: &&Line| {
            let known = self.pods.get(&line.id.uid);
            known.is_some_and(|pod| (pod.line.verdict, &pod.line.reasons) == (line.verdict, &line.reasons))
        };
        let new = view.lines.iter().filter(|line| !is_known(line)).map(judged);
        let new = warnings(new);
        let print = (!new.is_empty()).then(|| Print::Err(format!("Warning: {}", new.join("; "))));
        self.warnings.extend(new);
        print.into_iter().collect()
    }

    fn by(&self, view: &NodeDrainView, line: &Line) -> DeletionMethod {
        match (view.by.get(&line.id.uid), self.style.method) {
            (Some(by @ (DeletionMethod::Deletion | DeletionMethod::Escalation)), _) => *by,
            (Some(DeletionMethod::Eviction) | None, Method::Evict) => DeletionMethod::Eviction,
            (Some(DeletionMethod::Eviction) | None, Method::Delete | Method::ForceDelete) => {
                DeletionMethod::Deletion
            }
        }
    }

    /// Lines about the progress of one pod: its eviction or deletion, and with `-v` each stage.
    fn step(&mut self, line: &Line, by: DeletionMethod, prints: &mut Vec<Print>) {
        let before = self.pods.get(&line.id.uid);
        let is_new_stage = before.is_none_or(|pod| pod.line.stage != line.stage);
        let going = before.and_then(|pod| pod.going);
        // A pod that was deleted by others has no tries: this drain has not evicted it.
        let goes = line.tries > 0 && line.stage.as_ref().is_some_and(Stage::is_asked);
        if goes && going != Some(by) {
            prints.push(Print::Out(begun(&line.id, by)));
        }
        if before.is_some_and(|pod| pod.line.verdict.must_leave()) && is_given_up(line) {
            prints.push(Print::Err(format!("pod {:?} is terminating for too long, skipping", line.id.name)));
        }
        if is_new_stage {
            prints.extend(self.stage(line, before.is_none()));
        }
        let going = if goes { Some(by) } else { going };
        let reported = before.and_then(|pod| pod.reported.clone());
        if before.is_some_and(|pod| pod.line == *line && pod.going == going) {
            return;
        }
        self.pods.insert(line.id.uid.clone(), Pod { line: line.clone(), is_gone: false, going, reported });
    }

    fn stage(&self, line: &Line, is_new: bool) -> Option<Print> {
        let pod = &line.id;
        if line.verdict == Verdict::Await && is_new {
            return Some(Print::Err(format!("waiting for pod {pod} to finish by itself")));
        }
        if is_new && line.tries == 0 && line.stage == Some(Stage::Terminating) {
            return Some(Print::Err(format!("pod {pod} is being deleted already: waiting for its end")));
        }
        let stage = line.stage.as_ref().filter(|_| self.style.is_verbose)?;
        let detail = if line.detail.is_empty() { String::new() } else { format!(": {}", line.detail) };
        Some(Print::Err(format!("  {pod}: {}{detail}", stage.name())))
    }

    /// Lines about pods that are gone.
    fn depart(&mut self, view: &NodeDrainView, prints: &mut Vec<Print>) {
        let here: BTreeSet<&str> = view.lines.iter().map(|line| line.id.uid.as_str()).collect();
        let usual = if self.style.method == Method::Evict {
            DeletionMethod::Eviction
        } else {
            DeletionMethod::Deletion
        };
        for (uid, pod) in &mut self.pods {
            if pod.is_gone || here.contains(uid.as_str()) {
                continue;
            }
            pod.is_gone = true;
            if !pod.line.verdict.must_leave() || view.is_node_gone {
                continue;
            }
            if pod.line.verdict == Verdict::Await {
                prints.push(Print::Err(format!("pod {} has finished and is gone", pod.line.id)));
                continue;
            }
            if pod.going.is_none() && pod.line.stage == Some(Stage::Terminating) {
                prints.push(Print::Err(format!("pod {} is gone", pod.line.id)));
                continue;
            }
            // A pod may be evicted and gone between two views: then both lines come now.
            if pod.going.is_none() {
                prints.push(Print::Out(begun(&pod.line.id, usual)));
            }
            prints.push(Print::Out(ended(&pod.line.id, pod.going.unwrap_or(usual))));
        }
    }

    fn volumes(&mut self, view: &NodeDrainView, prints: &mut Vec<Print>) {
        if view.progress.left == 0 && view.progress.volumes > 0 && !self.awaits_volumes {
            self.awaits_volumes = true;
            let volumes = view.volumes.iter().map(|line| format!("{} ({})", line.volume, line.of()));
            let volumes = volumes.collect::<Vec<_>>().join(", ");
            prints.push(Print::Err(format!(
                "all pods are gone; waiting for their volumes to be detached: {volumes}"
            )));
        }
        for line in &view.volumes {
            if self.volumes.insert(line.volume.clone(), line.stage) != Some(line.stage) {
                prints.extend(volume(line, self.style.is_verbose));
            }
        }
    }

    /// Lines about blocked pods: when the reason is new or has changed, then once a minute.
    fn stuck_pod(&mut self, view: &NodeDrainView, prints: &mut Vec<Print>) {
        let (mut new, mut old): (Vec<StuckPod>, Vec<StuckPod>) = (Vec::new(), Vec::new());
        for stuck_pod in stuck_pods(&view.lines, &view.blocked) {
            let Some(pod) = self.pods.get_mut(&stuck_pod.pod.uid) else { continue };
            let sign = stuck_pod.sign();
            match &pod.reported {
                Some(reported) if reported.sign == sign => {
                    if !self.style.reminds || view.now.since(reported.at) < REMINDER {
                        continue;
                    }
                    old.push(stuck_pod);
                }
                Some(_) | None => new.push(stuck_pod),
            }
            pod.reported = Some(Reported { sign, at: view.now });
        }
        prints.extend(problem_lines(&new, view.now, self.style.retry));
        prints.extend(reminder_lines(&old, view.now));
    }
}

/// The line in the form that kubectl's texts need.
pub(crate) fn judged(line: &Line) -> Judged<'_> {
    Judged { pod: &line.id, verdict: line.verdict, reasons: &line.reasons }
}

/// True if the pod was skipped because of `--skip-wait-for-delete-timeout`.
fn is_given_up(line: &Line) -> bool {
    line.verdict == Verdict::Leave && line.reasons.contains(&Reason::TerminatingTooLong)
}

fn begun(pod: &PodId, by: DeletionMethod) -> String {
    match by {
        DeletionMethod::Eviction => format!("evicting pod {pod}"),
        DeletionMethod::Deletion => format!("deleting pod {pod}"),
        DeletionMethod::Escalation => format!("deleting pod {pod}: its eviction was refused for too long"),
    }
}

/// kubectl's line, with the namespace, which kubectl leaves out.
fn ended(pod: &PodId, by: DeletionMethod) -> String {
    let how = match by {
        DeletionMethod::Eviction => "evicted",
        DeletionMethod::Deletion | DeletionMethod::Escalation => "deleted",
    };
    format!("pod/{} {how} from {} namespace", pod.name, pod.namespace)
}

fn volume(line: &VolumeLine, is_verbose: bool) -> Option<Print> {
    let VolumeLine { volume, stage, detail, .. } = line;
    let of = line.of();
    let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
    let text = match *stage {
        "DetachTimedOut" => {
            format!("Warning: volume {volume} ({of}) is not detached from the node{detail}")
        }
        "NotAttachedElsewhere" => {
            format!("Warning: volume {volume} ({of}) has not been attached to another node in time")
        }
        stage if is_verbose => format!("  volume {volume} ({of}): {stage}{detail}"),
        _ => return None,
    };
    Some(Print::Err(text))
}

#[cfg(test)]
mod tests;
