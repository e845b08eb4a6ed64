//! Text of others, made fit for a terminal: it must not be moved, coloured or turned around by what an item says.

use std::fmt::Write;
use std::path::Path;

/// JSON whose texts have no characters that a terminal would act on: they are written as `\u....`, which means the same.
/// Outside of its texts compact JSON has none.
pub(super) fn json(text: &str) -> String {
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

/// A key as one word: as it is, or in quotes with escapes.
pub(super) fn key(text: &str) -> String {
    let is_word = |character: char| is_plain(character) && !character.is_whitespace() && character != '"';
    if text.chars().all(is_word) { text.to_owned() } else { format!("{text:?}") }
}

/// A path as one line.
pub(super) fn path(path: &Path) -> String {
    line(&path.to_string_lossy())
}

/// A message as one line.
pub(super) fn line(text: &str) -> String {
    text.chars().map(|character| if is_plain(character) { character } else { '\u{fffd}' }).collect()
}

/// Neither a control character nor one of those that change the direction of text or are not seen.
fn is_plain(character: char) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(key(text), shown);
        }
        assert_eq!(line("a\u{1b}[2J\nb"), "a\u{fffd}[2J\u{fffd}b");
    }
}
