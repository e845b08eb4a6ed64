//! Benchmarks: numbers for people, never asserted in tests. Run by `scripts/bench`.

mod agents;
mod crowd;
mod drain;
mod idle;
mod latency;
mod table;
mod topics;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// From the rename of a request file to REQUESTED on disk
    Latency {
        /// Number of timed requests
        #[arg(long, default_value_t = 50)]
        runs: usize,
    },
    /// From publishing a value to a subscriber's handler, by socket and by files
    Topics {
        /// Number of timed values
        #[arg(long, default_value_t = 500)]
        runs: usize,
    },
    /// A node of a real control plane drained by `kubectl drain`, by `ebb drain` and by zedkube, in turn
    Drain {
        /// Runs of each tool
        #[arg(long, default_value_t = 5)]
        runs: usize,
        /// Scenarios to run; all of them take about half an hour
        #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "a,b,c,d")]
        scenario: Vec<drain::Scenario>,
        /// Tools to run; `kubectl drain` takes most of the time
        #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "floor,kubectl,ebb,zedkube")]
        tool: Vec<drain::Tool>,
    },
    /// `ebb drain` in a fake cluster that has many claims, volumes and attachments of other nodes
    Crowd {
        /// Number of each
        #[arg(long, default_value_t = 97_000)]
        elsewhere: u32,
    },
    /// Drains a node by the fewest requests; the floor of `drain`
    #[command(hide = true)]
    Floor {
        /// Name of the node
        node: String,
    },
    /// Memory and wake-ups of four agents that have nothing to do, as processes of their own on a real control plane
    Idle {
        /// Seconds before they are watched
        #[arg(long, default_value_t = 120)]
        settle: u64,
        /// For so many seconds
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// Which program; as a default the one beside this one
        #[arg(long)]
        program: Option<PathBuf>,
    },
    /// What zedkube processes cost a real API server, each on a node of its own
    Agents {
        /// Number of processes; each of them takes about 20 MiB of memory
        #[arg(value_parser = clap::value_parser!(u32).range(1..))]
        count: u32,
        /// Minutes for which they are watched while idle; in each other state at most 3
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
        minutes: u64,
        /// What they do, in this order
        #[arg(long, value_name = "LIST", value_delimiter = ',')]
        #[arg(default_value = "idle,draining,waiting,overloaded,away")]
        states: Vec<agents::State>,
    },
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line prints, here only")]
fn main() -> ExitCode {
    let result = match Arguments::parse().what {
        What::Latency { runs } => latency::run(runs),
        What::Topics { runs } => topics::run(runs),
        What::Drain { runs, scenario, tool } => drain::run(runs, &scenario, &tool),
        What::Crowd { elsewhere } => crowd::run(elsewhere),
        What::Floor { node } => drain::floor(&node),
        What::Agents { count, minutes, states } => agents::run(count, Duration::from_mins(minutes), &states),
        What::Idle { settle, seconds, program } => {
            idle::run(program, Duration::from_secs(settle), Duration::from_secs(seconds))
        }
    };
    match result {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Path of the program under test, which is built beside this one.
fn program() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let program = own.with_file_name("ebb");
    anyhow::ensure!(program.exists(), "no ebb beside {}: run scripts/bench", own.display());
    Ok(program)
}

fn text(path: &std::path::Path) -> Result<&str> {
    path.to_str().context("a path that is no text")
}
