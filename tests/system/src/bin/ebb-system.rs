//! `ebb` for the tests of this package: built together with them, so that no test runs an old build.

use std::process::ExitCode;

fn main() -> ExitCode {
    ebb::run(std::env::args_os().collect())
}
