//! Entry point of the program `ebb`. Everything else is in the library, so that tests can run the same program.

use std::process::ExitCode;

fn main() -> ExitCode {
    ebb::run(std::env::args_os().collect())
}
