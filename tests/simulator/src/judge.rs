//! The invariants, by name, and what has to be known to judge them.

mod actions;
mod annotations;
mod answers;
mod boots;
mod conditions;
mod drains;
mod files;
mod holds;
mod host;
mod looks;
mod orders;
mod pauses;
mod requests;
mod rest;
mod times;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, SystemTime};

use fake_cluster::FakeCluster;
use schemas::{Agent, DeviceAction, DeviceActionState, Operation, parse};
use serde_json::Value;

use crate::device::Device;
use crate::kernel::{self, Write};
use crate::limits::Limits;
use crate::order::{self, Order};
use crate::programs;
use crate::story::tell;
use crate::world::{MINUTE, SECOND};

pub(crate) use actions::Action;
use answers::Proof;
use files::Locks;
use orders::Orders;
use pauses::Trials;
use requests::AskedFor;

/// Longest time before an agent notices that the API server is back: the pause between two calls, and the time-out of one.
const UNSEEN: u64 = 60 * SECOND;
/// Longest time between an override and the operation that it lets go: `force.ttl`, and time to act between kills and outages.
const OVERRIDE: u64 = 30 * MINUTE;
/// What the report says must agree with the world after this time.
const AGREES: u64 = 2 * SECOND;
/// After a fault of the API server, watches and backoffs need so long until all is seen again.
const CALM: u64 = 2 * MINUTE;
/// The service manager ends an agent that gave no sign of life for so long.
const SIGN_OF_LIFE: u64 = 3 * MINUTE;
/// After an outage the watches are back within this time: their pause between two tries (`cluster::watches`), and the
/// connection's limit.
const WATCHES_ARE_BACK: u64 = 45 * SECOND;
/// After an outage a scheduler may still have an old cache (`drain::policy::STALE_SCHEDULER`).
const STALE_SCHEDULER: u64 = MINUTE;
/// zedkube counts as working for so long although it stands still (`runtime::liveness::HANGS_AFTER`).
const HANGS_AFTER: u64 = 45 * SECOND;
/// A pod that is younger may have come after the decision.
const YOUNG: i64 = 3;
/// An answer that was right is taken back within this time after its reason is gone.
const TAKEN_BACK: u64 = 10 * SECOND;

/// An agent needs so long at most to see that a request or a command was taken back.
const HEARD: u64 = 10 * SECOND;
/// A call that fails before an outage, or in the last seconds of one, makes it longer for those who look.
const SLACK: u64 = 20 * SECOND;
/// A drain with nothing in its way ends within this time.
const DRAINS: u64 = 10 * MINUTE;
/// device-op waits so long for nodeagent, and a moment more.
const NOT_TAKEN: u64 = 11 * MINUTE;
/// An agent does not count the requests of its first 10 s, which begin a moment before its first request.
const FIRST_SECONDS: u64 = 11 * SECOND;
/// Most requests of a device's zedkube within a minute, without those that do not count (`cluster::Pace`).
const MOST_REQUESTS: usize = 60;
/// Default of `cordon.tries`.
const CORDON_TRIES: u32 = 10;
/// A means is used so often for a command in one boot (`DeviceAction::MOST_TRIES`).
const MOST_TRIES: u32 = 3;

/// Invariants that are new: the judge does not know yet all that excuses an agent. What breaks one is told, and does not
/// make a history wrong.
const ON_TRIAL: [&str; 2] =
    ["a pod that is gone does not come back in the report", "an override counts once"];

/// What is known of a device.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "facts of a device, each on its own")]
struct Known {
    /// Number of actions by the command's source, operation, counter and image.
    done: BTreeMap<(String, Operation, u32, String), u32>,
    /// The same in this boot, with those that did nothing.
    tried: BTreeMap<(String, Operation, u32, String), u32>,
    /// The commands of the cluster.
    texts: annotations::Texts,
    /// What the host asks for.
    host: host::Host,
    /// The controller's commands that are to be carried out.
    wanted: BTreeMap<Operation, u32>,
    /// When the controller took its last command of an operation back.
    taken_back: BTreeMap<Operation, (u32, u64)>,
    /// The command that is past the point of no return in this boot, and since when.
    acting: Option<(Operation, u32, u64)>,
    /// Since when nodeagent has not taken what device-op has handed over to it.
    not_taken_since: Option<u64>,
    /// It has no means to go down.
    has_no_means: bool,
    /// EVE's zedkube runs there in the place of ours.
    has_eve: bool,
    /// When EVE's zedkube said COMPLETE last in this boot, by the number of the requester.
    eves_answers: BTreeMap<u64, u64>,
    /// When a request was published last, by its file.
    asked: BTreeMap<String, u64>,
    /// The image that the controller wants to run.
    wanted_image: String,
    /// The programs that write an image: their number, and when they end.
    activations: Vec<(u64, u64)>,
    /// The requests for a drain, by their file, and when one was there last.
    requests: BTreeSet<String>,
    asked_at: u64,
    /// The last content of the report and of the status.
    report: Value,
    status: Option<u64>,
    /// The number of the requester that the status names.
    named: Option<u64>,
    /// Since when the status and the report disagree.
    disagree_since: Option<u64>,
    /// Since when the status speaks of a drain although nobody asks for one.
    idles_since: Option<u64>,
    /// Since when its drain goes on with nothing in its way.
    drains_since: Option<u64>,
    /// Something is wrong with its disk, its clock or its agents, or was a moment ago.
    disturbed_at: u64,
    /// An operator has commanded a reboot, and neither took it back nor was there a boot since.
    is_wanted_here: bool,
    is_down: bool,
    /// Since when it is down, if an agent of ours took it down.
    by_us: Option<u64>,
    /// It stands still until this time.
    suspended_until: u64,
    /// When an operator overrode the drain; None once a boot has used that up.
    overridden_at: Option<u64>,
    /// A person cordoned the node.
    is_cordoned: bool,
    /// Since when a person keeps the node drained over boots.
    kept_since: Option<u64>,
    /// The node was cordoned when it was looked at last, and nobody has lifted that since.
    was_cordoned: bool,
    /// When a person has lifted a cordon of ours.
    ours_lifted_at: Option<u64>,
    /// The file of a person's request is not whole.
    is_half_written: bool,
    /// Since when the report has said COMPLETE while pods were left, and nothing excused that.
    contradicted_since: Option<u64>,
    /// When its kubeconfig last led to another cluster, by which it cannot reach its Node.
    was_elsewhere_at: u64,
    /// Since when the conditions of its Node have not said what the report says, and nothing excused that.
    misleads_since: Option<u64>,
    /// What was written when.
    order: Order,
    /// How its drain goes on.
    drain: drains::Drain,
    /// The orders of operators.
    orders: Orders,
    /// What nodeagent has begun, and has failed with.
    trials: Trials,
    /// Requests that zedkube does not know, and names of a status that has not asked.
    asked_for: AskedFor,
    /// The lock files that were removed.
    locks: Locks,
    /// What it may begin when.
    times: times::Times,
    /// Since when `ebb-hold.service` keeps a shutdown back.
    held_since: Option<u64>,
    /// When an agent was last seen to give a sign of life, by its name.
    signs: BTreeMap<&'static str, (Option<SystemTime>, u64)>,
    /// What its drain was based on.
    proof: Proof,
}

impl Known {
    /// When nodeagent passed the point of no return for this command: now, unless it did before.
    fn decided_at(&self, operation: Operation, counter: u32) -> u64 {
        match self.acting {
            Some((acting, of, at)) if (acting, of) == (operation, counter) => at,
            _ => kernel::now(),
        }
    }

    /// Until when the device, or an agent of it, stood still last: nobody notices an outage meanwhile.
    fn stood_still_until(&self) -> u64 {
        self.suspended_until.max(self.disturbed_at)
    }

    /// A program writes an image now.
    fn activates(&self) -> bool {
        let goes_on =
            |(number, ends_at): &(u64, u64)| *ends_at > kernel::now() && !programs::was_killed(*number);
        self.activations.iter().any(goes_on)
    }

    /// A boot uses up what was ordered for the boot before.
    fn begins_boot(&mut self) {
        // Any boot is the reboot that was commanded before it.
        self.wanted.remove(&Operation::Reboot);
        self.is_wanted_here = false;
        self.tried.clear();
        self.activations.clear();
        self.acting = None;
        (self.overridden_at, self.contradicted_since, self.disagree_since) = (None, None, None);
        self.misleads_since = None;
        self.held_since = None;
        self.signs.clear();
        (self.orders, self.locks, self.asked_for) =
            (Orders::default(), Locks::default(), AskedFor::default());
        self.trials.begins_boot();
    }
}

/// Judges what happens in a history.
#[derive(Debug)]
pub(crate) struct Judge {
    devices: Vec<Known>,
    away_since: Option<u64>,
    /// Since when calls hang by which agents look for the API server, and when one was last to hang.
    hangs: Option<(u64, u64)>,
    /// When the last outage that is over began.
    was_away_since: Option<u64>,
    back_at: Option<u64>,
    /// Since when the agents cannot see what happens in the cluster, and when they last could not.
    blind: Option<(u64, Option<u64>)>,
    /// The API server refuses whatever it is asked.
    refuses_all: bool,
    /// The last time at which a fault of the API server began or ended.
    disturbed_at: u64,
    /// When the slot table was lost last.
    slots_lost_at: Option<u64>,
    limits: Limits,
    /// There was something in this history that may let a drain fail.
    has_lasting: bool,
    /// Number of answers that were drawn in the place of the API server's own for Nodes.
    refusals: u32,
    /// When failed lists were counted last.
    counted_at: u64,
    /// When the requests of the last minute came, as far as they count.
    asked: VecDeque<u64>,
    /// When the last zedkube to start did so, and its first request after that.
    first_asked: (u64, Option<u64>),
    /// The most requests within a minute until now.
    pub(crate) most_asked: usize,
    /// When watches began to tell again what they had not told; 0 if they never did.
    caught_up_at: u64,
    /// Answers of the API server may come so late.
    late_answers: u64,
    /// The number of the next request of an agent to the API server.
    next_request: u64,
    server: drains::Server,
    writers: BTreeMap<String, String>,
    wrong: Vec<String>,
}

impl Judge {
    pub(crate) fn new(limits: Limits) -> Self {
        let (devices, writers, wrong) = (Vec::new(), BTreeMap::new(), Vec::new());
        let (away_since, was_away_since, back_at, hangs) = (None, None, None, None);
        let (disturbed_at, refusals, blind) = (0, 0, None);
        let has_lasting = limits.are_tight();
        Self {
            devices,
            away_since,
            hangs,
            was_away_since,
            back_at,
            blind,
            refuses_all: false,
            disturbed_at,
            slots_lost_at: None,
            limits,
            has_lasting,
            refusals,
            counted_at: 0,
            asked: VecDeque::new(),
            first_asked: (0, None),
            most_asked: 0,
            caught_up_at: 0,
            late_answers: 0,
            next_request: 0,
            server: drains::Server::default(),
            writers,
            wrong,
        }
    }

    pub(crate) fn add(&mut self, has_eve: bool) {
        self.devices.push(Known { has_eve, ..Known::default() });
    }

    /// The API server cannot be reached.
    pub(crate) const fn is_api_away(&self) -> bool {
        self.away_since.is_some()
    }

    /// The controller's command, or that it is taken back.
    pub(crate) fn commanded(&mut self, device: usize, operation: Operation, counter: u32, is_wanted: bool) {
        let known = &mut self.devices[device];
        known.trials.commanded(Some((operation, counter)));
        if is_wanted {
            known.wanted.insert(operation, counter);
        } else {
            known.wanted.remove(&operation);
            known.taken_back.insert(operation, (counter, kernel::now()));
        }
    }

    /// The kubeconfig of a device leads to another cluster, or back.
    pub(crate) fn leads_elsewhere(&mut self, device: usize, is_other: bool) {
        self.devices[device].was_elsewhere_at = if is_other { u64::MAX / 2 } else { kernel::now() };
    }

    pub(crate) fn has_no_means(&mut self, device: usize) {
        self.devices[device].has_no_means = true;
    }

    pub(crate) fn is_without_means(&self, device: usize) -> bool {
        self.devices[device].has_no_means
    }

    pub(crate) fn wants_image(&mut self, device: usize, version: &str) {
        version.clone_into(&mut self.devices[device].wanted_image);
    }

    /// The slot table is lost with all entries.
    pub(crate) fn slots_are_lost(&mut self) {
        self.slots_lost_at = Some(kernel::now());
        // A backup brings the Nodes back without their cordons.
        self.devices.iter_mut().for_each(|known| known.was_cordoned = false);
    }

    /// A drain is finished in the cluster in which it began: agents change nothing in the other one.
    pub(crate) fn changes_elsewhere(&mut self, verb: &str, what: &str, count: u64) {
        if count > 0 {
            self.complain(
                "a drain stays in its cluster",
                &format!("another cluster had {count} times {verb} {what}"),
            );
        }
    }

    /// The entry of the device may have been lost with the table. The device renews its entry every minute, and notices
    /// then, unless it stands still.
    fn may_have_lost_its_slot(&self, device: usize) -> bool {
        let until = self.devices[device].stood_still_until();
        self.slots_lost_at.is_some_and(|lost| kernel::now() < lost.max(until) + MINUTE + UNSEEN)
    }

    /// A fault of the API server begins or ends.
    pub(crate) fn disturbed(&mut self) {
        self.disturbed_at = kernel::now();
        self.has_lasting = true;
    }

    /// From now on the API server refuses whatever it is asked, or it does no more.
    pub(crate) fn all_is_refused(&mut self, goes_on: bool) {
        self.refuses_all = goes_on;
        self.look_at_blindness();
    }

    /// Notes whether the agents can see the cluster. Until the watches are back, they cannot.
    fn look_at_blindness(&mut self) {
        let now = kernel::now();
        let is_blind = self.away_since.is_some() || self.refuses_all;
        self.blind = match self.blind {
            Some((since, end)) if is_blind && end.is_none_or(|end| now - end < WATCHES_ARE_BACK) => {
                Some((since, None))
            }
            Some((since, None)) if !is_blind => Some((since, Some(now))),
            before => {
                if is_blind {
                    Some((now, None))
                } else {
                    before
                }
            }
        };
    }

    /// Something is wrong with a device until this time.
    pub(crate) fn device_disturbed(&mut self, device: usize, until: u64) {
        let known = &mut self.devices[device];
        known.disturbed_at = known.disturbed_at.max(until);
        self.has_lasting = true;
    }

    pub(crate) fn overridden(&mut self, device: usize) {
        self.devices[device].overridden_at = Some(kernel::now());
    }

    /// An operator has written an order.
    pub(crate) fn ordered(&mut self, device: usize, order: &str) {
        self.devices[device].note_written_order(order.as_bytes());
        self.overridden(device);
    }

    pub(crate) fn suspended(&mut self, device: usize, nanos: u64) {
        self.devices[device].suspended_until = kernel::now() + nanos;
    }

    /// A person cordons the node, or uncordons it.
    pub(crate) fn cordoned(&mut self, device: usize, is_cordoned: bool) {
        let known = &mut self.devices[device];
        if !is_cordoned {
            known.was_cordoned = false;
            known.ours_lifted_at = (!known.is_cordoned).then(kernel::now);
        }
        known.is_cordoned = is_cordoned;
    }

    /// A verb of an operator has ended, and the reboot that it gave stands.
    pub(crate) fn verb(&mut self, device: usize, words: &str, is_commanded: bool) {
        let known = &mut self.devices[device];
        known.trials.commanded(None);
        match words.split(' ').next() {
            Some("reboot") if is_commanded && !known.is_down => known.is_wanted_here = true,
            // A refusal may come after the command was taken back.
            Some("cancel") => known.is_wanted_here = false,
            Some("force") => known.overridden_at = Some(kernel::now()),
            _ => {}
        }
    }

    /// The device is down, or stands still.
    pub(crate) fn is_away(&self, device: usize) -> bool {
        let known = &self.devices[device];
        known.is_down || kernel::now() < known.suspended_until
    }

    pub(crate) fn is_down(&self, device: usize) -> bool {
        self.devices[device].is_down
    }

    pub(crate) fn is_back(&mut self, device: usize) {
        let known = &mut self.devices[device];
        (known.is_down, known.by_us) = (false, None);
    }

    /// From now on some calls hang by which agents look for the API server. For them this is an outage.
    pub(crate) fn calls_hang(&mut self) {
        let now = kernel::now();
        let since = self.hangs.map_or(now, |(since, _)| since);
        self.hangs = Some((since, now));
    }

    /// The next so many requests for Nodes are not answered by the API server itself.
    pub(crate) fn nodes_are_refused(&mut self, times: u32) {
        self.refusals += times;
        // Of ten tries to cordon, nine may fail.
        self.has_lasting |= self.refusals >= CORDON_TRIES;
    }

    /// Watches tell again, and first of all what they had not told.
    pub(crate) fn watches_catch_up(&mut self) {
        self.caught_up_at = kernel::now();
    }

    /// Some answers of the API server come so late.
    pub(crate) fn answers_are_late(&mut self, late: Duration) {
        let late = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        self.late_answers = self.late_answers.max(late);
    }

    /// Notes whether calls are still to hang; the last ones end at their own limit.
    fn look_at_hangs(&mut self, cluster: &FakeCluster) {
        let now = kernel::now();
        let is_waiting = cluster.faults().waiting() > 0;
        self.hangs = match self.hangs {
            Some((since, _)) if is_waiting => Some((since, now)),
            Some((_, last)) if now - last > UNSEEN + SLACK => None,
            hangs => hangs,
        };
    }

    pub(crate) fn api_is_away(&mut self) {
        self.has_lasting = true;
        if self.away_since.is_none() {
            let is_new = self.back_at.is_none_or(|back| kernel::now() - back > UNSEEN);
            self.away_since = if is_new { None } else { self.was_away_since };
            self.away_since.get_or_insert(kernel::now());
            self.note_outage();
        }
        self.look_at_blindness();
    }

    pub(crate) fn api_is_back(&mut self) {
        if let Some(since) = self.away_since.take() {
            (self.was_away_since, self.back_at) = (Some(since), Some(kernel::now()));
        }
        self.look_at_blindness();
    }

    /// How long the API server has not answered, as an agent sees it: one that answers no request is away, and a moment
    /// in between may be missed.
    fn outage(&self, cluster: &FakeCluster) -> u64 {
        // A call that hung when the faults ended fails at its own limit.
        let hung = kernel::now().saturating_sub(self.disturbed_at) < UNSEEN + SLACK;
        let fails = cluster.faults().waiting() > 0 || hung || self.hangs.is_some();
        let since = self.away_since.or(self.was_away_since.filter(|_| fails));
        let since = since.into_iter().chain(self.hangs.map(|(since, _)| since)).min();
        since.map_or(0, |since| kernel::now() - since)
    }

    fn complain(&mut self, invariant: &str, what: &str) {
        if ON_TRIAL.contains(&invariant) {
            tell("DOUBT", &format!("{invariant}: {what}"));
            return;
        }
        tell("JUDGE", &format!("{invariant}: {what}"));
        self.wrong.push(format!("{invariant}: {what}"));
    }

    pub(crate) fn ended(&mut self, device: &Device, agent: Agent, why: &str) {
        let what = format!("{} {}: {why}", device.node, agent.name());
        self.complain("an agent ends only when it is told to", &what);
    }

    /// Judges a file that was put in place or removed, and remembers what the report and the status say.
    pub(crate) fn written(&mut self, devices: &[Device], device: Option<usize>, write: &Write) {
        let Write { who, path, content } = write;
        if path.contains("/.tmp.") {
            return;
        }
        if let Some(device) = device {
            self.remember(device, path, content.as_deref());
            self.judge_written(device, &devices[device], path, content.as_deref());
        }
        if who == "world" {
            return;
        }
        let broken = device
            .and_then(|index| self.devices[index].order.written(&devices[index], path, content.as_deref()));
        if let Some((invariant, what)) = broken {
            self.complain(invariant, &what);
        }
        // An operator's order is put back by zedkube if it came while zedkube took another one. Why the device goes down is
        // left by whoever lets it: nodeagent, or ebb-hold.
        if path.contains("/kube-status/force-") || path.ends_with("/persist/reboot-reason") {
            return;
        }
        let first = self.writers.entry(path.to_owned()).or_insert_with(|| who.to_owned());
        if first != who {
            let what = format!("{path} by {first} and {who}");
            self.complain("two agents never write one file", &what);
        }
    }

    fn remember(&mut self, index: usize, path: &str, content: Option<&[u8]>) {
        let known = &mut self.devices[index];
        let value: Value = content.and_then(|text| serde_json::from_slice(text).ok()).unwrap_or_default();
        if path.contains("/NodeDrainRequest/") {
            known.asked_at = kernel::now();
            if path.contains("/persist/") {
                known.kept_since = content.map(|_| known.kept_since.unwrap_or_else(kernel::now));
            }
            if content.is_some() {
                known.is_half_written &= !path.contains("/run/ebb/");
                known.requests.insert(path.to_owned());
                known.asked.insert(path.to_owned(), kernel::now());
            } else {
                known.requests.remove(path);
            }
        } else if path.ends_with("/NodeDrainStatus/global.json") {
            let before = known.status;
            known.status = value.get("Status").and_then(Value::as_u64);
            known.named = value.get("RequestedBy").and_then(Value::as_u64);
            let has_failed = before != known.status && matches!(known.status, Some(FAILED_CORDON | FAILED));
            if known.status == Some(COMPLETE) {
                let by = value.get("RequestedBy").and_then(Value::as_u64).unwrap_or_default();
                known.eves_answers.insert(by, kernel::now());
            }
            if has_failed && !self.has_lasting && !known.has_eve {
                let what = format!("device {index}: {value}");
                self.complain("a drain fails only for a reason that lasts", &what);
            }
        } else if path.ends_with("/NodeDrainReport/global.json") {
            known.drain.reported(&value);
            known.report = value;
        } else if path.ends_with(order::COMMAND) {
            let since = known.not_taken_since.unwrap_or_else(kernel::now);
            known.not_taken_since = order::handed_over(&value).map(|_| since);
        } else if path.ends_with("/DeviceAction/global.json") {
            let action: Option<DeviceAction> = content.and_then(|text| parse(text).ok());
            if action.as_ref().is_some_and(|action| action.state == DeviceActionState::Taken) {
                known.not_taken_since = known.not_taken_since.map(|_| kernel::now());
            }
            let acting = action.filter(|action| action.state == DeviceActionState::Acting);
            let acting = acting.and_then(|action| Some((action.command?, action.counter)));
            known.acting = acting.map(|(operation, counter)| match known.acting {
                Some(before) if (before.0, before.1) == (operation, counter) => before,
                _ => (operation, counter, kernel::now()),
            });
        }
    }

    pub(crate) fn into_wrong(self) -> Vec<String> {
        self.wrong
    }
}

/// The node in whose name somebody writes nonsense into the slot table.
pub(crate) const GHOST: &str = "ghost";

/// `DrainStatus::Complete` as a number.
pub(crate) const COMPLETE: u64 = 9;
/// `DrainStatus::FailedDrain`, `FailedCordon` and `NotSupported`.
const FAILED: u64 = 8;
const FAILED_CORDON: u64 = 6;
const NOT_SUPPORTED: u64 = 1;
/// `DrainStatus::NotRequested`; higher numbers speak of a drain.
const NOT_REQUESTED: u64 = 2;

/// How many seconds ago this time was, which the API server has written; `i64::MAX` if it is none.
pub(crate) fn age(time: &str) -> i64 {
    let time: Option<jiff::Timestamp> = time.parse().ok();
    time.map_or(i64::MAX, |time| runtime::clock::wall().as_second() - time.as_second())
}

/// The pods on the node that a drain has to move away, and that are there for at least so many seconds.
pub(crate) fn left_on(cluster: &FakeCluster, node: &str, seconds: i64) -> Vec<String> {
    let leaves = |pod: &&Value| {
        let is_daemon = text(pod, "/metadata/ownerReferences/0/kind") == "DaemonSet";
        let phase = text(pod, "/status/phase");
        !is_daemon && !matches!(phase, "Succeeded" | "Failed") && age(fake_cluster::bound_at(pod)) >= seconds
    };
    let name = |pod: &Value| text(pod, "/metadata/name").to_owned();
    cluster.pods_on(node).iter().filter(leaves).map(name).collect()
}

/// The volumes that are attached to the node.
pub(crate) fn attached_to(cluster: &FakeCluster, node: &str) -> Vec<String> {
    let here = |attachment: &&Value| text(attachment, "/spec/nodeName") == node;
    let name = |attachment: &Value| text(attachment, "/spec/source/persistentVolumeName").to_owned();
    cluster.list("volumeattachments", None).iter().filter(here).map(name).collect()
}

/// The text at this place of an object; empty if there is none.
fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
