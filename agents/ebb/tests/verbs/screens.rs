//! The screen when stderr or stdout is a terminal.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::Signal;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::ChildStdout;

use crate::device::Device;
use crate::site::{Site, program};

#[tokio::test]
async fn on_a_terminal_a_bar_shows_how_far_it_is_and_what_blocks() -> Result<()> {
    let site = Site::passive()?;
    for name in ["a", "b", "c", "d", "e"] {
        site.guarded_pod(name, "edge-a")?;
    }
    let (terminal, slave) = Terminal::new(40, 200)?;
    let mut command = program();
    command.args(["drain", "edge-a", "--retry", "1h", "--kubeconfig"]).arg(site.kubeconfig());
    let child = command.env("TERM", "xterm").stderr(Stdio::from(slave)).spawn()?;
    // The other end of the terminal must be closed here, or its end is never seen.
    drop(command);
    site.until(|_| terminal.shows("  and 2 more")).await?;
    let said = site.stop(child, Signal::SIGINT).await?;
    let seen = terminal.end()?;
    assert_eq!(said.code, 130, "{said:?}");
    for part in [
        "edge-a [                        ] 0/5 pods gone, 5 blocked, ",
        "  shop/a: budget shop/a: 1 of 1 healthy, needs 1",
        "  shop/c: budget shop/c: ",
        "  and 2 more",
        "Ctrl-C stops; the nodes stay cordoned",
        "interrupted: the drain of node \"edge-a\" has been stopped; 0 of 5 pods are gone, these are left:",
    ] {
        assert!(seen.contains(part), "{part:?} is not in {seen}");
    }
    assert!(!seen.contains("\n  shop/d: budget"), "only three are named below the bar: {seen}");
    Ok(())
}

#[tokio::test]
async fn a_status_that_is_watched_shows_each_change() -> Result<()> {
    let device = Device::new()?;
    let (terminal, slave) = Terminal::new(24, 80)?;
    let mut command = device.command(&["status", "--watch"]);
    let child = command.env("TERM", "xterm").env_remove("NO_COLOR").stdout(Stdio::from(slave)).spawn()?;
    drop(command);
    let mut beside = device.spawn(&["status", "--watch"])?;
    let mut lines = BufReader::new(beside.stdout.take().context("no stdout")?).lines();
    let mut pages = until_line(&mut lines, "ebb has not run since the boot: ").await?;
    // In yellow.
    let first = "\u{1b}[33mebb has not run since the boot: ";
    device.until("the page is drawn", || terminal.shows(first).then_some(())).await?;
    device.until("it says how it ends", || terminal.shows("; Ctrl-C ends this").then_some(())).await?;
    assert_eq!(device.ebb(&["freeze", "--reason", "inventory"]).await?.code, 0);
    device.until("the change is shown", || terminal.shows("COMMANDS ARE FROZEN").then_some(())).await?;
    assert_eq!(device.signal(child, Signal::SIGINT).await?.code, 130);
    assert!(terminal.end()?.contains("\u{1b}[1;1H"), "drawn in its place");

    pages.extend(until_line(&mut lines, "COMMANDS ARE FROZEN").await?);
    assert_eq!(pages.iter().filter(|line| line.starts_with("-- ")).count(), 2, "{pages:?}");
    assert!(!pages.concat().contains('\u{1b}'), "{pages:?}");
    Ok(())
}

/// The lines up to one that begins so.
async fn until_line(lines: &mut Lines<BufReader<ChildStdout>>, begin: &str) -> Result<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    while !found.last().is_some_and(|line| line.starts_with(begin)) {
        found.push(lines.next_line().await?.with_context(|| format!("no line {begin:?} in {found:?}"))?);
    }
    Ok(found)
}

/// A terminal on which a program shows something.
struct Terminal {
    seen: Arc<Mutex<String>>,
    reader: JoinHandle<()>,
}

impl Terminal {
    /// A terminal, and the end of it that the program gets.
    fn new(rows: u16, columns: u16) -> Result<(Self, OwnedFd)> {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let terminal = openpty(&size, None)?;
        let seen = Arc::new(Mutex::new(String::new()));
        let shared = Arc::clone(&seen);
        let reader = thread::spawn(move || read(File::from(terminal.master), &shared));
        Ok((Self { seen, reader }, terminal.slave))
    }

    fn shows(&self, text: &str) -> bool {
        self.seen.lock().is_ok_and(|seen| seen.contains(text))
    }

    /// All that was written, once the program has ended.
    fn end(self) -> Result<String> {
        self.reader.join().map_err(|_| anyhow!("the reader died"))?;
        Ok(self.seen.lock().map_err(|_| anyhow!("the reader died"))?.clone())
    }
}

/// Until the program has closed its end: then a terminal's read fails.
fn read(mut terminal: File, seen: &Mutex<String>) {
    let mut some = [0; 4096];
    while let Ok(length @ 1..) = terminal.read(&mut some) {
        if let (Ok(mut seen), Some(some)) = (seen.lock(), some.get(..length)) {
            seen.push_str(&String::from_utf8_lossy(some));
        }
    }
}
