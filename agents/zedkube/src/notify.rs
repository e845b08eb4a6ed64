//! Runs the site's program when the status of the drain changes: setting `notify.command`. It is for people, and nothing
//! waits for it: one runs at a time, the newest change waits, and older ones that were not begun are dropped.

use std::sync::Arc;

use drain::diagnosis::without_numbers;
use runtime::settings::NotifySettings;
use runtime::{SettingsWatch, program};
use schemas::{NodeDrainReport, NodeDrainStatus, Outcome, to_bytes};
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// Limit in bytes for a text in the environment; the report has it whole.
const MOST_TEXT: usize = 1024;

/// A status that is news, and its report as it was published.
#[derive(Clone, Debug, Default)]
struct News {
    status: NodeDrainStatus,
    report: NodeDrainReport,
}

/// Hands each change to the task that runs the program. When it is dropped, a program that runs is killed.
#[derive(Debug)]
pub(crate) struct Notifier {
    /// What is no news any more.
    told: Option<(NodeDrainStatus, Option<Outcome>)>,
    news: watch::Sender<Arc<News>>,
    task: AbortHandle,
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Notifier {
    /// Starts the task. `told` is what the previous process of this boot has published. Has to be called in a tokio runtime.
    pub(crate) fn start(settings: SettingsWatch, told: Option<(NodeDrainStatus, &NodeDrainReport)>) -> Self {
        let (news, given) = watch::channel(Arc::default());
        let run = move |news| run(settings.current().notify.clone(), news);
        let told = told.map(|(status, report)| what(status, report));
        Self { told, news, task: tokio::spawn(follow(given, run)).abort_handle() }
    }

    /// Has the program run if what is published now is news. The first status that is known in a boot is none, unless the node
    /// comes back from a drain.
    pub(crate) fn look(&mut self, status: NodeDrainStatus, report: NodeDrainReport) {
        let now = what(status, &report);
        let is_another = self.told.replace(now).is_some_and(|told| told != now);
        if is_another && !is_on_its_way_back(&report) {
            self.news.send_replace(Arc::new(News { status, report }));
        }
    }
}

/// What has to change to be news. While the status is that of a drain that goes on, its outcome may be known already: it
/// is news with the status that tells it. On the way back nothing is, so that the end of it is.
fn what(status: NodeDrainStatus, report: &NodeDrainReport) -> (NodeDrainStatus, Option<Outcome>) {
    if is_on_its_way_back(report) {
        return (NodeDrainStatus::default(), None);
    }
    (status, report.outcome.filter(|_| !status.status.is_in_progress()))
}

/// The drain is over, and cordon and slot are not given back yet.
fn is_on_its_way_back(report: &NodeDrainReport) -> bool {
    report.phase == "Returning"
}

/// Runs the program for the newest news, one after another, until there can be no more.
async fn follow<F>(mut news: watch::Receiver<Arc<News>>, run: impl Fn(Arc<News>) -> F)
where
    F: Future<Output = Result<(), String>>,
{
    let mut failed = String::new();
    while news.changed().await.is_ok() {
        let next = Arc::clone(&news.borrow_and_update());
        let failure = run(next).await.err().unwrap_or_default();
        let kind = without_numbers(&failure);
        if !failure.is_empty() && failed != kind {
            tracing::warn!("notify.command has failed (drains go on without it): {failure}");
        }
        failed = kind;
    }
}

async fn run(settings: NotifySettings, news: Arc<News>) -> Result<(), String> {
    let Some(command) = settings.command else { return Ok(()) };
    let input = to_bytes(&news.report);
    program::run_with_input(&command, &environment(&news), settings.timeout, &input).await.map(|_| ())
}

/// What the simplest scripts need.
fn environment(News { status, report }: &News) -> [(&'static str, String); 6] {
    let line = |words: &str| text::one_line(words, MOST_TEXT);
    [
        ("EBB_NODE", line(&report.node)),
        ("EBB_STATUS", status.status.constant().to_owned()),
        ("EBB_REQUESTED_BY", status.requested_by.to_string()),
        ("EBB_OUTCOME", what(*status, report).1.map(|outcome| format!("{outcome:?}")).unwrap_or_default()),
        ("EBB_REASON", line(&report.reason)),
        ("EBB_HINT", line(&report.hint)),
    ]
}

#[cfg(test)]
mod tests {
    use runtime::testing::CapturedLog;
    use schemas::DrainRequester::{self, DeviceOp, None as Nobody, Update};
    use schemas::DrainStatus::{self, Complete, Cordoned, NotRequested, Requested};
    use tokio::sync::{mpsc, oneshot};

    use super::*;

    /// The reason of a node on its way back.
    const RETURNING: &str = "our cordon is still there";

    fn report(outcome: Option<Outcome>, reason: &str) -> NodeDrainReport {
        let phase = if reason == RETURNING { "Returning" } else { "" }.to_owned();
        NodeDrainReport { outcome, phase, reason: reason.to_owned(), ..NodeDrainReport::default() }
    }

    #[tokio::test]
    async fn each_change_of_status_requester_and_outcome_is_news_but_the_first_of_a_boot() {
        type Seen = (DrainStatus, DrainRequester, Option<Outcome>, &'static str);
        let idle = (NotRequested, Nobody, None, "nobody asks");
        let drains = (Cordoned, DeviceOp, None, "0 of 2 have left");
        let drained = (Complete, DeviceOp, Some(Outcome::Drained), "drained");
        // What the previous process has published, what is published now, and what of that is news.
        let returns = (NotRequested, Nobody, None, RETURNING);
        let cases: [(Option<Seen>, &[Seen], &[Seen]); 8] = [
            (None, &[idle, idle, drains, drained, idle], &[drains, drained, idle]),
            (None, &[drained], &[]),
            (Some(drained), &[drained], &[]),
            // A boot, and a zedkube that is restarted on the way back.
            (None, &[idle, returns, returns, idle], &[idle]),
            (Some(returns), &[returns, idle, drains], &[idle, drains]),
            (Some(drains), &[idle], &[idle]),
            (None, &[drains, (Cordoned, DeviceOp, Some(Outcome::Drained), "2 of 2 have left")], &[]),
            (
                None,
                &[
                    (Complete, Update, Some(Outcome::Drained), "drained"),
                    drained,
                    (Complete, DeviceOp, Some(Outcome::Forced), "drained"),
                ],
                &[drained, (Complete, DeviceOp, Some(Outcome::Forced), "drained")],
            ),
        ];
        let status = |seen: &Seen| NodeDrainStatus { status: seen.0, requested_by: seen.1 };
        for (told, published, expected) in cases {
            let (news, mut given) = watch::channel(Arc::default());
            let task = tokio::spawn(std::future::pending::<()>()).abort_handle();
            let told = told.map(|seen| what(status(&seen), &report(seen.2, seen.3)));
            let mut notifier = Notifier { told, news, task };
            let mut called = Vec::new();
            for seen in published {
                notifier.look(status(seen), report(seen.2, seen.3));
                if given.has_changed().unwrap() {
                    let news = Arc::clone(&given.borrow_and_update());
                    called.push((news.status, news.report.outcome, news.report.reason.clone()));
                }
            }
            let expected: Vec<_> =
                expected.iter().map(|seen| (status(seen), seen.2, seen.3.to_owned())).collect();
            assert_eq!(called, expected, "{published:?}");
        }
    }

    #[tokio::test]
    async fn while_one_runs_the_newest_waits_and_a_failure_is_logged_once() {
        let log = CapturedLog::begin();
        let (news, given) = watch::channel(Arc::default());
        let (begun, mut calls) = mpsc::unbounded_channel();
        let run = move |news: Arc<News>| {
            let (end, ended) = oneshot::channel();
            begun.send((news.report.reason.clone(), end)).unwrap();
            async { ended.await.unwrap() }
        };
        let task = tokio::spawn(follow(given, run));
        let give = |reason| {
            let status = NodeDrainStatus { status: Requested, requested_by: DeviceOp };
            news.send_replace(Arc::new(News { status, report: report(None, reason) }));
        };
        let refused = |millis| Err(format!("curl: exit status: 7: no connection after {millis} ms"));
        give("first");
        for (began, then, result) in [
            ("first", vec!["dropped", "second"], refused(3)),
            ("second", vec!["third"], refused(5)),
            ("third", vec!["fourth"], Err("curl: still running after 10 s, killed".to_owned())),
            ("fourth", vec!["fifth"], Ok(())),
            ("fifth", vec![], refused(7)),
        ] {
            let (reason, end) = calls.recv().await.unwrap();
            assert_eq!(reason, began);
            then.into_iter().for_each(give);
            end.send(result).unwrap();
        }
        drop(news);
        task.await.unwrap();
        let told = log.take();
        let ends: Vec<_> = told.lines().filter_map(|line| line.rsplit_once("it): ")).collect();
        let ends: Vec<_> = ends.into_iter().map(|(_, end)| end).collect();
        let refused = |millis| refused(millis).unwrap_err();
        assert_eq!(ends, [&*refused(3), "curl: still running after 10 s, killed", &*refused(7)], "{told}");
    }
}
