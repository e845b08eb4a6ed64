//! Decides when the preflight runs: at the start, with new credentials, after a refusal, and daily.
//!
//! The preflight is a task of its own, one run at a time and each with a time limit: the loop never waits for it.

use std::collections::BTreeSet;
use std::time::Duration;

use cluster::identity::Identity;
use cluster::preflight::{Check, Found, preflight, without_connection};
use cluster::slots::SlotMap;
use drain::Moment;
use drain::view::{NodeCondition, NodeView};
use schemas::{Member, Preflight, PreflightProblem};
use session::State;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::link::Link;
use crate::shown_time::ShownTime;

/// Pause after a run without problems: credentials expire and rights change without notice.
const DAILY: Duration = Duration::from_hours(24);

/// Longest pause after a run that found a missing right, slot table or Node. The pause is as long as the problem is old: a
/// person who mends it sees that soon, and a thousand nodes may have the same problem for a long time.
const WITH_PROBLEMS: Duration = Duration::from_hours(1);

/// Pause while the API server is not reached: when it answers the agent's other calls, a run is due at once.
const UNREACHED: Duration = Duration::from_hours(1);

/// Shortest pause between two runs, whatever happens.
const LEAST: Duration = Duration::from_mins(1);

/// Time limit of one run.
const LIMIT: Duration = Duration::from_mins(2);

/// Longest time for which the task sleeps: its timer stands still while the device is suspended.
const LONGEST_SLEEP: Duration = Duration::from_hours(1);

/// Most problems in the report.
const MOST_PROBLEMS: usize = 16;

/// What a run depends on: a change makes a new run due.
#[derive(Clone, Debug, Default)]
struct Subject {
    identity: Identity,
    /// False on a device that is in no cluster: then there is nothing to try.
    is_member: bool,
    /// Why the API server refuses zedkube, or why no Node could be matched to this machine.
    refusal: String,
    /// The number of the connection.
    generation: u64,
    /// UID of the cluster, once known.
    cluster: Option<String>,
    /// True while the API server does not answer the agent's other calls.
    is_away: bool,
    /// True while a drain goes on, or the API server is too busy. A run is about the next drain; its many calls would count
    /// for this one's limit.
    has_to_wait: bool,
}

impl Subject {
    /// True if a result about `self` says nothing about `now_about`.
    fn is_elsewhere(&self, now_about: &Self) -> bool {
        self.cluster.as_ref().zip(now_about.cluster.as_ref()).is_some_and(|(there, here)| there != here)
    }

    /// True if what `now_about` names has to be tried anew.
    fn has_changed(&self, now_about: &Self) -> bool {
        let named = |subject: &Self| (subject.is_member, subject.generation);
        named(self) != named(now_about)
            || self.identity != now_about.identity
            || self.refusal != now_about.refusal
            || self.is_elsewhere(now_about)
    }
}

/// A result: when it was found, and about what.
#[derive(Clone, Debug)]
struct Trial {
    at: Moment,
    /// When its first problem was found, by this run or by one before it.
    since: Moment,
    about: Subject,
    found: Found,
}

/// The task, and its last result.
#[derive(Debug)]
pub(crate) struct Preflights {
    subject: watch::Sender<Subject>,
    tell: watch::Sender<Option<Trial>>,
    found: watch::Receiver<Option<Trial>>,
    task: Option<AbortHandle>,
}

impl Drop for Preflights {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Preflights {
    /// Creates it; the task does not run yet.
    pub(crate) fn new() -> Self {
        let (tell, found) = watch::channel(None);
        Self { subject: watch::Sender::default(), tell, found, task: None }
    }

    /// Starts the task.
    pub(crate) fn start(&mut self, link: Link, slots: SlotMap, uses_slots: bool) {
        let slots = uses_slots.then_some(slots);
        let task = follow(link, slots, self.subject.subscribe(), self.tell.clone());
        self.task = Some(tokio::spawn(task).abort_handle());
    }

    /// Sets how our Node is recognised.
    pub(crate) fn identify_as(&self, identity: &Identity) {
        self.subject.send_if_modified(|subject| {
            let is_new = subject.identity != *identity;
            subject.identity.clone_from(identity);
            is_new
        });
    }

    /// Passes on what the session knows.
    pub(crate) fn follow(&self, state: &State) {
        let refusal = if state.nodes_error.refused.is_empty() {
            &state.nodes_error.identity
        } else {
            &state.nodes_error.refused
        };
        let is_member = state.member != Member::No && state.orders.disabled.is_none();
        self.subject.send_if_modified(|subject| {
            let is_away = state.api.away_since.is_some();
            let has_to_wait = state.wants_snapshot() || (state.api.is_overtaxed && !is_away);
            let seen = (is_member, is_away, has_to_wait);
            let is_new = (subject.is_member, subject.is_away, subject.has_to_wait) != seen
                || subject.refusal != *refusal
                || subject.cluster != state.cluster;
            (subject.is_member, subject.is_away, subject.has_to_wait) = seen;
            subject.cluster.clone_from(&state.cluster);
            subject.refusal.clone_from(refusal);
            is_new
        });
    }

    /// Waits for a new result. Cancel-safe.
    pub(crate) async fn changed(&mut self) {
        if self.found.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The last result, with a problem added if nodeagent cannot take the device down (`has_no_means`), and one for each
    /// condition of our Node that a setting names (`node.conditions`). Without what the site has decided on (setting
    /// `cluster.unconfined`), and without an API server that was away and answers again.
    /// `None` on a device that is in no cluster, and while nothing is known about the present cluster.
    pub(crate) fn found(
        &self,
        time: &ShownTime,
        has_no_means: bool,
        is_unconfined: bool,
        conditions: Vec<PreflightProblem>,
    ) -> Option<Preflight> {
        let subject = self.subject.borrow();
        let result = self.found.borrow();
        let is_about = |result: &&Trial| subject.is_member && !result.about.is_elsewhere(&subject);
        let Trial { at, found, .. } = result.as_ref().filter(is_about)?;
        let problem = |problem: &cluster::preflight::Problem| PreflightProblem {
            what: problem.what.word().to_owned(),
            text: problem.text.clone(),
            hint: problem.hint.to_owned(),
        };
        let is_shown = |problem: &&cluster::preflight::Problem| match problem.what {
            Check::Confinement => !is_unconfined,
            Check::Api => subject.is_away,
            Check::Identity
            | Check::Rights
            | Check::Slots
            | Check::Credentials
            | Check::Budgets
            | Check::Cluster => true,
        };
        let means = has_no_means.then(|| PreflightProblem {
            what: "Means".to_owned(),
            text: "nodeagent has no means to reboot this device: no systemd-logind, no device.command, no right to \
                   reboot(2)"
                .to_owned(),
            hint: "start systemd-logind, or set device.command: without one of them the node is drained for a reboot \
                   that cannot be done"
                .to_owned(),
        });
        Some(Preflight {
            at: time.show(*at),
            problems: means
                .into_iter()
                .chain(found.problems.iter().filter(is_shown).map(problem))
                .chain(conditions)
                .take(MOST_PROBLEMS)
                .collect(),
            credentials_expire_in_days: found.days_left,
        })
    }
}

/// A problem for each of these conditions that our Node is in.
pub(crate) fn conditions(own: Option<&NodeView>, names: &BTreeSet<String>) -> Vec<PreflightProblem> {
    let Some(node) = own else { return Vec::new() };
    let found = node.conditions.iter().filter(|condition| names.contains(&condition.kind));
    let problem = |NodeCondition { kind, since, message }: &NodeCondition| {
        let what = if kind == "Ready" { "it is not Ready".to_owned() } else { format!("it has {kind}") };
        let since = if since.is_empty() { String::new() } else { format!(" since {since}") };
        let why = if message.is_empty() { String::new() } else { format!(": {message}") };
        PreflightProblem {
            what: "Node".to_owned(),
            text: format!("{what}{since}{why}"),
            hint: format!("kubectl describe node {}", node.name),
        }
    };
    found.map(problem).collect()
}

async fn follow(
    link: Link,
    slots: Option<SlotMap>,
    mut subject: watch::Receiver<Subject>,
    tell: watch::Sender<Option<Trial>>,
) {
    let mut last: Option<Trial> = None;
    loop {
        let mut now_about = subject.borrow_and_update().clone();
        now_about.generation = link.generation();
        let pause = due_in(last.as_ref(), &now_about, now());
        if pause != Some(Duration::ZERO) {
            tokio::select! {
                changed = subject.changed() => if changed.is_err() { return },
                () = link.superseded(now_about.generation) => {}
                () = tokio::time::sleep(pause.unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP)) => {}
            }
            continue;
        }
        let found = tokio::time::timeout(LIMIT, one(&link, &now_about.identity, slots.as_ref())).await;
        let Ok(found) = found else {
            tokio::time::sleep(LEAST).await;
            continue;
        };
        say(last.as_ref().map(|last| &last.found), &found);
        // The run itself may have made a new connection.
        now_about.generation = link.generation();
        let first = |found: &Found| found.problems.first().map(|problem| problem.what);
        let same = last.as_ref().filter(|last| first(&last.found) == first(&found));
        let since = same.map_or_else(now, |last| last.since);
        last = Some(Trial { at: now(), since, about: now_about, found });
        tell.send_replace(last.clone());
    }
}

/// How long it is until a run is due; zero if one is due now, `None` if none is wanted.
fn due_in(last: Option<&Trial>, subject: &Subject, now: Moment) -> Option<Duration> {
    if !subject.is_member || subject.has_to_wait {
        return None;
    }
    let Some(Trial { at, since, about, found }) = last else { return Some(Duration::ZERO) };
    let was_away = found.problems.first().is_some_and(|problem| problem.what == Check::Api);
    let is_news = about.has_changed(subject) || (was_away && !subject.is_away);
    let pause = pause_after(found, at.since(*since));
    Some(now.until(*at + if is_news { pause.min(LEAST) } else { pause }))
}

/// The pause after a run, by its first and most important problem, which is so old. Problems that only a person's decision
/// can change do not make runs more frequent.
fn pause_after(found: &Found, old: Duration) -> Duration {
    match found.problems.first().map(|problem| problem.what) {
        Some(Check::Api) => UNREACHED,
        Some(Check::Identity | Check::Rights | Check::Slots) => old.clamp(LEAST, WITH_PROBLEMS),
        Some(Check::Credentials | Check::Budgets | Check::Cluster | Check::Confinement) | None => DAILY,
    }
}

async fn one(link: &Link, identity: &Identity, slots: Option<&SlotMap>) -> Found {
    match link.cluster().await {
        Ok((cluster, _)) => preflight(&cluster, identity, slots).await,
        Err(failure) => without_connection(&failure),
    }
}

/// Logs each new problem once.
fn say(before: Option<&Found>, found: &Found) {
    let known = before.map(|before| before.problems.as_slice()).unwrap_or_default();
    for problem in found.problems.iter().filter(|problem| !known.contains(problem)) {
        tracing::warn!("preflight: {}: {}; {}", problem.what.word(), problem.text, problem.hint);
    }
    if found.problems.is_empty() && !known.is_empty() {
        tracing::info!("preflight: everything that a drain needs works again");
    }
}

fn now() -> Moment {
    Moment(runtime::clock::boot_millis())
}

#[cfg(test)]
mod tests {
    use cluster::ApiFailure;
    use cluster::preflight::Problem;

    use super::*;

    #[test]
    fn what_the_site_has_decided_on_is_not_shown() {
        let (preflights, time) = (Preflights::new(), ShownTime::new(Moment(0), jiff::Timestamp::UNIX_EPOCH));
        let problem = |what| Problem { what, text: String::new(), hint: "" };
        let problems = vec![problem(Check::Api), problem(Check::Confinement), problem(Check::Rights)];
        let about = Subject { cluster: Some("here".to_owned()), ..Subject::default() };
        let found = Found { problems, days_left: None };
        preflights.tell.send_replace(Some(Trial { at: Moment(0), since: Moment(0), about, found }));
        let shown = |is_unconfined| {
            let condition =
                PreflightProblem { what: "Node".to_owned(), text: String::new(), hint: String::new() };
            let found = preflights.found(&time, false, is_unconfined, vec![condition]);
            found.map(|found| found.problems.into_iter().map(|problem| problem.what).collect::<Vec<_>>())
        };
        assert_eq!(shown(false), None, "a device that is in no cluster");
        let mut state = State::new(Member::Yes, String::new(), Moment(0));
        for (away_since, cluster, is_unconfined, expected) in [
            (None, None, false, Some(vec![Check::Confinement, Check::Rights])),
            (None, Some("here"), true, Some(vec![Check::Rights])),
            (Some(Moment(0)), Some("here"), true, Some(vec![Check::Api, Check::Rights])),
            (None, Some("elsewhere"), false, None),
        ] {
            state.api.away_since = away_since;
            state.cluster = cluster.map(str::to_owned);
            preflights.follow(&state);
            let expected = expected.map(|checks| {
                checks.iter().map(|check| check.word()).chain(["Node"]).map(str::to_owned).collect()
            });
            assert_eq!(shown(is_unconfined), expected, "{away_since:?} {cluster:?}");
        }
    }

    #[test]
    fn a_condition_that_a_setting_names_is_shown() {
        let condition = |kind: &str, since: &str, message: &str| NodeCondition {
            kind: kind.to_owned(),
            since: since.to_owned(),
            message: message.to_owned(),
        };
        let conditions = vec![
            condition("Ready", "", ""),
            condition("EtcdIsVoter", "", "it votes"),
            condition("DiskPressure", "2026-11-27T12:03:00Z", "kubelet has disk pressure"),
        ];
        let node = NodeView { name: "edge-a".to_owned(), conditions, ..NodeView::default() };
        let names = ["Ready", "DiskPressure", "KernelDeadlock"].map(str::to_owned).into();
        let found = super::conditions(Some(&node), &names);
        let texts: Vec<&str> = found.iter().map(|problem| problem.text.as_str()).collect();
        let expected =
            ["it is not Ready", "it has DiskPressure since 2026-11-27T12:03:00Z: kubelet has disk pressure"];
        assert_eq!(texts, expected);
        assert_eq!(
            (found[0].what.as_str(), found[0].hint.as_str()),
            ("Node", "kubectl describe node edge-a")
        );
        assert_eq!(super::conditions(None, &names), []);
        assert_eq!(super::conditions(Some(&node), &BTreeSet::new()), []);
    }

    #[test]
    fn when_it_is_tried_again() {
        let subject = |refusal: &str, generation| Subject {
            is_member: true,
            refusal: refusal.to_owned(),
            generation,
            ..Subject::default()
        };
        let cluster = |uid: &str| Subject { cluster: Some(uid.to_owned()), ..subject("", 1) };
        let good = Found::default();
        let away = without_connection(&ApiFailure::Other { text: "away".to_owned() });
        let with = |what| {
            let problem = Problem { what, text: String::new(), hint: "" };
            Found { problems: vec![problem], days_left: None }
        };
        let (denied, unconfined) = (with(Check::Rights), with(Check::Confinement));
        let at = Moment(100_000_000);
        assert_eq!(due_in(None, &subject("", 0), at), Some(Duration::ZERO), "at the start");
        let unwanted =
            [Subject { is_member: false, ..subject("", 0) }, Subject { has_to_wait: true, ..subject("", 0) }];
        for subject in &unwanted {
            assert_eq!(due_in(None, subject, at), None, "{subject:?}");
        }
        // The last result, the present subject, and the pause after which a run is due.
        let cases = [
            (&good, subject("", 1), DAILY, "daily"),
            (&unconfined, subject("", 1), DAILY, "a problem that a person has decided on"),
            (&away, Subject { is_away: true, ..subject("", 1) }, UNREACHED, "until it is there"),
            (&away, subject("", 1), LEAST, "once it is there"),
            (&good, cluster("here"), DAILY, "the cluster is known now"),
            (&away, cluster("here"), LEAST, "once it is there"),
            (&good, subject("", 2), LEAST, "with new credentials"),
            (&good, subject("401", 1), LEAST, "after a refusal"),
            (&denied, subject("403", 2), LEAST, "never more often"),
        ];
        for (found, now_about, pause, why) in cases {
            let last = Trial { at, since: at, about: subject("", 1), found: found.clone() };
            assert_eq!(due_in(Some(&last), &now_about, at), Some(pause), "{why}");
        }
        let minutes = |minutes| Duration::from_mins(minutes);
        for (old, pause) in [(0, 1), (1, 1), (10, 10), (60, 60), (600, 60)] {
            let since = Moment(at.0 - 60_000 * old);
            let last = Trial { at, since, about: subject("", 1), found: denied.clone() };
            assert_eq!(due_in(Some(&last), &subject("", 1), at), Some(minutes(pause)), "{old} min old");
        }
    }
}
