//! Escapes text of other programs in a log, so that it cannot look like a record of ours.

use std::fmt::{self, Write};

use text::is_plain;

/// A writer that escapes line breaks and other control characters.
pub(super) struct Escaped<'a, W>(pub(super) &'a mut W);

impl<W: Write> Write for Escaped<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive(|character| !is_plain(character)) {
            let clean = part.strip_suffix(|character| !is_plain(character)).unwrap_or(part);
            self.0.write_str(clean)?;
            part.chars()
                .last()
                .filter(|last| !is_plain(*last))
                .map_or(Ok(()), |last| write!(self.0, "{}", last.escape_default()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_a_line() {
        for (text, line) in [
            ("plain ü text", "plain ü text"),
            ("one\nzedkube 2026 INFO forged", "one\\nzedkube 2026 INFO forged"),
            ("\u{1b}[31m\0\r\n", "\\u{1b}[31m\\u{0}\\r\\n"),
            ("\u{202e}evil", "\\u{202e}evil"),
            ("", ""),
        ] {
            let mut out = String::new();
            Escaped(&mut out).write_str(text).unwrap();
            assert_eq!(out, line, "{text:?}");
        }
    }
}
