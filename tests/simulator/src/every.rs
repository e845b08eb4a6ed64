//! Every moment at which a single fault can come: a history without faults is played once for each call by which an agent
//! changes something, and the agent dies in that call; and once for each request to the API server, and that request fails.

use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use schemas::Agent;

use crate::{on_all_cores, run};

/// The line of a story that says that there never were so many calls or requests.
pub(crate) const NEVER: &str = "NEVER MET";

/// The only fault of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Single {
    /// An agent of the first device dies in its call with this number.
    Death(Agent, u32),
    /// The request to the API server with this number fails.
    Request(u32),
}

impl Single {
    /// For the command line: `zedkube:17`, `api:17`.
    fn words(self) -> String {
        match self {
            Self::Death(agent, call) => format!("{}:{call}", agent.name()),
            Self::Request(number) => format!("{API}:{number}"),
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
            agent.map(|agent| Self::Death(agent, number)).or((name == API).then_some(Self::Request(number)))
        };
        read()
            .ok_or_else(|| format!("{words:?} names neither a call of an agent, as zedkube:17 does, nor a request, as api:17 does"))
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
