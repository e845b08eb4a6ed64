//! What runs on the nodes, and what holds it there.

use anyhow::Result;
use fake_cluster::{FINISH_AFTER, Limit, READY_AFTER, objects};
use serde_json::json;

use super::happening::{Deed, Fault, Happening};
use super::{MILLISECOND, MINUTE, SECOND, World, chance, pick};
use crate::kernel;

impl World {
    /// Draws the pods of a node. In one of three histories something holds some of them there for a while.
    pub(super) fn draw_pods(&mut self, device: usize, node: &str) -> Result<()> {
        let name = format!("web-{node}");
        match kernel::below(9) {
            0 => self.run_slowly(&name, node)?,
            1 => self.run_within_a_strict_budget(device, &name, node)?,
            held => {
                self.cluster.deployment(&name, pick(&[1, 2, 3, 5, 8]), node)?;
                if chance(2) {
                    self.cluster.budget(&name, Limit::MaxUnavailable(pick(&["1", "2", "50%"])))?;
                }
                if held == 2 {
                    self.run_a_job(&format!("job-{node}"), node)?;
                }
            }
        }
        if !chance(3) {
            self.cluster.apply(objects::stateful_set_with_volumes(&format!("db-{node}"), 2, node))?;
        }
        Ok(())
    }

    /// Pods that leave one after the other: each needs a while until it is ready elsewhere.
    fn run_slowly(&self, name: &str, node: &str) -> Result<()> {
        let mut web = objects::deployment(name, pick(&[3, 4]), node);
        let ready = pick(&[15, 30, 45]) * SECOND / MILLISECOND;
        web["spec"]["template"]["metadata"]["annotations"][READY_AFTER] = json!(ready.to_string());
        self.cluster.apply(web)?;
        self.cluster.budget(name, Limit::MaxUnavailable("1"))?;
        Ok(())
    }

    /// Pods that their budget never lets go, until a person removes it.
    fn run_within_a_strict_budget(&mut self, device: usize, name: &str, node: &str) -> Result<()> {
        self.cluster.deployment(name, 3, node)?;
        self.cluster.budget(name, Limit::MinAvailable("3"))?;
        let until = MINUTE + kernel::below(4 * MINUTE);
        self.at(until, Happening::Fault(device, Fault::Person(Deed::RemoveBudget)));
        Ok(())
    }

    /// A pod that ends by itself, and that its budget does not let go before.
    fn run_a_job(&self, name: &str, node: &str) -> Result<()> {
        let mut job = objects::pod(name, node);
        let ends = (30 * SECOND + kernel::below(4 * MINUTE)) / MILLISECOND;
        job["metadata"]["annotations"] = json!({FINISH_AFTER: ends.to_string()});
        self.cluster.apply(job)?;
        self.cluster.budget(name, Limit::MinAvailable("1"))?;
        Ok(())
    }
}
