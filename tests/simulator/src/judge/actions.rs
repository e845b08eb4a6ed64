//! What agents do to the cluster and to the device.

use fake_cluster::{Evicted, FakeCluster};
use schemas::{Agent, Operation, Source};

use super::{
    HANGS_AFTER, HEARD, Judge, Known, MOST_TRIES, OVERRIDE, SLACK, TAKEN_BACK, UNSEEN, WATCHES_ARE_BACK,
    YOUNG, attached_to, left_on,
};
use crate::device::Device;
use crate::kernel;
use crate::world::{MINUTE, SECOND};

/// What nodeagent does to the device: it has started the program that takes it down.
#[derive(Debug)]
pub(crate) struct Action {
    pub(crate) operation: Operation,
    pub(crate) source: Source,
    pub(crate) counter: u32,
    /// The image that the device reboots into; empty for a command.
    pub(crate) image: String,
    pub(crate) reason: String,
    /// True if the device goes down by it.
    pub(crate) works: bool,
}

impl Judge {
    /// Judges an eviction that was carried out.
    pub(crate) fn evicted(&mut self, cluster: &FakeCluster, devices: &[Device], evicted: &Evicted) {
        let Evicted { pod, node, owner, .. } = evicted;
        let Some(index) = devices.iter().position(|device| device.node == *node) else {
            self.complain(
                "only pods that have to leave this node are evicted",
                &format!("{pod} on {node:?}"),
            );
            return;
        };
        self.note_evicted(index, &devices[index], evicted);
        let known = &self.devices[index];
        let is_asked = !known.requests.is_empty() || kernel::now() - known.asked_at < HEARD + UNSEEN;
        let why = match () {
            () if !evicted.names_uid => "the eviction of a pod names its UID",
            () if owner == "DaemonSet" => "only pods that have to leave this node are evicted",
            () if evicted.is_cordoned == Some(false) => "pods leave a cordoned node only",
            () if !is_asked => "pods leave only while somebody asks for it",
            () if self.limits.slots > 0
                && !has_slot(cluster, node)
                && !known.requests.is_empty()
                && !self.may_have_lost_its_slot(index) =>
            {
                "pods leave only with a slot"
            }
            // Before nodeagent has looked for the means, nobody knows that there is none.
            () if known.has_no_means
                && !known.is_held_by_a_person()
                && devices[index].runs_for(Agent::Nodeagent) > MINUTE =>
            {
                "a node is not drained for nothing"
            }
            () => return,
        };
        self.complain(why, &format!("{pod} of {owner} on {node}: {evicted:?}"));
    }

    /// A program that writes an image was started.
    pub(crate) fn activates(
        &mut self,
        cluster: &FakeCluster,
        index: usize,
        device: &Device,
        run: (u64, u64),
    ) {
        if self.devices[index].activates() {
            self.complain("one writer of images at a time", &device.node);
        }
        self.devices[index].activations.push(run);
        let hold = device.text("/run/baseosmgr/BaseOsHold/global.json").unwrap_or_default();
        if hold.contains("NOT DRAINED") {
            return;
        }
        if self.devices[index].has_eve {
            self.judge_eves_answer(index, &device.node, true);
        } else {
            self.judge_drained(cluster, device, kernel::now());
        }
    }

    /// Judges an action of nodeagent.
    pub(crate) fn acts(&mut self, cluster: &FakeCluster, index: usize, device: &Device, action: &Action) {
        let Action { operation, source, counter, works, .. } = *action;
        let node = &device.node;
        if let Some((invariant, what)) = self.devices[index].order.judge_action(device, operation, counter) {
            self.complain(invariant, &what);
        }
        let command = (source.to_string(), operation, counter, action.image.clone());
        let known = &mut self.devices[index];
        known.trials.begins(operation);
        // Its counter is not recorded, so the next command may have the same.
        let is_counted = !known.order.is_off_record(device);
        let tries = known.tried.entry(command.clone()).or_default();
        *tries += 1;
        let tries = *tries;
        let times = known.done.entry(command).or_default();
        *times += u32::from(works && is_counted);
        let times = if action.image.is_empty() { *times } else { 0 };
        let activates = known.activates();
        let taken_back = known.taken_back.get(&operation).filter(|(taken, _)| *taken == counter);
        let taken_back = taken_back.filter(|_| source == Source::Controller && action.image.is_empty());
        // On a slow disk nodeagent's record that it goes down takes long, and there is no way back from it.
        let taken_back = taken_back.filter(|_| !known.trials.has_a_bad_disk());
        // Another command for the same operation counts as done with it.
        let taken_back = taken_back.filter(|_| !known.wanted.contains_key(&operation));
        // Past the point of no return it is too late.
        let decided_at = known.decided_at(operation, counter);
        let taken_back = taken_back.map_or(0, |(_, at)| decided_at.saturating_sub(*at));
        if times > 1 {
            let what = format!("{node} does {operation} {counter} of {source} {times} times");
            self.complain("each command once", &what);
        }
        if tries > MOST_TRIES {
            let what = format!("{node} tries {operation} {counter} of {source} {tries} times in one boot");
            self.complain("a means is not used without end", &what);
        }
        if activates {
            self.complain("the device stays up while an image is written", node);
        }
        if taken_back > HEARD && device.runs_for(Agent::DeviceOp) > taken_back && tries == 1 {
            let what = format!("{node} does {operation} {counter}, {} s later", taken_back / SECOND);
            self.complain("a command that was taken back is not carried out", &what);
        }
        self.judge_reason(cluster, index, device, action);
        if works && operation != Operation::Shutdown {
            self.judge_down(cluster, index, device, &action.reason);
        }
    }

    /// "Never more down than there are slots": the device goes down, for this reason.
    pub(super) fn judge_down(&mut self, cluster: &FakeCluster, index: usize, device: &Device, reason: &str) {
        let outage = self.outage(cluster);
        // Of one that goes down in the same outage nobody can know.
        let before = self.away_since.unwrap_or(u64::MAX);
        let is_known = |known: &Known| known.by_us.is_some_and(|since| since < before);
        let is_other = |(other, known): &(usize, &Known)| *other != index && is_known(known);
        let down = self.devices.iter().enumerate().filter(is_other).count();
        let is_overridden =
            self.devices[index].overridden_at.is_some() || device.zedkube_was_away() >= self.limits.start;
        let most = usize::try_from(self.limits.slots).unwrap_or_default();
        if self.limits.slots > 0 && down >= most && outage < self.limits.down_max && !is_overridden {
            let what = format!("{} goes down beside {down}", device.node);
            self.complain("never more down than there are slots", &what);
        }
        // A device that was forced has no slot: the operator answers for it. Nor has one without a zedkube, or one that goes
        // undrained in an outage: until its Node is NotReady, nobody else can know.
        let has_slot = !is_overridden && !reason.contains("NOT DRAINED");
        self.devices[index].by_us = has_slot.then(kernel::now);
    }

    /// A node goes down drained, or says why it does not.
    pub(super) fn judge_reason(
        &mut self,
        cluster: &FakeCluster,
        index: usize,
        device: &Device,
        action: &Action,
    ) {
        let node = &device.node;
        // If a command is taken back too late, its words are gone: a nodeagent that was killed meanwhile has its name only.
        let taken_back = self.devices[index].taken_back.get(&action.operation);
        let is_taken_back = taken_back.is_some_and(|(counter, _)| *counter == action.counter);
        // What was decided in an outage is done after it, by a nodeagent that was killed meanwhile.
        let decided_at = self.devices[index].decided_at(action.operation, action.counter);
        if action.source == Source::Cluster && action.image.is_empty() {
            self.judge_text(index, device, action.counter, decided_at);
        }
        if action.source == Source::Host {
            self.judge_host(index, device, action.works, decided_at);
        }
        if action.source == Source::Cluster && !self.devices[index].obeys_the_cluster() {
            self.complain("a device obeys the cluster only if it is set so", node);
        }
        let is_overridden =
            self.devices[index].overridden_at.is_some_and(|at| decided_at.saturating_sub(at) < OVERRIDE);
        // The words of the agent that asked are older, if it does not run.
        let asks = if action.image.is_empty() { Agent::DeviceOp } else { Agent::Baseos };
        let is_wordless = is_overridden && device.runs_for(asks) == 0;
        if action.reason.contains("NOT DRAINED") {
            self.judge_undrained(cluster, index, device, decided_at);
        } else if self.devices[index].has_eve {
            self.judge_eves_answer(index, node, !action.image.is_empty());
        } else if !is_taken_back && !is_wordless {
            self.judge_drained(cluster, device, decided_at);
        }
    }

    /// "Undrained only when that is justified."
    pub(super) fn judge_undrained(
        &mut self,
        cluster: &FakeCluster,
        index: usize,
        device: &Device,
        decided_at: u64,
    ) {
        let node = &device.node;
        let outage = self.outage(cluster).max(self.outage_before(decided_at));
        let is_overridden =
            self.devices[index].overridden_at.is_some_and(|at| decided_at.saturating_sub(at) < OVERRIDE);
        let has_just_ended = self.back_at.is_some_and(|at| kernel::now() - at < TAKEN_BACK);
        let away = device.zedkube_was_away();
        // Who has a slot need not wait for the others.
        let has_slot = has_slot(cluster, node) || self.may_have_lost_its_slot(index);
        let turns = if has_slot { 0 } else { self.turns_before(cluster, node) };
        if outage + SLACK < self.limits.unreachable + turns * self.limits.down_max
            && !has_just_ended
            && !is_overridden
            && away < self.limits.start
        {
            let (outage, away) = (outage / SECOND, away / SECOND);
            let what =
                format!("{node}, in an outage of {outage} s, with a zedkube that was away for {away} s");
            self.complain("undrained only when that is justified", &what);
        }
    }

    /// How long the last outage had lasted at this time, if it is over now and was not then, or hardly.
    fn outage_before(&self, decided_at: u64) -> u64 {
        let ended = self.was_away_since.zip(self.back_at);
        let decided_in = ended.filter(|(since, back)| (*since..=*back + TAKEN_BACK).contains(&decided_at));
        decided_in.map_or(0, |(since, _)| decided_at - since)
    }

    /// In an outage `slots.limit` nodes go down at a time, by name.
    fn turns_before(&self, cluster: &FakeCluster, node: &str) -> u64 {
        let names = cluster.list("nodes", None);
        let names = names.iter().filter_map(|node| node.pointer("/metadata/name")?.as_str());
        let before = names.filter(|name| *name < node).count();
        u64::try_from(before).unwrap_or_default().checked_div(self.limits.slots).unwrap_or_default()
    }

    /// "An answer of EVE's zedkube counts for the request that it was given to."
    pub(super) fn judge_eves_answer(&mut self, index: usize, node: &str, is_image: bool) {
        let known = &self.devices[index];
        let (folder, number) = if is_image { ("/baseosmgr/", 3) } else { ("/zedagent/", 2) };
        let asked = known.asked.iter().find(|(path, _)| path.contains(folder)).map(|(_, at)| *at);
        let answered = known.eves_answers.get(&number).copied();
        let is_overridden = known.overridden_at.is_some_and(|at| kernel::now() - at < OVERRIDE);
        if !is_overridden && (asked.is_none() || answered <= asked) {
            let what = format!("{node} goes down: asked {asked:?}, answered {answered:?}");
            self.complain("an answer of EVE's zedkube counts for the request that it was given to", &what);
        }
    }

    /// Judges that the node was empty when that was decided.
    pub(super) fn judge_drained(&mut self, cluster: &FakeCluster, device: &Device, decided_at: u64) {
        let node = &device.node;
        // What comes while zedkube stands still nobody here can see, until it counts as hanging.
        let now = kernel::now();
        let stands = device.zedkube_stands_still();
        let unseen = if stands.saturating_sub(now - decided_at) < HANGS_AFTER { stands } else { 0 };
        // What comes in an outage nobody here can see, nor before the watches are back after it.
        let is_blind = |end: &Option<u64>| end.is_none_or(|end| now - end < WATCHES_ARE_BACK);
        let blind = self.blind.filter(|(_, end)| is_blind(end)).map_or(0, |(since, _)| now - since);
        let outage = i64::try_from(self.outage(cluster).max(blind).max(unseen) / SECOND).unwrap_or_default();
        // A nodeagent that is killed while it acts may finish minutes later what it has decided in an outage.
        let since = now - decided_at + self.outage_before(decided_at);
        let since = i64::try_from(since / SECOND).unwrap_or_default();
        let late = i64::try_from(self.late_answers / SECOND).unwrap_or_default();
        let left = left_on(cluster, node, YOUNG + late + outage.max(since));
        if !left.is_empty() {
            self.complain("drained means that no pod is left", &format!("{node} has {left:?}"));
        }
        let attached = attached_to(cluster, node).len();
        if attached > 0 {
            self.complain("drained means that no volume is attached", &format!("{node} has {attached}"));
        }
    }
}

/// The slot table has an entry of this node.
fn has_slot(cluster: &FakeCluster, node: &str) -> bool {
    let slots = cluster.get("configmaps", "kube-system", "ebb-slots-default").unwrap_or_default();
    slots.pointer("/data").and_then(|entries| entries.get(node)).is_some()
}
