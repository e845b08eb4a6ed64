//! The search: all runs with a given number of deviations, or random runs with more.
//!
//! The normal next step is free, every other step costs a deviation (a delay-bounded search). So a search with two
//! deviations covers every run, from the first command to the final rest, with at most two deviations: a crash between
//! any two effects, a poll between any two writes, a lost answer, a power cut.
//!
//! After each deviation the run is also continued without further deviations until everything is at rest: so "in the
//! end" is checked from every state that was reached.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::action::Action;
use crate::rule::Rule;
use crate::scenario::Scenario;
use crate::trace;
use crate::walk::Wanderer;
use crate::world::World;

/// Number of threads: the machines that run this have at least so many cores.
const THREADS: usize = 2;

/// Average number of steps between two deviations of a random walk.
const PAUSE: u64 = 25;

/// A scenario to be searched.
#[derive(Debug)]
pub struct Search {
    scenario: Scenario,
    start: World,
    /// Fingerprints of states that are known to come to rest.
    settling: Mutex<BTreeSet<u64>>,
    tails: AtomicUsize,
}

impl Search {
    /// The search starts from the state in which all agents have started and are at rest.
    pub fn new(scenario: Scenario) -> Self {
        let mut start = World::new(&scenario);
        let calm = Scenario { script: Vec::new(), ..scenario.clone() };
        start.go_on(&calm, |_| false);
        start.left = scenario.deviations;
        start.rest.since = start.now;
        Self { scenario, start, settling: Mutex::new(BTreeSet::new()), tails: AtomicUsize::new(0) }
    }

    /// The scenario.
    pub const fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The state from which the search starts.
    pub const fn start(&self) -> &World {
        &self.start
    }

    /// Number of runs that were continued to their rest.
    pub fn tails(&self) -> usize {
        self.tails.load(Ordering::Relaxed)
    }

    /// Continues the run without further faults, until it is at rest or known to come to rest.
    fn settle(&self, world: &World) -> World {
        self.tails.fetch_add(1, Ordering::Relaxed);
        let mut tail = world.clone();
        let mut met = Vec::new();
        tail.go_on(&self.scenario, |world| {
            let fingerprint = world.fingerprint();
            let is_known =
                self.settling.lock().unwrap_or_else(PoisonError::into_inner).contains(&fingerprint);
            if !is_known {
                met.push(fingerprint);
            }
            is_known
        });
        if tail.monitor.violation.is_none() {
            self.settling.lock().unwrap_or_else(PoisonError::into_inner).extend(met);
        }
        tail
    }
}

impl Model for Search {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![self.start.clone()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        // A run without deviations left was followed to its end when the last deviation was used.
        let is_over = world.monitor.violation.is_some();
        if !is_over && (world.left > 0 || self.scenario.deviations == 0) {
            actions.extend(world.actions(&self.scenario));
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        world.apply(&action, &self.scenario);
        if action != Action::Next && world.monitor.violation.is_none() {
            let tail = self.settle(&world);
            if tail.monitor.violation.is_some() {
                // The trace goes on without deviations to the state in which the violation is found.
                world.monitor.violation = tail.monitor.violation;
            }
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        Rule::ALL.into_iter().map(property).collect()
    }
}

fn property(rule: Rule) -> Property<Search> {
    let name = rule.name();
    match rule {
        Rule::NoRebootWithoutAnswer => {
            Property::always(name, |_, world| keeps(world, Rule::NoRebootWithoutAnswer))
        }
        Rule::NoRebootWithPods => Property::always(name, |_, world| keeps(world, Rule::NoRebootWithPods)),
        Rule::AnswersAreTrue => Property::always(name, |_, world| keeps(world, Rule::AnswersAreTrue)),
        Rule::EveryRequestIsAnswered => {
            Property::always(name, |_, world| keeps(world, Rule::EveryRequestIsAnswered))
        }
        Rule::EveryCommandIsCarriedOut => {
            Property::always(name, |_, world| keeps(world, Rule::EveryCommandIsCarriedOut))
        }
        Rule::NoCordonIsLeft => Property::always(name, |_, world| keeps(world, Rule::NoCordonIsLeft)),
        Rule::NoSlotIsLeft => Property::always(name, |_, world| keeps(world, Rule::NoSlotIsLeft)),
        Rule::ForeignCordonStays => Property::always(name, |_, world| keeps(world, Rule::ForeignCordonStays)),
        Rule::NoRebootDuringActivation => {
            Property::always(name, |_, world| keeps(world, Rule::NoRebootDuringActivation))
        }
        Rule::OneWriter => Property::always(name, |_, world| keeps(world, Rule::OneWriter)),
        Rule::NothingTwice => Property::always(name, |_, world| keeps(world, Rule::NothingTwice)),
        Rule::EvictsOnlyWithCordonAndSlot => {
            Property::always(name, |_, world| keeps(world, Rule::EvictsOnlyWithCordonAndSlot))
        }
        Rule::NoPatienceLost => Property::always(name, |_, world| keeps(world, Rule::NoPatienceLost)),
        Rule::NoRebootForTheDead => Property::always(name, |_, world| keeps(world, Rule::NoRebootForTheDead)),
        Rule::ComesToRest => Property::always(name, |_, world| keeps(world, Rule::ComesToRest)),
    }
}

fn keeps(world: &World, rule: Rule) -> bool {
    world.monitor.violation.as_ref().is_none_or(|violation| violation.rule != rule)
}

/// Result of a search.
#[derive(Debug)]
pub struct Found {
    /// Number of states.
    pub worlds: usize,
    /// Number of runs that were continued to their rest.
    pub tails: usize,
    /// Number of steps of the longest run.
    pub depth: usize,
    /// The promises that were broken, each with a run that breaks it.
    pub broken: Vec<(&'static str, String)>,
}

/// Searches all runs of the scenario, until one breaks a promise or `most` states are reached.
pub fn search(scenario: &Scenario, most: usize) -> Found {
    let checker = Search::new(scenario.clone()).checker().finish_when(HasDiscoveries::AnyFailures);
    let checker = checker.target_state_count(most).threads(THREADS).spawn_bfs().join();
    found(&checker, scenario)
}

/// Walks at random, over `worlds` states in sum.
pub fn walk(scenario: &Scenario, seed: u64, worlds: usize) -> Found {
    let scenario = Scenario { counts_steps: true, ..scenario.clone() };
    let checker = Search::new(scenario.clone()).checker().finish_when(HasDiscoveries::AnyFailures);
    let checker = checker.target_state_count(worlds).spawn_simulation(seed, Wanderer { pause: PAUSE }).join();
    found(&checker, &scenario)
}

fn found(checker: &impl Checker<Search>, scenario: &Scenario) -> Found {
    let search = Search::new(scenario.clone());
    let tell = |(name, path): (&'static str, stateright::Path<World, Action>)| {
        (name, trace::tell(&search, &path.into_actions()))
    };
    Found {
        worlds: checker.unique_state_count(),
        tails: checker.model().tails(),
        depth: checker.max_depth(),
        broken: checker.discoveries().into_iter().map(tell).collect(),
    }
}
