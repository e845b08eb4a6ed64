//! All output to the terminal: data on stdout, everything else on stderr.
//!
//! Much of it are texts of others: names and messages of an API server, names of files, reasons of requests. Here they are
//! cleaned, once for the whole program: what is meant as one line is one line, and no terminal obeys it.

mod bars;
mod page;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;

pub(crate) use bars::Bar;
use bars::Bars;
pub use page::{Page, Tone, size, wrapping};

/// Limit for printing the last line of an agent, if nothing reads its stderr.
const SAY_LIMIT: Duration = Duration::from_millis(250);

/// Least characters of a column that is cut to make a table fit.
const LEAST_CUT: usize = 16;

/// One line, with its stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Print {
    /// Data: stdout.
    Out(String),
    /// Messages for people: stderr.
    Err(String),
}

/// Lines that scroll, and on a terminal bars that stay below them.
#[derive(Debug)]
pub(crate) struct Screen {
    bars: Option<Bars>,
    /// True if stdout gets a JSON document: then lines of data go to stderr.
    is_for_people: bool,
}

impl Screen {
    /// A screen with bars if stderr is a terminal.
    pub(crate) fn new(is_for_people: bool) -> Self {
        Self { bars: io::stderr().is_terminal().then(Bars::new), is_for_people }
    }

    /// True if bars are shown, so that their content need not be repeated in lines.
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

    /// Shows exactly these bars, and a line below them; an empty list removes all.
    pub(crate) fn show(&mut self, bars: &[Bar], foot: &str) {
        if let Some(shown) = &mut self.bars {
            shown.show(bars, foot);
        }
    }

    /// Shows no bars from now on. The present ones stay on the screen, and lines go on below them.
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
/// A closed stdout (`ebb status | head -1`) is not an error.
pub fn line(text: &str) {
    if let Err(error) = writeln!(io::stdout(), "{}", text::plain(text)) {
        tracing::debug!("cannot print: {error}");
    }
}

/// Prints a name and, behind a tab, what it means, if anything is said about it.
pub fn described(name: &str, about: &str) {
    let tab = if about.is_empty() { "" } else { "\t" };
    if let Err(error) = writeln!(io::stdout(), "{}{tab}{}", text::plain(name), text::plain(about)) {
        tracing::debug!("cannot print: {error}");
    }
}

/// Prints lines of data.
pub fn lines<T: AsRef<str>>(lines: impl IntoIterator<Item = T>) {
    lines.into_iter().for_each(|text| line(text.as_ref()));
}

/// Prints the lines of a [`Page`]: the texts of others in them are clean, and they may have colours.
pub fn lines_of_page(lines: &[String]) {
    let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
    if let Err(error) = io::stdout().write_all(text.as_bytes()) {
        tracing::debug!("cannot print: {error}");
    }
}

/// Prints a text as it stands: a page or a file in which nothing of others is left that a terminal would obey. A reader
/// that has seen enough and closes stdout is no error.
///
/// # Errors
/// Stdout takes nothing, for example because it is a file on a full disk.
pub fn whole(text: &str) -> io::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Prints a document as JSON on several lines. Characters that are not plain are escaped, which means the same.
///
/// # Errors
/// The document cannot be written as JSON.
pub fn json(document: &(impl Serialize + ?Sized)) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(document).context("cannot write JSON")?;
    lines(text.lines().map(text::json));
    Ok(())
}

/// Prints clap's answer (help, version, or an error about the arguments) on the right stream; `code` is the exit code
/// for an error.
pub fn answer(answer: &clap::Error, code: u8) -> ExitCode {
    if let Err(error) = answer.print() {
        tracing::debug!("cannot print: {error}");
    }
    if answer.use_stderr() { ExitCode::from(code) } else { ExitCode::SUCCESS }
}

/// Prints an error with its causes.
pub fn complain(error: &anyhow::Error) {
    say(&complaint(error));
}

/// Text of an error with its causes. kubectl's `Error from server` gets no prefix.
pub fn complaint(error: &anyhow::Error) -> String {
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    let text = causes.join(": ");
    if text.starts_with("Error from server") { text } else { format!("error: {text}") }
}

/// Prints like [`say`], but gives up after 250 ms: an agent that was asked to stop must end even if nothing reads its
/// stderr.
pub fn say_soon(text: &str) {
    let (done, printed) = std::sync::mpsc::channel();
    let text = text.to_owned();
    std::thread::spawn(move || {
        say(&text);
        done.send(()).unwrap_or_default();
    });
    printed.recv_timeout(SAY_LIMIT).unwrap_or_default();
}

/// Prints one line for people on stderr, in one write: the agents of `ebb run` and their parent share it, and the line of
/// one would end up in the middle of another's.
pub fn say(text: &str) {
    if let Err(error) = io::stderr().write_all(format!("{}\n", text::plain(text)).as_bytes()) {
        tracing::debug!("cannot print: {error}");
    }
}

/// The lines of a table: columns of equal width below their heads, two spaces apart, without blanks at the end of a
/// line.
pub fn table(head: &[&str], rows: &[impl AsRef<[String]>]) -> Vec<String> {
    let head: Vec<String> = head.iter().map(|&name| name.to_owned()).collect();
    let all = || std::iter::once(head.as_slice()).chain(rows.iter().map(AsRef::as_ref));
    let mut widths = vec![0; head.len()];
    for row in all() {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |row: &[String]| {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    all().map(line).collect()
}

/// As [`table`], but the cells of one column are cut so that each line fits into so many columns of the terminal.
pub fn fitted_table<const N: usize>(
    head: &[&str; N],
    mut rows: Vec<[String; N]>,
    cut: usize,
    columns: usize,
) -> Vec<String> {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(head.get(column).map(|head| head.len())).max().unwrap_or(0)
    };
    let others: usize = (0..N).filter(|column| *column != cut).map(width).sum();
    let blanks = 2 * (N - 1);
    // One more character marks the cut.
    let most = columns.saturating_sub(others + blanks + 1).max(LEAST_CUT);
    for cell in rows.iter_mut().filter_map(|row| row.get_mut(cut)) {
        if cell.chars().count() > most + 1 {
            *cell = text::first_chars(cell, most);
        }
    }
    table(head, &rows)
}
