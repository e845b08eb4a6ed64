//! How a drain goes on: what has to leave is asked to leave, budgets are kept, and nothing waits without a reason.

use std::collections::{BTreeMap, BTreeSet};

use fake_cluster::{Answered, Effect, FakeCluster, Removal};
use schemas::Agent;
use serde_json::Value;

use super::{
    CALM, Judge, MOST_REQUESTS, STALE_SCHEDULER, UNSEEN, WATCHES_ARE_BACK, YOUNG, attached_to, left_on, text,
};
use crate::device::Device;
use crate::kernel;
use crate::trouble::Trouble;
use crate::world::{MINUTE, SECOND, is_unschedulable};

/// A pod that may leave is asked to leave within this time. A call that hangs, and the pauses after failures, are shorter.
const ASKED: u64 = 40 * SECOND;
/// A pod that has finished is held by nothing: its eviction does not wait for the next try.
const FINISHED: u64 = 8 * SECOND;
/// A node without pods and volumes is drained within this time: two lists, `drain.settle` apart, and one call that hangs.
const EMPTY: u64 = 40 * SECOND;
/// Pods that come in so short a time after the cordon do not count as pods that come back (`LATE_BINDING`).
const LATE_BINDING: u64 = 4 * SECOND;
/// A refusal that lasts ends an attempt within this time (`drain::policy::REFUSAL_LASTS`, and the pauses of watches).
const REFUSED: u64 = 100 * SECOND;
/// A call that hangs ends within this time, and the next one has the answer.
const HANGS: u64 = 20 * SECOND;
/// A call without an answer fails after this time (the longest deadline in `cluster`, that of an eviction).
const CALL_DEADLINE: u64 = 35 * SECOND;
/// Longest pause before a watch that failed asks again; until then an attempt knows only that it failed.
const WATCH_PAUSE: u64 = 30 * SECOND;
/// Clocks of the agents and of the judge may differ so much.
const TOLERANCE: u64 = 2 * SECOND;
/// Most lists of a kind that fail within a minute, for each device: pauses double from half a second to 20 s.
const MOST_FAILED: u64 = 40;
/// So many refusals may let a drain fail.
const LASTING_REFUSALS: u32 = 3;

/// What is known of the drain of a device.
#[derive(Debug, Default)]
pub(super) struct Drain {
    /// The attempt that goes on, and since when.
    attempt: Option<(u64, u64)>,
    /// The last attempt, by the id of its drain and its number, and since when.
    last: Option<((String, u64), u64)>,
    /// The attempt that has just ended: since when it went on, how it has ended, and when.
    ended: Option<(u64, Ended, u64)>,
    /// The pods on the node, by their UID.
    pods: BTreeMap<String, Pod>,
    /// Since when the node has had no pods and no volumes.
    empty_since: Option<u64>,
    looked_at: u64,
    /// When the API server last answered a request to remove a pod.
    asked_at: u64,
    /// Complained about in this attempt.
    has_complaint: bool,
}

/// How an attempt has ended, by the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// The node is drained, or does not exist any more.
    Drained,
    Failed,
    /// Nobody asks for it any more, or it is not known.
    Otherwise,
}

/// A pod on the node, as it was seen.
#[derive(Debug, Default)]
struct Pod {
    seen_at: u64,
    finished_at: Option<u64>,
    /// When its removal was last asked for in this attempt, and what the answer was.
    asked: Option<(u64, Answered)>,
    /// Since when a budget has refused it without a break.
    refused_since: Option<u64>,
}

/// A budget, as the API server sees it: when it last let a pod go, and when a pod of it was last deleted.
#[derive(Debug, Default)]
struct Budget {
    let_go: u64,
    deleted: u64,
}

/// What is known of the API server.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "what is wrong with it, each on its own")]
pub(super) struct Server {
    /// Something is wrong with it from a moment on, and is not over.
    is_troubled: bool,
    /// The scheduler binds pods to cordoned nodes, so that a drain need not end.
    pub(super) has_blind_scheduler: bool,
    /// Some watches tell nothing.
    has_silent_watches: bool,
    /// When something was last wrong for long.
    troubled_at: u64,
    /// Number of requests that faults have met, and when that was the last times, the newest first.
    met: u64,
    met_at: [u64; 3],
    /// Since when lists that each attempt needs are refused.
    refuses_since: Option<u64>,
    /// Refusals that were drawn.
    refusals: u32,
    /// No volume is detached.
    stops_detaching: bool,
    /// Some requests were drawn to hang: such a one fails only after [`CALL_DEADLINE`].
    calls_hang: bool,
    /// Some evictions were drawn to be slow: the pods of an owner then leave one after the other.
    has_slow_evictions: bool,
    budgets: BTreeMap<String, Budget>,
    /// Lists that have failed, by what they list, when they were counted last.
    failed: BTreeMap<String, u64>,
}

impl Server {
    /// What it tells may be out of date.
    pub(super) const fn has_trouble(&self) -> bool {
        self.is_troubled || self.has_silent_watches
    }
}

impl Drain {
    /// The report was written. If somebody removes its file, zedkube writes it again, and the attempt goes on.
    pub(super) fn reported(&mut self, report: &Value) {
        if report.is_null() {
            return;
        }
        let text = |field| report.get(field).and_then(Value::as_str).unwrap_or_default();
        let number = report.get("DrainAttempt").and_then(Value::as_u64).unwrap_or_default();
        let goes_on = text("Phase") == "Attempting";
        if goes_on && self.attempt.is_some_and(|(before, _)| before == number) {
            return;
        }
        if let Some((_, since)) = self.attempt.take() {
            let how = match (text("Phase"), text("Outcome")) {
                (_, "Drained" | "NodeGone") => Ended::Drained,
                ("Pausing" | "Failed", _) => Ended::Failed,
                _ => Ended::Otherwise,
            };
            self.ended = Some((since, how, kernel::now()));
        }
        if goes_on {
            // A zedkube that was started again goes on with the same attempt.
            let name = (text("DrainId").to_owned(), number);
            let since =
                self.last.take().filter(|(last, _)| *last == name).map_or_else(kernel::now, |(_, at)| at);
            let (attempt, last) = (Some((number, since)), Some((name, since)));
            *self = Self { attempt, last, ended: self.ended, ..Self::default() };
        }
    }
}

impl Judge {
    /// Something is wrong with the API server from now on, or is no more.
    pub(crate) fn sees_trouble(&mut self, trouble: &Trouble) {
        if matches!(
            trouble,
            Trouble::WatchesSpeak(_)
                | Trouble::Over
                | Trouble::CutWatches
                | Trouble::ForgottenHistory
                | Trouble::BlindScheduler
                | Trouble::SchedulerSees
                | Trouble::ApiUp
        ) {
            self.watches_catch_up();
        }
        let server = &mut self.server;
        let hangs = |effect: &Effect| matches!(effect, Effect::Hang | Effect::HangAfter);
        server.calls_hang |= matches!(trouble, Trouble::Fault(_, _, effect, _) if hangs(effect));
        server.has_slow_evictions |=
            matches!(trouble, Trouble::Fault(_, "*" | "pods/eviction", Effect::Delay(_), _));
        server.has_blind_scheduler = match trouble {
            Trouble::BlindScheduler => true,
            Trouble::SchedulerSees | Trouble::Over => false,
            _ => server.has_blind_scheduler,
        };
        match trouble {
            Trouble::Over if server.is_troubled || server.has_silent_watches => {
                (server.is_troubled, server.troubled_at) = (false, kernel::now());
                (server.refuses_since, server.has_silent_watches) = (None, false);
            }
            Trouble::SilentWatches(_) | Trouble::WatchesSpeak(_) => {
                server.has_silent_watches = matches!(trouble, Trouble::SilentWatches(_));
                server.troubled_at = kernel::now();
            }
            Trouble::Lasts(..) | Trouble::FrozenCache => {
                (server.is_troubled, server.troubled_at) = (true, kernel::now());
            }
            Trouble::ApiDown
            | Trouble::ApiUp
            | Trouble::Fault(..)
            | Trouble::CutWatches
            | Trouble::ForgottenHistory
            | Trouble::Paused(_)
            | Trouble::BlindScheduler
            | Trouble::SchedulerSees
            | Trouble::Over => {}
        }
        server.stops_detaching |= trouble.stops_detaching();
        server.stops_detaching &= !trouble.is_over();
        if trouble.refuses_what_a_drain_needs() {
            server.refuses_since.get_or_insert(kernel::now());
        }
        self.has_lasting |= trouble.stops_detaching();
    }

    /// The API server is to refuse so many requests.
    pub(crate) fn refuses(&mut self, times: u32) {
        self.server.refusals += times;
        self.has_lasting |= self.server.refusals >= LASTING_REFUSALS;
    }

    /// Judges a request to remove a pod.
    pub(crate) fn asked_to_leave(&mut self, devices: &[Device], asked: &Removal) {
        let now = kernel::now();
        if asked.answer == Answered::Deleted && !asked.is_ending {
            self.judge_deletion(devices, asked);
        }
        for name in &asked.budgets {
            let budget = self.server.budgets.entry(name.clone()).or_default();
            match asked.answer {
                Answered::Evicted if asked.is_ready => budget.let_go = now,
                Answered::Deleted => budget.deleted = now,
                Answered::Evicted | Answered::Refused => {}
            }
        }
        let Some(index) = devices.iter().position(|device| device.node == asked.node) else { return };
        self.devices[index].drain.asked_at = now;
        let new = || Pod { seen_at: now, ..Pod::default() };
        let pod = self.devices[index].drain.pods.entry(asked.uid.clone()).or_insert_with(new);
        pod.asked = Some((now, asked.answer));
        let since = pod.refused_since.unwrap_or(now);
        pod.refused_since = (asked.answer == Answered::Refused).then_some(since);
    }

    /// "A budget is passed over only as the settings say": after refusals for so long, during which the budget let no other
    /// pod go, and one pod of it at a time.
    fn judge_deletion(&mut self, devices: &[Device], asked: &Removal) {
        let now = kernel::now();
        let index = devices.iter().position(|device| device.node == asked.node);
        let pods = index.map(|index| &self.devices[index].drain.pods);
        let refused = pods.and_then(|pods| pods.get(&asked.uid)?.refused_since);
        let retry = self.limits.evict_retry;
        for name in &asked.budgets {
            let budget = self.server.budgets.get(name);
            let (let_go, deleted) = budget.map_or((0, 0), |budget| (budget.let_go, budget.deleted));
            let since = let_go.max(refused.unwrap_or(now));
            let wrong = match self.limits.evictions {
                None => "although no setting allows it".to_owned(),
                Some(times) if now + TOLERANCE < since + times * retry => {
                    format!("{} s after it was refused, or the budget let one go", (now - since) / SECOND)
                }
                Some(_) if deleted > 0 && now + TOLERANCE < deleted + retry => {
                    format!("{} s after another one", (now - deleted) / SECOND)
                }
                Some(_) => continue,
            };
            let what = format!("{} of {name} is deleted {wrong}", asked.pod);
            self.complain("a budget is passed over only as the settings say", &what);
        }
    }

    /// Notes what is wrong with the API server at this moment.
    pub(super) fn look_at_server(&mut self, cluster: &FakeCluster) {
        let now = kernel::now();
        let met = cluster.requests().met_by_faults();
        for _ in self.server.met..met {
            let [last, before, _] = self.server.met_at;
            self.server.met_at = [now, last, before];
        }
        self.server.met = met;
        if self.server.has_trouble() || self.away_since.is_some() || self.refuses_all {
            self.server.troubled_at = now;
        }
    }

    /// "A list that fails is asked for again after a pause."
    pub(super) fn judge_failed_lists(&mut self, cluster: &FakeCluster, minutes: u64) {
        let most = MOST_FAILED * self.devices.len() as u64 * minutes;
        let failed = cluster.requests().failed();
        for (_, resource, count) in failed.into_iter().filter(|(verb, ..)| verb == "list") {
            let before = self.server.failed.insert(resource.clone(), count).unwrap_or_default();
            if count - before > most {
                let what = format!("{} lists of {resource} have failed in {minutes} min", count - before);
                self.complain("the API server is not asked more often than need be", &what);
            }
        }
    }

    /// Judges how the drain of a device goes on.
    pub(super) fn judge_drain(&mut self, cluster: &FakeCluster, index: usize, device: &Device) {
        let ended = self.devices[index].drain.ended.take();
        // A device that has gone down at once is not looked at before it is back.
        if let Some((since, how, at)) = ended.filter(|(.., at)| kernel::now() - at < SECOND) {
            self.judge_end(cluster, index, device, (since, how, at));
        }
        let now = kernel::now();
        let known = &mut self.devices[index];
        let Some((_, since)) = known.drain.attempt else { return };
        if now - known.drain.looked_at < SECOND || known.drain.has_complaint {
            return;
        }
        known.drain.looked_at = now;
        known.drain.look_at_pods(cluster, &device.node);
        let is_ours = known.overridden_at.is_none() && !known.requests.is_empty();
        if !is_ours || !is_cordoned(cluster, device) || device.runs_for(Agent::Zedkube) == 0 {
            return;
        }
        let starts = now - device.runs_for(Agent::Zedkube);
        // Nothing goes on before the record of the drain can be written.
        let on_record = known.orders.on_record_since();
        let own = since.max(known.disturbed_at).max(known.suspended_until).max(starts).max(on_record);
        let server = after(self.server.troubled_at.max(self.back_at.unwrap_or_default()), WATCHES_ARE_BACK);
        // One request that fails is no outage, and the next one follows at once.
        let [last, before, _] = self.server.met_at;
        let failed = if before == 0 || last - before > 2 * MINUTE { before } else { last };
        let is_fresh = after(server.max(after(failed, HANGS)), STALE_SCHEDULER);
        let retry = self.limits.evict_retry;
        // Whoever was suspended does not know how long the API server was away meanwhile, and may not begin all watches at
        // once: by its clock it has just begun others (`cluster::Pace`).
        let resumed = after(known.suspended_until, WATCHES_ARE_BACK + STALE_SCHEDULER);
        // Nor is it known how long watches have failed that were cut, or silent, or what pods came meanwhile.
        let is_disturbed =
            self.caught_up_at.max(self.server.troubled_at).max(known.disturbed_at) + CALM > since;
        let wrong = known.drain.empty(own.max(is_fresh).max(resumed)).filter(|_| !is_disturbed);
        let last = if self.server.calls_hang { after(last, CALL_DEADLINE) } else { last };
        let last = if self.server.has_slow_evictions { last.max(known.drain.asked_at) } else { last };
        let wrong =
            wrong.or_else(|| known.drain.waiting(own.max(server).max(last).max(resumed), since, retry));
        // In an outage nothing is refused.
        let answers = self.away_since.is_none() && now - self.back_at.unwrap_or_default() > REFUSED;
        let refused =
            self.server.refuses_since.filter(|from| *from < starts && now.saturating_sub(own) > REFUSED);
        let refused = refused.filter(|_| answers);
        let wrong = wrong.or_else(|| {
            let what = format!("for {} s", (now - refused?) / SECOND);
            Some(("a right that stays refused ends the attempt", what))
        });
        if let Some((invariant, what)) = wrong {
            self.devices[index].drain.has_complaint = true;
            self.complain(invariant, &format!("{}: {what}", device.node));
        }
    }

    /// Judges the end of an attempt at the moment at which the report shows it.
    fn judge_end(&mut self, cluster: &FakeCluster, index: usize, device: &Device, ended: (u64, Ended, u64)) {
        let (since, how, now) = ended;
        let node = &device.node;
        if how == Ended::Drained {
            let left = left_on(cluster, node, YOUNG);
            if !left.is_empty() {
                self.complain(
                    "drained means that no pod is left",
                    &format!("{node} says so, and has {left:?}"),
                );
            }
            let attached = attached_to(cluster, node);
            if !attached.is_empty() {
                let what = format!("{node} says so, and has {attached:?}");
                self.complain("drained means that no volume is attached", &what);
            }
        }
        let known = &self.devices[index];
        let [_, before, third] = self.server.met_at;
        let is_seen = self.away_since.is_none()
            && self.back_at.is_none_or(|back| back + UNSEEN < since)
            && after(self.server.troubled_at, UNSEEN) <= since;
        // Two requests that fail may be an outage, which moves the deadline.
        let late = self.limits.attempt.map_or(0, |limit| now.saturating_sub(since + limit));
        let is_undisturbed = known.disturbed_at < since
            // What was refused before a suspend is asked again after the pause of a watch.
            && after(known.suspended_until, UNSEEN) < since
            && known.orders.on_record_since() < since
            && device.runs_for(Agent::Zedkube) > now - since;
        if late > SECOND && is_seen && after(before, HANGS) <= since {
            let what = format!("{node}: {how:?}, {late} ns after it");
            match how {
                Ended::Drained => self.complain("an attempt never succeeds after its deadline", &what),
                Ended::Failed if is_undisturbed => self.complain("an attempt ends at its deadline", &what),
                Ended::Failed | Ended::Otherwise => {}
            }
        }
        let has_reason = self.limits.detaches_slowly()
            || self.server.stops_detaching
            || self.limits.attempt.is_some_and(|limit| now + SECOND > since + limit)
            || after(third, HANGS + WATCH_PAUSE) > since
            // Its watches wait because it has sent its most.
            || self.asked.len() >= MOST_REQUESTS * self.devices.len()
            || !is_cordoned(cluster, device);
        if how == Ended::Failed && is_seen && is_undisturbed && !has_reason {
            self.complain(
                "a drain fails only for a reason that lasts",
                &format!("{node}: {}", self.devices[index].report),
            );
        }
    }
}

/// So much later than something that has happened; 0 if it never has.
const fn after(at: u64, time: u64) -> u64 {
    if at == 0 { 0 } else { at + time }
}

/// The node is cordoned.
fn is_cordoned(cluster: &FakeCluster, device: &Device) -> bool {
    is_unschedulable(&cluster.get("nodes", "", &device.node).unwrap_or_default())
}

impl Drain {
    /// Looks which pods are on the node.
    fn look_at_pods(&mut self, cluster: &FakeCluster, node: &str) {
        let now = kernel::now();
        let found: Vec<Value> = cluster.pods_on(node).into_iter().filter(has_to_leave).collect();
        let uid = |pod: &Value| text(pod, "/metadata/uid").to_owned();
        let present: BTreeSet<String> = found.iter().map(uid).collect();
        self.pods.retain(|uid, _| present.contains(uid));
        for pod in &found {
            let new = || Pod { seen_at: now, ..Pod::default() };
            let known = self.pods.entry(uid(pod)).or_insert_with(new);
            let is_ending = pod.pointer("/metadata/deletionTimestamp").is_some();
            if is_ending && known.asked.is_none() {
                known.asked = Some((now, Answered::Evicted));
            }
            if matches!(text(pod, "/status/phase"), "Succeeded" | "Failed") {
                known.finished_at.get_or_insert(now);
            }
            // Pods with volumes leave one after the other.
            let claims = pod.pointer("/spec/volumes").and_then(Value::as_array);
            if claims.is_some_and(|volumes| {
                volumes.iter().any(|volume| volume.get("persistentVolumeClaim").is_some())
            }) {
                self.pods.remove(&uid(pod));
            }
        }
        let is_empty = found.is_empty() && attached_to(cluster, node).is_empty();
        self.empty_since = if is_empty { Some(self.empty_since.unwrap_or(now)) } else { None };
    }

    /// "An empty node is drained soon." Nothing was wrong since `free`.
    fn empty(&self, free: u64) -> Option<(&'static str, String)> {
        let waits = kernel::now().saturating_sub(self.empty_since?.max(free));
        (waits > EMPTY)
            .then(|| ("an empty node is drained soon", format!("it is empty for {} s", waits / SECOND)))
    }

    /// "A pod that may leave is asked to leave." Nothing was wrong since `free`; the attempt goes on since `since`.
    fn waiting(&self, free: u64, since: u64, retry: u64) -> Option<(&'static str, String)> {
        let now = kernel::now();
        let waits = |from: u64| now.saturating_sub(from.max(free));
        self.pods.iter().find_map(|(uid, pod)| {
            let last = pod.asked.map_or(0, |(at, _)| at);
            let is_late = match pod.asked {
                Some((_, Answered::Refused)) if pod.finished_at.is_some_and(|at| waits(at) > FINISHED) => {
                    true
                }
                Some((at, Answered::Refused)) => waits(at) > retry + retry / 4 + ASKED,
                Some((_, Answered::Evicted | Answered::Deleted)) => false,
                None => pod.seen_at < since + LATE_BINDING && waits(pod.seen_at) > ASKED,
            };
            is_late.then(|| {
                let what = format!("pod {uid}: asked {} s ago: {:?}", (now - last) / SECOND, pod.asked);
                ("a pod that may leave is asked to leave", what)
            })
        })
    }
}

/// True for a pod that a drain has to move away, or to remove because it has finished.
fn has_to_leave(pod: &Value) -> bool {
    text(pod, "/metadata/ownerReferences/0/kind") != "DaemonSet"
}
