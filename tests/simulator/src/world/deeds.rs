//! Carries out what is wrong with the cluster, what people do, and what happens to devices.

use std::time::Duration;

use anyhow::Result;
use cluster::node_commands::NodeCommand;
use fake_cluster::{Effect, FakeCluster, GONE_AFTER, Settings, objects};
use serde_json::{Value, json};

use super::happening::{Deed, Fault, Happening, Mishap};
use super::situations::WITHOUT_RECORD;
use super::{GIVE_BACK, HOLD, MINUTE, SECOND, UNFREEZE, World, is_unschedulable, pick, show_boot};
use crate::device::Device;
use crate::judge::GHOST;
use crate::kernel::{self, DiskFault};
use crate::programs;
use crate::story::tell;
use crate::trouble::{Trouble, is_outage, is_refusal};

/// A call to the API server that takes longer fails, unless calls before it did, too.
const CALL_DEADLINE: Duration = Duration::from_secs(10);

/// What is in the folder of the record of zedkube's drain.
pub(super) const RECORD: &str = "/run/zedkube/DrainRecord/";

/// Our annotation of a cordon.
const MARK: &str = "/metadata/annotations/ebb.dev~1cordoned-by";

/// The annotation by which a person asks to leave a node cordoned.
const KEEP_CORDONED: &str = "ebb.dev/keep-cordoned";

impl World {
    /// Carries out what is wrong with the cluster.
    pub(super) fn trouble(&mut self, trouble: &Trouble) -> Result<()> {
        tell("world", &trouble.words());
        self.judge_trouble(trouble);
        trouble.begin(&self.cluster)?;
        // The end of all faults lets all kubelets run: those of devices that are down stay away.
        for (index, device) in self.devices.iter().enumerate() {
            if trouble.is_over() && self.judge.is_away(index) {
                self.cluster.faults().stop_kubelet(&device.node);
            }
        }
        Ok(())
    }

    /// Tells the judge what is wrong with the cluster from now on.
    pub(super) fn judge_trouble(&mut self, trouble: &Trouble) {
        self.judge.sees_trouble(trouble);
        match trouble {
            Trouble::ApiDown => self.judge.api_is_away(),
            Trouble::ApiUp => self.judge.api_is_back(),
            Trouble::Lasts(..)
            | Trouble::SilentWatches(_)
            | Trouble::WatchesSpeak(_)
            | Trouble::FrozenCache
            | Trouble::Over => {
                self.judge.disturbed();
                if matches!(trouble, Trouble::Lasts("*", "*", _) | Trouble::Over) {
                    self.judge.all_is_refused(!trouble.is_over());
                }
                let is_slow = |delay: &Duration| *delay >= CALL_DEADLINE;
                let is_slow_call =
                    matches!(trouble, Trouble::Lasts(_, "nodes", Effect::Delay(delay)) if is_slow(delay));
                if is_slow_call || matches!(trouble, Trouble::Lasts("*", "*", effect) if is_outage(effect)) {
                    self.judge.calls_hang();
                }
            }
            Trouble::Fault("*" | "get" | "list", "*" | "nodes", Effect::Hang | Effect::HangAfter, _) => {
                self.judge.calls_hang();
            }
            Trouble::Fault(_, "*" | "nodes", Effect::Answer(_), times) => {
                self.judge.nodes_are_refused(*times);
            }
            Trouble::Fault(_, _, Effect::Delay(late) | Effect::DelayAfter(late), _) => {
                self.judge.answers_are_late(*late);
            }
            Trouble::Fault(_, _, effect, times) if is_refusal(effect) => self.judge.refuses(*times),
            Trouble::Fault(..)
            | Trouble::SchedulerSees
            | Trouble::CutWatches
            | Trouble::ForgottenHistory
            | Trouble::Paused(_)
            | Trouble::BlindScheduler => {}
        }
    }

    pub(super) fn deed(&mut self, index: usize, deed: Deed) -> Result<()> {
        let is_without_meaning = matches!(deed, Deed::RemoveFiles) && self.devices[index].eve.is_some();
        if is_without_meaning {
            return Ok(());
        }
        if deed.is_on_the_device() && self.judge.is_away(index) {
            let is_a_duty = matches!(
                deed,
                Deed::Verb(UNFREEZE | WITHOUT_RECORD | GIVE_BACK | HOLD)
                    | Deed::LongRequest(false)
                    | Deed::Request(false)
            );
            if is_a_duty {
                self.at(kernel::now() + MINUTE, Happening::Fault(index, Fault::Person(deed)));
            }
            return Ok(());
        }
        match deed {
            Deed::BindPod => {
                let ends_after = pick(&[0, 1000, 20_000, 40_000]);
                self.bind_pod(index, ends_after)?;
            }
            Deed::BindShortPod => {
                let name = self.bind_pod(index, 0)?;
                self.cluster.delete("pods", "default", &name);
            }
            Deed::RemoveBudget => self.remove_budget(index),
            Deed::Cordon(is_cordoned) => self.cordon(index, is_cordoned)?,
            Deed::KeepCordoned => self.keep_cordoned(index)?,
            Deed::RemoveMark => self.remove_mark(index)?,
            Deed::Annotate(command, text) => self.annotate(index, command, text)?,
            Deed::BadSlot(entry) => {
                tell("world", &format!("somebody writes {entry:?} into the slot table"));
                self.cluster.edit("configmaps", "kube-system", "ebb-slots-default", |table| {
                    table["data"][GHOST] = json!(entry);
                })?;
            }
            Deed::LoseSlots(is_restored) => self.lose_slots(is_restored)?,
            Deed::HostAsks(text) => {
                tell(&self.devices[index].node, &format!("the host asks for a reboot: {text:?}"));
                self.devices[index].ask_for_reboot(text)?;
                self.judge.host_asks(index, text);
            }
            Deed::OtherCluster(is_other) => self.lead_to(index, is_other)?,
            Deed::TakeDown(target) => self.take_down(index, target),
            Deed::CallOff => self.call_off(index),
            _ => self.deed_on_device(index, deed)?,
        }
        Ok(())
    }

    /// systemd takes the device down, and stops `ebb-hold.service` first of all.
    fn take_down(&mut self, index: usize, target: &'static str) {
        let device = &mut self.devices[index];
        if device.holds && device.target().is_none() {
            tell(&device.node, &format!("systemd takes the device down: {target}"));
            programs::set_target(device.machine, Some(target));
            device.run_verb(HOLD);
            self.judge.holds(index, true);
        }
    }

    fn call_off(&self, index: usize) {
        let device = &self.devices[index];
        if device.target().is_some() {
            tell(&device.node, "somebody calls the shutdown off");
            programs::set_target(device.machine, None);
        }
    }

    fn verb(&mut self, index: usize, words: &'static str) {
        let device = &mut self.devices[index];
        tell(&device.node, &format!("an operator: ebb {words}"));
        device.run_verb(words);
        if words.starts_with("force") {
            self.judge.overridden(index);
        }
    }

    /// What a person does on the device.
    fn deed_on_device(&mut self, index: usize, deed: Deed) -> Result<()> {
        let device = &mut self.devices[index];
        match deed {
            Deed::Verb(words) => self.verb(index, words),
            Deed::Override(order) => {
                let written = device.override_drain(order);
                tell(&device.node, &format!("an operator's order by a file: {order} {written:?}"));
                if written.is_ok() {
                    self.judge.ordered(index, order);
                }
            }
            Deed::RemoveFiles => {
                tell(&device.node, "somebody removes the files of zedkube");
                device.remove_files();
            }
            Deed::RemoveLock(agent) => {
                tell(&device.node, &format!("somebody removes the lock file of {}", agent.name()));
                device.remove_lock(agent);
                self.judge.lock_is_removed(index, agent);
            }
            Deed::BadFile => {
                let written = device.write_nonsense();
                tell(&device.node, &format!("somebody writes nonsense as a request: {written:?}"));
                if written.is_ok() {
                    self.judge.half_written(index);
                }
            }
            Deed::Request(is_there) => {
                tell(&device.node, &format!("a person's request: {is_there}"));
                device.request(is_there, "a new fan")?;
            }
            Deed::HalfRequest => {
                tell(&device.node, "the file of a person's request is half written");
                if device.write_half_a_request()? {
                    self.judge.half_written(index);
                }
            }
            Deed::LongRequest(is_there) => {
                tell(&device.node, &format!("a person's request with a long text: {is_there}"));
                device.request(is_there, &"x".repeat(65_400))?;
            }
            Deed::BindPod
            | Deed::BindShortPod
            | Deed::RemoveBudget
            | Deed::Cordon(_)
            | Deed::KeepCordoned
            | Deed::RemoveMark
            | Deed::Annotate(..)
            | Deed::HostAsks(_)
            | Deed::TakeDown(_)
            | Deed::CallOff
            | Deed::LoseSlots(_)
            | Deed::OtherCluster(_)
            | Deed::BadSlot(_) => {}
        }
        Ok(())
    }

    /// Somebody replaces the device's kubeconfig by that of another cluster, in which a Node of the same name is empty, or
    /// puts the old one back.
    pub(super) fn lead_to(&mut self, index: usize, is_other: bool) -> Result<()> {
        let is_known = self.devices[index].eve.is_some() || self.elsewhere.contains(&index) == is_other;
        // A device that is away, or has no drain, would begin its next one in the other cluster, which may then say that it is
        // drained.
        let begins_anew =
            self.judge.is_away(index) || ["Idle", "Failed"].contains(&self.devices[index].phase().as_str());
        if is_known || (is_other && begins_anew) {
            return Ok(());
        }
        tell(&self.devices[index].node, &format!("its kubeconfig leads to another cluster: {is_other}"));
        self.judge.disturbed();
        self.judge.leads_elsewhere(index, is_other);
        if is_other {
            if self.other.is_none() {
                self.other = Some(self.begin_other()?);
            }
            self.elsewhere.insert(index);
        } else {
            self.elsewhere.remove(&index);
        }
        let cluster = self.other.as_ref().filter(|_| is_other).unwrap_or(&self.cluster);
        self.devices[index].set_kubeconfig(&cluster.kubeconfig())
    }

    fn begin_other(&self) -> Result<FakeCluster> {
        let other = FakeCluster::start_with(Settings::default())?;
        kernel::hide(other.server_url().trim_start_matches("http://"));
        other.node("spare")?;
        for device in &self.devices {
            other.node(&device.node)?;
            show_boot(&other, device)?;
        }
        Ok(other)
    }

    /// The slot table is deleted; or a backup is restored, in which there is an empty one, and no cordon of ours.
    fn lose_slots(&mut self, is_restored: bool) -> Result<()> {
        tell("world", &format!("the slot table is lost; a backup is restored: {is_restored}"));
        let (namespace, name) = ("kube-system", "ebb-slots-default");
        self.cluster.delete("configmaps", namespace, name);
        self.judge.slots_are_lost();
        if !is_restored {
            return Ok(());
        }
        let metadata = json!({"namespace": namespace, "name": name});
        self.cluster.apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))?;
        for Device { node, .. } in &self.devices {
            let found = self.cluster.get("nodes", "", node).unwrap_or_default();
            if found.pointer(MARK).is_some() {
                self.cluster.edit("nodes", "", node, |node| {
                    node["spec"]["unschedulable"] = Value::Null;
                    node["metadata"]["annotations"]["ebb.dev/cordoned-by"] = Value::Null;
                })?;
            }
        }
        Ok(())
    }

    /// Somebody binds a pod to the node that takes so many milliseconds to end. Returns its name.
    fn bind_pod(&mut self, index: usize, ends_after: u64) -> Result<String> {
        self.planned += 1;
        let (name, node) = (format!("late-{}", self.planned), &self.devices[index].node);
        tell(node, &format!("somebody binds the pod {name} to it, which takes {ends_after} ms to end"));
        let mut pod = objects::pod(&name, node);
        pod["metadata"]["annotations"] = json!({GONE_AFTER: ends_after.to_string()});
        self.cluster.apply(pod)?;
        Ok(name)
    }

    pub(super) fn mishap(&mut self, index: usize, mishap: Mishap) -> Result<()> {
        let (node, machine) = (self.devices[index].node.clone(), self.devices[index].machine);
        let is_down = self.judge.is_down(index);
        match mishap {
            Mishap::SoftReboot if !is_down => {
                tell(&node, "a soft reboot");
                self.stop(index);
                self.devices[index].begin_userspace()?;
                self.start_all(index, kernel::now() + SECOND);
                self.at(kernel::now() + 2 * SECOND, Happening::Repeat(index));
            }
            Mishap::Suspend(nanos) if !self.judge.is_away(index) => {
                tell(&node, &format!("the device is suspended for {} s", nanos / SECOND));
                self.cluster.faults().stop_kubelet(&node);
                kernel::suspend(machine, nanos);
                self.judge.suspended(index, nanos);
                self.at(kernel::now() + nanos, Happening::Fault(index, Fault::Device(Mishap::Resumed)));
            }
            Mishap::Resumed if !is_down => self.cluster.faults().start_kubelet(&node),
            Mishap::SoftReboot | Mishap::Suspend(_) | Mishap::Resumed => {}
            Mishap::ClockStep(nanos) => {
                tell(&node, &format!("the wall clock is set by {} s", nanos / SECOND.cast_signed()));
                kernel::step_clock(machine, nanos);
                self.judge.clock_is_set(index);
            }
            Mishap::Disk(fault) => {
                tell(&node, &format!("the disk of /persist: {fault:?}"));
                if fault.is_some() {
                    self.judge.disk_is_bad(index);
                }
                let persist = self.devices[index].root.join("/persist");
                kernel::set_disk_fault(&persist.to_string_lossy(), fault);
            }
            Mishap::NoRecord(is_so) => {
                tell(&node, &format!("the record of the drain cannot be written: {is_so}"));
                self.judge.is_off_record(index, is_so);
                let root = self.devices[index].root.path().to_string_lossy().into_owned();
                kernel::set_disk_fault(&format!("{root}{RECORD}"), is_so.then_some(DiskFault::Full));
            }
        }
        Ok(())
    }

    /// A person removes the budget that lets no pod of the node go.
    fn remove_budget(&self, device: usize) {
        let node = &self.devices[device].node;
        tell("world", &format!("somebody removes the budget of {node}'s pods"));
        self.cluster.delete("poddisruptionbudgets", "default", &format!("web-{node}"));
    }

    /// A person cordons the node, if nobody has, or uncordons it.
    pub(super) fn cordon(&mut self, device: usize, is_cordoned: bool) -> Result<()> {
        let node = &self.devices[device].node;
        let found = self.cluster.get("nodes", "", node).unwrap_or_default();
        if is_unschedulable(&found) == is_cordoned {
            return Ok(());
        }
        tell(node, if is_cordoned { "a person cordons the node" } else { "a person uncordons the node" });
        self.cluster.edit("nodes", "", node, |node| {
            node["spec"]["unschedulable"] = if is_cordoned { json!(true) } else { Value::Null };
            let managers = if is_cordoned { objects::managed_cordon("kubectl-cordon") } else { Value::Null };
            node["metadata"]["managedFields"] = managers;
            if !is_cordoned {
                node["metadata"]["annotations"][KEEP_CORDONED] = Value::Null;
            }
        })?;
        self.judge.cordoned(device, is_cordoned);
        Ok(())
    }

    /// Somebody writes this text of a command into the Node, or removes it.
    fn annotate(&mut self, index: usize, command: NodeCommand, text: Option<&str>) -> Result<()> {
        let device = &self.devices[index];
        tell(&device.node, &format!("somebody writes {} of the Node: {text:?}", command.key()));
        let node = self.cluster.edit("nodes", "", &device.node, |node| {
            node["metadata"]["annotations"][command.key()] = json!(text);
        })?;
        let uid = node.as_ref().and_then(|node| node.pointer("/metadata/uid")).and_then(Value::as_str);
        let counter = uid.zip(text).map(|(uid, text)| command.counter(uid, text));
        match command {
            NodeCommand::Reboot => self.judge.annotated(index, counter),
            NodeCommand::Drain | NodeCommand::Update => self.judge.another_annotated(index),
            NodeCommand::Shutdown => {}
        }
        Ok(())
    }

    /// Somebody removes the annotation by which our cordon is known.
    fn remove_mark(&self, device: usize) -> Result<()> {
        let node = &self.devices[device].node;
        if self.cluster.get("nodes", "", node).unwrap_or_default().pointer(MARK).is_some() {
            tell(node, "somebody removes the annotation of our cordon");
            self.cluster.edit("nodes", "", node, |node| {
                node["metadata"]["annotations"]["ebb.dev/cordoned-by"] = Value::Null;
            })?;
        }
        Ok(())
    }

    /// A person wants the cordon of ours to stay.
    pub(super) fn keep_cordoned(&mut self, device: usize) -> Result<()> {
        let node = &self.devices[device].node;
        if is_unschedulable(&self.cluster.get("nodes", "", node).unwrap_or_default()) {
            tell(node, "a person asks to leave the node cordoned");
            self.cluster.edit("nodes", "", node, |node| {
                node["metadata"]["annotations"][KEEP_CORDONED] = json!("yes");
            })?;
            self.judge.cordoned(device, true);
        }
        Ok(())
    }
}
