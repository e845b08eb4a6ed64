//! Runs histories of simulated devices: `scripts/simulate`.
//!
//! Each history has a seed, and depends on nothing else. It runs in a process of its own, so that a history is the same
//! whether it runs alone or among others.

mod coverage;
mod device;
mod eve;
mod every;
mod judge;
mod kernel;
mod limits;
mod order;
mod programs;
mod shrink;
mod story;
mod trouble;
mod world;

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;

use coverage::{Coverage, Extent};
use every::Single;
use world::Plan;

/// Longest processor time of a history; most need less than a second.
const LONGEST: Duration = Duration::from_mins(1);

/// Runs the real agents in simulated time, with faults drawn from a seed, and judges what happens.
#[derive(Debug, Parser)]
#[command(name = "simulate")]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
struct Arguments {
    /// Tell the history of this seed. Without it, run many histories and name those in which something was wrong.
    seed: Option<u64>,
    /// Number of histories to run. 100 unless --seconds is given.
    #[arg(long)]
    histories: Option<u64>,
    /// Begin no history after this number of seconds.
    #[arg(long)]
    seconds: Option<u64>,
    /// The first seed. Without it, the seeds in which something was wrong once (tests/simulator/corpus.txt) come first, then
    /// 1, 2, 3, ...
    #[arg(long)]
    first: Option<u64>,
    /// Print in how many histories each fault was met in each phase of a drain.
    #[arg(long)]
    coverage: bool,
    /// Leave out the parts of the history that have these numbers: commands, faults, and what people do.
    #[arg(long, value_delimiter = ',', requires = "seed")]
    without: Vec<u32>,
    /// Tell the smallest history in which the same invariant is broken: leave out every part that it is broken without.
    #[arg(long, requires = "seed")]
    shrink: bool,
    /// Play the history of this seed without faults, once for each call by which an agent of the first device changes
    /// something, and the agent dies in that call; and once for each request to the API server, and that request fails.
    #[arg(long, requires = "seed")]
    every: bool,
    /// Play the history of this seed once for each kind of lasting fault of the API server, while the first device is idle,
    /// waits for its slot, and drains, and print the most requests of zedkube within a minute.
    #[arg(long, requires = "seed")]
    storms: bool,
    /// Play the history of this seed with this fault only: the agent of the first device dies in its call with this number
    /// (zedkube:17), the request to the API server with this number fails (api:17), or the fault of --storms with this
    /// number lasts while the first device is idle, waiting or draining (idle:3).
    #[arg(long, requires = "seed", value_name = "WHO:NUMBER")]
    only: Option<Single>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.seed {
        Some(seed) if arguments.shrink => shrink::shrink(seed),
        Some(seed) if arguments.every => every::every(seed),
        Some(seed) if arguments.storms => every::storms(seed),
        Some(seed) => {
            let left_out = arguments.without.iter().copied().collect();
            tell(seed, Plan { left_out, only: arguments.only })
        }
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
fn tell(seed: u64, plan: Plan) -> Result<bool> {
    story::begin();
    kernel::limit_time(LONGEST.as_secs());
    let outcome = kernel::run(seed, || world::history(plan));
    kernel::print_story();
    let wrong = outcome?;
    for what in &wrong {
        println!("WRONG: {what}");
    }
    Ok(wrong.is_empty())
}

/// The seeds in which something was wrong once. Their histories change when the world draws other numbers; what stays of a
/// defect that was found is its mutant.
fn corpus() -> impl Iterator<Item = u64> {
    let lines = include_str!("../corpus.txt").lines();
    lines.filter_map(|line| line.split_whitespace().next()?.parse().ok())
}

/// Runs histories on all cores. True if nothing was wrong.
#[expect(
    clippy::disallowed_methods,
    reason = "time limits how many histories run, and decides nothing in them"
)]
fn many(arguments: &Arguments) -> Result<bool> {
    let known = if arguments.first.is_some() { Vec::new() } else { corpus().collect() };
    let histories = arguments.histories.unwrap_or(if arguments.seconds.is_some() { u64::MAX } else { 100 });
    let limit = Duration::from_secs(arguments.seconds.unwrap_or(u64::MAX));
    let seeds = known.into_iter().chain(arguments.first.unwrap_or(1)..).zip(0..histories);
    let seeds = Mutex::new(seeds.map(|(seed, _)| seed));
    let program = std::env::current_exe().context("cannot find this program")?;
    let (ended, full, failed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let began = Instant::now();
    let coverage = Mutex::new(Coverage::default());
    on_all_cores(|| {
        let seed = if began.elapsed() < limit {
            seeds.lock().unwrap_or_else(PoisonError::into_inner).next()
        } else {
            None
        };
        let Some(seed) = seed else { return false };
        let Ended { wrong, story } = run(&program, seed, &[]);
        coverage.lock().unwrap_or_else(PoisonError::into_inner).add_story(&story);
        full.fetch_add(u64::from(Extent::of_story(&story).is_full()), Ordering::Relaxed);
        if let Some(wrong) = wrong {
            failed.fetch_add(1, Ordering::Relaxed);
            println!("seed {seed}: {wrong}");
        }
        ended.fetch_add(1, Ordering::Relaxed);
        true
    });
    let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
    let (histories, full, failed) = (read(&ended), read(&full), read(&failed));
    let took = began.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = full as f64 / took * 60.0;
    if arguments.coverage {
        println!("{}", coverage.into_inner().unwrap_or_else(PoisonError::into_inner).table());
    }
    println!("{histories} histories in {took:.0} s, {failed} wrong");
    println!("{full} of them with a whole drain and two faults: {rate:.0} a minute");
    if failed > 0 {
        println!("`scripts/simulate SEED --shrink` plays the smallest history in which the same is wrong");
    }
    Ok(failed == 0)
}

/// How a history has ended.
struct Ended {
    /// What was wrong, if anything was.
    wrong: Option<String>,
    story: String,
}

/// Runs one history in a process of its own.
fn run(program: &Path, seed: u64, more: &[String]) -> Ended {
    let output = match Command::new(program).arg(seed.to_string()).args(more).output() {
        Ok(output) => output,
        Err(error) => return Ended { wrong: Some(error.to_string()), story: String::new() },
    };
    let story = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ended { wrong: None, story };
    }
    let wrong: Vec<&str> = story.lines().filter_map(|line| line.strip_prefix("WRONG: ")).collect();
    if output.status.signal() == Some(libc::SIGXCPU) {
        let wrong = format!("a history ends: this one took {} s of processor time", LONGEST.as_secs());
        return Ended { wrong: Some(wrong), story };
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let wrong = if wrong.is_empty() {
        format!("a history ends: this one was ended by {}: {errors}", output.status)
    } else {
        wrong.join("; ")
    };
    Ended { wrong: Some(wrong), story }
}

/// Calls `next` on each core until it says that there is nothing more to do.
fn on_all_cores(next: impl Fn() -> bool + Sync) {
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for core in 0..workers {
            let next = &next;
            scope.spawn(move || {
                // The histories of this worker inherit its core.
                kernel::stay_on_core(core);
                while next() {}
            });
        }
    });
}

/// Numbers as the command line takes them.
fn numbers(numbers: &BTreeSet<u32>) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}
