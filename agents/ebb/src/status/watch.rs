//! `ebb status --watch`: the same screen again and again.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use kubectl_ebb::interrupts::Interrupts;
use kubectl_ebb::screen::{Page, size};
use pubsub::Root;
use runtime::clock;

use crate::screen;

use super::times::Clock;
use super::{StatusView, drawn};

/// Time between two looks: the screen tells ages in seconds.
const TICK: Duration = Duration::from_secs(1);

/// After so many looks the whole screen is written: others may have written on it, as the kernel does on a console.
const WHOLE: u32 = 15;

/// Shows the status until Ctrl-C (exit code 130), or until nobody reads stdout any more. On a terminal the screen is drawn
/// in place. Elsewhere each new status is printed below the last one; an age that has grown is no new status.
///
/// # Errors
/// The process may not watch signals.
pub(super) async fn watch(root: &Root, all_pods: bool) -> anyhow::Result<ExitCode> {
    let mut interrupts = Interrupts::watch().context("cannot watch signals")?;
    // The cursor of a dumb terminal (TERM) cannot go back to a line.
    let is_terminal =
        io::stdout().is_terminal() && std::env::var_os("TERM").is_some_and(|name| name != "dumb");
    let mut show: Box<dyn FnMut(&StatusView, Timestamp) -> String> =
        if is_terminal { Box::new(on_terminal(all_pods)) } else { Box::new(one_below_another(all_pods)) };
    loop {
        let text = show(&StatusView::read(root), clock::wall());
        let mut stdout = io::stdout().lock();
        if stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).is_err() {
            return Ok(ExitCode::SUCCESS);
        }
        drop(stdout);
        tokio::select! {
            () = tokio::time::sleep(TICK) => {}
            interrupt = interrupts.next() => {
                if is_terminal {
                    // The shell's prompt is to begin a line, not to stand behind `^C`.
                    screen::line("");
                }
                return Ok(interrupt.exit_code());
            }
        }
    }
}

fn on_terminal(all_pods: bool) -> impl FnMut(&StatusView, Timestamp) -> String {
    let (mut before, mut looks, mut was) = (Vec::new(), 0, size());
    move |seen, now| {
        let size = size();
        let clock = Clock::new(now, TimeZone::system());
        let (mut lines, _) = drawn(seen, &clock, Page::for_terminal(false), all_pods);
        // A line for the time, and one for the cursor.
        lines.truncate(size.0.saturating_sub(2));
        lines.push(format!("-- {}; Ctrl-C ends this", clock.shown(now)));
        let is_known = looks % WHOLE != 0 && size == was;
        let text = redrawn(if is_known { &before } else { &[] }, &lines);
        (before, looks, was) = (lines, looks + 1, size);
        text
    }
}

/// The text that makes a terminal show `lines` where it has shown `before`. The cursor stands below them then. Only lines that
/// differ are written, because the terminal may be at the other end of a slow link.
fn redrawn(before: &[String], lines: &[String]) -> String {
    let mut text = String::new();
    for (row, line) in lines.iter().enumerate().filter(|(row, line)| before.get(*row) != Some(*line)) {
        // Go to the beginning of that row, and clear it behind the text.
        write!(text, "\u{1b}[{};1H{line}\u{1b}[K", row + 1).unwrap_or_default();
    }
    // Clear everything below.
    write!(text, "\u{1b}[{};1H\u{1b}[J", lines.len() + 1).unwrap_or_default();
    text
}

fn one_below_another(all_pods: bool) -> impl FnMut(&StatusView, Timestamp) -> String {
    let mut before: Option<(Timestamp, Vec<String>)> = None;
    move |seen, now| {
        let page = |now| {
            let clock = Clock::new(now, TimeZone::system());
            drawn(seen, &clock, Page::for_terminal(true), all_pods).0
        };
        if before.as_ref().is_some_and(|(then, lines)| page(*then) == *lines) {
            return String::new();
        }
        let lines = page(now);
        let clock = Clock::new(now, TimeZone::system());
        let text = format!("-- {}\n{}\n", clock.shown(now), lines.join("\n"));
        before = Some((now, lines));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_changed_is_written_to_a_terminal() {
        let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (before, now, text) in [
            ("", "a b", "\u{1b}[1;1Ha\u{1b}[K\u{1b}[2;1Hb\u{1b}[K\u{1b}[3;1H\u{1b}[J"),
            ("a b", "a b", "\u{1b}[3;1H\u{1b}[J"),
            ("a b c", "a d", "\u{1b}[2;1Hd\u{1b}[K\u{1b}[3;1H\u{1b}[J"),
        ] {
            assert_eq!(redrawn(&lines(before), &lines(now)), text, "{before} {now}");
        }
    }
}
