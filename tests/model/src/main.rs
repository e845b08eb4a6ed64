//! The long search: `cargo run -p model --profile search -- --help`.

use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Parser;
use model::catalog;
use model::scenario::Scenario;
use model::search::{Found, search, walk};

/// Searches the runs of the agents together for one that breaks a promise.
#[derive(Debug, Parser)]
struct Arguments {
    /// Only this scenario
    #[arg(long)]
    scenario: Option<String>,
    /// Number of deviations in a run
    #[arg(long, default_value_t = 1)]
    depth: u8,
    /// Greatest number of states of each scenario; if there are more, the search is not complete
    #[arg(long, default_value_t = 20_000_000)]
    worlds: usize,
    /// Walk at random over this number of states instead of searching
    #[arg(long)]
    walks: Option<usize>,
    /// The seed of the random walks
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[expect(clippy::print_stdout, reason = "a program for people")]
#[expect(clippy::disallowed_methods, reason = "only shown")]
fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let is_meant =
        |scenario: &Scenario| arguments.scenario.as_deref().is_none_or(|name| name == scenario.name);
    let mut broken = 0;
    for scenario in catalog::all(arguments.depth).into_iter().filter(is_meant) {
        let begun = Instant::now();
        let found = match arguments.walks {
            Some(worlds) => walk(&scenario, arguments.seed, worlds),
            None => search(&scenario, arguments.worlds),
        };
        let Found { worlds, tails, depth, broken: all } = found;
        println!(
            "{}: {worlds} worlds, {tails} runs to the end, {depth} steps at most, {:.1} s",
            scenario.name,
            begun.elapsed().as_secs_f64()
        );
        for (name, trace) in &all {
            println!("{name}\n{trace}");
        }
        broken += all.len();
    }
    ensure!(broken == 0, "{broken} promises are broken");
    Ok(())
}
