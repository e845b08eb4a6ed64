//! Text of others, made fit to be shown: in a status, a record, a log line.

/// `text` as one line of at most `most_bytes` bytes and a mark where it was cut; control characters become spaces.
///
/// Files of other agents may hold a megabyte where a sentence is meant. What is made of it has to fit a message of
/// the socket protocol, or nothing could be published any more.
pub fn one_line(text: &str, most_bytes: usize) -> String {
    let kept = text.get(..text.floor_char_boundary(most_bytes)).unwrap_or_default();
    let mut line: String = kept.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if kept.len() < text.len() {
        line.push('…');
    }
    line
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
            // Never half of a character: é has two bytes.
            ("éé", 3, "é…"),
            ("éé", 1, "…"),
            ("é", 0, "…"),
            ("", 0, ""),
        ] {
            assert_eq!(one_line(text, most_bytes), line, "{text:?} {most_bytes}");
        }
    }
}
