//! Passes a [`Tree`] to serde by Go's rules; see the parent module. Values of a wrong type are refused by the types' own
//! visitors.

use std::fmt::Display;
use std::mem;

use serde::de::value::{MapAccessDeserializer, MapDeserializer, SeqDeserializer};
use serde::de::{Error, Expected, IntoDeserializer, MapAccess, Unexpected, Visitor};
use serde::{Deserializer, forward_to_deserialize_any};
use text::first_chars;

use super::ParseError;
use super::tree::Tree;

/// Number of characters that are kept of a message, because it repeats the bad text, which may be very long.
const MAX_MESSAGE: usize = 300;

/// The messages of our own types have this text between the reason and the accepted values.
const ACCEPTED: &str = "; accepted: ";

impl ParseError {
    pub(super) fn new(found: &str, accepted: &str) -> Self {
        let (found, accepted) = (first_chars(found, MAX_MESSAGE), first_chars(accepted, MAX_MESSAGE));
        Self { topic: "", field: String::new(), found, accepted }
    }

    /// Puts the name of the outer field, or `[index]`, in front of the path.
    fn inside(self, outer: &str) -> Self {
        let dot =
            if self.field.is_empty() || self.field.starts_with('[') || outer.is_empty() { "" } else { "." };
        Self { field: first_chars(&format!("{outer}{dot}{}", self.field), MAX_MESSAGE), ..self }
    }
}

impl Error for ParseError {
    fn custom<T: Display>(message: T) -> Self {
        let message = message.to_string();
        let (reason, accepted) = message.split_once(ACCEPTED).unwrap_or((&message, "another value"));
        Self::new(reason, accepted)
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let expected = expected.to_string();
        let range = |least: i128, most: i128| format!("a whole number from {least} to {most}");
        let accepted = match expected.as_str() {
            "u8" => range(0, u8::MAX.into()),
            "u32" => range(0, u32::MAX.into()),
            "u64" => range(0, u64::MAX.into()),
            "i32" => range(i32::MIN.into(), i32::MAX.into()),
            "i64" => range(i64::MIN.into(), i64::MAX.into()),
            "a boolean" => "true or false".to_owned(),
            "a sequence" => "a list".to_owned(),
            "unit" => "nothing".to_owned(),
            name if name == "a map" || name.starts_with("struct ") => "an object".to_owned(),
            _ => expected,
        };
        Self::new(&found.to_string(), &accepted)
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(&format!("there is no {field}"), &format!("an object with the field {field}"))
    }

    fn unknown_variant(found: &str, expected: &'static [&'static str]) -> Self {
        Self::new(&format!("string {found:?}"), &expected.join(", "))
    }
}

/// A part of the text, and its name or `[index]` in the outer part. The whole text has no name, and a name has none.
pub(super) struct Part {
    pub(super) name: String,
    pub(super) tree: Tree,
}

impl IntoDeserializer<'_, ParseError> for Part {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// The entries of an object, for serde.
fn entries<'de>(fields: Vec<(String, Tree)>) -> impl MapAccess<'de, Error = ParseError> {
    MapDeserializer::new(fields.into_iter().map(|(name, tree)| {
        let key = Part { name: String::new(), tree: Tree::Text(name.clone()) };
        (key, Part { name, tree })
    }))
}

/// The fields of a struct, under the type's own names. Unknown names and nulls are left out; the last of equal names
/// counts.
fn known(mut fields: Vec<(String, Tree)>, names: &[&str]) -> Vec<(String, Tree)> {
    let value_of = |name: &&str| {
        let mut last_first = fields.iter_mut().rev();
        let (_, value) =
            last_first.find(|(key, value)| key.eq_ignore_ascii_case(name) && !matches!(value, Tree::Null))?;
        Some(((*name).to_owned(), mem::replace(value, Tree::Null)))
    };
    names.iter().filter_map(value_of).collect()
}

/// Defines the methods for types that have a zero value, which null stands for.
macro_rules! null_is {
    ($($zero:expr => $($method:ident)+;)*) => {$($(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParseError> {
            let tree = if matches!(self.tree, Tree::Null) { $zero } else { self.tree };
            Self { tree, ..self }.deserialize_any(visitor)
        }
    )+)*};
}

impl<'de> Deserializer<'de> for Part {
    type Error = ParseError;

    null_is! {
        Tree::Bool(false) => deserialize_bool;
        Tree::Unsigned(0) => deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
                             deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64;
        Tree::Text(String::new()) => deserialize_str deserialize_string;
        Tree::List(Vec::new()) => deserialize_seq;
    }

    forward_to_deserialize_any! {
        i128 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct identifier ignored_any
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParseError> {
        let read = match self.tree {
            Tree::Null => visitor.visit_unit(),
            Tree::Bool(value) => visitor.visit_bool(value),
            Tree::Unsigned(value) => visitor.visit_u64(value),
            Tree::Signed(value) => visitor.visit_i64(value),
            Tree::Float(value) => visitor.visit_f64(value),
            Tree::Text(value) => visitor.visit_string(value),
            Tree::List(items) => {
                let named = |(index, tree)| Self { name: format!("[{index}]"), tree };
                visitor.visit_seq(SeqDeserializer::new(items.into_iter().enumerate().map(named)))
            }
            Tree::Object(fields) => visitor.visit_map(entries(fields)),
        };
        read.map_err(|error| error.inside(&self.name))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParseError> {
        if matches!(self.tree, Tree::Null) { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ParseError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_map<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, ParseError> {
        if matches!(self.tree, Tree::List(_)) {
            // The visitor of a struct would take the elements for its fields.
            return Err(ParseError::invalid_type(Unexpected::Seq, &visitor).inside(&self.name));
        }
        if matches!(self.tree, Tree::Null) {
            self.tree = Tree::Object(Vec::new());
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        mut self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ParseError> {
        if let Tree::Object(fields) = self.tree {
            self.tree = Tree::Object(known(fields, names));
        }
        self.deserialize_map(visitor)
    }

    /// A variant is a string, or an object with one field, which holds its content. Go has no such types: if the content
    /// has fields of its own, their names match exactly.
    fn deserialize_enum<V: Visitor<'de>>(
        mut self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ParseError> {
        if let Tree::Text(variant) = &mut self.tree {
            self.tree = Tree::Object(vec![(mem::take(variant), Tree::Null)]);
        }
        if let Tree::Object(variant) = &mut self.tree
            && let [(_, content)] = variant.as_mut_slice()
        {
            if let Tree::Object(fields) = content {
                fields.retain(|(_, value)| !matches!(value, Tree::Null));
            }
            let variant = MapAccessDeserializer::new(entries(mem::take(variant)));
            return visitor.visit_enum(variant).map_err(|error| error.inside(&self.name));
        }
        self.deserialize_any(visitor).map_err(|error| ParseError { accepted: names.join(", "), ..error })
    }
}
