//! Writes a topic as Go's `encoding/json` does.

use std::io;

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{CompactFormatter, Formatter};

use crate::Topic;

/// One item as compact JSON in field order, without a newline at the end.
///
/// The bytes are those that EVE's Go agents write, so `<`, `>`, `&` and the two Unicode line separators are escaped. A
/// value that cannot be JSON (a map whose keys are not strings) gives no bytes; the publisher refuses it.
pub fn to_bytes<T: Topic>(value: &T) -> Vec<u8> {
    encode(value)
}

pub(crate) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    let written = value.serialize(&mut Serializer::with_formatter(&mut bytes, GoFormatter));
    written.map_or_else(|_| Vec::new(), |()| bytes)
}

/// Writes compact JSON, with Go's additional escapes inside strings.
struct GoFormatter;

impl Formatter for GoFormatter {
    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((plain, escaped, after)) = split_at_escape(rest) {
            CompactFormatter.write_string_fragment(writer, plain)?;
            write!(writer, "\\u{:04x}", u32::from(escaped))?;
            rest = after;
        }
        CompactFormatter.write_string_fragment(writer, rest)
    }
}

/// The text before the first character that Go escapes and serde does not, that character, and the rest.
fn split_at_escape(text: &str) -> Option<(&str, char, &str)> {
    let at = text.find(['<', '>', '&', '\u{2028}', '\u{2029}'])?;
    let (plain, rest) = text.split_at_checked(at)?;
    let mut characters = rest.chars();
    let escaped = characters.next()?;
    Some((plain, escaped, characters.as_str()))
}

#[cfg(test)]
mod tests {
    use super::encode;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(String::from_utf8(encode(&text)).unwrap(), expected);
    }

    #[test]
    fn strings_are_escaped_as_go_does() {
        check("plain", r#""plain""#);
        check("a<b>&c", r#""a\u003cb\u003e\u0026c""#);
        check("line\u{2028}and\u{2029}", r#""line\u2028and\u2029""#);
        check("tab\tquote\"\\", r#""tab\tquote\"\\""#);
        check("\u{1}\u{7f}é", "\"\\u0001\u{7f}é\"");
    }
}
