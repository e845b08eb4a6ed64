//! What device-op and baseos do while one of their files is bad: one table of files and promises, and one function that
//! tries every kind of bad file.

use std::ops::DerefMut;

use pubsub::TopicKey;
use schemas::{DrainStatus, NodeDrainRequest, Topic};

use super::bad_files::{BadFile, Input};
use super::device::{TestDevice, until};
use super::log::CapturedLog;

/// What an agent does while a file is bad. With each of them the file is named, nothing is released because of it, and
/// the agent goes on when the file is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// A command that is bad from the start is none; one that becomes bad later stands.
    CommandsNothing,
    /// Bad from the start, it keeps a command from its beginning. If it becomes bad later, the request stands.
    HoldsCommand,
    /// The agent's own file is bad at its start: which command is new is not known, so one is only recorded.
    OnlyRecords,
    /// The agent's own file is bad at its start: it is written anew.
    IsReplaced,
    /// The agent's own request is bad: it is made anew.
    IsMadeAnew {
        /// It is bad when the agent starts; otherwise it becomes bad later.
        at_start: bool,
    },
    /// Becomes bad while a drain is requested: the request stands.
    RequestStands,
    /// Becomes bad after the release: the last good answer stands.
    StaysReleased,
    /// Becomes bad after the release: the request is not withdrawn when the command is taken back.
    TakeBackWaits,
    /// Becomes bad before the answer: COMPLETE releases nothing, and the request is not withdrawn when the command is
    /// taken back.
    ReleaseWaits,
    /// Settings become bad: the last good ones stay in effect.
    ChangesNothing,
}

/// A row of the table: what is promised for a file, the path of the file, its good contents, and contents that are wrong
/// for this file only.
pub type Row<'a> = (Promise, &'a str, &'a str, &'a [&'a str]);

/// The rows of files that all agents read. A good report would release everything, so that one that must not be believed
/// is noticed.
const COMMON: [Row<'_>; 4] = [
    (Promise::RequestStands, REPORT, r#"{"Member":"no"}"#, &WRONG_REPORTS),
    (Promise::RequestStands, "run/zedkube/NodeDrainStatus/global.json", "{}", &WRONG_STATUSES),
    (Promise::RequestStands, "run/zedagent/EdgeNodeClusterConfig/global.json", "{}", &WRONG_CLUSTERS),
    (Promise::StaysReleased, REPORT, r#"{"Member":"yes"}"#, &[]),
];

const REPORT: &str = "run/zedkube/NodeDrainReport/global.json";
const WRONG_REPORTS: [&str; 6] = [
    r#"{"Requests":7}"#,
    r#"{"Requests":[{"Answer":10}]}"#,
    r#"{"Requests":[{"Answer":9,"RequestedAt":"yesterday"}]}"#,
    r#"{"Member":"no","Pods":{}}"#,
    r#"{"Disabled":true}"#,
    r#"{"Override":{"RequestedBy":4}}"#,
];
const WRONG_STATUSES: [&str; 3] =
    [r#"{"Status":10,"RequestedBy":2}"#, r#"{"Status":"9"}"#, r#"{"Status":9,"RequestedBy":4}"#];
const WRONG_CLUSTERS: [&str; 3] =
    [r#"{"Initialized":1}"#, r#"{"Initialized":true,"Valid":"no"}"#, r#"{"ClusterType":256}"#];

/// Path of nodeagent's progress.
pub const DEVICE_ACTION: &str = "run/nodeagent/DeviceAction/global.json";
/// Wrong contents of nodeagent's progress.
pub const WRONG_ACTIONS: [&str; 4] = [
    r#"{"State":"Sleeping"}"#,
    r#"{"State":3}"#,
    r#"{"State":"Acting","Command":"explode"}"#,
    r#"{"State":"Acting","Command":"reboot","Counter":-2}"#,
];

/// Contents of an agent's own request of which none is the request that was made.
const WRONG_REQUESTS: [&str; 5] = [
    r#"{"RequestedBy":2}"#,
    r#"{"RequestedBy":4}"#,
    r#"{"RequestedAt":7}"#,
    r#"{"RequestedAt":"2026-08-22T16:10:11Z","RequestedBy":1}"#,
    r#"{"RequestedAt":"2026-08-22T16:10:11Z","RequestedBy":"2"}"#,
];

/// An agent on its test device that releases what is commanded only when the node is drained.
#[expect(async_fn_in_trait, reason = "a test runs on one thread")]
pub trait Holder: DerefMut<Target = TestDevice> + Sized {
    /// The topic in which it says why it does not release.
    type Status: Topic;

    /// A device on which the agent does not run yet, and zedkube answers nothing yet.
    fn new() -> Self;

    /// Starts the agent.
    async fn run(&mut self);

    /// The controller's command with this counter; 1 is done already.
    fn command(&self, counter: u32);

    /// The controller takes its command back.
    fn take_back(&self);

    /// Why nothing is released.
    fn blocked_by(status: &Self::Status) -> &str;

    /// True if the files release something now.
    fn has_released(&self) -> bool;

    /// Waits until something is released.
    async fn until_released(&mut self);

    /// Waits until the status has this text.
    async fn until_blocked_by(&self, why: &str) -> Self::Status {
        let has_it = |status: Option<&Self::Status>| {
            status.is_some_and(|status| Self::blocked_by(status).contains(why))
        };
        until(&mut self.follow(self.name()), &TopicKey::global(), has_it).await.unwrap()
    }

    /// Waits until the status has this text no more.
    async fn until_not_blocked_by(&self, why: &str) {
        let lacks_it = |status: Option<&Self::Status>| {
            status.is_some_and(|status| !Self::blocked_by(status).contains(why))
        };
        until(&mut self.follow::<Self::Status>(self.name()), &TopicKey::global(), lacks_it).await;
    }

    /// The agent runs, has released nothing, and its request is this one.
    #[track_caller]
    fn check_waits(&self, request: Option<&NodeDrainRequest>) {
        assert!(self.is_running(), "it has ended");
        assert!(!self.has_released());
        assert_eq!(self.request_now().as_ref(), request);
    }

    /// Runs with a command until it requests a drain.
    async fn run_until_requested(&mut self) -> NodeDrainRequest {
        self.command(2);
        self.run().await;
        self.until_requested().await
    }

    /// Once a drain is requested, zedkube answers COMPLETE, and the command is released.
    async fn release(&mut self) {
        self.until_requested().await;
        self.report(Some(DrainStatus::Complete));
        self.until_released().await;
    }

    /// As [`Holder::release`]; then the agent stops.
    async fn finish(&mut self) {
        self.release().await;
        self.stop().await;
    }
}

/// Tries every kind of bad file in each row, and in the rows that all agents have.
pub async fn check_bad_inputs<H: Holder>(rows: &[Row<'_>]) {
    let own = format!("run/{}/NodeDrainRequest/global.json", H::new().name());
    let made_anew = [true, false]
        .map(|at_start| -> Row<'_> { (Promise::IsMadeAnew { at_start }, &own, "{}", &WRONG_REQUESTS) });
    for &(promise, path, good, wrong) in COMMON.iter().chain(&made_anew).chain(rows) {
        let input = Input { path, good, wrong };
        for bad in input.bad() {
            check_bad_input::<H>(promise, input, bad).await;
        }
    }
}

/// Tries one kind of bad file. The last line that is printed names what has failed.
pub async fn check_bad_input<H: Holder>(promise: Promise, input: Input<'_>, bad: BadFile<'_>) {
    #[expect(clippy::print_stdout, reason = "shown if the test fails")]
    {
        println!("{promise:?}, {}: {bad:?}", input.path);
    }
    let mut trial = Trial { device: H::new(), log: CapturedLog::begin(), input, bad };
    match promise {
        Promise::CommandsNothing => trial.holds().await,
        Promise::HoldsCommand => {
            trial.device.command(2);
            trial.holds().await;
        }
        Promise::OnlyRecords => trial.only_records().await,
        Promise::IsReplaced => trial.is_replaced().await,
        Promise::IsMadeAnew { at_start } => trial.is_made_anew(at_start).await,
        Promise::RequestStands => {
            trial.device.run_until_requested().await;
            trial.stands().await;
        }
        Promise::StaysReleased => trial.stays_released().await,
        Promise::TakeBackWaits => trial.take_back_waits(true).await,
        Promise::ReleaseWaits => trial.take_back_waits(false).await,
        Promise::ChangesNothing => trial.changes_nothing().await,
    }
    trial.device.finish().await;
}

/// One kind of bad file in place of one input.
struct Trial<'a, H> {
    device: H,
    log: CapturedLog,
    input: Input<'a>,
    bad: BadFile<'a>,
}

impl<H: Holder> Trial<'_, H> {
    fn spoil(&self) {
        self.input.put_bad(&self.device, self.bad);
    }

    async fn mend(&self) {
        self.input.put_good(&self.device);
        self.device.until_not_blocked_by(self.input.path).await;
    }

    async fn until_named(&self) {
        self.log.until(self.input.path).await;
        self.device.until_blocked_by(self.input.path).await;
    }

    async fn holds(&mut self) {
        self.spoil();
        self.device.run().await;
        self.until_named().await;
        self.device.check_waits(None);
        self.mend().await;
        self.stands().await;
    }

    /// The request stands while the file is bad.
    async fn stands(&self) {
        let request = self.device.until_requested().await;
        self.log.take();
        self.spoil();
        self.until_named().await;
        self.device.check_waits(Some(&request));
        self.mend().await;
    }

    /// The agent starts with a command and a bad file of its own.
    async fn run_spoilt(&mut self) {
        self.spoil();
        self.device.command(2);
        self.device.run().await;
    }

    /// A folder in place of the agent's own file has to be removed by hand.
    async fn remove_folder(&self) {
        if self.bad == BadFile::Folder {
            self.log.until("cannot publish").await;
            assert!(!self.device.has_released());
            std::fs::remove_dir(self.device.path(self.input.path)).unwrap();
        }
    }

    async fn only_records(&mut self) {
        self.run_spoilt().await;
        self.log.until(self.input.path).await;
        self.remove_folder().await;
        self.device.until_blocked_by("only recorded").await;
        self.device.check_waits(None);
        self.device.until_not_blocked_by(self.input.path).await;
        self.device.command(3);
    }

    async fn is_replaced(&mut self) {
        self.run_spoilt().await;
        self.log.until(self.input.path).await;
        self.remove_folder().await;
        let request = self.device.until_requested().await;
        self.device.check_waits(Some(&request));
    }

    async fn is_made_anew(&mut self, at_start: bool) {
        if at_start {
            self.run_spoilt().await;
        } else {
            self.device.run_until_requested().await;
            self.spoil();
        }
        self.remove_folder().await;
        let is_made = |request: Option<&NodeDrainRequest>| {
            request.is_some_and(|request| !request.context.is_empty() && !request.requested_at.is_zero())
        };
        let mut requests = self.device.follow(self.device.name());
        let request = until(&mut requests, &TopicKey::global(), is_made).await;
        self.device.check_waits(request.as_ref());
    }

    async fn stays_released(&mut self) {
        self.device.run_until_requested().await;
        self.device.release().await;
        // The gate reads the answer from the file, and only later from the subscription, which keeps the last good one.
        // At its start the agent reads both.
        self.device.stop().await;
        self.log.take();
        self.device.run().await;
        self.log.until("nodedrain-step: proceed").await;
        self.spoil();
        self.log.until(self.input.path).await;
        assert!(self.device.is_running() && self.device.has_released());
        self.input.put_good(&self.device);
    }

    async fn take_back_waits(&mut self, was_released: bool) {
        let request = self.device.run_until_requested().await;
        if was_released {
            self.device.release().await;
            self.spoil();
            self.log.until(self.input.path).await;
        } else {
            self.spoil();
            self.until_named().await;
            self.device.report(Some(DrainStatus::Complete));
            self.log.until("nodedrain-step: proceed").await;
            self.device.check_waits(Some(&request));
        }
        self.device.take_back();
        self.device.until_blocked_by("waiting for nodeagent").await;
        self.device.until_blocked_by(self.input.path).await;
        self.device.check_waits(Some(&request));
        self.input.put_good(&self.device);
        self.device.until_withdrawn().await;
        self.device.command(3);
    }

    async fn changes_nothing(&mut self) {
        self.device.run().await;
        // The status is there, whatever it says.
        self.device.until_blocked_by("").await;
        self.spoil();
        self.log.until(self.input.path).await;
        self.device.check_waits(None);
        self.input.put_good(&self.device);
        self.log.until(" = 7").await;
        self.spoil();
        let said = self.log.until(self.input.path).await;
        // Contents that are wrong for this file only may be good ones in which this setting is missing.
        let is_readable = matches!(self.bad, BadFile::Text(text) if self.input.wrong.contains(&text));
        assert!(is_readable || !said.contains(", was 7"), "{said}");
        self.device.command(2);
    }
}
