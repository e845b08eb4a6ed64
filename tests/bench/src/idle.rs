//! What four agents cost that have nothing to do: memory and wake-ups.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use control_plane::{ControlPlane, unique};
use system::Device;

/// The verbs that run an agent.
const AGENTS: [&str; 4] = ["zedkube", "device-op", "nodeagent", "baseos"];

/// What an agent costs.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    /// Its share of physical memory: pages of several processes count in equal parts for each of them. KiB.
    pss: u64,
    /// The part of it that no other process uses and no file backs. KiB.
    private_dirty: u64,
    /// Voluntary context switches of all its threads while it was watched: each one ended with a wake-up.
    wake_ups: u64,
    threads: usize,
}

/// Starts the four agents as processes of their own on a node of a real control plane, leaves them alone for `settle`, and
/// watches them for `watch`. Nobody asks for anything meanwhile.
pub(crate) fn run(program: Option<PathBuf>, settle: Duration, watch: Duration) -> Result<String> {
    let program = program.map_or_else(crate::program, Ok)?;
    ensure!(program.exists(), "there is no program {}", program.display());
    let plane = ControlPlane::shared()?;
    let pool = plane.create_pool(&unique("idle"), &["a", "b"])?;
    let node = pool.nodes.first().context("the pool has no node")?;
    let mut device = Device::in_pool(crate::text(&program)?, &plane, &pool, node)?;
    device.start_all()?;
    rest(settle);
    let before = costs(&mut device)?;
    rest(watch);
    let after = costs(&mut device)?;

    let mut all = Cost::default();
    let mut text = format!(
        "four idle agents after {} s, watched for {} s\n{:<12}{:>10}{:>16}{:>14}{:>10}\n",
        settle.as_secs(),
        watch.as_secs(),
        "",
        "PSS KiB",
        "its own KiB",
        "wake-ups/s",
        "threads"
    );
    for ((agent, before), (_, after)) in before.iter().zip(&after) {
        let cost = Cost { wake_ups: after.wake_ups.saturating_sub(before.wake_ups), ..*after };
        all.pss += cost.pss;
        all.private_dirty += cost.private_dirty;
        all.wake_ups += cost.wake_ups;
        all.threads += cost.threads;
        line(&mut text, agent, cost, watch)?;
    }
    line(&mut text, "together", all, watch)?;
    Ok(text)
}

fn line(text: &mut String, name: &str, cost: Cost, watch: Duration) -> Result<()> {
    let Cost { pss, private_dirty, wake_ups, threads } = cost;
    let per_second = f64::from(u32::try_from(wake_ups)?) / watch.as_secs_f64();
    writeln!(text, "{name:<12}{pss:>10}{private_dirty:>16}{per_second:>14.2}{threads:>10}")?;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "nothing else to do in this thread")]
pub(crate) fn rest(time: Duration) {
    thread::sleep(time);
}

fn costs(device: &mut Device) -> Result<Vec<(&'static str, Cost)>> {
    let mut costs = Vec::new();
    for agent in AGENTS {
        let process = device.agent(agent)?;
        ensure!(process.ended()?.is_none(), "{agent} has ended:\n{}", process.log()?);
        costs.push((agent, cost_of(process.id()).with_context(|| format!("cannot look at {agent}"))?));
    }
    Ok(costs)
}

fn cost_of(id: u32) -> Result<Cost> {
    let process = PathBuf::from(format!("/proc/{id}"));
    let memory = fs::read_to_string(process.join("smaps_rollup"))?;
    let mut cost = Cost {
        pss: number(&memory, "Pss:").context("no Pss")?,
        private_dirty: number(&memory, "Private_Dirty:").context("no Private_Dirty")?,
        ..Cost::default()
    };
    for thread in fs::read_dir(process.join("task"))? {
        cost.wake_ups += switches(&thread?.path())?;
        cost.threads += 1;
    }
    Ok(cost)
}

fn switches(thread: &Path) -> Result<u64> {
    let status = fs::read_to_string(thread.join("status"))?;
    number(&status, "voluntary_ctxt_switches:").context("no voluntary_ctxt_switches")
}

/// The number of a line such as `Pss:    123 kB`.
pub(crate) fn number(text: &str, label: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(label))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_this_process() {
        let cost = cost_of(std::process::id()).unwrap();
        assert!(100 < cost.pss && cost.private_dirty < cost.pss && 0 < cost.threads, "{cost:?}");
        assert_eq!(number("Rss:  1 kB\nPss:  23 kB\n", "Pss:"), Some(23));
        assert_eq!(number("nonvoluntary_ctxt_switches:\t9\n", "voluntary_ctxt_switches:"), None);
    }
}
