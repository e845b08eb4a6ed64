//! `kubectl-ebb`, the plugin of kubectl alone, for a machine without agents: a laptop.

use std::process::ExitCode;

fn main() -> ExitCode {
    kubectl_ebb::run(std::env::args_os().collect())
}
