//! A JSON value in which the fields of an object keep their order and repetitions: Go's rules about repeated names
//! need both, and `serde_json::Value` keeps neither.

use std::{fmt, iter};

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

pub(super) enum Tree {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(String),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

/// Defines the methods for the values that have no parts.
macro_rules! leaves {
    ($($method:ident($type:ty) $variant:ident;)*) => {$(
        fn $method<E>(self, value: $type) -> Result<Tree, E> {
            Ok(Tree::$variant(value.into()))
        }
    )*};
}

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    leaves! {
        visit_bool(bool) Bool;
        visit_u64(u64) Unsigned;
        visit_i64(i64) Signed;
        visit_f64(f64) Float;
        visit_str(&str) Text;
    }

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        iter::from_fn(|| items.next_element().transpose()).collect::<Result<_, _>>().map(Tree::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Tree, A::Error> {
        iter::from_fn(|| fields.next_entry().transpose()).collect::<Result<_, _>>().map(Tree::Object)
    }
}
