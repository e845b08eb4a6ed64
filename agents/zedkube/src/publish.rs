//! Writing the status and the report, in the order that readers rely on.
//!
//! First the report with the reason and without new answers, then NodeDrainStatus, then the report with the answers. So
//! an answer is never visible before the status that carries it, one that was taken back is gone at once, and a reader of
//! a status finds its reason in the report. After a failed write the whole order is repeated.

use drain::Moment;
use pubsub::{AgentLock, Persistence, PublishError, Publisher, Root, TopicKey};
use runtime::retry::pause_after;
use schemas::{DrainStatus, NodeDrainReport, NodeDrainStatus, RequestLine, agent};

/// The two topics that other agents read.
#[derive(Debug)]
pub(crate) struct Output {
    status: Publisher<NodeDrainStatus>,
    report: Publisher<NodeDrainReport>,
    failures: u32,
    /// After a failed write, nothing is written before this time.
    not_before: Moment,
}

impl Output {
    /// Takes both topics over from the previous process.
    pub(crate) fn open(root: &Root, lock: &AgentLock) -> Result<Self, PublishError> {
        let status = Publisher::open(root, agent::ZEDKUBE, Persistence::Volatile, lock)?;
        let report = Publisher::open(root, agent::ZEDKUBE, Persistence::Volatile, lock)?;
        Ok(Self { status, report, failures: 0, not_before: Moment(0) })
    }

    /// What is published: at the start by the previous process of this boot, if there was one.
    pub(crate) fn told(&self) -> Option<(NodeDrainStatus, &NodeDrainReport)> {
        let key = TopicKey::global();
        Some((*self.status.get(&key)?, self.report.get(&key)?))
    }

    /// Writes the values that have changed. After an error the caller has to call [`Output::failed`]; a COMPLETE that was
    /// taken back is gone all the same.
    pub(crate) fn write(
        &mut self,
        status: NodeDrainStatus,
        report: &NodeDrainReport,
    ) -> Result<(), PublishError> {
        let written = self.write_in_order(status, report);
        match &written {
            Ok(()) => self.failures = 0,
            Err(_) => self.retract(status, report),
        }
        written
    }

    /// Removes both files if one of them has a COMPLETE that was taken back: it would still let the device go down. A full
    /// disk lets a file be removed. The status goes first, because a status without a report counts as EVE's.
    fn retract(&mut self, status: NodeDrainStatus, report: &NodeDrainReport) {
        let key = TopicKey::global();
        let status_told = self.status.get(&key).map_or(DrainStatus::Unknown, |told| told.status);
        let told = self.report.get(&key).map(|told| told.requests.as_slice()).unwrap_or_default();
        let is_kept = |told: &RequestLine| {
            let now = report.line_of(&told.publisher, told.requested_at);
            now.is_some_and(|now| now.answer == told.answer)
        };
        let is_taken_back = told.iter().any(|told| told.answer == DrainStatus::Complete && !is_kept(told));
        if !is_taken_back && (status_told != DrainStatus::Complete || status.status == status_told) {
            return;
        }
        match self.status.unpublish(&key).and_then(|_| self.report.unpublish(&key)) {
            Ok(_) => tracing::warn!(
                "removed NodeDrainStatus and NodeDrainReport: the disk takes no new ones, and they hold a COMPLETE that was taken back"
            ),
            Err(error) => tracing::debug!("status and report cannot be removed either: {error}"),
        }
    }

    /// Notes a failed write, and gives the time of the next try.
    pub(crate) fn failed(&mut self, now: Moment) -> Moment {
        self.failures = self.failures.saturating_add(1);
        self.not_before = now + pause_after(self.failures);
        self.not_before
    }

    /// When a failed write may be repeated; `None` if the last one succeeded.
    pub(crate) fn retry_at(&self) -> Option<Moment> {
        (self.failures > 0).then_some(self.not_before)
    }

    fn write_in_order(
        &mut self,
        status: NodeDrainStatus,
        report: &NodeDrainReport,
    ) -> Result<(), PublishError> {
        let key = TopicKey::global();
        // A value that its file has already is not written again, except if another process has removed the file.
        let early = without_news(report, self.report.get(&key));
        self.report.publish(&key, &early)?;
        self.status.publish(&key, &status)?;
        if early != *report {
            self.report.publish(&key, report)?;
        }
        // Not earlier: EVE's agents would take the previous process's status for an answer.
        self.report.serve()?;
        self.status.serve()
    }
}

/// The report as it may be before the status is written: with the answers that were published before and still stand. A
/// new answer waits for its status. One that was taken back, or that an earlier boot gave, is gone at once: it would
/// still let the device go down.
fn without_news(report: &NodeDrainReport, before: Option<&NodeDrainReport>) -> NodeDrainReport {
    let mut early = report.clone();
    for request in &mut early.requests {
        let known = before.and_then(|before| before.line_of(&request.publisher, request.requested_at));
        if known.is_none_or(|known| known.answer != request.answer) {
            (request.answer, request.outcome) = (DrainStatus::Unknown, None);
            request.by.clear();
        }
    }
    early
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use schemas::DrainRequester;

    use super::*;

    fn report(answer: DrainStatus) -> NodeDrainReport {
        let publisher = agent::ZEDAGENT.to_owned();
        let requests = vec![RequestLine { publisher, answer, ..RequestLine::default() }];
        NodeDrainReport { requests, ..NodeDrainReport::default() }
    }

    #[test]
    fn an_answer_never_runs_ahead_of_its_status_and_one_that_was_taken_back_goes_before_it() {
        let (none, failed) = (report(DrainStatus::Unknown), report(DrainStatus::FailedDrain));
        let complete = report(DrainStatus::Complete);
        let cases = [
            (None, &complete, DrainStatus::Unknown),
            (Some(&none), &complete, DrainStatus::Unknown),
            (Some(&failed), &complete, DrainStatus::Unknown),
            (Some(&complete), &complete, DrainStatus::Complete),
            (Some(&complete), &none, DrainStatus::Unknown),
        ];
        for (before, now, expected) in cases {
            let early = without_news(now, before);
            assert_eq!(early.requests.first().map(|request| request.answer), Some(expected));
        }
    }

    #[tokio::test]
    async fn a_complete_that_was_taken_back_does_not_stay_although_nothing_can_be_written() {
        use DrainStatus::{Complete, FailedDrain, Requested, Unknown};
        // Status and answer on disk, then those that cannot be written.
        for (told, now, stays) in [
            ((Complete, Complete), (Requested, Unknown), false),
            ((Requested, Complete), (Requested, Unknown), false),
            ((Complete, Unknown), (Requested, Unknown), false),
            ((Complete, Complete), (Complete, Complete), true),
            ((Requested, Unknown), (Complete, Complete), true),
            ((FailedDrain, FailedDrain), (Requested, Unknown), true),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let root = Root::new(folder.path());
            let lock = AgentLock::acquire(&root, agent::ZEDKUBE).unwrap();
            let mut output = Output::open(&root, &lock).unwrap();
            let status = |status| NodeDrainStatus { status, requested_by: DrainRequester::DeviceOp };
            output.write(status(told.0), &report(told.1)).unwrap();
            // Too long for a file, so that the first write fails, as on a full disk.
            let mut long = report(now.1);
            long.hint = "x".repeat(1_100_000);
            assert!(output.write(status(now.0), &long).is_err());
            for topic in ["NodeDrainStatus", "NodeDrainReport"] {
                let file = folder.path().join("run/zedkube").join(topic).join("global.json");
                assert_eq!(file.exists(), stays, "{topic} {told:?} {now:?}");
            }
        }
    }

    #[tokio::test]
    async fn a_failed_write_is_repeated_later_and_later() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let lock = AgentLock::acquire(&root, agent::ZEDKUBE).unwrap();
        let mut output = Output::open(&root, &lock).unwrap();
        let status = NodeDrainStatus { status: DrainStatus::Requested, requested_by: DrainRequester::None };
        // A file where the topic's folder should be: nothing can be written below it.
        let topic = folder.path().join("run/zedkube/NodeDrainStatus");
        std::fs::remove_dir_all(&topic).unwrap();
        std::fs::File::create(&topic).unwrap();
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            assert!(output.write(status, &report(DrainStatus::Unknown)).is_err());
            assert_eq!(output.failed(Moment(5)), Moment(5) + Duration::from_secs(seconds));
            assert!(output.retry_at().is_some());
        }
        std::fs::remove_file(&topic).unwrap();
        output.write(status, &report(DrainStatus::Unknown)).unwrap();
        assert_eq!(output.retry_at(), None);
        assert!(topic.join("global.json").exists());
        // Files that another process has removed exist again after the next write, although no value is new.
        for topic in ["NodeDrainStatus", "NodeDrainReport"] {
            let topic = folder.path().join("run/zedkube").join(topic);
            std::fs::remove_dir_all(&topic).unwrap();
            output.write(status, &report(DrainStatus::Unknown)).unwrap();
            assert!(topic.join("global.json").exists());
        }
    }
}
