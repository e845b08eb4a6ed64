//! `ebb demo`: its scenes hang as they tell, and what they tell to type helps.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::site::program;

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_mins(2);

/// A demonstration; dropping it ends it.
struct Demo {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    seen: Vec<String>,
    // The last to be dropped: what runs could create it again.
    _folder: TempDir,
}

impl Demo {
    fn start(words: &[&str]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut command = program();
        command.arg("demo").args(words).env("TMPDIR", folder.path()).stdin(Stdio::piped());
        let mut child = command.stderr(Stdio::inherit()).spawn()?;
        let stdin = child.stdin.take().context("no stdin")?;
        let lines = BufReader::new(child.stdout.take().context("no stdout")?).lines();
        Ok(Self { child, stdin, lines, seen: Vec::new(), _folder: folder })
    }

    /// Reads up to a line that has this part.
    async fn until(&mut self, part: &str) -> Result<()> {
        let reading = async {
            while let Some(line) = self.lines.next_line().await? {
                let is_it = line.contains(part);
                self.seen.push(line);
                if is_it {
                    return Ok(());
                }
            }
            anyhow::bail!("the demonstration ended")
        };
        timeout(PATIENCE, reading)
            .await
            .context("no such line in time")
            .flatten()
            .with_context(|| format!("in vain until {part:?}:\n{}", self.seen.join("\n")))
    }

    /// Types the command with this part that the demonstration has told to type.
    async fn type_in(&self, part: &str) -> Result<String> {
        let told = self.seen.iter().find(|line| {
            line.starts_with("  /") && line.contains(part) || line.starts_with(&format!("  {part}"))
        });
        let told = told.with_context(|| format!("{part:?} is not told in\n{}", self.seen.join("\n")))?;
        let mut shell = Command::new("sh");
        let output = shell.args(["-c", told]).env_remove("KUBECONFIG").kill_on_drop(true).output();
        let output = timeout(PATIENCE, output).await.with_context(|| format!("{told} does not end"))??;
        ensure!(output.status.success(), "{told}: {output:?}");
        Ok(String::from_utf8(output.stdout)?)
    }

    async fn enter(&mut self) -> Result<()> {
        Ok(self.stdin.write_all(b"\n").await?)
    }

    /// Ends it as Ctrl-C does; its agents end with it.
    async fn end(mut self) -> Result<()> {
        kill(Pid::from_raw(i32::try_from(self.child.id().context("it has ended")?)?), Signal::SIGINT)?;
        self.until("The folder stays").await?;
        let status = timeout(PATIENCE, self.child.wait()).await.context("it does not end")??;
        ensure!(status.success(), "{status}:\n{}", self.seen.join("\n"));
        Ok(())
    }
}

/// What a person does in a scene.
enum Act {
    /// Types the command that is told, and has this part.
    Type(&'static str),
    Enter,
    /// Waits for a line with this part.
    Until(&'static str),
}

use Act::{Enter, Type, Until};

/// On a real device it goes down then.
const DOWN: Act = Until("device-actions.jsonl has the reboot");

/// Plays the scene: its page begins so, and then somebody does this.
async fn check(scene: &str, first: &str, acts: &[Act]) -> Result<()> {
    let mut demo = Demo::start(&["--scene", scene])?;
    demo.until("$ /").await?;
    demo.until("").await?;
    let page = demo.seen.last().context("no page")?;
    ensure!(page.starts_with(first), "{scene}: {page}");
    demo.until("Ctrl-C ends the demonstration").await?;
    ensure!(!demo.seen.iter().any(|line| line.contains("CHECK")), "{scene}: {:?}", demo.seen);
    for act in acts {
        match act {
            Type(part) => drop(demo.type_in(part).await?),
            Enter => demo.enter().await?,
            Until(part) => demo.until(part).await.with_context(|| scene.to_owned())?,
        }
    }
    demo.end().await
}

#[tokio::test]
async fn each_scene_hangs_and_what_it_tells_to_type_helps() -> Result<()> {
    let back = || Until("the pods are back on edge-a");
    let scenes: Vec<(&str, &str, Vec<Act>)> = vec![
        (
            "blocked",
            "BLOCKED: budget default/web: 9 of 9 healthy, needs 9; 9 pods:",
            vec![Type("cancel reboot"), back()],
        ),
        (
            "operator-budget",
            "BLOCKED: budget default/pg-primary: 1 of 1 healthy, needs 1, kept by Cluster pg",
            vec![Enter, DOWN],
        ),
        ("api-away", "BLOCKED since ", vec![Enter, Until("12 of 12 pods gone")]),
        ("no-peer", "BLOCKED: no other node is Ready and schedulable", vec![Type("force complete"), DOWN]),
        (
            "slot",
            "BLOCKED: all slots are taken, by nodes that are down or being drained: edge-b",
            vec![Type("slots list"), Type("slots release"), DOWN],
        ),
        ("failed", "reboot 1 (by ", vec![Enter, Type("reboot --reason"), DOWN]),
        (
            "forced",
            "NOT DRAINED, an operator forced it",
            vec![Type("history last"), Type("cancel reboot"), back()],
        ),
        ("hung", "reboot 1 (by ", vec![Type("kill -KILL"), DOWN]),
    ];
    try_join_all(scenes.iter().map(|(scene, first, acts)| check(scene, first, acts))).await?;
    Ok(())
}

/// More pods than a node takes by default; and a second drain has as many to move as the first.
#[tokio::test]
async fn a_second_reboot_has_pods_to_move() -> Result<()> {
    let mut demo = Demo::start(&["--hold", "--pods=130"])?;
    demo.until("130 of 130 pods gone").await?;
    demo.until("Ctrl-C ends the demonstration").await?;
    demo.type_in("cancel reboot").await?;
    demo.until("the pods are back on edge-a").await?;
    let plan = demo.type_in("plan").await?;
    ensure!(plan.contains("edge-a"), "{plan}");
    demo.type_in("reboot --reason").await?;
    demo.until("130 of 130 pods gone").await?;
    demo.until("device-actions.jsonl has the reboot").await?;
    demo.end().await
}
