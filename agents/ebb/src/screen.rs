//! The one place that prints: data on stdout, everything else on stderr.

mod bars;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

pub(crate) use bars::Bar;
use bars::Bars;

/// A reader has so long for the last line of an agent.
const SAY_LIMIT: Duration = Duration::from_millis(250);

/// One line, and where it belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Print {
    /// Data: stdout.
    Out(String),
    /// For people, beside the data: stderr.
    Err(String),
}

/// Lines that scroll by, and below them, on a terminal, bars that stay.
#[derive(Debug)]
pub(crate) struct Screen {
    bars: Option<Bars>,
    /// stdout is for a document, so lines of data are for people only.
    is_for_people: bool,
}

impl Screen {
    /// Bars only when stderr is a terminal.
    pub(crate) fn new(is_for_people: bool) -> Self {
        Self { bars: io::stderr().is_terminal().then(Bars::new), is_for_people }
    }

    /// Bars are shown, so what they say need not be repeated in lines.
    pub(crate) fn has_bars(&self) -> bool {
        self.bars.is_some()
    }

    /// Prints the lines, above the bars.
    pub(crate) fn print(&self, lines: &[Print]) {
        if lines.is_empty() {
            return;
        }
        let print = || lines.iter().for_each(|line| self.print_one(line));
        match &self.bars {
            Some(bars) => bars.above(print),
            None => print(),
        }
    }

    /// Shows the bars as they are now, and a line below them; no bars takes all away.
    pub(crate) fn show(&mut self, bars: &[Bar], foot: &str) {
        if let Some(shown) = &mut self.bars {
            shown.show(bars, foot);
        }
    }

    /// No bars from now on. Those that are there stay as they are, and lines go on below them.
    pub(crate) fn leave_bars(&mut self) {
        if let Some(bars) = self.bars.take() {
            bars.leave();
            say("");
        }
    }

    fn print_one(&self, text: &Print) {
        match text {
            Print::Out(text) if !self.is_for_people => line(text),
            Print::Out(text) | Print::Err(text) => say(text),
        }
    }
}

/// Prints one line of data.
///
/// A reader that went away (`ebb status | head -1`) is no error; nobody is left to tell.
pub(crate) fn line(text: &str) {
    if let Err(error) = writeln!(io::stdout(), "{text}") {
        tracing::debug!("cannot print: {error}");
    }
}

/// Prints clap's answer (help, version, or what is wrong with the arguments) where it belongs; `code` is the exit code
/// for what is wrong.
pub(crate) fn answer(answer: &clap::Error, code: u8) -> ExitCode {
    if let Err(error) = answer.print() {
        tracing::debug!("cannot print: {error}");
    }
    if answer.use_stderr() { ExitCode::from(code) } else { ExitCode::SUCCESS }
}

/// Prints an error with its causes, each said once.
pub(crate) fn complain(error: &anyhow::Error) {
    say(&complaint(error));
}

/// An error with its causes; a few have a beginning of their own.
pub(crate) fn complaint(error: &anyhow::Error) -> String {
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    let text = causes.join(": ");
    if text.starts_with("Error from server") { text } else { format!("error: {text}") }
}

/// As [`say`], but gives up when nobody reads: an agent that was told to stop has to end.
pub(crate) fn say_soon(text: &str) {
    let (done, said) = std::sync::mpsc::channel();
    let text = text.to_owned();
    std::thread::spawn(move || {
        say(&text);
        done.send(()).unwrap_or_default();
    });
    said.recv_timeout(SAY_LIMIT).unwrap_or_default();
}

/// Prints one line for people, beside the data.
pub(crate) fn say(text: &str) {
    if let Err(error) = writeln!(io::stderr(), "{text}") {
        tracing::debug!("cannot print: {error}");
    }
}

/// A table of text: columns of equal width below their heads, two spaces apart; no blanks at the end of a line.
pub(crate) fn table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let head = head.map(str::to_owned);
    let all = || std::iter::once(&head).chain(rows);
    let mut widths = [0; N];
    for row in all() {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in all() {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
