//! Bars at the bottom of a terminal, redrawn in place on stderr.

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Progress of one thing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bar {
    /// Name before the bar.
    pub(crate) name: String,
    pub(crate) done: u64,
    pub(crate) total: u64,
    /// Text after the bar.
    pub(crate) text: String,
    /// Lines below the bar.
    pub(crate) below: Vec<String>,
}

/// All bars on the screen.
#[derive(Debug)]
pub(crate) struct Bars {
    all: MultiProgress,
    rows: Vec<(Kind, ProgressBar)>,
}

/// Kind of a row on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bar,
    Below,
    Foot,
}

impl Bars {
    pub(crate) fn new() -> Self {
        Self { all: MultiProgress::new(), rows: Vec::new() }
    }

    /// Runs `print` while the bars are hidden.
    pub(crate) fn above(&self, print: impl FnOnce()) {
        self.all.suspend(print);
    }

    /// Shows exactly these bars, and `foot` below them.
    pub(crate) fn show(&mut self, bars: &[Bar], foot: &str) {
        let of_bar = |bar: &Bar| std::iter::once(Kind::Bar).chain(vec![Kind::Below; bar.below.len()]);
        let foots = (!bars.is_empty()).then_some(Kind::Foot);
        let kinds: Vec<Kind> = bars.iter().flat_map(of_bar).chain(foots).collect();
        self.lay_out(&kinds);
        let mut rows = self.rows.iter().map(|(_, row)| row);
        for bar in bars {
            if let Some(row) = rows.next() {
                row.set_prefix(text::plain(&bar.name));
                // With a length of 0 the bar would be shown as complete.
                row.set_length(bar.total.max(1));
                row.set_position(bar.done);
                row.set_message(text::plain(&bar.text));
            }
            for (text, row) in bar.below.iter().zip(rows.by_ref()) {
                row.set_message(text::plain(text));
            }
        }
        if let Some(row) = rows.next() {
            row.set_message(foot.to_owned());
        }
    }

    /// Leaves the bars on the screen and never touches them again.
    ///
    /// After Ctrl-C the terminal has written `^C` somewhere below, so the place of the rows is unknown.
    pub(crate) fn leave(self) {
        self.all.set_draw_target(ProgressDrawTarget::hidden());
    }

    /// Makes the rows for these kinds; keeps the present rows if their kinds are the same.
    fn lay_out(&mut self, kinds: &[Kind]) {
        if self.rows.iter().map(|(kind, _)| kind).eq(kinds) {
            return;
        }
        // Clear the screen before the rows are removed: a row that ends on the screen stays there.
        if let Err(error) = self.all.clear() {
            tracing::debug!("cannot clear the terminal: {error}");
        }
        for (_, row) in self.rows.drain(..) {
            self.all.remove(&row);
        }
        for kind in kinds {
            let row = self.all.add(ProgressBar::new(1).with_style(style(*kind)));
            self.rows.push((*kind, row));
        }
    }
}

impl Drop for Bars {
    /// Removes all bars, so that the terminal is clean however the command ends.
    fn drop(&mut self) {
        self.show(&[], "");
    }
}

/// Style of a row. Lines are cut at the edge of the terminal. If a template is invalid, indicatif's default is used.
fn style(kind: Kind) -> ProgressStyle {
    let template = match kind {
        Kind::Bar => "{prefix} [{bar:24}] {wide_msg}",
        Kind::Below => "{wide_msg}",
        Kind::Foot => "{msg}",
    };
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}
