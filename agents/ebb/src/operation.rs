//! `ebb reboot`, `ebb shutdown`, `ebb poweroff`: commands that a person gives on the device.
//!
//! The verbs write topic DeviceOpsCmd of agent `ebb`, with its own counters; device-op drains the node and carries the
//! command out. `--cancel` takes the command back.

mod command;
mod follow;
mod take_back;

use std::process::ExitCode;

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::Args;
use device_op::facts::Kind;
use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use kubectl_ebb::kubectl::go_duration;
use pubsub::{Persistence, Publisher, Root, TopicKey, read_item};
use runtime::clock;
use runtime::peers;
use runtime::window;
use schemas::{
    Agent, DeviceAction, DeviceOpStatus, DeviceOpsCmd, GoTime, Member, NodeDrainReport, Operation, Source,
    agent,
};
use serde::Serialize;

use crate::freeze;
use crate::operator::{OperatorFlags, because, journal, reason, warn_without_zedkube, zedkube_hangs};
use crate::screen;
use crate::status::times::Clock;
use crate::waiting::{SOON, until};

use command::{ActiveCommand, give};
use follow::follow;
use take_back::{OrderResult, take_back};

/// Source of commands that are given with these verbs.
const OPERATOR: Source = Source::Person;

/// Arguments of the three verbs.
#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "flags that a person types")]
pub(crate) struct OperationArguments {
    /// Reason, shown in the answer, in the journal, and in the reboot reason
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: Option<String>,
    /// Take the command back
    #[arg(long)]
    cancel: bool,
    /// Begin even while commands are frozen (`ebb freeze`), and outside the maintenance window; the node is still drained
    /// first
    #[arg(long, conflicts_with = "cancel")]
    now: bool,
    /// Begin at this time: 02:00, 2026-12-05 02:00 (in the time zone of this device), or with a zone as in
    /// 2026-12-05T02:00:00+01:00. It waits until then without a drain
    #[arg(long, value_name = "TIME", value_parser = start, conflicts_with_all = ["cancel", "now", "without_record"])]
    at: Option<Start>,
    /// Begin after this time, such as 90m or 2h; it waits until then without a drain
    #[arg(long = "in", value_name = "DURATION", value_parser = go_duration, conflicts_with_all = ["at", "cancel", "now", "without_record"])]
    after: Option<Duration>,
    /// Only for a reboot, when /persist is full or broken: keep the record in /run, so that any other boot counts as
    /// this reboot; the node is still drained first
    #[arg(long, conflicts_with = "cancel")]
    without_record: bool,
    /// Wait until the device goes down (shutdown: until the applications are stopped), and print how far it is
    #[arg(long, conflicts_with = "cancel")]
    wait: bool,
    /// With --wait: time to wait before giving up, such as 1h30m; 0 = no limit. The command stays
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = go_duration, requires = "wait")]
    timeout: Duration,
    #[command(flatten)]
    place: OperatorFlags,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct CommandOptions {
    /// Begin even during a freeze, and outside the window.
    now: bool,
    /// Do without a record on `/persist`.
    without_record: bool,
    /// Wait until then; zero for now.
    not_before: GoTime,
}

/// JSON form of the answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Document<'a> {
    operation: Operation,
    source: Source,
    counter: u32,
    desired_state: bool,
    ops_time: &'a str,
    reason: &'a str,
    by: String,
    /// True if device-op has taken the command; null for a take-back.
    accepted: Option<bool>,
    /// Result of a take-back; null for a command.
    became: Option<OrderResult>,
}

/// Gives the command, or takes it back.
pub(crate) fn run(operation: Operation, arguments: &OperationArguments) -> anyhow::Result<ExitCode> {
    let why = arguments.reason.as_deref().unwrap_or_default();
    if arguments.cancel {
        return cancel((OPERATOR, operation), why, &arguments.place);
    }
    if arguments.without_record && operation != Operation::Reboot {
        bail!("--without-record is for a reboot only: any boot counts as it, and no {operation} is a boot");
    }
    let not_before = not_before(arguments, clock::wall())?;
    let options = CommandOptions { now: arguments.now, without_record: arguments.without_record, not_before };
    let wait = arguments.wait.then_some(arguments.timeout);
    order(operation, options, why, wait, &arguments.place)
}

/// Takes a command back and prints the result.
pub(crate) fn cancel(kind: Kind, why: &str, place: &OperatorFlags) -> anyhow::Result<ExitCode> {
    let root = place.root()?;
    let (source, operation) = kind;
    let taken = kubectl_ebb::in_runtime(take_back(&root, kind, why))?;
    record(&root, kind, taken.counter, "taken back", why);
    let whose = if source == OPERATOR { String::new() } else { format!(" of {source}") };
    let text = format!("{operation} {}{whose}{}", taken.counter, because(why));
    let document =
        Document { became: Some(taken.became), ..document(kind, taken.counter, false, &taken.ops_time, why) };
    match taken.became {
        OrderResult::TakenBack => place.answer(&format!("{text} is taken back"), &document)?,
        OrderResult::CarriedOut => place.answer(
            &format!("{text} was carried out before; what is taken back is only its request for a drain"),
            &document,
        )?,
        OrderResult::Pending => place.answer(
            &format!(
                "the take-back of {text} is given; its result is not known yet: `ebb status` follows it"
            ),
            &document,
        )?,
        OrderResult::Unread => place.answer(
            &format!("the take-back of {text} is given; device-op does not run, and reads it when it starts"),
            &document,
        )?,
        OrderResult::TooLate => {
            place.answer(&format!("{text} cannot be taken back"), &document)?;
            bail!("too late: nodeagent is carrying {operation} out, and the device is going down");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn order(
    operation: Operation,
    options: CommandOptions,
    why: &str,
    wait: Option<Duration>,
    place: &OperatorFlags,
) -> anyhow::Result<ExitCode> {
    let root = place.root()?;
    let kind = (OPERATOR, operation);
    let (given, report) = kubectl_ebb::in_runtime(async {
        let given = give(&root, operation, options, why).await?;
        record(&root, kind, given.command.counter, "commanded", why);
        let is_begun = given.is_accepted
            && options.not_before.is_zero()
            && (options.now
                || freeze::in_effect(&root, clock::wall()).is_none() && outside_window(&root).is_none());
        let report = if is_begun { reported(&root).await } else { None };
        Ok((given, report))
    })?;
    let command = &given.command;
    warn_without_zedkube(&root);
    let text = format!("{operation} {}{} is commanded", command.counter, because(why));
    let document = Document {
        accepted: Some(given.is_accepted),
        ..document(kind, command.counter, true, &command.ops_time, why)
    };
    if !given.is_accepted {
        place.answer(&format!("{text}, but device-op has not taken it yet"), &document)?;
        bail!(
            "device-op has not taken {operation} {} in time: `ebb status` and its log say why; the command stays active, \
             and is carried out when device-op takes it: `ebb cancel {operation}` takes it back",
            command.counter
        );
    }
    let line = format!(
        "{}{text}: {}{}; `ebb status` follows it, `ebb cancel {operation}` takes it back",
        dry_run(&root),
        when(&root, options, report),
        besides(&given, options)
    );
    if let Some(limit) = wait {
        screen::say(&line);
        return kubectl_ebb::in_runtime(follow(&root, kind, command.counter, limit, place, &document));
    }
    place.answer(&line, &document)?;
    Ok(ExitCode::SUCCESS)
}

/// Limit for `--at` and `--in`: a command for another year is a typing error.
const LONGEST_WAIT: SignedDuration = SignedDuration::from_hours(366 * 24);

/// A time that an operator has typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// With its zone.
    Instant(Timestamp),
    /// On the clock of this device's time zone.
    Local(DateTime),
    /// The next such time on that clock.
    Daily(Time),
}

fn start(text: &str) -> Result<Start, String> {
    let local = |form| DateTime::strptime(form, text).map(Start::Local);
    text.parse()
        .map(Start::Instant)
        .or_else(|_| local("%Y-%m-%d %H:%M"))
        .or_else(|_| local("%Y-%m-%dT%H:%M"))
        .or_else(|_| Time::strptime("%H:%M", text).map(Start::Daily))
        .map_err(|_| {
            "accepted: 02:00 or 2026-12-05 02:00, in the time zone of this device; or with a zone, \
             2026-12-05T02:00:00+01:00"
                .to_owned()
        })
}

impl Start {
    /// The instant, on a clock that shows `wall` in this zone.
    fn after(self, wall: Timestamp, zone: &TimeZone) -> Result<Timestamp, jiff::Error> {
        let at = |local: DateTime| zone.to_ambiguous_timestamp(local).compatible();
        match self {
            Self::Instant(instant) => Ok(instant),
            Self::Local(local) => at(local),
            Self::Daily(time) => {
                let today = zone.to_datetime(wall).date();
                let next = at(today.to_datetime(time))?;
                if wall < next { Ok(next) } else { at(today.tomorrow()?.to_datetime(time)) }
            }
        }
    }
}

/// Until when the command waits; zero if it does not.
fn not_before(arguments: &OperationArguments, wall: Timestamp) -> anyhow::Result<GoTime> {
    let at = match (arguments.at, arguments.after) {
        (None, None) => return Ok(GoTime::ZERO),
        (Some(start), _) => start.after(wall, &TimeZone::system()),
        (None, Some(after)) => SignedDuration::try_from(after).and_then(|after| wall.checked_add(after)),
    };
    let at = at.context("no such time")?;
    ensure!(
        !window::is_unset(wall),
        "this device's clock is not set: it shows {wall}; --at and --in need it"
    );
    ensure!(wall < at, "{at} has passed: it is {wall} by this device's clock; give a later time");
    ensure!(
        at.duration_since(wall) <= LONGEST_WAIT,
        "{at} is more than a year ahead: it is {wall} by this device's clock"
    );
    Ok(at.into())
}

/// zedkube's report, once it says whether the node can be drained now; the last one if it does not say so soon.
async fn reported(root: &Root) -> Option<NodeDrainReport> {
    let read = || -> Option<NodeDrainReport> {
        read_item(root, agent::ZEDKUBE, Persistence::Volatile, &TopicKey::global()).ok().flatten()
    };
    let last = read()?;
    if !peers::runs(root, Agent::Zedkube) || zedkube_hangs(root).is_some() {
        return Some(last);
    }
    let says = |report: &NodeDrainReport| {
        let is_drained = matches!(report.phase.as_str(), "Cordoning" | "Attempting" | "Pausing" | "Complete");
        is_drained
            || !report.outlook.is_empty()
            || report.held_by.is_some()
            || report.disabled.is_some()
            || report.member == Member::No
    };
    let folder = root.folder::<NodeDrainReport>(agent::ZEDKUBE, Persistence::Volatile);
    until([folder], SOON, || read().filter(says)).await.or(Some(last))
}

/// Says so if the device will not really go down.
fn dry_run(root: &Root) -> &'static str {
    let action: Option<DeviceAction> =
        read_item(root, agent::NODEAGENT, Persistence::Volatile, &TopicKey::global()).ok().flatten();
    if action.is_some_and(|action| action.is_dry_run()) {
        "DRY RUN (setting device.dry-run): nodeagent will only write it down, and the device stays up; "
    } else {
        ""
    }
}

/// Why a person's command waits for the maintenance window; None if it does not.
fn outside_window(root: &Root) -> Option<String> {
    let status: DeviceOpStatus =
        read_item(root, agent::ZEDAGENT, Persistence::Volatile, &TopicKey::global()).ok().flatten()?;
    status.window?.holds(OPERATOR).map(str::to_owned)
}

/// When the command will be carried out, as far as it is known now.
fn when(root: &Root, options: CommandOptions, report: Option<NodeDrainReport>) -> String {
    if let Some(freeze) = freeze::in_effect(root, clock::wall()).filter(|_| !options.now) {
        return format!(
            "once commands are not frozen any more ({}) and the node is drained",
            freeze::summary(&freeze)
        );
    }
    if let Some(time) = options.not_before.set() {
        return format!(
            "at {}, once the node is drained",
            Clock::new(clock::wall(), TimeZone::system()).shown(time)
        );
    }
    if let Some(words) = outside_window(root).filter(|_| !options.now) {
        return format!(
            "once the window opens ({words}) and the node is drained; with --now it does not wait for that"
        );
    }
    match report {
        Some(NodeDrainReport { disabled: Some(disabled), .. }) => {
            format!("at once, WITHOUT a drain: drains are switched off (by {})", disabled.by)
        }
        Some(NodeDrainReport { member: Member::No, .. }) => {
            "at once, WITHOUT a drain: this device is in no cluster".to_owned()
        }
        Some(NodeDrainReport { outlook, .. }) if !outlook.is_empty() => outlook,
        Some(NodeDrainReport { held_by: Some(_), reason, .. }) => {
            format!("once the node is drained; now it waits: {reason}")
        }
        Some(_) | None => "once the node is drained".to_owned(),
    }
}

/// Further facts for the operator: commands that go first, sources that want the same, no record.
fn besides(given: &ActiveCommand, options: CommandOptions) -> String {
    let first = given.first.map(|(other, counter)| format!("; {other} {counter} goes first"));
    let served = given.served_too.iter();
    let served = served.map(|(source, counter)| {
        format!("; {counter} of {source} asks for the same operation, and counts as done with it")
    });
    let without = options
        .without_record
        .then_some("; WITHOUT a record: any other boot counts as this one, a power cut, too");
    first.into_iter().chain(served).chain(without.map(str::to_owned)).collect()
}

fn document<'a>(
    kind: Kind,
    counter: u32,
    desired_state: bool,
    ops_time: &'a str,
    why: &'a str,
) -> Document<'a> {
    let (source, operation) = kind;
    Document {
        operation,
        source,
        counter,
        desired_state,
        ops_time,
        reason: why,
        by: peers::user(),
        accepted: None,
        became: None,
    }
}

fn record(root: &Root, (source, operation): Kind, counter: u32, what: &str, why: &str) {
    let by = peers::user();
    journal(
        root,
        &format!("DeviceOpsCmd: {operation} {counter} of {source} {what} by {by}{}", because(why)),
        why,
    );
}

fn now() -> String {
    GoTime::from(clock::wall()).to_string()
}

/// Writes the command of the person. `make` is called under the lock of agent `ebb`, so that no other process can write
/// between its check and the file; the lock is released right after, so that a program which acts as the controller can
/// go on.
///
/// # Errors
/// Another `ebb` is writing; `make` fails; the file cannot be written.
fn publish(
    root: &Root,
    operation: Operation,
    make: impl FnOnce(String) -> anyhow::Result<DeviceOpsCmd>,
) -> anyhow::Result<DeviceOpsCmd> {
    let lock = peers::speak_as(root, OPERATOR.agent())?;
    let mut publisher = Publisher::open(root, OPERATOR.agent(), Persistence::Volatile, &lock)?;
    let command = make(now())?;
    publisher.publish(&TopicKey::of_operation(operation), &command)?;
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_command() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let wall = "2026-11-29T08:00:00Z".parse().unwrap();
        for (text, expected) in [
            ("2026-12-05T02:00:00+01:00", Some("2026-12-05T01:00:00Z")),
            ("2026-12-05T01:00:00Z", Some("2026-12-05T01:00:00Z")),
            ("2026-12-05 02:00", Some("2026-12-05T01:00:00Z")),
            ("2026-12-05T02:00", Some("2026-12-05T01:00:00Z")),
            ("09:01", Some("2026-11-29T08:01:00Z")),
            // It is 09:00 there.
            ("09:00", Some("2026-11-30T08:00:00Z")),
            ("02:00", Some("2026-11-30T01:00:00Z")),
            ("tomorrow", None),
            ("25:00", None),
            ("2026-13-01 02:00", None),
            ("", None),
        ] {
            let found = start(text).ok().map(|start| start.after(wall, &zone).unwrap().to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }
}
