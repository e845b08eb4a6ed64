//! The units of `packaging/`: systemd takes every line of them, and how much they leave open.

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};
use tempfile::{TempDir, tempdir};

use crate::PROGRAM;

/// A unit, the link that it starts, and the exposure that it may have, in tenths.
const SERVICES: [(&str, &str, u32); 5] = [
    ("ebb-zedkube.service", "zedkube", 14),
    ("ebb-device-op.service", "zedagent", 5),
    ("ebb-nodeagent.service", "nodeagent", 10),
    ("ebb-baseos.service", "baseosmgr", 5),
    (SENTINEL, "sentinel", 5),
];

/// The unit of the agent that runs only where a site wants it.
const SENTINEL: &str = "ebb-sentinel.service";

const TARGET: &str = "ebb.target";

/// The units that no agent runs in, and their exposure.
const HOLD: (&str, u32) = ("ebb-hold.service", 10);
const METRICS: (&str, u32) = ("ebb-metrics.service", 5);
const TIMER: &str = "ebb-metrics.timer";

/// First line of the part that the units of the agents share, and of the part that all share.
const COMMON: [&str; 2] = ["# The same in all agents.", "# The same in all units."];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd")
}

fn unit(name: &str) -> Result<String> {
    fs::read_to_string(folder().join(name)).with_context(|| format!("cannot read {name}"))
}

fn analyze(arguments: &[&str]) -> Result<Output> {
    let output = Command::new("systemd-analyze").args(arguments).output();
    output.context("cannot run systemd-analyze: install the Debian package systemd")
}

/// A root with the units as they are installed, the programs that they start, and systemd's own units that they name.
fn installed() -> Result<(TempDir, PathBuf)> {
    let root = tempdir()?;
    let units = root.path().join("usr/lib/systemd/system");
    let programs = root.path().join("usr/lib/ebb");
    fs::create_dir_all(&units)?;
    fs::create_dir_all(&programs)?;
    for unit in [HOLD.0, METRICS.0, TIMER, TARGET] {
        fs::copy(folder().join(unit), units.join(unit))?;
    }
    for (service, link, _) in SERVICES {
        fs::copy(folder().join(service), units.join(service))?;
        // Only whether it can be executed is asked.
        fs::copy("/bin/true", programs.join(link))?;
    }
    fs::create_dir_all(root.path().join("usr/bin"))?;
    for program in ["systemd-tmpfiles", "ebb"] {
        fs::copy("/bin/true", root.path().join("usr/bin").join(program))?;
    }
    for target in ["sysinit.target", "basic.target", "shutdown.target", "multi-user.target", "timers.target"]
    {
        // An empty file would be a unit that is masked.
        fs::File::create(units.join(target))?.write_all(b"[Unit]\n")?;
    }
    Ok((root, units))
}

#[test]
fn systemd_takes_every_line() -> Result<()> {
    let (root, units) = installed()?;
    let root = format!("--root={}", root.path().display());
    for unit in SERVICES.map(|(service, ..)| service).into_iter().chain([TARGET, HOLD.0, METRICS.0, TIMER]) {
        let path = units.join(unit);
        let output = analyze(&["verify", "--man=no", &root, path.to_str().context("no text")?])?;
        // A key that is not known is passed over with a warning and success.
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{unit}: {said}");
    }
    Ok(())
}

#[test]
fn a_unit_leaves_no_more_open_than_it_must() -> Result<()> {
    let agents = SERVICES.map(|(service, _, limit)| (service, limit));
    for (service, limit) in agents.into_iter().chain([HOLD, METRICS]) {
        let path = folder().join(service);
        let limit = format!("--threshold={limit}");
        let output = analyze(&["security", "--offline=true", &limit, path.to_str().context("no text")?])?;
        let said = String::from_utf8_lossy(&output.stdout);
        let open: Vec<&str> = said.lines().filter(|line| !line.contains('✓')).collect();
        ensure!(!open.is_empty(), "{service}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{service}, {limit}:\n{}", open.join("\n"));
    }
    Ok(())
}

#[test]
fn all_have_the_same_common_part() -> Result<()> {
    let common = |service: &str, part: &str| -> Result<String> {
        let text = unit(service)?;
        let Some((_, common)) = text.split_once(part) else { bail!("{service} has no {part:?}") };
        Ok(common.split("\n[Install]").next().unwrap_or_default().to_owned())
    };
    let [of_agents, of_all] = COMMON;
    let (agent, first) = (common(SERVICES[0].0, of_agents)?, common(HOLD.0, of_all)?);
    assert!(first.contains("NoNewPrivileges=yes") && agent.ends_with(&first), "{first}");
    for (service, ..) in SERVICES {
        assert_eq!(common(service, of_agents)?, agent, "{service}");
    }
    // It names none of the folders that this makes, and runs four times a minute.
    let is_meant = |line: &&str| !line.starts_with("ExecStartPre=");
    let meant: Vec<&str> = first.lines().filter(is_meant).collect();
    assert_eq!(common(METRICS.0, of_all)?.lines().collect::<Vec<_>>(), meant, "{}", METRICS.0);
    Ok(())
}

#[test]
fn the_target_wants_all_but_the_sentinel_and_each_starts_its_agent() -> Result<()> {
    let target = unit(TARGET)?;
    for (service, link, _) in SERVICES {
        assert_eq!(target.contains(service), service != SENTINEL, "{service}: {target}");
        let line = format!("ExecStart=/usr/lib/ebb/{link}\n");
        assert!(unit(service)?.contains(&line), "{service} has no {line}");
        let help = Command::new(PROGRAM).arg0(format!("/usr/lib/ebb/{link}")).arg("--help").output()?;
        let help = String::from_utf8_lossy(&help.stdout);
        assert!(
            help.contains("--beside-zedbox") && !help.contains("Commands:"),
            "{link} is no agent: {help}"
        );
    }
    Ok(())
}
