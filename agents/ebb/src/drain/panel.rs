//! The bars at the foot of the terminal: one for each node under way, and below them what blocks.

use drain::Moment;
use drain::trouble::troubles;

use super::ending::span;
use super::job::Job;
use super::story::Sight;
use crate::screen::Bar;

/// Blocked pods that are named below the bars.
const MOST_BLOCKED: usize = 3;

/// The bars as they are now.
pub(crate) fn bars(jobs: &[Job], now: Moment) -> Vec<Bar> {
    let mut room = MOST_BLOCKED;
    jobs.iter().filter(|job| job.is_draining()).map(|job| bar(job, now, &mut room)).collect()
}

fn bar(job: &Job, now: Moment, room: &mut usize) -> Bar {
    let progress = job.sight.progress;
    let troubles = troubles(&job.sight.lines, &job.sight.blocked);
    let shown = troubles.iter().take(*room);
    let mut below: Vec<String> =
        shown.map(|trouble| format!("  {}: {}", trouble.pod, trouble.cause)).collect();
    *room -= below.len();
    if troubles.len() > below.len() && !below.is_empty() {
        below.push(format!("  and {} more", troubles.len() - below.len()));
    }
    let elapsed = job.began.map(|began| span(now.since(began))).unwrap_or_default();
    Bar {
        name: job.name.clone(),
        done: progress.gone,
        total: progress.total,
        text: format!("{}, {elapsed}", state(&job.sight, now)),
        below,
    }
}

/// How far it is, in words.
fn state(sight: &Sight, now: Moment) -> String {
    let progress = sight.progress;
    let counts = [
        (progress.terminating, "terminating"),
        (progress.blocked, "blocked"),
        (progress.waiting, "waiting"),
        (progress.volumes, "volumes detaching"),
    ];
    let counts =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!(", {count} {what}"));
    let text = format!("{}/{} pods gone{}", progress.gone, progress.total, counts.collect::<String>());
    match sight.away_since {
        Some(since) => format!("the API server does not answer for {}; {text}", span(now.since(since))),
        None if !sight.is_pictured => "looking".to_owned(),
        None if sight.is_proving => format!("{text}, making sure"),
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
        let seen = Sight { progress, is_pictured: true, ..Sight::default() };
        let done = Progress { total: 2, gone: 2, ..Progress::default() };
        let cases = [
            (Sight::default(), "looking"),
            (seen.clone(), "2/9 pods gone, 1 terminating, 3 blocked, 3 waiting, 1 volumes detaching"),
            (
                Sight { away_since: Some(Moment(1_000)), progress: done, ..seen.clone() },
                "the API server does not answer for 9s; 2/2 pods gone",
            ),
            (Sight { is_proving: true, progress: done, ..seen }, "2/2 pods gone, making sure"),
        ];
        for (sight, expected) in cases {
            assert_eq!(state(&sight, Moment(10_000)), expected);
        }
    }
}
