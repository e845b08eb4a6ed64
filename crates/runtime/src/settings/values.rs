//! The values of settings: read from TOML, from the controller and from flags, checked by their setting, and
//! displayed.
//!
//! A value has JSON's types, because serde and the controller use them. A TOML value that JSON does not have and no
//! setting accepts (a fraction, a date, a table) becomes an object whose only key is the text to display.

use schemas::{ConfigItemType, ConfigItemValue};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Error, Map, Value};
use toml::de::{DeInteger, DeValue};

use super::keys::Settings;
use super::page::ROWS;

pub(crate) type Values = Map<String, Value>;

pub(crate) fn defaults() -> Result<Settings, Error> {
    let mut values = Values::new();
    for row in ROWS.iter() {
        let (text, literal) = readings(row.default.unwrap_or_default());
        values.insert(row.key.to_owned(), literal.unwrap_or(text));
    }
    serde_json::from_value(Value::Object(values)).map(Settings::complete)
}

/// The values of `settings` (or of a rule) by key, in the form for display: 86400 s are `1d`, however they were
/// written.
pub(crate) fn by_key(settings: &impl Serialize) -> Values {
    match serde_json::to_value(settings) {
        Ok(Value::Object(values)) => values,
        Ok(_) | Err(_) => Values::new(),
    }
}

/// Settings (or a rule) with the good `values`, of which `others` replace some by key.
///
/// # Errors
/// A value is refused; the error is the text with the accepted values.
pub(crate) fn with<'a, T: DeserializeOwned>(
    values: &Values,
    others: impl IntoIterator<Item = (&'a str, Value)>,
) -> Result<T, String> {
    let mut values = values.clone();
    values.extend(others.into_iter().map(|(key, value)| (key.to_owned(), value)));
    serde_json::from_value(Value::Object(values)).map_err(|refused| refused.to_string())
}

/// The two readings of a text without quotes: as text, and as the number, truth value or list that it looks like. A
/// sign or a space is not part of a number.
pub(crate) fn readings(text: &str) -> (Value, Option<Value>) {
    let literal = if text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse::<i64>().ok().map(Value::from)
    } else if text.trim_start().starts_with('[') {
        DeValue::parse(text).ok().map(|list| of_toml(list.get_ref()))
    } else {
        text.parse::<bool>().ok().map(Value::from)
    };
    (text.into(), literal)
}

pub(crate) fn of_toml(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Integer(number) => integer(number),
        DeValue::Boolean(flag) => (*flag).into(),
        DeValue::Array(items) => items.iter().map(|item| of_toml(item.get_ref())).collect(),
        DeValue::Float(number) => other(number.to_string()),
        DeValue::Datetime(date) => other(date.to_string()),
        DeValue::Table(table) => other(format!("a table with {} entries", table.len())),
    }
}

fn integer(number: &DeInteger<'_>) -> Value {
    match i128::from_str_radix(number.as_str(), number.radix()) {
        Ok(number) => i64::try_from(number).map_or_else(|_| other(number.to_string()), Value::from),
        Err(_) => other(number.as_str().to_owned()),
    }
}

/// A value that no setting accepts.
pub(crate) fn other(text: String) -> Value {
    Value::Object(Values::from_iter([(text, Value::Null)]))
}

/// The value of an item of the controller.
pub(crate) fn of_controller(item: &ConfigItemValue) -> Value {
    match item.item_type {
        ConfigItemType::INT => item.int_value.into(),
        ConfigItemType::STRING => item.str_value.as_str().into(),
        ConfigItemType::BOOL => item.bool_value.into(),
        ConfigItemType(other_type) => other(format!("a value of type {other_type}")),
    }
}

/// The value in the notation of TOML.
pub(crate) fn as_toml(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        Value::Array(items) => format!("[{}]", items.iter().map(as_toml).collect::<Vec<_>>().join(", ")),
        Value::Object(other) => other.keys().map(|text| text.escape_debug().to_string()).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// The value in the form for `--set`.
pub(crate) fn as_flag(value: &Value) -> String {
    value.as_str().map_or_else(|| as_toml(value), str::to_owned)
}
