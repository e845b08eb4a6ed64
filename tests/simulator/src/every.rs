//! Every moment at which an agent can die: a history without faults is played once for each call by which an agent changes
//! something, and the agent dies in that call.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use schemas::Agent;

use crate::{on_all_cores, run};

/// The line of a story that says that the agent never made so many calls.
pub(crate) const NEVER: &str = "NEVER KILLED";

/// One agent of the first device, and the number of the call in which it dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Death {
    pub(crate) agent: Agent,
    pub(crate) call: u32,
}

impl Death {
    /// For the command line: `zedkube:17`.
    fn words(self) -> String {
        format!("{}:{}", self.agent.name(), self.call)
    }
}

impl std::str::FromStr for Death {
    type Err = String;

    fn from_str(words: &str) -> Result<Self, String> {
        let read = || {
            let (name, call) = words.split_once(':')?;
            let agent = Agent::ALL.into_iter().find(|agent| agent.name() == name)?;
            Some(Self { agent, call: call.parse().ok()? })
        };
        read().ok_or_else(|| format!("{words:?} is no agent and number of a call, as in zedkube:17"))
    }
}

/// Plays the history of this seed without faults, with a death of each agent of the first device in each of its calls. True
/// if nothing was wrong.
pub(crate) fn every(seed: u64) -> Result<bool> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let (mut deaths, mut failed) = (0, 0);
    for agent in Agent::ALL {
        let (next, end) = (AtomicU32::new(0), AtomicU32::new(u32::MAX));
        let wrong = Mutex::new(0);
        on_all_cores(|| {
            let call = next.fetch_add(1, Ordering::Relaxed);
            if call >= end.load(Ordering::Relaxed) {
                return false;
            }
            let words = Death { agent, call }.words();
            let ended = run(&program, seed, &["--kill".to_owned(), words.clone()]);
            if ended.story.lines().any(|line| line == NEVER) {
                end.fetch_min(call, Ordering::Relaxed);
            }
            if let Some(what) = ended.wrong {
                println!("{seed} --kill {words}: {what}");
                *wrong.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            }
            true
        });
        let calls = end.into_inner();
        println!("{}: killed in each of its {calls} calls", agent.name());
        deaths += calls;
        failed += wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
    }
    println!("{deaths} deaths, {failed} wrong");
    Ok(failed == 0)
}
