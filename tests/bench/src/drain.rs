//! Drains a node of a real control plane by `kubectl drain`, by `ebb drain` and by zedkube in turn.

mod floor;
pub(crate) mod process;
mod report;
mod scenario;
mod site;
mod tool;

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use control_plane::ControlPlane;

use self::report::Report;
use self::site::Site;
use self::tool::Run;

pub(crate) use self::floor::run as floor;
pub(crate) use self::scenario::Scenario;
pub(crate) use self::tool::Tool;

/// Runs each scenario `runs` times with each of its tools that is in `tools`, in turn. Prints its progress on standard
/// error and returns the tables.
pub(crate) fn run(runs: usize, scenarios: &[Scenario], tools: &[Tool]) -> Result<String> {
    let program = crate::program()?;
    let plane = ControlPlane::shared()?;
    let mut report = Report::new(runs);
    for scenario in scenarios {
        let site = Site::new(&plane, *scenario)?;
        let mut measured = BTreeMap::<Tool, Vec<Run>>::new();
        for number in 1..=runs {
            for tool in scenario.tools().iter().filter(|tool| tools.contains(tool)) {
                let context = || format!("{scenario}, {tool}, run {number}");
                site.fill().with_context(context)?;
                let run = tool.drain(&site, &program).with_context(context)?;
                tell(&format!("{}: {run}", context()));
                measured.entry(*tool).or_default().push(run);
            }
        }
        site.clear()?;
        report.add(*scenario, &measured);
    }
    Ok(report.text())
}

#[expect(clippy::print_stderr, reason = "a benchmark of many minutes says where it is")]
fn tell(line: &str) {
    eprintln!("{line}");
}
