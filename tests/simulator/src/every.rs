//! Every moment at which a single fault can come: a history without faults is played once for each call by which an agent
//! changes something, and the agent dies in that call; and once for each request to the API server, and that request fails.

use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use schemas::Agent;

use crate::{on_all_cores, run, trouble};

/// The line of a story that says that there never were so many calls or requests.
pub(crate) const NEVER: &str = "NEVER MET";

/// The beginning of the line of a story that tells the most requests within a minute.
pub(crate) const MOST_REQUESTS: &str = "MOST REQUESTS ";

/// What the first device is doing when the API server begins to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing is asked of it.
    Idle,
    /// It waits for its slot.
    Waiting,
    Draining,
}

impl Phase {
    const ALL: [Self; 3] = [Self::Idle, Self::Waiting, Self::Draining];

    const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Waiting => "waiting",
            Self::Draining => "draining",
        }
    }
}

/// The only fault of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Single {
    /// An agent of the first device dies in its call with this number.
    Death(Agent, u32),
    /// The request to the API server with this number fails.
    Request(u32),
    /// The API server fails for long, from when the first device is in this state; the number is the place in
    /// [`trouble::storms`].
    Storm(Phase, u32),
}

impl Single {
    /// For the command line: `zedkube:17`, `api:17`.
    fn words(self) -> String {
        match self {
            Self::Death(agent, call) => format!("{}:{call}", agent.name()),
            Self::Request(number) => format!("{API}:{number}"),
            Self::Storm(phase, number) => format!("{}:{number}", phase.name()),
        }
    }
}

const API: &str = "api";

impl FromStr for Single {
    type Err = String;

    fn from_str(words: &str) -> Result<Self, String> {
        let read = || {
            let (name, number) = words.split_once(':')?;
            let number = number.parse().ok()?;
            let agent = Agent::ALL.into_iter().find(|agent| agent.name() == name);
            let phase = Phase::ALL.into_iter().find(|phase| phase.name() == name);
            agent
                .map(|agent| Self::Death(agent, number))
                .or(phase.map(|phase| Self::Storm(phase, number)))
                .or((name == API).then_some(Self::Request(number)))
        };
        read()
            .ok_or_else(|| format!("{words:?} names no call of an agent, as zedkube:17 does, no request, as api:17 does, and no fault of --storms, as idle:3 does"))
    }
}

/// Plays the history of this seed without faults, with one fault at each moment at which one can come. True if nothing was
/// wrong.
pub(crate) fn every(seed: u64) -> Result<bool> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let (mut all, mut failed) = (0, 0);
    let deaths = Agent::ALL.map(|agent| (agent.name(), Some(agent)));
    for (name, agent) in deaths.into_iter().chain([(API, None)]) {
        let (next, end) = (AtomicU32::new(0), AtomicU32::new(u32::MAX));
        let wrong = Mutex::new(0);
        on_all_cores(|| {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= end.load(Ordering::Relaxed) {
                return false;
            }
            let words = agent.map_or(Single::Request(number), |agent| Single::Death(agent, number)).words();
            let ended = run(&program, seed, &["--only".to_owned(), words.clone()]);
            if ended.story.lines().any(|line| line == NEVER) {
                end.fetch_min(number, Ordering::Relaxed);
            }
            if let Some(what) = ended.wrong {
                println!("{seed} --only {words}: {what}");
                *wrong.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            }
            true
        });
        let histories = end.into_inner();
        println!("{name}: {histories} histories");
        all += histories;
        failed += wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
    }
    println!("{all} histories, {failed} wrong");
    Ok(failed == 0)
}

/// Plays the history of this seed once for each kind of lasting fault of the API server, in each state of the first device,
/// and prints the most requests within a minute. True if nothing was wrong.
pub(crate) fn storms(seed: u64) -> Result<bool> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let kinds = trouble::storms();
    let cells: Vec<(usize, Phase)> =
        (0..kinds.len()).flat_map(|kind| Phase::ALL.map(|phase| (kind, phase))).collect();
    let (next, told) = (AtomicU32::new(0), Mutex::new(vec![String::new(); cells.len()]));
    let failed = AtomicU32::new(0);
    on_all_cores(|| {
        let number = usize::try_from(next.fetch_add(1, Ordering::Relaxed)).unwrap_or(usize::MAX);
        let Some((kind, phase)) = cells.get(number) else { return false };
        let words = Single::Storm(*phase, u32::try_from(*kind).unwrap_or(u32::MAX)).words();
        let ended = run(&program, seed, &["--only".to_owned(), words.clone()]);
        if let Some(what) = ended.wrong {
            println!("{seed} --only {words}: {what}");
            failed.fetch_add(1, Ordering::Relaxed);
        }
        let is_met = ended.story.lines().all(|line| line != NEVER);
        let most = ended.story.lines().find_map(|line| line.strip_prefix(MOST_REQUESTS)).filter(|_| is_met);
        most.unwrap_or("-").clone_into(&mut told.lock().unwrap_or_else(PoisonError::into_inner)[number]);
        true
    });
    let told = told.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("| requests within a minute | {} |\n|---|---|---|---|", Phase::ALL.map(Phase::name).join(" | "));
    for ((name, _), row) in kinds.iter().zip(told.chunks(Phase::ALL.len())) {
        println!("| {name} | {} |", row.join(" | "));
    }
    Ok(failed.into_inner() == 0)
}
