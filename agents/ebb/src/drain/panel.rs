//! Bars at the bottom of the terminal: one for each node that is being drained, with its blocked pods below it.

use drain::Moment;
use drain::stuck_pods::stuck_pods;

use super::ending::span;
use super::job::Job;
use super::reporter::NodeDrainView;
use crate::screen::Bar;

/// Blocked pods that are named below the bars, of all nodes together.
const MOST_BLOCKED: usize = 3;

/// The bars as they are now.
pub(crate) fn bars(jobs: &[Job], now: Moment) -> Vec<Bar> {
    let mut room = MOST_BLOCKED;
    jobs.iter().filter(|job| job.is_draining()).map(|job| bar(job, now, &mut room)).collect()
}

fn bar(job: &Job, now: Moment, room: &mut usize) -> Bar {
    let progress = job.view.progress;
    let stuck_pods = stuck_pods(&job.view.lines, &job.view.blocked);
    let shown = stuck_pods.iter().take(*room);
    let mut below: Vec<String> =
        shown.map(|stuck_pod| format!("  {}: {}", stuck_pod.pod, stuck_pod.cause)).collect();
    *room -= below.len();
    if stuck_pods.len() > below.len() && !below.is_empty() {
        below.push(format!("  and {} more", stuck_pods.len() - below.len()));
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
    use drain::progress::Progress;

    use super::*;

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
