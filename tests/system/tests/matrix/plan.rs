//! Which cells there are.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::run::{Agent, Scenario};

/// What goes wrong at a boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Column {
    /// The agent is killed, and started again.
    Restart,
    /// The agent is killed, and with it the machine: all agents, an empty `run`, a new boot.
    Boot,
    /// As [`Self::Restart`], on a node that somebody else had cordoned before.
    Foreign,
    /// The API server is away for 1 s.
    AwayForOne,
    /// The API server is away for 30 s.
    AwayForThirty,
    /// The API server never comes back, as long as the operation stands.
    AwayForGood,
}

impl Column {
    pub(crate) const ALL: [Self; 6] =
        [Self::Restart, Self::Boot, Self::Foreign, Self::AwayForOne, Self::AwayForThirty, Self::AwayForGood];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::Boot => "reboot",
            Self::Foreign => "foreign cordon",
            Self::AwayForOne => "api 1 s",
            Self::AwayForThirty => "api 30 s",
            Self::AwayForGood => "api for good",
        }
    }

    /// The API server is away; else a process dies.
    pub(crate) fn is_outage(self) -> bool {
        match self {
            Self::AwayForOne | Self::AwayForThirty | Self::AwayForGood => true,
            Self::Restart | Self::Boot | Self::Foreign => false,
        }
    }

    /// How long the API server is away; nothing: for good.
    pub(crate) fn outage(self) -> Option<Duration> {
        match self {
            Self::AwayForOne => Some(Duration::from_secs(1)),
            Self::AwayForThirty => Some(Duration::from_secs(30)),
            Self::Restart | Self::Boot | Self::Foreign | Self::AwayForGood => None,
        }
    }

    /// Only zedkube calls the API server, and only it cordons. After the boot nothing is commanded any more, so that no
    /// outage lasts for good.
    fn concerns(self, boundary: &Boundary) -> bool {
        match self {
            Self::Restart | Self::Boot => true,
            Self::Foreign | Self::AwayForOne | Self::AwayForThirty => boundary.agent == Agent::Zedkube,
            Self::AwayForGood => boundary.agent == Agent::Zedkube && boundary.scenario != Scenario::Return,
        }
    }
}

/// A boundary of an agent, as the first run met it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Boundary {
    pub(crate) scenario: Scenario,
    pub(crate) agent: Agent,
    /// From 1, in the order in which the agent came to them.
    pub(crate) number: u32,
    /// What comes next or was done.
    pub(crate) name: String,
}

impl Boundary {
    /// What it is about, without the particulars: ids, numbers and answers differ from run to run.
    pub(crate) fn kind(&self) -> &str {
        let kind = self.name.split_once('{').map_or(self.name.as_str(), |(kind, _)| kind);
        kind.trim_end_matches([' ', '('])
    }
}

/// One run with one thing that goes wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cell {
    pub(crate) boundary: Boundary,
    pub(crate) column: Column,
}

/// All that is to be run.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) boundaries: Vec<Boundary>,
    pub(crate) cells: Vec<Cell>,
    /// Kinds that the sample has.
    kinds: BTreeSet<(Agent, String)>,
}

impl Plan {
    /// Each boundary of the scenario, for each column that concerns it.
    pub(crate) fn add_all(&mut self, scenario: Scenario, boundaries: &[Boundary]) {
        for boundary in boundaries.iter().filter(|boundary| scenario.is_about(boundary.agent)) {
            let columns = Column::ALL.into_iter().filter(|column| column.concerns(boundary));
            self.add(boundary, columns.collect());
        }
    }

    /// The first boundary of each kind, by turns for one column and the next; of those with an API server that is away
    /// only the ones that do not take a minute. Before a file is written nothing has happened since the boundary before
    /// it, and what scenarios share is run once.
    pub(crate) fn add_sample(&mut self, scenario: Scenario, boundaries: &[Boundary]) {
        let firsts = boundaries.iter().filter(|boundary| scenario.is_about(boundary.agent));
        for boundary in firsts.filter(|boundary| !boundary.name.starts_with("before writing")) {
            let kind = shared_kind(boundary);
            if !self.kinds.insert((boundary.agent, kind)) {
                continue;
            }
            let turns = [Column::Restart, Column::Boot, Column::Foreign];
            let concerned: Vec<_> = turns.into_iter().filter(|column| column.concerns(boundary)).collect();
            let mut columns = vec![concerned[self.kinds.len() % concerned.len()]];
            if Column::AwayForGood.concerns(boundary) && boundary.name.contains("Cordon") {
                columns.push(Column::AwayForGood);
            }
            self.add(boundary, columns);
        }
    }

    fn add(&mut self, boundary: &Boundary, columns: Vec<Column>) {
        self.boundaries.push(boundary.clone());
        let cell = |column| Cell { boundary: boundary.clone(), column };
        self.cells.extend(columns.into_iter().map(cell));
    }
}

/// The same for what is the same in all scenarios. What is written in a new boot is; what is done in it is not.
fn shared_kind(boundary: &Boundary) -> String {
    let kind = boundary.kind();
    let is_file = kind.contains("renaming");
    if boundary.scenario == Scenario::Return && !is_file {
        return format!("in a new boot {kind}");
    }
    kind.replace(boundary.scenario.title(), "operation")
}
