//! Text of others, made fit to be shown: in a status, a record, a log line, on a terminal.
//!
//! A file, a message or an API server may say anything: line breaks that look like a record of ours, escape sequences
//! that a terminal obeys, characters that turn the direction of text around or that are not seen at all. Whoever shows
//! such text passes it through this crate. Everything here is pure.

use std::fmt::Write;
use std::path::Path;

/// Whether a character is shown as itself: it is neither a control character nor one of those that change the direction
/// of text or are not seen.
pub fn is_plain(character: char) -> bool {
    !character.is_control()
        && !matches!(
            character,
            '\u{ad}'
                | '\u{61c}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// The characters of `text`, a space in the place of each that is not plain.
pub fn plain_chars(text: &str) -> impl Iterator<Item = char> {
    text.chars().map(|character| if is_plain(character) { character } else { ' ' })
}

/// `text` on one line, a space in the place of each character that is not plain.
pub fn plain(text: &str) -> String {
    plain_chars(text).collect()
}

/// A path on one line, as [`plain`].
pub fn path(path: &Path) -> String {
    plain(&path.to_string_lossy())
}

/// `text` on one line of at most `most_bytes` bytes, and a mark where it was cut.
///
/// A field of another agent's file may have a megabyte. An item that repeats it must still fit one message of the socket
/// protocol, or it could not be published.
pub fn one_line(text: &str, most_bytes: usize) -> String {
    let kept = text.get(..text.floor_char_boundary(most_bytes)).unwrap_or_default();
    let mut line = plain(kept);
    if kept.len() < text.len() {
        line.push('…');
    }
    line
}

/// The first `most_chars` characters of `text` on one line, and a mark where it was cut.
pub fn first_chars(text: &str, most_chars: usize) -> String {
    let mut chars = plain_chars(text);
    let mut line: String = chars.by_ref().take(most_chars).collect();
    if chars.next().is_some() {
        line.push('…');
    }
    line
}

/// `text` as one word: as it is, or in quotes with escapes when it has a blank, a quote, or a character that is not
/// plain.
pub fn word(text: &str) -> String {
    let is_of_word = |character: char| is_plain(character) && !character.is_whitespace() && character != '"';
    if text.chars().all(is_of_word) { text.to_owned() } else { format!("{text:?}") }
}

/// Compact JSON whose strings have plain characters only: the others are written as `\u....`, which means the same.
/// Outside of its strings compact JSON has plain characters only.
pub fn json(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_plain(character) {
            shown.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a String cannot fail.
                write!(shown, "\\u{unit:04x}").unwrap_or_default();
            }
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_short_and_plain() {
        for (text, most_bytes, line) in [
            ("as it is", 100, "as it is"),
            ("as it is", 8, "as it is"),
            ("as it is", 7, "as it i…"),
            ("two\nlines\t\u{1b}[1m\0", 100, "two lines  [1m "),
            ("a\u{202e}b\u{200b}c\u{feff}\u{e0041}", 100, "a b c  "),
            // Never half of a character: é has two bytes.
            ("éé", 3, "é…"),
            ("éé", 1, "…"),
            ("é", 0, "…"),
            ("", 0, ""),
        ] {
            assert_eq!(one_line(text, most_bytes), line, "{text:?} {most_bytes}");
        }
        for (text, most_chars, line) in
            [("éé", 2, "éé"), ("ééé", 2, "éé…"), ("a\nb", 9, "a b"), ("a", 0, "…")]
        {
            assert_eq!(first_chars(text, most_chars), line, "{text:?} {most_chars}");
        }
    }

    #[test]
    fn a_terminal_is_left_alone() {
        for (text, shown) in [
            ("\"plain é 漢\"", "\"plain é 漢\""),
            ("\"a\u{7f}b\u{9b}c\"", "\"a\\u007fb\\u009bc\""),
            ("\"\u{202e}evil\"", "\"\\u202eevil\""),
            ("\"\u{e0041}\"", "\"\\udb40\\udc41\""),
        ] {
            assert_eq!(json(text), shown, "{text:?}");
            let (before, after): (String, String) =
                (serde_json::from_str(text).unwrap(), serde_json::from_str(shown).unwrap());
            assert_eq!(before, after, "it means the same");
        }
        for (text, shown) in [
            ("global", "global"),
            ("a b", "\"a b\""),
            ("a\"b", "\"a\\\"b\""),
            ("a\u{1b}[2J", "\"a\\u{1b}[2J\""),
            ("a\u{202e}", "\"a\\u{202e}\""),
        ] {
            assert_eq!(word(text), shown);
        }
        assert_eq!(plain("a\u{1b}[2J\nb"), "a [2J b");
    }
}
