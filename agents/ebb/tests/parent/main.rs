//! Ways to run the agents: below `ebb run`, as real processes, and under the units of `packaging/`.

#![expect(clippy::indexing_slicing, reason = "a test may fail by a panic")]

mod lives;
mod running;
mod units;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_ebb");
