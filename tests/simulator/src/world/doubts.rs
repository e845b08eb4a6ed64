//! Draws what puts an answer in doubt: requests that stand for long, pods that come when nobody expects them, and lists
//! and watches that show the past.

use std::time::Duration;

use fake_cluster::Effect;
use schemas::Operation;

use super::happening::{Deed, Fault, Happening};
use super::{MINUTE, SECOND, World, below, chance, pick};
use crate::kernel;
use crate::trouble::Trouble;

/// A fault for a device that comes into a phase: the phase, how much later, and what.
pub(super) type Aim = (&'static str, u64, Fault);

impl World {
    /// Draws a person's request, which keeps its answer for long, and faults that put answers in doubt.
    pub(super) fn draw_doubts(&mut self) {
        let devices = self.devices.len() as u64;
        if chance(3) {
            let device = usize::try_from(kernel::below(devices)).unwrap_or_default();
            let from = 15 * SECOND + kernel::below(MINUTE);
            let until = from + 20 * SECOND + kernel::below(pick(&[MINUTE, 4 * MINUTE]));
            let request = |is_there| Happening::Fault(device, Fault::Person(Deed::Request(is_there)));
            self.plan_part([(from, request(true)), (until, request(false))]);
        }
        for _ in 0..below(3) {
            let doubt = draw_doubt();
            if self.has_next_part() {
                self.aimed.extend(doubt);
            }
        }
    }

    /// The controller takes back what it wants of a device.
    pub(super) fn take_back(&mut self, device: usize) {
        for operation in Operation::ALL {
            if let Some(counter) = self.devices[device].wanted_command(operation) {
                let command = Happening::Command { device, operation, counter, is_wanted: false };
                self.at(kernel::now(), command);
            }
        }
    }
}

fn draw_doubt() -> Vec<Aim> {
    let soon = kernel::below(pick(&[1, SECOND, 3 * SECOND]));
    match below(8) {
        0 => late_list(pick(&["Attempting", "Complete"]), soon),
        1 => late_watches(soon),
        2 => overtaken_list(3 * SECOND + soon),
        3 => blind_scheduler(soon),
        4 => old_cache_after_an_outage(soon),
        5 => late_evictions(soon),
        6 => vec![("Complete", soon, Fault::Person(Deed::BindPod))],
        _ => vec![("Complete", soon, Fault::TakeBack)],
    }
}

fn late(verb: &'static str, resource: &'static str, seconds: u64, times: u32) -> Fault {
    let effect = Effect::DelayAfter(Duration::from_secs(seconds));
    Fault::Cluster(Trouble::Fault(verb, resource, effect, times))
}

/// A pod comes while the list that does not show it is on its way.
fn late_list(phase: &'static str, soon: u64) -> Vec<Aim> {
    let pod = soon + kernel::below(8 * SECOND);
    vec![
        (phase, soon, late("list", "pods", pick(&[3, 6, 8]), 1 + below(3))),
        (phase, pod, Fault::Person(Deed::BindPod)),
    ]
}

/// The watches of pods show the past for a while.
fn late_watches(soon: u64) -> Vec<Aim> {
    let until = soon + SECOND + kernel::below(pick(&[5 * SECOND, 40 * SECOND]));
    let pod = kernel::below(until);
    let mut doubt = vec![
        ("Attempting", soon, Fault::Cluster(Trouble::SilentWatches("pods"))),
        ("Attempting", until, Fault::Cluster(Trouble::WatchesSpeak("pods"))),
    ];
    if chance(2) {
        doubt.push(("Attempting", pod, Fault::Person(Deed::BindPod)));
    }
    doubt
}

/// A pod that comes and goes lets zedkube list again; another one comes while that list is on its way.
fn overtaken_list(soon: u64) -> Vec<Aim> {
    let slow = Effect::Delay(Duration::from_secs(3));
    vec![
        ("Complete", soon, Fault::Cluster(Trouble::Fault("list", "pods", slow, 1))),
        ("Complete", soon, late("get", "nodes", 7, 1)),
        ("Complete", soon, Fault::Person(Deed::BindShortPod)),
        ("Complete", soon + 4 * SECOND, Fault::Person(Deed::BindPod)),
    ]
}

/// The scheduler does not see cordons for a while.
fn blind_scheduler(soon: u64) -> Vec<Aim> {
    let until = soon + kernel::below(pick(&[3 * SECOND, 20 * SECOND, 44 * SECOND]));
    vec![
        ("Attempting", soon, Fault::Cluster(Trouble::BlindScheduler)),
        ("Attempting", until, Fault::Cluster(Trouble::SchedulerSees)),
    ]
}

/// The API server is away for a while, and then the scheduler has an old cache.
fn old_cache_after_an_outage(soon: u64) -> Vec<Aim> {
    let long = 35 * SECOND + kernel::below(20 * SECOND);
    let sees = soon + long + kernel::below(44 * SECOND);
    vec![
        ("Attempting", soon, Fault::Lasting(Trouble::ApiDown, long)),
        ("Attempting", soon + long, Fault::Cluster(Trouble::BlindScheduler)),
        ("Attempting", sees, Fault::Cluster(Trouble::SchedulerSees)),
    ]
}

/// Evictions take long, and nobody wants the drain any more meanwhile.
fn late_evictions(soon: u64) -> Vec<Aim> {
    let slow = Effect::Delay(Duration::from_secs(pick(&[4, 8])));
    vec![
        ("Cordoning", 0, Fault::Cluster(Trouble::Fault("create", "pods/eviction", slow, 16))),
        ("Attempting", soon, Fault::TakeBack),
        ("Attempting", soon, Fault::Person(Deed::Request(false))),
    ]
}
