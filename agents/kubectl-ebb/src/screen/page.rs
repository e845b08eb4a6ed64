//! A page for people: lines that end between words and fit into the terminal, the most important ones first.

use console::{Style, Term, colors_enabled};
use textwrap::{Options, WordSeparator, WordSplitter, wrap};

/// Size of a terminal that does not tell its own, and of no terminal at all.
const USUAL: (usize, usize) = (24, 80);

/// Rows of the terminal that are not the page's: the command above it and the prompt below.
const ROWS_OF_SHELL: usize = 2;

/// The least size of a page: less shows nothing.
const LEAST: (usize, usize) = (8, 20);

/// Lines that one text may take. An error of an API server can have a thousand.
const MOST_OF_ONE: usize = 5;

/// The continuation of a text stands below the beginning of its value: `  do:    `.
const FIELD: usize = 9;

/// Lines of at most that many columns, in which no name is cut at its hyphens: it has to be copied.
pub fn wrapping<'a>(columns: usize) -> Options<'a> {
    Options::new(columns).word_separator(WordSeparator::AsciiSpace).word_splitter(WordSplitter::NoHyphenation)
}

/// Rows and columns of the terminal at stdout; of a usual one if it does not tell.
pub fn size() -> (usize, usize) {
    Term::stdout().size_checked().map_or(USUAL, |(rows, columns)| (rows.into(), columns.into()))
}

/// How a text looks on a terminal with colours; `NO_COLOR` in the environment switches them off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// As the terminal shows any text.
    #[default]
    Usual,
    /// Something is not as it should be: yellow.
    Warning,
    /// Somebody has to do something: red and bold.
    Alarm,
}

impl Tone {
    fn paint(self, text: String) -> String {
        let style = match self {
            Self::Usual => return text,
            Self::Warning => Style::new().yellow(),
            Self::Alarm => Style::new().red().bold(),
        };
        style.force_styling(true).apply_to(text).to_string()
    }
}

/// Lines of limited width and number.
#[derive(Debug)]
pub struct Page {
    lines: Vec<(Tone, String)>,
    rows: Option<usize>,
    columns: usize,
    has_colours: bool,
}

impl Page {
    /// A page that fits into the terminal; with `is_whole` nothing is left out, and only the width counts.
    pub fn for_terminal(is_whole: bool) -> Self {
        let (rows, columns) = size();
        Self { has_colours: colors_enabled(), ..Self::new((!is_whole).then_some(rows), columns) }
    }

    /// A page for a terminal with that many rows and columns, and without colours; without rows nothing is left out.
    pub fn new(rows: Option<usize>, columns: usize) -> Self {
        let rows = rows.map(|rows| rows.saturating_sub(ROWS_OF_SHELL).max(LEAST.0));
        Self { lines: Vec::new(), rows, columns: columns.max(LEAST.1), has_colours: false }
    }

    /// Adds a text that begins at the left edge.
    pub fn line(&mut self, text: &str) {
        self.toned(Tone::Usual, text);
    }

    /// Adds a text that begins at the left edge, in this tone.
    pub fn toned(&mut self, tone: Tone, text: &str) {
        self.add(tone, "", text);
    }

    /// Adds a text with its name: `  do:    the text`.
    pub fn field(&mut self, name: &str, text: &str) {
        let head = format!("  {:width$}", format!("{name}:"), width = FIELD - 2);
        self.add(Tone::Usual, &head, text);
    }

    fn add(&mut self, tone: Tone, head: &str, text: &str) {
        let rest = if head.is_empty() { "  " } else { &" ".repeat(FIELD) };
        let text = text::plain(text);
        let options = wrapping(self.columns).initial_indent(head).subsequent_indent(rest);
        let mut wrapped: Vec<String> = wrap(text.trim(), options).into_iter().map(Into::into).collect();
        if self.rows.is_some() && wrapped.len() > MOST_OF_ONE {
            wrapped.truncate(MOST_OF_ONE);
            if let Some(last) = wrapped.last_mut() {
                let kept: String = last.chars().take(self.columns - 1).collect();
                *last = format!("{}…", kept.trim_end());
            }
        }
        self.lines.extend(wrapped.into_iter().map(|line| (tone, line)));
    }

    /// The lines of the page, as [`lines_of_page`](super::lines_of_page) prints them. What does not fit is counted in the
    /// last line, which names `all`, the command that shows it.
    pub fn lines(mut self, all: &str) -> Vec<String> {
        if let Some(rows) = self.rows.filter(|rows| *rows < self.lines.len()) {
            let more = self.lines.len() - (rows - 1);
            self.lines.truncate(rows - 1);
            let last =
                text::plain(&format!("and {more} more lines: {all}")).chars().take(self.columns).collect();
            self.lines.push((Tone::Usual, last));
        }
        let paint = |(tone, line): (Tone, String)| if self.has_colours { tone.paint(line) } else { line };
        self.lines.into_iter().map(paint).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_between_words_and_the_rest_is_counted() {
        let words = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen";
        let filled = |rows, columns| {
            let mut page = Page::new(rows, columns);
            for _ in 0..5 {
                page.line(&words.repeat(9));
                page.field("do", words);
                page.field("do", &"x".repeat(70));
            }
            page.lines("ebb status --pods").join("\n") + "\n"
        };
        for (rows, columns, lines) in
            [(Some(24), 80, 22), (Some(100), 80, 40), (Some(10), 20, 8), (Some(0), 0, 8), (None, 80, 65)]
        {
            let text = filled(rows, columns);
            assert_eq!(text.lines().count(), lines, "{rows:?} {columns}\n{text}");
            let is_narrow = |line: &str| line.chars().count() <= columns.max(20);
            assert!(text.lines().all(is_narrow), "{rows:?} {columns}\n{text}");
        }
        let text = filled(Some(24), 80);
        assert!(text.ends_with("and 19 more lines: ebb status --pods\n"), "{text}");
        assert!(text.contains("\n  do:    one two "), "{text}");
        assert_eq!(text.matches('…').count(), 3, "{text}");
    }

    #[test]
    fn no_text_of_others_reaches_the_terminal_as_it_is() {
        let mut page = Page::new(None, 80);
        page.field("why", "red \u{1b}[31m\nNode edge-a: in service");
        assert_eq!(page.lines(""), ["  why:   red  [31m Node edge-a: in service"]);
    }

    #[test]
    fn each_line_of_a_text_has_its_colour() {
        let mut page = Page { has_colours: true, ..Page::new(None, 20) };
        page.toned(Tone::Alarm, "BLOCKED: budget shop/guarded");
        page.line("Node edge-a");
        let lines =
            ["\u{1b}[31m\u{1b}[1mBLOCKED: budget\u{1b}[0m", "\u{1b}[31m\u{1b}[1m  shop/guarded\u{1b}[0m"];
        assert_eq!(page.lines(""), [lines[0], lines[1], "Node edge-a"]);
    }
}
