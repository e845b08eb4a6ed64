//! `ebb` as the tests of this package run it: built with them, so that no test meets an old one.

use std::process::ExitCode;

fn main() -> ExitCode {
    ebb::run(std::env::args_os().collect())
}
