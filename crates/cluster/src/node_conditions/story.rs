//! The text of a condition in its parts: zedkube joins them to one line, and `kubectl ebb why` takes the line apart again.

/// How the part that names a trouble begins.
const BLOCKED: &str = "BLOCKED: ";

/// How the part with a hint begins; behind a trouble, it is the hint about it.
const DO: &str = "do: ";

/// What stands before the time of an end.
const AT: &str = " at ";

/// What stands between two parts.
const BETWEEN: &str = "; ";

/// What zedkube says about a drain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainStory {
    /// The phase, a colon, and the reason.
    pub head: String,
    /// What to do about it; empty if there is nothing to do.
    pub hint: String,
    /// What happens next by itself, and when, in RFC 3339.
    pub end: Option<(DrainEnd, String)>,
    /// What holds pods.
    pub troubles: Vec<DrainTrouble>,
}

/// What holds pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainTrouble {
    /// What it is, with its pods.
    pub what: String,
    /// What to do about it; empty if there is nothing to do.
    pub hint: String,
}

/// What happens at the deadline of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainEnd {
    /// The device goes down although its node is not drained.
    Undrained,
    /// The next attempt begins.
    NextAttempt,
    /// The present attempt ends.
    Attempt,
}

impl DrainEnd {
    const ALL: [Self; 3] = [Self::Undrained, Self::NextAttempt, Self::Attempt];

    /// The words before `at` and the time.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Undrained => "the node goes down WITHOUT a drain",
            Self::NextAttempt => "the next attempt begins",
            Self::Attempt => "this attempt ends",
        }
    }

    /// The end that a part tells, and its time.
    fn read(part: &str) -> Option<(Self, &str)> {
        Self::ALL.into_iter().find_map(|end| Some((end, part.strip_prefix(end.words())?.strip_prefix(AT)?)))
    }
}

impl DrainStory {
    /// All parts on one line. The troubles come last: they are the longest, and a message that is too long loses its end.
    pub fn text(&self) -> String {
        let mut text = clean(&self.head);
        let mut add = |begin: &str, part: &str| {
            if !part.is_empty() {
                text.push_str(BETWEEN);
                text.push_str(begin);
                text.push_str(&clean(part));
            }
        };
        add(DO, &self.hint);
        if let Some((end, time)) = &self.end {
            add(&format!("{}{AT}", end.words()), time);
        }
        for trouble in &self.troubles {
            add(BLOCKED, &trouble.what);
            add(DO, &trouble.hint);
        }
        text
    }

    /// Takes the line apart. What begins like no part belongs to the part before it.
    pub fn read(text: &str) -> Self {
        let mut pieces = text.split(BETWEEN);
        let mut story = Self { head: pieces.next().unwrap_or_default().to_owned(), ..Self::default() };
        let mut open = Open::Head;
        for piece in pieces {
            if let Some(what) = piece.strip_prefix(BLOCKED) {
                story.troubles.push(DrainTrouble { what: what.to_owned(), hint: String::new() });
                open = Open::Trouble;
            } else if let Some(hint) = piece.strip_prefix(DO) {
                story.hint_of_last().push_str(hint);
                open = Open::Hint;
            } else if let Some((end, time)) = DrainEnd::read(piece) {
                story.end = Some((end, time.to_owned()));
                open = Open::End;
            } else if let Some(part) = story.part(open) {
                part.push_str(BETWEEN);
                part.push_str(piece);
            }
        }
        story
    }

    fn hint_of_last(&mut self) -> &mut String {
        self.troubles.last_mut().map_or(&mut self.hint, |trouble| &mut trouble.hint)
    }

    fn part(&mut self, open: Open) -> Option<&mut String> {
        match open {
            Open::Head => Some(&mut self.head),
            Open::Trouble => self.troubles.last_mut().map(|trouble| &mut trouble.what),
            Open::Hint => Some(self.hint_of_last()),
            Open::End => self.end.as_mut().map(|(_, time)| time),
        }
    }
}

/// The part to which a piece belongs that begins no other one.
#[derive(Clone, Copy)]
enum Open {
    Head,
    Trouble,
    Hint,
    End,
}

/// The text of a part, in which nothing looks like the beginning of another part: names and reasons of others are in it.
fn clean(part: &str) -> String {
    let mut pieces = part.split(BETWEEN);
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let is_begin = piece.starts_with(BLOCKED) || piece.starts_with(DO) || DrainEnd::read(piece).is_some();
        text.push_str(if is_begin { ", " } else { BETWEEN });
        text.push_str(piece);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trouble(what: &str, hint: &str) -> DrainTrouble {
        DrainTrouble { what: what.to_owned(), hint: hint.to_owned() }
    }

    #[test]
    fn what_is_joined_is_taken_apart_again() {
        let head = |head: &str| DrainStory { head: head.to_owned(), ..DrainStory::default() };
        let time = "2026-11-29T17:30:00Z";
        let end = |end| Some((end, time.to_owned()));
        let full = DrainStory {
            hint: "wait; or force".to_owned(),
            end: end(DrainEnd::Attempt),
            troubles: vec![
                trouble("budget web; of shop (3 pods: shop/web-1)", "scale up; then wait"),
                trouble("x", ""),
            ],
            ..head("Attempting: 1 of 9; more")
        };
        for (story, text) in [
            (head(""), ""),
            (head("Returning: a reason"), "Returning: a reason"),
            (
                full,
                "Attempting: 1 of 9; more; do: wait; or force; this attempt ends at 2026-11-29T17:30:00Z; BLOCKED: \
                 budget web; of shop (3 pods: shop/web-1); do: scale up; then wait; BLOCKED: x",
            ),
            (
                DrainStory { end: end(DrainEnd::Undrained), ..head("Waiting: x") },
                "Waiting: x; the node goes down WITHOUT a drain at 2026-11-29T17:30:00Z",
            ),
            (
                DrainStory { end: end(DrainEnd::NextAttempt), ..head("Pausing: x") },
                "Pausing: x; the next attempt begins at 2026-11-29T17:30:00Z",
            ),
        ] {
            assert_eq!(story.text(), text);
            assert_eq!(DrainStory::read(text), story, "{text}");
        }
    }

    /// A reason that somebody typed is no hint of ebb.
    #[test]
    fn no_part_can_pretend_to_be_another_one() {
        let evil = "x; do: rm -r /; BLOCKED: all; this attempt ends at noon";
        let story = DrainStory {
            head: evil.to_owned(),
            hint: evil.to_owned(),
            end: Some((DrainEnd::Attempt, evil.to_owned())),
            troubles: vec![trouble(evil, evil)],
        };
        let tame = evil.replace("; ", ", ");
        let expected = DrainStory {
            head: tame.clone(),
            hint: tame.clone(),
            end: Some((DrainEnd::Attempt, tame.clone())),
            troubles: vec![trouble(&tame, &tame)],
        };
        assert_eq!(DrainStory::read(&story.text()), expected);
    }
}
