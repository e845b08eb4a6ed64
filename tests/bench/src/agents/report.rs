//! Prints what agents cost as plain tables.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::Result;

use crate::table::Summary;

/// What was seen while the agents were watched.
pub(super) struct Window {
    pub(super) minutes: f64,
    /// Requests of all agents since they were watched before that.
    pub(super) before: u32,
    /// Requests of all agents while they were watched, by kind.
    pub(super) requests: BTreeMap<String, u32>,
    /// Connections that all agents tried to make while they were watched.
    pub(super) connections: u32,
    /// CPU of kube-apiserver, percent of a core.
    pub(super) cpu: f64,
    /// Resident memory of one agent, MiB.
    pub(super) memory: Summary,
}

/// The measurements so far.
pub(super) struct Report {
    agents: f64,
    rows: String,
    kinds: String,
}

impl Report {
    /// An empty report about so many agents.
    pub(super) fn new(agents: u32) -> Self {
        let rows = format!(
            "{agents} agents (zedkube), each on a node of its own; requests and connections are those of one agent, \
             `before` counts the requests since the line above\n\
             {:<12}{:>9}{:>10}{:>14}{:>17}{:>18}{:>10}{:>10}{:>10}\n",
            "state",
            "minutes",
            "before",
            "requests/min",
            "connections/min",
            "API server CPU %",
            "RSS min",
            "median",
            "max MiB"
        );
        Self { agents: f64::from(agents), rows, kinds: String::new() }
    }

    /// Adds a state.
    pub(super) fn add(&mut self, state: &str, window: &Window) -> Result<()> {
        let Window { minutes, before, requests, connections, cpu, memory } = window;
        let rate = |number: u32| f64::from(number) / minutes / self.agents;
        let (all, before) = (rate(requests.values().sum()), f64::from(*before) / self.agents);
        let connections = rate(*connections);
        writeln!(
            self.rows,
            "{state:<12}{minutes:>9.1}{before:>10.2}{all:>14.3}{connections:>17.3}{cpu:>18.1} {memory}"
        )?;
        if !requests.is_empty() {
            writeln!(self.kinds, "\n{state}: requests per minute and agent")?;
        }
        for (kind, number) in greatest_first(requests) {
            writeln!(self.kinds, "{:>9.4}  {kind}", rate(number))?;
        }
        Ok(())
    }

    /// Adds the requests of one drain.
    pub(super) fn add_drain(&mut self, pods: u32, requests: &BTreeMap<String, u32>) -> Result<()> {
        let all: u32 = requests.values().sum();
        writeln!(self.kinds, "\ndraining: a node with {pods} pods took {all} requests")?;
        for (kind, number) in greatest_first(requests) {
            writeln!(self.kinds, "{number:>9}  {kind}")?;
        }
        Ok(())
    }

    /// The tables.
    pub(super) fn text(&self) -> String {
        format!("{}{}", self.rows, self.kinds)
    }
}

fn greatest_first(requests: &BTreeMap<String, u32>) -> Vec<(&str, u32)> {
    let mut sorted: Vec<_> = requests.iter().map(|(kind, number)| (kind.as_str(), *number)).collect();
    sorted.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_one_agent_and_a_drain_is_counted_whole() {
        let kinds = |kinds: &[(&str, u32)]| kinds.iter().map(|(kind, n)| ((*kind).to_owned(), *n)).collect();
        let window = Window {
            minutes: 2.0,
            before: 30,
            requests: kinds(&[("list nodes", 1), ("watch nodes", 9)]),
            connections: 5,
            cpu: 6.25,
            memory: Summary::of(&[20.0]),
        };
        let mut report = Report::new(10);
        report.add("idle", &window).unwrap();
        report.add_drain(2, &kinds(&[("create pods/eviction", 2), ("list pods", 1)])).unwrap();
        let text = report.text().split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "idle 2.0 3.00 0.500 0.250 6.2 20.00 20.00 20.00",
            "agent 0.4500 watch nodes 0.0500 list nodes",
            "2 pods took 3 requests 2 create pods/eviction 1 list pods",
        ] {
            assert!(text.contains(part), "no {part} in {text}");
        }
    }
}
