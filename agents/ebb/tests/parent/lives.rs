//! Agents that end, agents that cannot start, and the end of their parent.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use pubsub::{AgentLock, Root};
use schemas::agent;
use serde_json::json;
use tempfile::{TempDir, tempdir};

use crate::PROGRAM;
use crate::running::{AGENTS, Parent};

fn parent(folder: &TempDir, flags: &[&str]) -> Result<Parent> {
    Parent::start(Path::new(PROGRAM), folder.path(), flags)
}

#[track_caller]
fn assert_gone(processes: impl IntoIterator<Item = Pid>) {
    for pid in processes {
        assert_eq!(kill(pid, None), Err(Errno::ESRCH), "process {pid}");
    }
}

#[test]
fn told_to_stop_it_ends_all_agents() -> Result<()> {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let folder = tempdir()?;
        let mut parent = parent(&folder, &[])?;
        let processes = parent.until_all_live()?;
        let (status, said) = parent.end(signal)?;
        assert!(status.success(), "{status}: {said}");
        assert_gone(processes.into_values());
        assert_eq!(said.matches("exit code 0").count(), AGENTS.len(), "{said}");
        assert!(!said.contains("starting it again"), "{said}");
    }
    Ok(())
}

#[test]
fn an_agent_that_does_not_end_is_killed() -> Result<()> {
    let folder = tempdir()?;
    let mut parent = parent(&folder, &[])?;
    let processes = parent.until_all_live()?;
    kill(processes[agent::NODEAGENT], Signal::SIGSTOP)?;
    let (status, said) = parent.end(Signal::SIGTERM)?;
    assert!(status.success(), "{status}: {said}");
    assert_gone(processes.into_values());
    assert!(said.contains("nodeagent does not end: killing"), "{said}");
    assert_eq!(said.matches("exit code 0").count(), AGENTS.len() - 1, "{said}");
    Ok(())
}

#[test]
fn agents_end_with_a_parent_that_is_killed() -> Result<()> {
    // Its orphans become ours, so their end can be waited for.
    prctl::set_child_subreaper(true)?;
    let folder = tempdir()?;
    let mut first = parent(&folder, &[])?;
    let orphans = first.until_all_live()?;
    kill(first.pid()?, Signal::SIGKILL)?;
    let mut second = parent(&folder, &[])?;
    let (status, _) = first.wait()?;
    assert_eq!(status.signal(), Some(Signal::SIGKILL as i32));
    for (agent, pid) in orphans {
        assert_eq!(waitpid(pid, None)?, WaitStatus::Exited(pid, 0), "{agent} ends as if it was told to");
    }
    // An agent that met an old one has ended and was started again.
    second.until_all_live()?;
    let (status, said) = second.end(Signal::SIGTERM)?;
    ensure!(status.success(), "{status}: {said}");
    Ok(())
}

#[test]
fn nobody_is_the_child_of_a_stranger() -> Result<()> {
    let folder = tempdir()?;
    let stranger = nix::unistd::getppid();
    let output = Command::new(PROGRAM)
        .args(["child", agent::ZEDKUBE, "--parent", &stranger.to_string(), "--root"])
        .arg(folder.path())
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(
        said,
        format!("error: cannot start zedkube: process {stranger} that has started it is gone\n")
    );
    assert!(!folder.path().join("run").exists(), "nothing was done");
    Ok(())
}

#[test]
fn an_agent_that_fails_is_started_less_and_less_often() -> Result<()> {
    let folder = tempdir()?;
    let held = AgentLock::acquire(&Root::new(folder.path()), agent::ZEDAGENT)?;
    let mut parent = parent(&folder, &[])?;
    for pause in [1, 2] {
        let record = parent.until_ended(agent::ZEDAGENT)?;
        assert_eq!(record["pause_seconds"], pause, "{record}");
        assert_eq!(record["level"], "WARN");
        assert!(record["msg"].as_str().is_some_and(|text| text.contains("exit code 1")), "{record}");
    }
    drop(held);
    parent.until_lives(agent::ZEDAGENT)?;
    let (status, said) = parent.end(Signal::SIGTERM)?;
    ensure!(status.success(), "{status}");
    assert!(said.contains("device-op is already running as process"), "{said}");
    assert_eq!(said.matches("started zedkube ").count(), 1, "the others just run: {said}");
    Ok(())
}

#[test]
fn a_wrong_flag_is_said_loudly() -> Result<()> {
    let folder = tempdir()?;
    let mut parent = parent(&folder, &["--set=drain.attempts=none"])?;
    for agent in AGENTS {
        let record = parent.until_ended(agent)?;
        assert_eq!((&record["level"], &record["pause_seconds"]), (&json!("ERROR"), &json!(60)), "{record}");
        assert!(record["msg"].as_str().is_some_and(|text| text.contains("exit code 2")), "{record}");
    }
    let (status, said) = parent.end(Signal::SIGTERM)?;
    assert!(status.success(), "{status}: {said}");
    assert!(said.contains("drain.attempts"), "which flag: {said}");
    Ok(())
}

#[test]
fn there_is_one_parent_and_only_the_chosen_agents_run() -> Result<()> {
    let folder = tempdir()?;
    let mut first = parent(&folder, &["device-op", "zedkube"])?;
    for agent in [agent::ZEDAGENT, agent::ZEDKUBE] {
        first.until_lives(agent)?;
    }
    let (status, said) = parent(&folder, &[])?.wait()?;
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("ebb-run is already running as process {}", first.pid()?)), "{said}");
    let (status, said) = first.end(Signal::SIGTERM)?;
    assert!(status.success(), "{status}: {said}");
    assert_eq!(said.matches("\"started ").count(), 2, "the first was not disturbed: {said}");
    Ok(())
}

#[test]
fn a_killed_agent_comes_back_also_if_the_program_was_replaced() -> Result<()> {
    let folder = tempdir()?;
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let program = place.path().join("ebb");
    std::fs::hard_link(PROGRAM, &program)?;
    let mut parent = Parent::start(&program, folder.path(), &[])?;
    let processes = parent.until_all_live()?;
    std::fs::remove_file(&program)?;
    let killed = processes[agent::BASEOSMGR];
    kill(killed, Signal::SIGKILL)?;
    let record = parent.until_ended(agent::BASEOSMGR)?;
    assert!(record["msg"].as_str().is_some_and(|text| text.contains("signal SIGKILL")), "{record}");
    assert_eq!(record["process"], killed.as_raw());
    assert_ne!(parent.until_lives(agent::BASEOSMGR)?, killed);
    assert_gone([killed]);
    Ok(())
}
