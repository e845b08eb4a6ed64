//! Reads selectors from text: the grammar of apimachinery's `labels.Parse`, which is also that of `kubectl -l` and of
//! `labelSelector=`.
//!
//! One difference: a NUL is refused. In apimachinery a NUL sometimes ends the text, so that the rest would be ignored.

use std::collections::BTreeSet;
use std::str::FromStr;

use crate::names::{is_label_key, is_label_value};
use crate::{Requirement, Selector};

const KEY: &str = "a label's name: at most 63 of letters, digits, `-`, `_`, `.`, the first and the last a letter or \
                   digit; before it, if wanted, a DNS name and `/`";
const VALUE: &str = "a label's value: at most 63 of letters, digits, `-`, `_`, `.`, the first and the last a letter \
                     or digit; or nothing";
const NUMBER: &str = "a whole number from 0 to 9223372036854775807";
const OPERATOR: &str = "`=`, `==`, `!=`, `in (…)`, `notin (…)`, `<`, `>`, `,` or the end";

/// The error for a text that is no label selector: the position, the wrong part, and what is accepted there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read the label selector: at character {at}: {wrong}; accepted: {accepted}")]
pub struct ParseError {
    /// Position of the wrong character, from 1; the length plus one if something is missing at the end.
    pub at: usize,
    /// The wrong part.
    pub wrong: String,
    /// The parts that are accepted there.
    pub accepted: &'static str,
}

/// Reads whatever `kubectl -l` accepts: `a=b`, `a==b`, `a!=b`, `a in (x,y)`, `a notin (x)`, `a`, `!a`, `a>1`, `a<1`,
/// with `,` for "and" and blanks in between. The empty text selects everything.
///
/// The requirements are sorted by their keys and the values of each are sorted, as apimachinery does.
impl FromStr for Selector {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut requirements = Parser::new(text).requirements()?;
        requirements.sort_by(|one, other| one.key().cmp(other.key()));
        Ok(Self { requirements })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A key, a value, `in` or `notin`: only its place says which.
    Word,
    Open,
    Close,
    Comma,
    Not,
    Equals,
    NotEquals,
    Greater,
    Less,
    End,
}

/// The symbols. Longer ones come first, because the longest match counts.
const SYMBOLS: [(&str, Kind); 9] = [
    ("==", Kind::Equals),
    ("!=", Kind::NotEquals),
    ("=", Kind::Equals),
    ("!", Kind::Not),
    ("(", Kind::Open),
    (")", Kind::Close),
    (",", Kind::Comma),
    (">", Kind::Greater),
    ("<", Kind::Less),
];

#[derive(Clone, Copy, Debug)]
struct Token<'a> {
    kind: Kind,
    text: &'a str,
    /// Number of characters before the token.
    before: usize,
}

struct Parser<'a> {
    /// The text after `next`.
    rest: &'a str,
    /// Number of characters before `rest`.
    before: usize,
    next: Token<'a>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        let mut parser = Self { rest: text, before: 0, next: Token { kind: Kind::End, text: "", before: 0 } };
        parser.advance();
        parser
    }

    fn requirements(mut self) -> Result<Vec<Requirement>, ParseError> {
        if self.is_at(Kind::End) {
            return Ok(Vec::new());
        }
        let mut requirements = vec![self.requirement()?];
        while self.take(Kind::Comma) {
            requirements.push(self.requirement()?);
        }
        if self.is_at(Kind::End) { Ok(requirements) } else { Err(self.unexpected("`,` or the end")) }
    }

    fn requirement(&mut self) -> Result<Requirement, ParseError> {
        if self.take(Kind::Not) {
            return self.key().map(Requirement::DoesNotExist);
        }
        let key = self.key()?;
        match (self.next.kind, self.next.text) {
            (Kind::End | Kind::Comma, _) => Ok(Requirement::Exists(key)),
            (Kind::Equals, _) => Ok(Requirement::In(key, vec![self.operand()?])),
            (Kind::NotEquals, _) => Ok(Requirement::NotIn(key, vec![self.operand()?])),
            (Kind::Greater, _) => Ok(Requirement::GreaterThan(key, self.number()?)),
            (Kind::Less, _) => Ok(Requirement::LessThan(key, self.number()?)),
            (Kind::Word, "in") => Ok(Requirement::In(key, self.set()?)),
            (Kind::Word, "notin") => Ok(Requirement::NotIn(key, self.set()?)),
            _ => Err(self.unexpected(OPERATOR)),
        }
    }

    fn key(&mut self) -> Result<String, ParseError> {
        match self.next {
            Token { kind: Kind::Word, text, .. } if is_label_key(text) => Ok(self.advance().text.to_owned()),
            _ => Err(self.unexpected(KEY)),
        }
    }

    /// Reads the value after `=` or `!=`; if there is none, the value is empty.
    fn operand(&mut self) -> Result<String, ParseError> {
        self.advance();
        let is_empty = self.is_at(Kind::End) || self.is_at(Kind::Comma);
        if is_empty { Ok(String::new()) } else { self.value() }
    }

    /// Reads the number after `<` or `>`.
    fn number(&mut self) -> Result<i64, ParseError> {
        self.advance();
        // A sign is not allowed: the number has to be a label's value, too.
        let is_digits = self.next.text.bytes().all(|byte| byte.is_ascii_digit());
        match self.next.text.parse() {
            Ok(number) if is_digits && is_label_value(self.next.text) => {
                self.advance();
                Ok(number)
            }
            _ => Err(self.unexpected(NUMBER)),
        }
    }

    /// Reads the values after `in` or `notin`. An empty place between commas or parentheses is the empty value.
    fn set(&mut self) -> Result<Vec<String>, ParseError> {
        self.advance();
        if !self.take(Kind::Open) {
            return Err(self.unexpected("`(`"));
        }
        let mut values = BTreeSet::from([self.value_in_set()?]);
        while self.take(Kind::Comma) {
            values.insert(self.value_in_set()?);
        }
        let is_closed = self.take(Kind::Close);
        if is_closed { Ok(values.into_iter().collect()) } else { Err(self.unexpected("`,` or `)`")) }
    }

    fn value_in_set(&mut self) -> Result<String, ParseError> {
        if self.is_at(Kind::Word) { self.value() } else { Ok(String::new()) }
    }

    fn value(&mut self) -> Result<String, ParseError> {
        match self.next {
            Token { kind: Kind::Word, text, .. } if is_label_value(text) => {
                Ok(self.advance().text.to_owned())
            }
            _ => Err(self.unexpected(VALUE)),
        }
    }

    fn is_at(&self, kind: Kind) -> bool {
        self.next.kind == kind
    }

    /// Steps over the next token if it is of this kind.
    fn take(&mut self, kind: Kind) -> bool {
        let is_there = self.is_at(kind);
        if is_there {
            self.advance();
        }
        is_there
    }

    /// Steps over the next token and returns it.
    fn advance(&mut self) -> Token<'a> {
        self.skip(self.rest.len() - self.rest.trim_start_matches(BLANKS).len());
        let symbol = SYMBOLS.iter().find(|(text, _)| self.rest.starts_with(text));
        let (length, kind) = match symbol {
            Some((text, kind)) => (text.len(), *kind),
            None if self.rest.is_empty() => (0, Kind::End),
            None => (self.rest.find(is_no_word).unwrap_or(self.rest.len()), Kind::Word),
        };
        let token = Token { before: self.before, kind, text: self.skip(length) };
        std::mem::replace(&mut self.next, token)
    }

    /// Removes `length` bytes from the start of the rest and returns them.
    fn skip(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        self.rest = rest;
        self.before += taken.chars().count();
        taken
    }

    fn unexpected(&self, accepted: &'static str) -> ParseError {
        let wrong = if self.is_at(Kind::End) {
            "it ends here".to_owned()
        } else {
            format!("`{}` cannot stand here", shorten(self.next.text))
        };
        ParseError { at: self.next.before + 1, wrong, accepted }
    }
}

/// Characters that may separate words and symbols.
const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

/// True if a word ends before this character.
fn is_no_word(character: char) -> bool {
    BLANKS.contains(&character) || "=!(),<>".contains(character)
}

/// Number of characters of a wrong word that an error shows: the longest label and one more.
const MOST_SHOWN: usize = 64;

fn shorten(text: &str) -> String {
    let mut shown = String::new();
    for character in text.chars().take(MOST_SHOWN) {
        if character.is_ascii_graphic() {
            shown.push(character);
        } else {
            shown.extend(character.escape_debug());
        }
    }
    if text.chars().nth(MOST_SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests;
