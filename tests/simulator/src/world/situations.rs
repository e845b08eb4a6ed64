//! Situations of a device that chance would rarely bring together: what meets a command, an image or an order on its
//! way. Each is one part of a history.

use schemas::{Agent, DeviceAction, DeviceActionState, Operation, parse};

use super::happening::{Deed, Fault, Happening, Mishap};
use super::{MINUTE, SECOND, World, below, chance, pick};
use crate::kernel::{self, DiskFault, Write};
use crate::limits;
use crate::story::tell;
use crate::trouble::Trouble;

// Moments of a device at which something may be aimed, beside the phases of zedkube.
/// nodeagent prepares a reboot.
const TAKEN: &str = "(a reboot is taken)";
/// nodeagent prepares a shutdown, or a poweroff.
const TAKEN_OFF: &str = "(a shutdown or poweroff is taken)";
/// A program writes an image.
pub(super) const ACTIVATING: &str = "(an image is written)";
/// zedkube has an operator's order on record, whose file is still there.
const ORDERED: &str = "(an order is on record)";

/// Orders of an operator by a file.
pub(super) const ORDERS: [&str; 3] =
    [r#"{"Status":9,"RequestedBy":1}"#, r#"{"Status":9,"RequestedBy":2}"#, r#"{"Status":9,"RequestedBy":3}"#];

/// The reboot of a device whose disk takes no writes.
pub(super) const WITHOUT_RECORD: &str = "reboot --without-record --reason disk";

/// The first counter of the commands that the controller gives in a situation, and the counter of the one before it.
pub(super) const COUNTER: u32 = 20;
const EARLIER: u32 = 19;

/// The moment that begins with this write, if one does.
pub(super) fn moment_of(write: &Write) -> Option<&'static str> {
    let content = write.content.as_deref()?;
    if write.path.ends_with("/DrainRecord/global.json") {
        let text = String::from_utf8_lossy(content);
        return text.contains("\"Pending\":{").then_some(ORDERED);
    }
    if !write.path.ends_with("/DeviceAction/global.json") {
        return None;
    }
    let action: DeviceAction = parse(content).ok()?;
    match (action.state, action.command?) {
        (DeviceActionState::Taken, Operation::Reboot) => Some(TAKEN),
        (DeviceActionState::Taken, Operation::Shutdown | Operation::Poweroff) => Some(TAKEN_OFF),
        _ => None,
    }
}

impl World {
    /// Draws which situations there are.
    pub(super) fn draw_situations(&mut self) {
        let devices = self.devices.len() as u64;
        let device = usize::try_from(kernel::below(devices)).unwrap_or_default();
        if chance(3) {
            self.draw_on_its_way();
        }
        if chance(6) {
            self.draw_activation(device);
        }
        if self.devices[device].eve.is_some() {
            self.draw_eves_answers(device);
            return;
        }
        match below(10) {
            0 => self.draw_fan(device),
            1 => self.draw_half_request(device),
            2 => self.draw_second_order(),
            3 => self.draw_lost_lock(device),
            4 => self.draw_dead_disk(device),
            5 => self.draw_no_record(device),
            6 => self.draw_removed_files(device),
            7 if chance(2) => self.draw_lost_mark(),
            7 | 8 => self.draw_unkept_answer(),
            _ => self.draw_common_reboot(),
        }
    }

    /// Kills an agent. It is started again, unless it is to stay away for so long that nobody waits for it.
    pub(super) fn kill(&mut self, device: usize, agent: Agent, stays_away: bool) {
        if self.devices[device].kill(agent) {
            let words = if stays_away { ", and stays away" } else { "" };
            tell(&self.devices[device].node, &format!("{} is killed{words}", agent.name()));
            let pause = if stays_away { limits::GIVEN_UP } else { self.limits.draw_pause() };
            self.at(kernel::now() + pause, Happening::Start(device, agent));
        }
    }

    pub(super) fn aim<const N: usize>(&mut self, aimed: [(&'static str, u64, Fault); N]) {
        if self.has_next_part() {
            self.aimed.extend(aimed);
        }
    }

    /// Something meets a command that nodeagent has taken, and has not begun.
    fn draw_on_its_way(&mut self) {
        let later = pick(&[0, SECOND / 5, 2 * SECOND]);
        match below(8) {
            0 => self.aim([(TAKEN_OFF, later, Fault::PowerCut)]),
            1 => self.aim([(pick(&[TAKEN, TAKEN_OFF]), later, Fault::TakeBack)]),
            2 => {
                // Nobody carries it out meanwhile.
                let kill = Fault::Kill(Agent::Nodeagent);
                self.aim([(TAKEN, 0, kill), (TAKEN, later, Fault::TakeBack)]);
            }
            3 | 4 => {
                let away = Fault::Away(Agent::Nodeagent);
                self.aim([(pick(&["Attempting", "Complete", TAKEN, TAKEN_OFF]), 0, away)]);
            }
            5 | 6 => {
                // It starts again with a disk that it cannot use.
                let phase = pick(&["Waiting", "Cordoning", "Attempting", "Complete"]);
                let agent = pick(&[Agent::DeviceOp, Agent::DeviceOp, Agent::Baseos]);
                let bad = Fault::Device(Mishap::Disk(Some(DiskFault::ReadOnly)));
                self.aim([(phase, 0, bad), (phase, later, Fault::Kill(agent))]);
            }
            _ => {
                let agent = pick(&[Agent::DeviceOp, Agent::Nodeagent, Agent::Baseos]);
                self.aim([(TAKEN, later, Fault::Kill(agent))]);
            }
        }
    }

    /// An image is written, while the device is to reboot, and baseos is killed.
    fn draw_activation(&mut self, device: usize) {
        let from = 20 * SECOND + kernel::below(MINUTE);
        self.plan_part([(from, Happening::Image(device, "2", 1))]);
        let later = kernel::below(5 * SECOND);
        self.aim([
            (ACTIVATING, later, Fault::Command(Operation::Reboot)),
            (ACTIVATING, later + kernel::below(5 * SECOND), Fault::Kill(Agent::Baseos)),
        ]);
    }

    /// EVE's zedkube is asked by two agents at a time, or again while its last answer stands.
    fn draw_eves_answers(&mut self, device: usize) {
        let from = 20 * SECOND + kernel::below(MINUTE);
        let command = |operation, counter| Happening::Command { device, operation, counter, is_wanted: true };
        match below(3) {
            0 => {
                let image = (from, Happening::Image(device, "2", 1));
                let later = from + kernel::below(10 * SECOND);
                self.plan_part([image, (later, command(Operation::Reboot, COUNTER))]);
            }
            1 => {
                self.plan_part([(from, command(Operation::Shutdown, EARLIER))]);
                let later = kernel::below(MINUTE);
                self.aim([("Complete", later, Fault::Command(Operation::Reboot))]);
            }
            _ => {}
        }
    }

    /// A person holds the node for work on the machine; orders and commands meet the answer.
    fn draw_fan(&mut self, device: usize) {
        let from = 15 * SECOND + kernel::below(MINUTE);
        let request = |is_there| Happening::Fault(device, Fault::Person(Deed::Request(is_there)));
        self.plan_part([
            (from, request(true)),
            (from + 3 * MINUTE + kernel::below(3 * MINUTE), request(false)),
        ]);
        let (phase, order) = pick(&[
            ("Attempting", ORDERS[0]),
            ("Complete", ORDERS[0]),
            ("Complete", ORDERS[1]),
            ("Complete", ORDERS[2]),
        ]);
        let order = Fault::Person(Deed::Override(order));
        let later = 15 * SECOND + kernel::below(MINUTE);
        self.aim([(phase, SECOND, order)]);
        self.aim([(phase, later, Fault::Command(Operation::Reboot))]);
    }

    /// A person's request is written again, and zedkube dies before it is whole.
    fn draw_half_request(&mut self, device: usize) {
        let from = 15 * SECOND + kernel::below(MINUTE);
        let person = |deed| Happening::Fault(device, Fault::Person(deed));
        let again = from + 10 * SECOND + kernel::below(MINUTE);
        self.plan_part([
            (from, person(Deed::Request(true))),
            (again, person(Deed::HalfRequest)),
            (again, Happening::Fault(device, Fault::Kill(Agent::Zedkube))),
            (again + 2 * MINUTE, person(Deed::Request(pick(&[true, false])))),
            (again + 4 * MINUTE, person(Deed::Request(false))),
        ]);
    }

    /// Another order comes while the one before is being recorded.
    fn draw_second_order(&mut self) {
        let [all, device_op, baseos] = ORDERS;
        let second = Fault::Person(Deed::Override(pick(&[device_op, all])));
        self.aim([
            (pick(&["Waiting", "Cordoning", "Attempting"]), 0, Fault::Person(Deed::Override(baseos))),
            (ORDERED, 0, second),
        ]);
    }

    /// zedkube dies or stands still after its answer, before nodeagent acts; meanwhile a person uncordons the node, and pods
    /// come.
    fn draw_unkept_answer(&mut self) {
        let zedkube = match below(3) {
            0 => Fault::Kill(Agent::Zedkube),
            1 => Fault::Away(Agent::Zedkube),
            _ => Fault::Stop(Agent::Zedkube, pick(&[MINUTE, self.limits.long]) + kernel::below(MINUTE)),
        };
        let later = SECOND / 10 + kernel::below(SECOND);
        let late = Fault::Stop(Agent::Nodeagent, 10 * SECOND + kernel::below(2 * MINUTE));
        self.aim([
            ("Complete", 0, late),
            ("Complete", later, zedkube),
            ("Complete", later + SECOND, Fault::Person(Deed::Cordon(false))),
            ("Complete", later + 2 * SECOND, Fault::Person(Deed::BindPod)),
        ]);
        if chance(3) {
            // Nor is there anybody who could take the command back.
            self.aimed.push(("Complete", later + 3 * SECOND, Fault::Away(Agent::DeviceOp)));
        }
    }

    /// Somebody removes the annotation of our cordon while the device goes down or is down.
    fn draw_lost_mark(&mut self) {
        let later = pick(&[SECOND, 10 * SECOND, MINUTE]) + kernel::below(10 * SECOND);
        self.aim([(pick(&["Complete", TAKEN, "Returning"]), later, Fault::Person(Deed::RemoveMark))]);
    }

    /// All devices are to reboot: the slot table is lost while the first one goes down or is down, or the API server has
    /// just gone away.
    pub(super) fn draw_common_reboot(&mut self) {
        let from = 20 * SECOND + kernel::below(MINUTE);
        if self.has_next_part() {
            for device in 0..self.devices.len() {
                if self.devices[device].eve.is_some() {
                    continue;
                }
                let (operation, counter, is_wanted) = (Operation::Reboot, COUNTER, true);
                let command = Happening::Command { device, operation, counter, is_wanted };
                self.at(from + kernel::below(5 * SECOND), command);
            }
        }
        if chance(3) {
            let outage = Fault::Lasting(Trouble::ApiDown, self.limits.one_after_another());
            self.plan_part([(from - kernel::below(10 * SECOND), Happening::Fault(0, outage))]);
            return;
        }
        let later = pick(&[SECOND / 5, SECOND, 10 * SECOND]) + kernel::below(5 * SECOND);
        self.aim([(TAKEN, later, Fault::Person(Deed::LoseSlots(!chance(4))))]);
    }

    /// In mid-drain a kubeconfig leads to another cluster for a while. This is the only fault: a zedkube that loses its
    /// record as well does not know in which cluster the drain began.
    pub(super) fn draw_other_cluster(&mut self) {
        // What ends or allows something stays.
        self.plan.retain(|_, what| !matches!(what, Happening::Fault(..)) || what.fault().is_none());
        self.aimed.clear();
        let phase = pick(&["Cordoning", "Attempting", "Attempting", "Pausing", "Complete"]);
        let later = kernel::below(pick(&[1, SECOND, 5 * SECOND]));
        let until = later + pick(&[10 * SECOND, MINUTE, self.limits.long]);
        let lead = |is_other| Fault::Person(Deed::OtherCluster(is_other));
        self.aim([(phase, later, lead(true)), (phase, until, lead(false))]);
        if chance(2) {
            let killed = later + kernel::below(5 * SECOND);
            self.aim([(
                phase,
                killed,
                Fault::Kill(pick(&[Agent::Zedkube, Agent::Zedkube, Agent::DeviceOp])),
            )]);
        }
    }

    /// The lock file of an agent is removed, and then the device is asked to go down.
    fn draw_lost_lock(&mut self, device: usize) {
        let agent = pick(&[Agent::Zedkube, Agent::Zedkube, Agent::DeviceOp, Agent::Nodeagent]);
        let remove = Deed::RemoveLock(agent);
        if chance(2) {
            self.aim([(pick(&["Waiting", "Attempting", "Pausing"]), SECOND, Fault::Person(remove))]);
        } else {
            let from = 15 * SECOND + kernel::below(2 * MINUTE);
            let remove = Happening::Fault(device, Fault::Person(remove));
            // The history ends after that.
            self.plan_part([(from, remove), (from + MINUTE, Happening::Repeat(device))]);
        }
    }

    /// The disk takes no writes, from the start or later, until the device has booted; a person reboots it.
    fn draw_dead_disk(&mut self, device: usize) {
        let fault = Some(pick(&[DiskFault::Full, DiskFault::ReadOnly]));
        let from = pick(&[5 * SECOND, 15 * SECOND, 15 * SECOND + kernel::below(2 * MINUTE)]);
        let disk = |fault| Happening::Fault(device, Fault::Device(Mishap::Disk(fault)));
        if self.judge.is_without_means(device) || chance(2) {
            let until = from + 10 * SECOND + kernel::below(2 * MINUTE);
            self.plan_part([(from, disk(fault)), (until, disk(None))]);
        } else {
            let later = from + 20 * SECOND + kernel::below(MINUTE);
            let reboot = Happening::Fault(device, Fault::Person(Deed::Verb(WITHOUT_RECORD)));
            self.plan_part([(from, disk(fault)), (later, reboot)]);
        }
    }

    /// The record of the drain cannot be written for a while, because `/run` is full; a person asks meanwhile.
    fn draw_no_record(&mut self, device: usize) {
        let from = 15 * SECOND + kernel::below(2 * MINUTE);
        let until = from + pick(&[SECOND, 30 * SECOND, 2 * MINUTE, 2 * MINUTE]);
        let record = |is_so| Happening::Fault(device, Fault::Device(Mishap::NoRecord(is_so)));
        self.plan_part([(from, record(true)), (until, record(false))]);
        let person = |deed| Happening::Fault(device, Fault::Person(deed));
        let asked = from + kernel::below(10 * SECOND);
        let withdrawn = asked + 10 * SECOND + kernel::below(MINUTE);
        self.plan_part([(asked, person(Deed::Request(true))), (withdrawn, person(Deed::Request(false)))]);
        if chance(2) {
            let later = asked + 10 * SECOND + kernel::below(MINUTE);
            self.plan_part([(later, person(Deed::Override(pick(&ORDERS))))]);
        }
    }

    /// Somebody removes the files of zedkube while nothing else happens.
    fn draw_removed_files(&mut self, device: usize) {
        let from = 3 * MINUTE + kernel::below(3 * MINUTE);
        let remove = Happening::Fault(device, Fault::Person(Deed::RemoveFiles));
        // The history ends after that.
        self.plan_part([(from, remove), (from + MINUTE, Happening::Repeat(device))]);
    }
}
