//! All agents as processes, most of them against a real API server.

#![expect(clippy::indexing_slicing, reason = "a test may fail by a panic")]

mod credentials;
mod cycles;
mod endless;
mod layers;
mod nonsense;
mod overrides;
mod references;
mod upgrades;
mod volumes;
mod whole_path;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_ebb-system");
