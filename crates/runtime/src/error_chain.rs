//! An error with its causes on one line.

use std::error::Error;

/// Limit for the number of causes; a longer chain is a loop.
const DEEPEST: usize = 32;
/// Limit in bytes for the text; a cause may hold the whole page of a web server.
const LONGEST: usize = 4096;

/// The error and its causes, joined with `: `, each named once.
///
/// Errors of this project do not repeat their cause in their own text. Errors of some libraries do, and such a cause
/// is left out. Use it once at the top: in a log record, in a status, before an exit.
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    for cause in causes.take(DEEPEST).map(ToString::to_string) {
        if !cause.is_empty() && !text.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    shortened(text, LONGEST)
}

/// The text, or its first `longest` bytes and an ellipsis.
pub fn shortened(mut text: String, longest: usize) -> String {
    if longest < text.len() {
        text.truncate(text.floor_char_boundary(longest));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Link(String, Option<Box<Self>>);

    impl fmt::Display for Link {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(&self.0)
        }
    }

    impl Error for Link {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|link| link as &dyn Error)
        }
    }

    fn chain(texts: &[&str]) -> Link {
        let (first, rest) = texts.split_first().unwrap();
        let cause = (!rest.is_empty()).then(|| Box::new(chain(rest)));
        Link((*first).to_owned(), cause)
    }

    #[test]
    fn every_cause_is_told_once() {
        for (texts, line) in [
            (&["a"][..], "a"),
            (&["a", "b", "c"], "a: b: c"),
            // A library that repeats its cause.
            (&["a: b", "b"], "a: b"),
            (&["a: b: c", "b: c", "c"], "a: b: c"),
            (&["a", "", "c"], "a: c"),
            // A word inside the text is not the cause.
            (&["timeout of request", "timeout"], "timeout of request: timeout"),
        ] {
            assert_eq!(error_chain(&chain(texts)), line);
        }
    }

    #[test]
    fn the_line_is_bounded() {
        let long = error_chain(&chain(&[&"é".repeat(LONGEST)]));
        assert_eq!(long.len(), LONGEST + '…'.len_utf8());
        let texts: Vec<String> = (0..100).map(|n| format!("<{n}>")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let deep = error_chain(&chain(&texts));
        assert!(deep.ends_with("<32>"), "{deep}");
    }
}
