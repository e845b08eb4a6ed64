//! The screen when stderr is a terminal.

use std::fs::File;
use std::io::Read;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::{Result, anyhow};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::Signal;

use crate::site::{Site, program};

#[tokio::test]
async fn on_a_terminal_a_bar_shows_how_far_it_is_and_what_blocks() -> Result<()> {
    let site = Site::passive()?;
    for name in ["a", "b", "c", "d", "e"] {
        site.guarded_pod(name, "edge-a")?;
    }
    let size = Winsize { ws_row: 40, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
    let terminal = openpty(&size, None)?;
    let mut command = program();
    command.args(["drain", "edge-a", "--retry", "1h", "--kubeconfig"]).arg(site.kubeconfig());
    let child = command.env("TERM", "xterm").stderr(Stdio::from(terminal.slave)).spawn()?;
    // The other end of the terminal must be closed here, or its end is never seen.
    drop(command);
    let shared = Arc::new(Mutex::new(String::new()));
    let reader = thread::spawn({
        let shared = Arc::clone(&shared);
        move || read(File::from(terminal.master), &shared)
    });
    site.until(|_| shared.lock().is_ok_and(|seen| seen.contains("  and 2 more"))).await?;
    let said = site.stop(child, Signal::SIGINT).await?;
    reader.join().map_err(|_| anyhow!("the reader died"))?;
    let seen = shared.lock().map_err(|_| anyhow!("the reader died"))?.clone();
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

/// Until the program has closed its end: then a terminal's read fails.
fn read(mut terminal: File, seen: &Mutex<String>) {
    let mut some = [0; 4096];
    while let Ok(length @ 1..) = terminal.read(&mut some) {
        if let (Ok(mut seen), Some(some)) = (seen.lock(), some.get(..length)) {
            seen.push_str(&String::from_utf8_lossy(some));
        }
    }
}
