//! Passes a [`Tree`] to serde by Go's rules; see the parent module.

use std::fmt::{self, Display};
use std::vec::IntoIter;

use serde::Deserializer;
use serde::de::{
    DeserializeSeed, EnumAccess, Error, Expected, MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::Number;

use super::tree::Tree;

/// An error in one field: its path, the reason, and what is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FieldError {
    pub(super) path: String,
    pub(super) reason: String,
    pub(super) accepted: String,
}

impl FieldError {
    fn new(reason: &str, accepted: &str) -> Self {
        Self { path: String::new(), reason: one_line(reason), accepted: one_line(accepted) }
    }

    /// Puts the name of the outer field, or `[index]`, in front of the path.
    fn inside(mut self, outer: &str) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = one_line(&format!("{outer}{dot}{}", self.path));
        self
    }
}

/// Number of characters that are kept of a message, because it repeats the bad text, which may be very long.
const MAX_MESSAGE: usize = 300;

/// The start of a text that came from outside, without control characters: fit for a log line.
fn one_line(text: &str) -> String {
    text::plain_chars(text).take(MAX_MESSAGE).collect()
}

impl Display for FieldError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}; accepted: {}", self.path, self.reason, self.accepted)
    }
}

impl std::error::Error for FieldError {}

/// The messages of our own types have this text between the reason and the accepted values.
const ACCEPTED: &str = "; accepted: ";

impl Error for FieldError {
    fn custom<T: Display>(message: T) -> Self {
        let message = message.to_string();
        let (reason, accepted) = message.split_once(ACCEPTED).unwrap_or((&message, "another value"));
        Self::new(reason, accepted)
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(&found.to_string(), &expected.to_string())
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(&format!("there is no {field}"), &format!("an object with the field {field}"))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(&found.to_string(), &expected.to_string())
    }

    fn unknown_variant(found: &str, expected: &'static [&'static str]) -> Self {
        Self::new(&format!("string {found:?}"), &expected.join(", "))
    }
}

impl Tree {
    fn is_not(&self, accepted: &str) -> FieldError {
        let found = match self {
            Self::Null => Unexpected::Unit,
            Self::Bool(value) => Unexpected::Bool(*value),
            Self::Number(number) => return FieldError::new(&format!("number {number}"), accepted),
            Self::Text(text) => Unexpected::Str(text),
            Self::List(_) => Unexpected::Seq,
            Self::Object(_) => Unexpected::Map,
        };
        FieldError::new(&found.to_string(), accepted)
    }

    /// This value as a whole number from `least` to `most`; null is 0.
    fn integer(&self, least: i128, most: i128) -> Result<i128, FieldError> {
        let value = match self {
            Self::Null => Some(0),
            Self::Number(number) => {
                number.as_u64().map(i128::from).or_else(|| number.as_i64().map(i128::from))
            }
            Self::Bool(_) | Self::Text(_) | Self::List(_) | Self::Object(_) => None,
        };
        value
            .filter(|value| (least..=most).contains(value))
            .ok_or_else(|| self.is_not(&format!("a whole number from {least} to {most}")))
    }
}

fn visit_number<'de, V: Visitor<'de>>(number: &Number, visitor: V) -> Result<V::Value, FieldError> {
    if let Some(value) = number.as_u64() {
        visitor.visit_u64(value)
    } else if let Some(value) = number.as_i64() {
        visitor.visit_i64(value)
    } else {
        visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN))
    }
}

/// Defines one method per integer type. It checks the range first, so that the error names the range.
macro_rules! integers {
    ($($method:ident $visit:ident $type:ty),*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
            let value = self.integer(i128::from(<$type>::MIN), i128::from(<$type>::MAX))?;
            visitor.$visit(<$type>::try_from(value).map_err(FieldError::custom)?)
        }
    )*};
}

impl<'de> Deserializer<'de> for Tree {
    type Error = FieldError;

    integers!(
        deserialize_u8 visit_u8 u8, deserialize_u16 visit_u16 u16,
        deserialize_u32 visit_u32 u32, deserialize_u64 visit_u64 u64,
        deserialize_i8 visit_i8 i8, deserialize_i16 visit_i16 i16,
        deserialize_i32 visit_i32 i32, deserialize_i64 visit_i64 i64
    );

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match self {
            Self::Null => visitor.visit_unit(),
            Self::Bool(value) => visitor.visit_bool(value),
            Self::Number(number) => visit_number(&number, visitor),
            Self::Text(text) => visitor.visit_string(text),
            Self::List(items) => visitor.visit_seq(Items::new(items)),
            Self::Object(fields) => visitor.visit_map(Fields::named(fields)),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match self {
            Self::Null => visitor.visit_bool(false),
            Self::Bool(value) => visitor.visit_bool(value),
            Self::Number(_) | Self::Text(_) | Self::List(_) | Self::Object(_) => {
                Err(self.is_not("true or false"))
            }
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match self {
            Self::Null => visitor.visit_str(""),
            Self::Text(text) => visitor.visit_string(text),
            Self::Bool(_) | Self::Number(_) | Self::List(_) | Self::Object(_) => Err(self.is_not("a string")),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match self {
            Self::Null => visitor.visit_none(),
            Self::Bool(_) | Self::Number(_) | Self::Text(_) | Self::List(_) | Self::Object(_) => {
                visitor.visit_some(self)
            }
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match self {
            Self::Null => visitor.visit_seq(Items::new(Vec::new())),
            Self::List(items) => visitor.visit_seq(Items::new(items)),
            Self::Bool(_) | Self::Number(_) | Self::Text(_) | Self::Object(_) => Err(self.is_not("a list")),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match self {
            Self::Null => visitor.visit_map(Fields::named(Vec::new())),
            Self::Object(fields) => visitor.visit_map(Fields::named(fields)),
            Self::Bool(_) | Self::Number(_) | Self::Text(_) | Self::List(_) => Err(self.is_not("an object")),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        match self {
            Self::Null => visitor.visit_map(Fields::named(Vec::new())),
            Self::Object(fields) => visitor.visit_map(Fields::of_struct(fields, names)),
            Self::Bool(_) | Self::Number(_) | Self::Text(_) | Self::List(_) => Err(self.is_not("an object")),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        match self {
            Self::Text(name) => visitor.visit_enum(Variant { name, content: Self::Null }),
            Self::Object(fields) => match <[_; 1]>::try_from(fields) {
                Ok([(name, content)]) => visitor.visit_enum(Variant { name, content }),
                Err(fields) => Err(Self::Object(fields).is_not(&names.join(", "))),
            },
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::List(_) => {
                Err(self.is_not(&names.join(", ")))
            }
        }
    }

    forward_to_deserialize_any! {
        i128 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct identifier ignored_any
    }
}

/// Gives serde the elements of a list.
struct Items {
    rest: IntoIter<Tree>,
    next: usize,
}

impl Items {
    fn new(items: Vec<Tree>) -> Self {
        Self { rest: items.into_iter(), next: 0 }
    }
}

impl<'de> SeqAccess<'de> for Items {
    type Error = FieldError;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, FieldError> {
        let Some(item) = self.rest.next() else {
            return Ok(None);
        };
        let index = self.next;
        self.next += 1;
        seed.deserialize(item).map(Some).map_err(|error| error.inside(&format!("[{index}]")))
    }
}

/// Gives serde the entries of an object, under the names that the type knows.
struct Fields {
    rest: IntoIter<(String, Tree)>,
    value: Option<(String, Tree)>,
}

impl Fields {
    /// The entries of a map, with unchanged keys.
    fn named(entries: Vec<(String, Tree)>) -> Self {
        Self { rest: entries.into_iter(), value: None }
    }

    /// The entries of a struct, under the type's own field names. Unknown names and nulls are left out; the last of
    /// equal names counts.
    fn of_struct(entries: Vec<(String, Tree)>, names: &'static [&'static str]) -> Self {
        let mut known: Vec<(String, Tree)> = Vec::with_capacity(names.len().min(entries.len()));
        for (key, value) in entries {
            let Some(name) = names.iter().find(|name| name.eq_ignore_ascii_case(&key)) else {
                continue;
            };
            if matches!(value, Tree::Null) {
                continue;
            }
            match known.iter_mut().find(|(seen, _)| seen == name) {
                Some(entry) => entry.1 = value,
                None => known.push(((*name).to_owned(), value)),
            }
        }
        Self::named(known)
    }
}

impl<'de> MapAccess<'de> for Fields {
    type Error = FieldError;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, FieldError> {
        let Some((name, value)) = self.rest.next() else {
            return Ok(None);
        };
        let key = Tree::Text(name.clone());
        self.value = Some((name, value));
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, FieldError> {
        let (name, value) = self.value.take().ok_or_else(|| FieldError::custom("a value before its key"))?;
        seed.deserialize(value).map_err(|error| error.inside(&name))
    }
}

/// A variant of an enum: a string, or an object with one field, which holds the variant's content.
struct Variant {
    name: String,
    content: Tree,
}

impl<'de> EnumAccess<'de> for Variant {
    type Error = FieldError;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), FieldError> {
        let name = seed.deserialize(Tree::Text(self.name.clone()))?;
        Ok((name, self))
    }
}

impl<'de> VariantAccess<'de> for Variant {
    type Error = FieldError;

    fn unit_variant(self) -> Result<(), FieldError> {
        if matches!(self.content, Tree::Null) {
            return Ok(());
        }
        Err(self.content.is_not("nothing").inside(&self.name))
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, FieldError> {
        seed.deserialize(self.content).map_err(|error| error.inside(&self.name))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, FieldError> {
        self.content.deserialize_seq(visitor).map_err(|error| error.inside(&self.name))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        self.content.deserialize_struct("", names, visitor).map_err(|error| error.inside(&self.name))
    }
}
