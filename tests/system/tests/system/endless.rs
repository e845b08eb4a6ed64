//! An API server, or what stands in its place, whose answers have no end: zedkube keeps within its memory, says what is
//! wrong, and drains when it is over.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use fake_cluster::{Effect, FakeCluster, Fault, Reply};
use schemas::{DrainStatus, agent};
use serde_json::json;
use system::Device;

use crate::PROGRAM;

/// `MemoryMax` of the units, in KiB.
const MEMORY: u32 = 512 * 1024;

/// Verb and resource of the requests that are answered so, the answer, and a part of what zedkube says.
struct Case {
    on: [&'static str; 2],
    answer: Effect,
    said: &'static str,
}

fn cases() -> Vec<Case> {
    let begins = |code, text: &str, again| Effect::Endless(Reply::text(code, text), again);
    let page = |items: &str| {
        format!(
            r#"{{"apiVersion":"v1","metadata":{{"resourceVersion":"7","continue":"more"}},"items":[{items}"#
        )
    };
    // As much as fits into an answer.
    let fat = |number| json!({"metadata": {"name": format!("fat-{number}"), "namespace": "default", "labels": {"a": "x".repeat(60_000)}}});
    let fat: Vec<String> = (0..500).map(|number| fat(number).to_string()).collect();
    let no_end = Effect::Answer(Reply::text(200, page(&fat.join(",")) + "]}"));
    [
        (["*", "*"], begins(500, r#"{"a":[0"#, ",0"), "its text is longer than 1 MiB"),
        (
            ["get", "nodes"],
            begins(200, r#"{"metadata":{"name":"edge-a","labels":{"a":""#, "x"),
            "the answer is too long",
        ),
        (["list", "nodes"], begins(200, &page("{}"), ",{}"), "the answer is too long"),
        (["list", "pods"], begins(200, &page("{}"), ",{}"), "the answer is too long"),
        (["list", "pods"], no_end, "is longer than 256 MiB"),
        (
            ["watch", "pods"],
            begins(200, r#"{"type":"ADDED","object":{"metadata":{"name":""#, "x"),
            "a change of more than 4 MiB",
        ),
    ]
    .map(|(on, answer, said)| Case { on, answer, said })
    .into()
}

/// Writes a script that starts the program with a limit of [`MEMORY`]: the program ends if it needs more.
fn confined(folder: &Path) -> Result<PathBuf> {
    let path = folder.join("confined");
    let mut file = File::create(&path)?;
    write!(file, "#!/bin/sh\nulimit -d {MEMORY}\nexec {PROGRAM} \"$@\"\n")?;
    file.set_permissions(Permissions::from_mode(0o700))?;
    Ok(path)
}

/// Most memory that the process has ever used, in MiB.
fn peak(process: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("VmHWM")?;
    let number = line.split_whitespace().next().context("a number")?;
    Ok(number.parse::<u64>()? / 1024)
}

#[test]
fn answers_without_an_end_neither_fill_the_memory_nor_stop_a_drain_for_good() -> Result<()> {
    for Case { on: [verb, resource], answer, said } in cases() {
        let folder = tempfile::tempdir()?;
        let cluster = FakeCluster::start()?;
        for node in ["edge-a", "edge-b"] {
            cluster.node(node)?;
        }
        cluster.deployment("web", 1, "edge-a")?;
        let kubeconfig = folder.path().join("kubeconfig");
        let mut file = File::create(&kubeconfig)?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.write_all(cluster.kubeconfig().as_bytes())?;
        let program = confined(folder.path())?;
        let mut device = Device::new(program.to_str().context("a path")?, &kubeconfig, "edge-a")?;
        device.set("cluster.mode=always");
        cluster.faults().add(Fault::on(verb, resource, answer).always());
        device.start("zedkube")?;
        device.until_status(DrainStatus::NotRequested)?;
        device.write_request(
            agent::ZEDAGENT,
            r#"{"RequestedAt":"2026-08-22T16:10:11Z","RequestedBy":2,"Context":"reboot"}"#,
        )?;
        device.until(&format!("{verb} {resource}: {said}"), || {
            let report = device.report().map(|report| report.reason).unwrap_or_default();
            Ok(report.contains(said).then_some(()))
        })?;
        let zedkube = device.agent("zedkube")?;
        anyhow::ensure!(zedkube.ended()?.is_none(), "{verb} {resource}: zedkube has ended");
        writeln!(std::io::stderr(), "{verb} {resource}, {said}: {} MiB at most", peak(zedkube.id())?)?;
        cluster.faults().clear();
        device.until_status(DrainStatus::Complete)?;
    }
    Ok(())
}
