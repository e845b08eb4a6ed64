//! Reads enums that EVE writes as integers.

use std::fmt;

use serde::Deserializer;
use serde::de::{Error, Visitor};

/// One accepted number, and EVE's name for it.
pub(crate) type Code = (u8, &'static str);

/// Reads an integer that must be one of `codes`. Null is 0, as in Go. For any other value the error lists the accepted
/// ones.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
    codes: &'static [Code],
) -> Result<u8, D::Error> {
    deserializer.deserialize_any(CodeVisitor { codes })
}

/// The accepted codes as text, for error messages and JSON Schemas: `0 UNKNOWN, 1 NOTSUPPORTED, …`.
pub(crate) fn listed(codes: &[Code]) -> String {
    let names: Vec<String> = codes.iter().map(|(code, name)| format!("{code} {name}")).collect();
    names.join(", ")
}

struct CodeVisitor {
    codes: &'static [Code],
}

impl CodeVisitor {
    fn out_of_range<E: Error>(&self, number: impl fmt::Display) -> E {
        E::custom(format_args!("{number} is out of range; accepted: {}", listed(self.codes)))
    }
}

impl Visitor<'_> for CodeVisitor {
    type Value = u8;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "one of the integers {}", listed(self.codes))
    }

    fn visit_unit<E: Error>(self) -> Result<u8, E> {
        Ok(0)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u8, E> {
        let known = self.codes.iter().find(|(code, _)| u64::from(*code) == number);
        known.map_or_else(|| Err(self.out_of_range(number)), |(code, _)| Ok(*code))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<u8, E> {
        match u64::try_from(number) {
            Ok(positive) => self.visit_u64(positive),
            Err(_) => Err(self.out_of_range(number)),
        }
    }
}
