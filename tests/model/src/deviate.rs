//! Applies a deviation or an order to the state of the model.

use std::sync::Arc;

use schemas::{BaseOsConfig, DeviceOpsCmd, Source};

use crate::action::{Agent, Deviation};
use crate::nodeagent::Beside;
use crate::scenario::{Kind, Order, Scenario};
use crate::server::Service;
use crate::world::World;
use crate::zedkube::Call;

impl World {
    pub(crate) fn deviate(&mut self, deviation: &Deviation, scenario: &Scenario) {
        let before = Arc::clone(&self.files);
        match deviation {
            Deviation::Turn(task) => {
                let of = self.enabled(scenario).into_iter().find(|(_, enabled)| enabled == task);
                return self.run(of.map_or(self.turn, |(party, _)| party), task, scenario);
            }
            Deviation::Crash(agent) => self.crash(*agent, self.now),
            Deviation::LongCrash(agent) => self.crash(*agent, self.now + scenario.limits.long_ms),
            Deviation::WriteFails(agent) => self.write_fails(*agent),
            Deviation::PowerCut => self.boots(None, scenario),
            Deviation::Late(place) => {
                let until = self.now + scenario.limits.short_ms;
                self.change_call(*place, |call| call.held_until = Some(until));
            }
            Deviation::Lost(place) => self.serve(*place, Service::AnswerLost, scenario),
            Deviation::Refused(place) => self.serve(*place, Service::Refused, scenario),
            Deviation::Stray(place) => self.serve_stray(*place),
            Deviation::Outage(kind) => {
                let limits = &scenario.limits;
                let span = if *kind == Kind::LongOutage { limits.long_ms } else { limits.short_ms };
                self.device.outage_until = Some(self.now + span);
                Arc::make_mut(&mut self.server).is_reachable = false;
            }
            Deviation::PodReturns => {
                self.device.pods_made += 1;
                Arc::make_mut(&mut self.server).bind_pod(self.device.pods_made);
                self.monitor.pod_came_back(self.left);
            }
            Deviation::PeerTakesSlot => {
                self.device.peer_slot_until = Some(self.now + scenario.limits.short_ms);
                Arc::make_mut(&mut self.server).give_peer_a_slot();
            }
            Deviation::PeerDown => {
                self.device.peer_down_until = Some(self.now + scenario.limits.long_ms);
                Arc::make_mut(&mut self.server).peer.ready = false;
            }
            Deviation::MeansFail => {
                self.device.going_down = None;
                if let Some(nodeagent) = self.nodeagent.change()
                    && let Some(Beside::Means { fails, .. }) = &mut nodeagent.running
                {
                    *fails = true;
                }
            }
            Deviation::ActivationFails => self.end(Agent::BaseOs, false, scenario),
            Deviation::Order(order) => self.order(*order),
        }
        self.last.1 = true;
        self.after(&before);
    }

    fn crash(&mut self, agent: Agent, until: u64) {
        self.kill(agent, until);
        if agent == Agent::Zedkube {
            self.monitor.recorded(true);
        }
        self.zedkube_lock_changed(agent);
    }

    fn write_fails(&mut self, agent: Agent) {
        let boot_id = self.boot_id();
        match agent {
            Agent::DeviceOp => {
                if let Some(device_op) = self.device_op.change() {
                    device_op.fail(&self.files, &boot_id, self.now);
                }
            }
            Agent::BaseOs => {
                if let Some(baseos) = self.baseos.change() {
                    baseos.fail(&self.files, &boot_id, self.now);
                }
            }
            Agent::NodeAgent => {
                if let Some(nodeagent) = self.nodeagent.change() {
                    nodeagent.fail(&self.files, self.now);
                }
            }
            Agent::Zedkube => {}
        }
    }

    fn change_call(&mut self, place: usize, change: impl FnOnce(&mut Call)) {
        if let Some(call) = self.zedkube.change().and_then(|zedkube| zedkube.calls.get_mut(place)) {
            change(call);
        }
    }

    /// A write to our node is based on the node's version when it was sent.
    fn serve_stray(&mut self, place: usize) {
        if place >= self.strays.len() {
            return;
        }
        let call = self.strays.remove(place);
        let server = Arc::make_mut(&mut self.server);
        if !call.ask.is_node_write() || call.version == server.version {
            server.serve(&call.ask, call.serial, Service::Well);
        }
    }

    pub(crate) fn order(&mut self, order: Order) {
        let before = Arc::clone(&self.files);
        let files = Arc::make_mut(&mut self.files);
        match order {
            Order::Command(operation) | Order::PersonCommands(operation) => {
                let kind = (order.source(), operation);
                let given = files.run.commands.get(&kind).map_or(0, |command| command.counter);
                let counter = 1 + given.max(files.persist.counters.get(&kind).copied().unwrap_or(0));
                let command = DeviceOpsCmd { counter, desired_state: true, ..DeviceOpsCmd::default() };
                files.run.commands.insert(kind, command);
                self.monitor.commanded(kind, counter, true);
            }
            Order::TakeBack(operation) | Order::PersonTakesBack(operation) => {
                let kind = (order.source(), operation);
                if let Some(command) = files.run.commands.get_mut(&kind) {
                    command.desired_state = false;
                    self.monitor.commanded(kind, command.counter, false);
                }
            }
            Order::Remove(operation) => {
                let kind = (order.source(), operation);
                if let Some(command) = files.run.commands.remove(&kind) {
                    self.monitor.commanded(kind, command.counter, false);
                }
            }
            Order::Activate | Order::Revert | Order::Retry => {
                let tries = files.run.configs.values().map(|config| config.retry_update_counter).max();
                let retry = u32::from(order == Order::Retry);
                let image = BaseOsConfig {
                    retry_update_counter: tries.unwrap_or(0) + retry,
                    ..Self::image(order != Order::Revert)
                };
                files.run.configs.insert(image.content_tree_uuid.clone(), image.clone());
                self.device.config = Some(image);
            }
            Order::Override(word) => files.persist.order = Some(word.command()),
            Order::CordonByHand | Order::UncordonByHand => {
                let cordons = order == Order::CordonByHand;
                Arc::make_mut(&mut self.server).change_own(|own| own.cordoned = cordons);
                self.monitor.by_hand(cordons);
            }
        }
        let commands = self.files.run.commands.clone().into_iter();
        self.device.commands = commands.filter(|((source, _), _)| *source == Source::Controller).collect();
        self.files_changed(&before);
    }
}
