//! Bars at the bottom of the terminal: one for each node that is being drained, and below it what holds its pods.

use drain::Moment;
use drain::diagnosis::{Blocked, Blocker, blockers};
use drain::state::Stage;

use super::ending::span;
use super::job::Job;
use super::reporter::NodeDrainView;
use crate::screen::Bar;

/// Troubles that are named below the bars, of all nodes together.
const MOST_BLOCKED: usize = 3;

/// The bars as they are now.
pub(crate) fn bars(jobs: &[Job], now: Moment) -> Vec<Bar> {
    let mut room = MOST_BLOCKED;
    jobs.iter().filter(|job| job.is_draining()).map(|job| bar(job, now, &mut room)).collect()
}

fn bar(job: &Job, now: Moment, room: &mut usize) -> Bar {
    let progress = job.view.progress;
    let troubles = troubles(&job.view);
    let mut below: Vec<String> = troubles.iter().take(*room).map(trouble).collect();
    *room -= below.len();
    if troubles.len() > below.len() && !below.is_empty() {
        below.push(format!("  and {} more", troubles.len() - below.len()));
    }
    let elapsed = job.began.map(|began| span(now.since(began))).unwrap_or_default();
    Bar {
        name: job.name.clone(),
        done: progress.gone,
        total: progress.total,
        text: format!("{}, {elapsed}", state(&job.view, now)),
        below,
    }
}

/// What holds the pods, each trouble once.
fn troubles(view: &NodeDrainView) -> Vec<Blocker> {
    let paused = view.lines.iter().filter_map(|line| match &line.stage {
        Some(Stage::Paused { text, .. }) => {
            Some(Blocked { pod: line.id.clone(), cause: text.clone(), ..Blocked::default() })
        }
        _ => None,
    });
    blockers(&view.blocked.iter().cloned().chain(paused).collect::<Vec<_>>())
}

/// The number of pods comes first: the end of the line may be cut at the edge of the terminal.
fn trouble(blocker: &Blocker) -> String {
    match blocker.pods.as_slice() {
        [pod] => format!("  {pod}: {}", blocker.what),
        pods => format!("  {} pods: {}", pods.len(), blocker.what),
    }
}

/// Progress of a drain as text.
fn state(view: &NodeDrainView, now: Moment) -> String {
    let progress = view.progress;
    let counts = [
        (progress.terminating, "terminating"),
        (progress.blocked, "blocked"),
        (progress.waiting, "waiting"),
        (progress.volumes, "volumes detaching"),
    ];
    let counts =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!(", {count} {what}"));
    let text = format!("{}/{} pods gone{}", progress.gone, progress.total, counts.collect::<String>());
    match view.away_since {
        Some(since) => format!("the API server does not answer for {}; {text}", span(now.since(since))),
        None if !view.has_snapshot => "listing".to_owned(),
        None if view.is_verifying => format!("{text}, final check"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use drain::PodId;
    use drain::progress::Progress;

    use super::*;

    /// Regression: a budget was named once for each of its pods, and its numbers were cut off.
    #[test]
    fn a_trouble_is_named_once() {
        let blocked = |pod: &str, cause: &str| Blocked {
            pod: PodId { namespace: "shop".into(), name: pod.into(), uid: pod.into() },
            cause: cause.into(),
            ..Blocked::default()
        };
        let blocked = vec![blocked("a", "used up"), blocked("b", "no right"), blocked("c", "used up")];
        let view = NodeDrainView { blocked, ..NodeDrainView::default() };
        let lines: Vec<String> = troubles(&view).iter().map(trouble).collect();
        assert_eq!(lines, ["  2 pods: used up", "  shop/b: no right"]);
    }

    #[test]
    fn how_far_it_is_in_words() {
        let progress =
            Progress { total: 9, gone: 2, terminating: 1, blocked: 3, waiting: 3, left: 7, volumes: 1 };
        let seen = NodeDrainView { progress, has_snapshot: true, ..NodeDrainView::default() };
        let done = Progress { total: 2, gone: 2, ..Progress::default() };
        let cases = [
            (NodeDrainView::default(), "listing"),
            (seen.clone(), "2/9 pods gone, 1 terminating, 3 blocked, 3 waiting, 1 volumes detaching"),
            (
                NodeDrainView { away_since: Some(Moment(1_000)), progress: done, ..seen.clone() },
                "the API server does not answer for 9s; 2/2 pods gone",
            ),
            (NodeDrainView { is_verifying: true, progress: done, ..seen }, "2/2 pods gone, final check"),
        ];
        for (view, expected) in cases {
            assert_eq!(state(&view, Moment(10_000)), expected);
        }
    }
}
