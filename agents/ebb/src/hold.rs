//! `ebb hold`: keeps a shutdown of this machine back until its node is drained, for at most `hold.timeout`.
//!
//! systemd runs it when it starts and when it stops `ebb-hold.service`. It asks zedkube for a drain only while the
//! system goes down; otherwise it withdraws what an earlier run has left. It is no command of any source: no window,
//! counter or freeze applies to it.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use kubectl_ebb::screen;
use pubsub::{Persistence, Publisher, Root, Subscription, TopicKey};
use runtime::agent_state::nodeagent_takes_down;
use runtime::liveness::hung_for;
use runtime::requester::new_request;
use runtime::settings::Command;
use runtime::{AgentFlags, boot, clock, error_chain, peers, program};
use schemas::{
    Agent, DrainStatus, GoTime, HOLD_TIMEOUT, Member, NOT_DRAINED, NodeDrainReport, NodeDrainRequest,
    Outcome, agent,
};
use text::one_line;

use crate::device::Device;

/// Time between two lines on the console, and between two questions to systemd.
const TICK: Duration = Duration::from_secs(5);

/// How long a zedkube that does not run is waited for: systemd starts nothing again while the system goes down.
const WITHOUT_ZEDKUBE: Duration = Duration::from_secs(10);

/// Limit for an answer of systemd.
const SYSTEMD_LIMIT: Duration = Duration::from_secs(20);

/// The target that is started whenever the system goes down, and those that say how.
const SHUTDOWN: &str = "shutdown.target";
const TARGETS: [&str; 5] =
    ["reboot.target", "poweroff.target", "halt.target", "kexec.target", "soft-reboot.target"];

/// Longest line on the console, in bytes.
const LONGEST_LINE: usize = 400;

/// Arguments of `ebb hold`.
#[derive(Args, Debug)]
pub(crate) struct HoldArguments {
    #[command(flatten)]
    flags: AgentFlags,
}

/// What follows from what zedkube and nodeagent say.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// The shutdown waits, for this reason. A drain that has failed is asked for again.
    Wait { why: String, is_failed: bool },
    /// The shutdown goes on, for this reason: there is nothing to wait for.
    Pass(String),
    /// The shutdown goes on, for this reason, although the node is not drained.
    Undrained(String),
}

impl Verdict {
    const fn wait(why: String) -> Self {
        Self::Wait { why, is_failed: false }
    }
}

/// Holds the shutdown back. Exit code 1 if it goes on although the node should have been drained, and is not.
pub(crate) fn run(arguments: &HoldArguments) -> anyhow::Result<ExitCode> {
    let Device { root, settings, .. } = Device::read(&arguments.flags)?;
    kubectl_ebb::in_runtime(hold(&root, settings.hold.timeout))
}

async fn hold(root: &Root, limit: Duration) -> anyhow::Result<ExitCode> {
    let Some(target) = target().await.map_err(anyhow::Error::msg)? else {
        return withdraw(root, "the system does not go down");
    };
    let until = clock::boot_millis().saturating_add(clock::millis(limit));
    let deadline = tokio::time::Instant::now() + limit;
    let mut drain = Drain { root: root.clone(), target, request: None, failed_at: None, zedkube_until: None };
    let mut reports = Subscription::open(root, agent::ZEDKUBE, Persistence::Volatile);
    let mut tick = tokio::time::interval(TICK);
    loop {
        let is_tick = tokio::select! {
            _ = tick.tick() => true,
            () = reports.changed() => false,
            () = tokio::time::sleep_until(deadline) => false,
        };
        if is_tick && matches!(self::target().await, Ok(None)) {
            return withdraw(root, "the shutdown was called off");
        }
        if boot::boot_id(root).is_ok_and(|boot_id| nodeagent_takes_down(root, &boot_id)) {
            say(
                "the shutdown goes on: nodeagent takes the machine down, by a command that was held back until now",
            );
            return Ok(ExitCode::SUCCESS);
        }
        let now = clock::boot_millis();
        match drain.look(reports.get(&TopicKey::global()), now) {
            Verdict::Pass(why) => return Ok(drain.goes_on(&why, ExitCode::SUCCESS)),
            Verdict::Undrained(why) => return Ok(drain.goes_on_undrained(&why)),
            Verdict::Wait { why, .. } if until <= now => {
                let over = format!("{HOLD_TIMEOUT} ({} s) is over: {why}", limit.as_secs());
                return Ok(drain.goes_on_undrained(&over));
            }
            Verdict::Wait { why, is_failed } if is_tick => {
                let again = if is_failed { "the drain is asked for again: " } else { "" };
                say(&format!("the shutdown waits, {} s at most: {again}{why}", (until - now) / 1000));
                if is_failed {
                    drain.failed_at = drain.request.take().map(|request| request.requested_at);
                }
            }
            Verdict::Wait { .. } => {}
        }
        if let Err(error) = drain.ask() {
            return Ok(drain.goes_on_undrained(&format!("no drain can be asked for: {error:#}")));
        }
    }
}

/// The drain that is asked for.
struct Drain {
    root: Root,
    /// The target by which the system goes down.
    target: String,
    /// The request; `None` while there is none, and when there has to be a new one.
    request: Option<NodeDrainRequest>,
    /// The time of the last request whose drain failed.
    failed_at: Option<GoTime>,
    /// When a zedkube that does not run is not waited for any longer, in milliseconds of this boot's clock.
    zedkube_until: Option<u64>,
}

impl Drain {
    fn look(&mut self, report: Option<&NodeDrainReport>, now: u64) -> Verdict {
        let is_there = peers::runs(&self.root, Agent::Zedkube);
        let since_now = now.saturating_add(clock::millis(WITHOUT_ZEDKUBE));
        self.zedkube_until = (!is_there).then(|| self.zedkube_until.unwrap_or(since_now));
        let is_away = || "zedkube does not run".to_owned();
        match self.zedkube_until {
            Some(end) if end <= now => Verdict::Undrained(is_away()),
            Some(_) => Verdict::wait(is_away()),
            None => judge(report, self.request.as_ref(), hung_for(&self.root, agent::ZEDKUBE)),
        }
    }

    /// Publishes the request, unless it stands.
    ///
    /// # Errors
    /// It cannot be published.
    fn ask(&mut self) -> anyhow::Result<()> {
        if self.request.is_some() {
            return Ok(());
        }
        let (lock, key) = (peers::speak_as(&self.root, agent::HOLD)?, TopicKey::global());
        let mut requests = Publisher::open(&self.root, agent::HOLD, Persistence::Volatile, &lock)?;
        let before = requests.get(&key).cloned();
        let is_failed = |before: &NodeDrainRequest| self.failed_at == Some(before.requested_at);
        // Another run of this verb may wait for it.
        let context = || format!("the machine goes down ({})", self.target);
        let request = before.clone().filter(|before| !is_failed(before));
        let request = request.unwrap_or_else(|| new_request(context(), before.as_ref()));
        requests.publish(&key, &request)?;
        self.request = Some(request);
        Ok(())
    }

    /// Says why the shutdown goes on, also to the next boot.
    fn goes_on(&self, why: &str, code: ExitCode) -> ExitCode {
        say(&format!("the shutdown goes on: {why}"));
        let reason = one_line(&format!("{}: {why}", self.target), LONGEST_LINE);
        if let Err(error) = nodeagent::leave_reason(&self.root, &reason) {
            say(&format!("the next boot will not know why: {}", error_chain(&error)));
        }
        code
    }

    fn goes_on_undrained(&self, why: &str) -> ExitCode {
        self.goes_on(&format!("{NOT_DRAINED}: {why}"), ExitCode::FAILURE)
    }
}

/// What zedkube says of our request. `hung`: so long it has made no progress, and what it says may be old.
fn judge(
    report: Option<&NodeDrainReport>,
    request: Option<&NodeDrainRequest>,
    hung: Option<Duration>,
) -> Verdict {
    let Some(report) = report else {
        return Verdict::wait("zedkube has reported nothing yet".to_owned());
    };
    if let Some(disabled) = &report.disabled {
        return Verdict::Pass(format!("{NOT_DRAINED}: drains are switched off ({})", disabled.by));
    }
    if report.member == Member::No {
        return Verdict::Pass("this machine is in no cluster, and there is nothing to drain".to_owned());
    }
    let Some(line) = request.and_then(|request| report.line_of(agent::HOLD, request.requested_at)) else {
        return Verdict::wait("zedkube is asked for a drain".to_owned());
    };
    let reason = report.reason.clone();
    if line.answer.is_failed() {
        return Verdict::Wait { why: reason, is_failed: true };
    }
    match (line.answer, line.outcome) {
        (DrainStatus::Complete, Some(Outcome::Drained)) => Verdict::Pass(reason),
        (DrainStatus::Complete, outcome) => {
            let outcome = outcome.map_or_else(String::new, |outcome| format!(" ({outcome:?})"));
            Verdict::Pass(format!("{NOT_DRAINED}, as settings or an operator allow{outcome}: {reason}"))
        }
        _ => Verdict::wait(hung.map_or_else(
            || format!("{}: {reason}", report.phase),
            |silent| format!("zedkube hangs: it has made no progress for {} s", silent.as_secs()),
        )),
    }
}

/// Withdraws what an earlier run asked for.
///
/// # Errors
/// The request cannot be removed.
fn withdraw(root: &Root, why: &str) -> anyhow::Result<ExitCode> {
    let key = TopicKey::global();
    let file = root.item::<NodeDrainRequest>(agent::HOLD, Persistence::Volatile, &key);
    if file.exists() {
        let lock = peers::speak_as(root, agent::HOLD)?;
        let mut requests: Publisher<NodeDrainRequest> =
            Publisher::open(root, agent::HOLD, Persistence::Volatile, &lock)?;
        requests
            .unpublish(&key)
            .context("the request for a drain cannot be withdrawn; remove its file by hand")?;
        say(&format!("{why}: the request for a drain is withdrawn"));
    }
    Ok(ExitCode::SUCCESS)
}

/// The target by which the system goes down; `None` if it does not.
///
/// # Errors
/// systemd does not say.
async fn target() -> Result<Option<String>, String> {
    let words = ["list-jobs", "--no-legend", SHUTDOWN].into_iter().chain(TARGETS);
    let command = Command { program: "systemctl".to_owned(), arguments: words.map(str::to_owned).collect() };
    let jobs = program::run(&command, &[], SYSTEMD_LIMIT).await;
    let jobs = jobs.map_err(|error| format!("cannot tell whether the system goes down: {error}"))?;
    Ok(target_in(&jobs))
}

/// The target by which the system goes down, in the jobs of systemd: number, unit, kind, and state in each line.
fn target_in(jobs: &str) -> Option<String> {
    let started = jobs.lines().filter_map(|job| {
        let mut words = job.split_whitespace().skip(1);
        let (unit, kind) = (words.next()?, words.next()?);
        (kind == "start").then_some(unit)
    });
    let started: Vec<&str> = started.collect();
    let target = || TARGETS.into_iter().find(|target| started.contains(target)).unwrap_or(SHUTDOWN);
    started.contains(&SHUTDOWN).then(|| target().to_owned())
}

fn say(text: &str) {
    screen::line(&one_line(text, LONGEST_LINE));
}

#[cfg(test)]
mod tests {
    use schemas::{Disabled, RequestLine};

    use super::*;

    #[test]
    fn the_machine_goes_down_by_a_target_that_is_being_started() {
        for (jobs, target) in [
            ("", None),
            ("No jobs running.\n", None),
            ("  7 reboot.target start waiting\n", None),
            ("7 shutdown.target stop waiting\n8 poweroff.target start waiting\n", None),
            ("7 shutdown.target start waiting\n", Some("shutdown.target")),
            (
                "  12 soft-reboot.target start waiting\n   7 shutdown.target  start waiting\n",
                Some("soft-reboot.target"),
            ),
            ("7 shutdown.target\n\n7\n", None),
        ] {
            assert_eq!(target_in(jobs).as_deref(), target, "{jobs:?}");
        }
    }

    #[test]
    fn a_zedkube_that_does_not_run_is_waited_for_but_not_long() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let target = SHUTDOWN.to_owned();
        let mut drain = Drain { root, target, request: None, failed_at: None, zedkube_until: None };
        let away = || "zedkube does not run".to_owned();
        assert_eq!(drain.look(None, 1_000), Verdict::wait(away()));
        assert_eq!(drain.look(None, 10_999), Verdict::wait(away()));
        assert_eq!(drain.look(None, 11_000), Verdict::Undrained(away()));
    }

    #[test]
    fn the_shutdown_waits_for_the_answer_to_this_request() {
        let request = NodeDrainRequest { requested_at: clock::wall().into(), ..NodeDrainRequest::default() };
        let line = |publisher: &str, answer| RequestLine {
            publisher: publisher.to_owned(),
            requested_at: request.requested_at,
            answer,
            ..RequestLine::default()
        };
        let says = |member, requests| NodeDrainReport {
            member,
            requests,
            phase: "Attempting".to_owned(),
            reason: "2 pods".to_owned(),
            ..NodeDrainReport::default()
        };
        let answered = |answer| says(Member::Yes, vec![line(agent::HOLD, answer)]);
        let complete = |outcome| {
            let line = RequestLine { outcome: Some(outcome), ..line(agent::HOLD, DrainStatus::Complete) };
            says(Member::Yes, vec![line])
        };
        let disabled = Disabled { by: "alice".to_owned(), ..Disabled::default() };
        let wait = |why: &str| Verdict::wait(why.to_owned());
        let pass = |why: &str| Verdict::Pass(why.to_owned());
        let asked = "zedkube is asked for a drain";
        let nobody = "this machine is in no cluster, and there is nothing to drain";
        let allowed = "NOT DRAINED, as settings or an operator allow (Forced): 2 pods";
        for (report, verdict) in [
            (None, wait("zedkube has reported nothing yet")),
            (Some(says(Member::Unknown, vec![])), wait(asked)),
            (Some(answered(DrainStatus::Unknown)), wait("Attempting: 2 pods")),
            (Some(says(Member::Yes, vec![line(agent::EBB, DrainStatus::Complete)])), wait(asked)),
            (Some(says(Member::No, vec![])), pass(nobody)),
            (
                Some(NodeDrainReport { disabled: Some(disabled), ..answered(DrainStatus::Unknown) }),
                pass("NOT DRAINED: drains are switched off (alice)"),
            ),
            (Some(complete(Outcome::Drained)), pass("2 pods")),
            (Some(complete(Outcome::Forced)), pass(allowed)),
            (
                Some(answered(DrainStatus::FailedDrain)),
                Verdict::Wait { why: "2 pods".to_owned(), is_failed: true },
            ),
        ] {
            assert_eq!(judge(report.as_ref(), Some(&request), None), verdict, "{report:?}");
        }
        let hung =
            judge(Some(&answered(DrainStatus::Unknown)), Some(&request), Some(Duration::from_secs(50)));
        assert_eq!(hung, wait("zedkube hangs: it has made no progress for 50 s"));
    }
}
