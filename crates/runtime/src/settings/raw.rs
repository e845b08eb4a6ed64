//! A value as somebody wrote it, before any setting has judged it.

use std::fmt;

use toml::de::{DeInteger, DeTable, DeValue};

/// A value in the words of its writer. What it means is up to the setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Raw {
    /// A TOML or JSON number without fraction.
    Integer(i128),
    /// A quoted text.
    Text(String),
    /// `true` or `false`.
    Flag(bool),
    /// A list, of texts or of lists.
    List(Vec<Self>),
    /// Text without type: from `--set`, and the compiled defaults. Each setting reads it in its own way.
    Bare(String),
    /// Something no setting takes (a fraction, a date, a table), as written.
    Other(String),
}

impl Raw {
    /// The whole number, if it is one.
    pub(crate) fn integer(&self) -> Option<i128> {
        match self {
            Self::Integer(number) => Some(*number),
            Self::Bare(text) => digits(text),
            Self::Text(_) | Self::Flag(_) | Self::List(_) | Self::Other(_) => None,
        }
    }

    /// The text, if it is one.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::Bare(text) => Some(text),
            Self::Integer(_) | Self::Flag(_) | Self::List(_) | Self::Other(_) => None,
        }
    }

    /// The truth value, if it is one.
    pub(crate) fn flag(&self) -> Option<bool> {
        match self {
            Self::Flag(flag) => Some(*flag),
            Self::Bare(text) => text.parse().ok(),
            Self::Integer(_) | Self::Text(_) | Self::List(_) | Self::Other(_) => None,
        }
    }

    /// The items, if it is a list. Bare text is read as TOML: `--set 'device.command=["reboot", "-f"]'`.
    pub(crate) fn list(&self) -> Option<Vec<Self>> {
        match self {
            Self::List(items) => Some(items.clone()),
            Self::Bare(text) if text.trim_start().starts_with('[') => {
                let value = DeValue::parse(text).ok()?;
                match Self::from(value.get_ref()) {
                    Self::List(items) => Some(items),
                    Self::Integer(_) | Self::Text(_) | Self::Flag(_) | Self::Bare(_) | Self::Other(_) => None,
                }
            }
            Self::Bare(_) | Self::Integer(_) | Self::Text(_) | Self::Flag(_) | Self::Other(_) => None,
        }
    }
}

/// Digits only: a sign or a space is not part of any setting's value.
fn digits(text: &str) -> Option<i128> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

impl From<&DeValue<'_>> for Raw {
    fn from(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::String(text) => Self::Text(text.clone().into_owned()),
            DeValue::Integer(number) => integer(number),
            DeValue::Boolean(flag) => Self::Flag(*flag),
            DeValue::Array(items) => {
                Self::List(items.iter().map(|item| Self::from(item.get_ref())).collect())
            }
            DeValue::Float(number) => Self::Other(number.to_string()),
            DeValue::Datetime(date) => Self::Other(date.to_string()),
            DeValue::Table(table) => Self::Other(table_words(table)),
        }
    }
}

fn integer(number: &DeInteger<'_>) -> Raw {
    i128::from_str_radix(number.as_str(), number.radix())
        .map_or_else(|_| Raw::Other(number.as_str().to_owned()), Raw::Integer)
}

fn table_words(table: &DeTable<'_>) -> String {
    format!("a table with {} entries", table.len())
}

/// As it would stand in a TOML file.
impl fmt::Display for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", items.join(", "))
            }
            Self::Bare(text) | Self::Other(text) => write!(f, "{}", text.escape_debug()),
        }
    }
}
