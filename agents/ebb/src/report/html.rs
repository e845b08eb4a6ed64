//! A text in HTML. What is not written in this program can get into it in one way only: escaped.

use std::fmt::Write;

use super::scale::Share;

/// Most characters of a text that is shown when the pointer rests on a place.
const MOST_OF_TITLE: usize = 1000;

/// HTML that grows.
#[derive(Debug, Default)]
pub(super) struct Html(String);

impl Html {
    /// Markup of ours. It is `'static`, so that no text of others can be taken for it.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// At most so many characters of a text, with a mark where it was cut: on one line, without any that control
    /// a terminal or the direction of text, and escaped for elements and for attributes in quotes.
    pub(super) fn text(&mut self, text: &str, most_chars: usize) -> &mut Self {
        for character in text::first_chars(text, most_chars).chars() {
            match character {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                plain => self.0.push(plain),
            }
        }
        self
    }

    /// As [`Html::text`]; what is cut off is in the title.
    pub(super) fn label(&mut self, text: &str, most_chars: usize) -> &mut Self {
        if text.chars().nth(most_chars).is_none() {
            return self.text(text, most_chars);
        }
        self.raw("<span title=\"").title(text).raw("\">").text(text, most_chars).raw("</span>")
    }

    /// A text as the value of a title.
    pub(super) fn title(&mut self, text: &str) -> &mut Self {
        self.text(text, MOST_OF_TITLE)
    }

    /// A number.
    pub(super) fn number(&mut self, number: usize) -> &mut Self {
        // Writing to a String cannot fail.
        write!(self.0, "{number}").unwrap_or_default();
        self
    }

    /// A part of a width, with its sign of percent.
    pub(super) fn share(&mut self, share: Share) -> &mut Self {
        write!(self.0, "{share}").unwrap_or_default();
        self
    }

    /// The whole text.
    pub(super) fn into_text(self) -> String {
        self.0
    }
}
