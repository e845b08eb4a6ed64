//! The plan: which cells of the matrix are run.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::run::{Agent, Scenario};

/// The fault at a boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Column {
    /// The agent is killed and started again.
    Restart,
    /// The agent is killed together with the machine: all agents die, `run` is empty, and the boot is new.
    Boot,
    /// As [`Self::Restart`], on a node that another owner had cordoned before.
    Foreign,
    /// The API server is away for 1 s.
    AwayForOne,
    /// The API server is away for 30 s.
    AwayForThirty,
    /// The API server does not come back while the operation is pending.
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

    /// True if the API server is away; otherwise a process dies.
    pub(crate) fn is_outage(self) -> bool {
        match self {
            Self::AwayForOne | Self::AwayForThirty | Self::AwayForGood => true,
            Self::Restart | Self::Boot | Self::Foreign => false,
        }
    }

    /// How long the API server is away; `None` means for good.
    pub(crate) fn outage(self) -> Option<Duration> {
        match self {
            Self::AwayForOne => Some(Duration::from_secs(1)),
            Self::AwayForThirty => Some(Duration::from_secs(30)),
            Self::Restart | Self::Boot | Self::Foreign | Self::AwayForGood => None,
        }
    }

    /// True if this fault makes sense at this boundary. Only zedkube calls the API server, and only zedkube cordons.
    /// After the boot there is no command any more, so an outage cannot last for good.
    fn concerns(self, boundary: &Boundary) -> bool {
        match self {
            Self::Restart | Self::Boot => true,
            Self::Foreign | Self::AwayForOne | Self::AwayForThirty => boundary.agent == Agent::Zedkube,
            Self::AwayForGood => boundary.agent == Agent::Zedkube && boundary.scenario != Scenario::Return,
        }
    }
}

/// A boundary of an agent, as the first run reached it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Boundary {
    pub(crate) scenario: Scenario,
    pub(crate) agent: Agent,
    /// Number of the boundary, from 1, in the order in which the agent reached them.
    pub(crate) number: u32,
    /// The operation that comes next, or was just done.
    pub(crate) name: String,
}

impl Boundary {
    /// Kind of the boundary, without the details: ids, numbers and answers differ from run to run.
    pub(crate) fn kind(&self) -> &str {
        let kind = self.name.split_once('{').map_or(self.name.as_str(), |(kind, _)| kind);
        kind.trim_end_matches([' ', '('])
    }
}

/// One run with one fault.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cell {
    pub(crate) boundary: Boundary,
    pub(crate) column: Column,
}

/// All cells that have to be run.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) boundaries: Vec<Boundary>,
    pub(crate) cells: Vec<Cell>,
    /// The kinds of boundaries that the sample contains.
    kinds: BTreeSet<(Agent, String)>,
}

impl Plan {
    /// Adds each boundary of the scenario for each column that makes sense for it.
    pub(crate) fn add_all(&mut self, scenario: Scenario, boundaries: &[Boundary]) {
        for boundary in boundaries.iter().filter(|boundary| scenario.is_about(boundary.agent)) {
            let columns = Column::ALL.into_iter().filter(|column| column.concerns(boundary));
            self.add(boundary, columns.collect());
        }
    }

    /// Adds the first boundary of each kind, with the columns in turn; of the outages only those that do not take a
    /// minute. Boundaries before a write are left out, because nothing has happened since the previous boundary; kinds
    /// that several scenarios share are run once.
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

/// The kind, equal for boundaries that are the same in all scenarios: writes in a new boot are, other effects in it are
/// not.
fn shared_kind(boundary: &Boundary) -> String {
    let kind = boundary.kind();
    let is_file = kind.contains("renaming");
    if boundary.scenario == Scenario::Return && !is_file {
        return format!("in a new boot {kind}");
    }
    kind.replace(boundary.scenario.title(), "operation")
}
