//! Bars at the foot of a terminal, redrawn in place on stderr.

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How far one thing is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bar {
    /// What it is about; a bar keeps its place by this.
    pub(crate) name: String,
    /// So much is done …
    pub(crate) done: u64,
    /// … of this.
    pub(crate) total: u64,
    /// What stands behind the bar.
    pub(crate) text: String,
    /// Lines below it.
    pub(crate) below: Vec<String>,
}

/// All bars on the screen.
#[derive(Debug)]
pub(crate) struct Bars {
    all: MultiProgress,
    rows: Vec<(Kind, ProgressBar)>,
}

/// What a row of the screen is.
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

    /// Runs `print` with the bars out of the way.
    pub(crate) fn above(&self, print: impl FnOnce()) {
        self.all.suspend(print);
    }

    /// Shows exactly these, and `foot` below them.
    pub(crate) fn show(&mut self, bars: &[Bar], foot: &str) {
        let of_bar = |bar: &Bar| std::iter::once(Kind::Bar).chain(vec![Kind::Below; bar.below.len()]);
        let foots = (!bars.is_empty()).then_some(Kind::Foot);
        let kinds: Vec<Kind> = bars.iter().flat_map(of_bar).chain(foots).collect();
        self.lay_out(&kinds);
        let mut rows = self.rows.iter().map(|(_, row)| row);
        for bar in bars {
            if let Some(row) = rows.next() {
                row.set_prefix(bar.name.clone());
                // Nothing of nothing would be shown as done.
                row.set_length(bar.total.max(1));
                row.set_position(bar.done);
                row.set_message(bar.text.clone());
            }
            for (text, row) in bar.below.iter().zip(rows.by_ref()) {
                row.set_message(text.clone());
            }
        }
        if let Some(row) = rows.next() {
            row.set_message(foot.to_owned());
        }
    }

    /// Leaves on the screen what is there, and never touches it again.
    ///
    /// After Ctrl-C the terminal has written `^C` somewhere below, and nobody knows any more where the rows are.
    pub(crate) fn leave(self) {
        self.all.set_draw_target(ProgressDrawTarget::hidden());
    }

    /// Rows of these kinds, empty if there were others before.
    fn lay_out(&mut self, kinds: &[Kind]) {
        if self.rows.iter().map(|(kind, _)| kind).eq(kinds) {
            return;
        }
        // First off the screen, then forgotten: a row that ends on the screen stays there.
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
    /// Whatever happens, the terminal is left clean.
    fn drop(&mut self) {
        self.show(&[], "");
    }
}

/// Lines are cut at the edge of the terminal. A template that does not parse shows indicatif's own.
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
