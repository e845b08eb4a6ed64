//! Runs histories of simulated devices: `scripts/simulate`.
//!
//! Each history has a seed, and depends on nothing else. It runs in a process of its own, so that a history is the same
//! whether it runs alone or among others.

mod coverage;
mod device;
mod judge;
mod kernel;
mod story;
mod trouble;
mod world;

use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Parser;

use coverage::Coverage;

/// Runs the real agents in simulated time, with faults drawn from a seed, and judges what happens.
#[derive(Debug, Parser)]
#[command(name = "simulate")]
struct Arguments {
    /// Tell the history of this seed. Without it, run many histories and name those in which something was wrong.
    seed: Option<u64>,
    /// Number of histories to run.
    #[arg(long, default_value_t = 100)]
    histories: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// Print in how many histories each fault was met in each phase of a drain.
    #[arg(long)]
    coverage: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.seed {
        Some(seed) => tell(seed),
        None => many(&arguments),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Tells one history. True if nothing was wrong.
fn tell(seed: u64) -> Result<bool> {
    story::begin();
    let outcome = kernel::run(seed, world::history);
    for line in story::take() {
        println!("{line}");
    }
    let wrong = outcome?;
    for what in &wrong {
        println!("WRONG: {what}");
    }
    Ok(wrong.is_empty())
}

/// Runs histories on all cores. True if nothing was wrong.
#[expect(clippy::disallowed_methods, reason = "how long it takes is told to people, and decides nothing")]
fn many(arguments: &Arguments) -> Result<bool> {
    let Arguments { first, histories, .. } = *arguments;
    let program = std::env::current_exe().context("cannot find this program")?;
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (next, failed, began) = (AtomicU64::new(0), AtomicU64::new(0), Instant::now());
    let coverage = Mutex::new(Coverage::default());
    std::thread::scope(|scope| {
        for core in 0..workers {
            let (next, failed, program, coverage) = (&next, &failed, &program, &coverage);
            scope.spawn(move || {
                // The histories of this worker inherit its core.
                kernel::stay_on_core(core);
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= histories {
                        return;
                    }
                    let seed = first + number;
                    if let Some(wrong) = run(program, seed, coverage) {
                        failed.fetch_add(1, Ordering::Relaxed);
                        println!("seed {seed}: {wrong}");
                    }
                }
            });
        }
    });
    let (failed, took) = (failed.load(Ordering::Relaxed), began.elapsed().as_secs_f64());
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = histories as f64 / took * 60.0;
    if arguments.coverage {
        println!("{}", coverage.into_inner().unwrap_or_else(PoisonError::into_inner).table());
    }
    println!("{histories} histories in {took:.0} s ({rate:.0} a minute), {failed} wrong");
    Ok(failed == 0)
}

/// Runs one history in a process of its own. Returns what was wrong.
fn run(program: &std::path::Path, seed: u64, coverage: &Mutex<Coverage>) -> Option<String> {
    let output = match Command::new(program).arg(seed.to_string()).output() {
        Ok(output) => output,
        Err(error) => return Some(error.to_string()),
    };
    let text = String::from_utf8_lossy(&output.stdout);
    coverage.lock().unwrap_or_else(PoisonError::into_inner).add_story(&text);
    if output.status.success() {
        return None;
    }
    let wrong: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("WRONG: ")).collect();
    let errors = String::from_utf8_lossy(&output.stderr);
    Some(if wrong.is_empty() { format!("{}: {errors}", output.status) } else { wrong.join("; ") })
}
