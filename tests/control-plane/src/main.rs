//! `control-plane run` runs one control plane for a whole test run; `control-plane build` builds its programs
//! beforehand.

use std::{
    fs,
    io::{self, Read},
    os::fd::AsFd,
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
};

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use control_plane::{ControlPlane, binaries::Binaries};
use nix::{
    sys::{
        signal::{SigSet, Signal, kill},
        stat::{SFlag, fstat},
    },
    unistd::Pid,
};

/// A real Kubernetes control plane for tests and benchmarks.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Build the programs, unless they are there already, and print their folder
    Build,
    /// Start a plane and hold it until SIGTERM, SIGINT or the end of a piped standard input
    Run {
        /// Appears when the plane is ready: its coordinates as JSON, for `EBB_CONTROL_PLANE`
        #[arg(long, value_name = "FILE")]
        ready_file: PathBuf,
    },
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line prints, here only")]
fn main() -> ExitCode {
    let outcome = match Arguments::parse().verb {
        Verb::Build => Binaries::find_or_build().map(|binaries| println!("{}", binaries.folder().display())),
        Verb::Run { ready_file } => run(&ready_file),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(ready_file: &Path) -> Result<()> {
    let plane = ControlPlane::start()?;
    let mut ends = SigSet::empty();
    ends.add(Signal::SIGTERM);
    ends.add(Signal::SIGINT);
    // Before the thread below is started, which inherits this: so the signals are delivered to `wait`.
    ends.thread_block().context("cannot block signals")?;
    if has_piped_input() {
        thread::spawn(end_with_input);
    }
    plane.coordinates().write(ready_file)?;
    ends.wait().context("cannot wait for signals")?;
    fs::remove_file(ready_file).with_context(|| format!("cannot remove `{}`", ready_file.display()))
}

/// False for a background job of a script: its input is `/dev/null`, which is at its end from the beginning.
fn has_piped_input() -> bool {
    fstat(io::stdin().as_fd()).is_ok_and(|status| {
        let kind = SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT;
        kind == SFlag::S_IFIFO || kind == SFlag::S_IFSOCK
    })
}

fn end_with_input() {
    let mut input = io::stdin().lock();
    let mut ignored = [0; 512];
    while matches!(input.read(&mut ignored), Ok(count) if count != 0) {}
    // `run` waits for this signal. The signal goes to this process itself, so sending it cannot fail.
    kill(Pid::this(), Signal::SIGTERM).ok();
}
