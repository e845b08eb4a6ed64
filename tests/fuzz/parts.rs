//! Inputs of several parts, as text that a person can read and write.

/// The line that begins a part starts with this.
const BEGINS: &[u8] = b"@ ";

/// A part of an input.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The words of the line that begins the part: its name, and arguments.
    pub head: &'a str,
    /// The lines after it, up to the next part, as they are.
    pub content: &'a [u8],
}

impl<'a> Part<'a> {
    /// The word at this place of the head, from 0; empty if there is none.
    pub fn word(&self, place: usize) -> &'a str {
        self.head.split_whitespace().nth(place).unwrap_or_default()
    }

    /// The content as text, without blanks around it.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.content).trim().to_owned()
    }
}

/// The parts of an input, at most 50. A line that begins with `@ ` begins a part. What stands before the first part is
/// a comment. A head that is not UTF-8 has no words.
pub fn parts(input: &[u8]) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = input;
    while !rest.is_empty() && parts.len() < 50 {
        let (line, after) = first_line(rest);
        rest = after;
        let Some(head) = line.strip_prefix(BEGINS) else { continue };
        let length = length_of_content(after);
        let (content, next) = after.split_at(length);
        parts.push(Part { head: std::str::from_utf8(head).unwrap_or_default().trim(), content });
        rest = next;
    }
    parts
}

/// The first line with its end, and what follows.
fn first_line(text: &[u8]) -> (&[u8], &[u8]) {
    let length = text.iter().position(|byte| *byte == b'\n').map_or(text.len(), |end| end + 1);
    text.split_at(length)
}

fn length_of_content(text: &[u8]) -> usize {
    let mut rest = text;
    while !rest.is_empty() && !rest.starts_with(BEGINS) {
        rest = first_line(rest).1;
    }
    text.len() - rest.len()
}
