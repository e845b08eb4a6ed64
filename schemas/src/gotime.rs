//! A point in time as EVE's Go agents write it.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A time: RFC 3339 with 0 to 9 fraction digits, without trailing zeros when written.
///
/// The default is Go's zero time, `0001-01-01T00:00:00Z`, which means "unset". The offset of a time that was read is
/// kept and written back, so that EVE's values survive byte for byte. Equality and order compare only the instant.
#[derive(Clone, Copy)]
pub struct GoTime {
    instant: Timestamp,
    offset: Offset,
}

impl GoTime {
    /// Go's zero time: unset.
    pub const ZERO: Self = Self { instant: Timestamp::constant(ZERO_SECONDS, 0), offset: Offset::UTC };

    /// True if this is Go's zero time.
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// The instant, without the offset.
    pub const fn timestamp(self) -> Timestamp {
        self.instant
    }

    /// The instant, or `None` when unset.
    pub fn set(self) -> Option<Timestamp> {
        (!self.is_zero()).then_some(self.instant)
    }
}

/// Seconds from 1970 back to the year 1.
const ZERO_SECONDS: i64 = -62_135_596_800;

impl Default for GoTime {
    fn default() -> Self {
        Self::ZERO
    }
}

impl From<Timestamp> for GoTime {
    fn from(instant: Timestamp) -> Self {
        Self { instant, offset: Offset::UTC }
    }
}

impl From<GoTime> for Timestamp {
    fn from(time: GoTime) -> Self {
        time.instant
    }
}

impl PartialEq for GoTime {
    fn eq(&self, other: &Self) -> bool {
        self.instant == other.instant
    }
}

impl Eq for GoTime {}

impl PartialOrd for GoTime {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for GoTime {
    fn cmp(&self, other: &Self) -> Ordering {
        self.instant.cmp(&other.instant)
    }
}

impl Hash for GoTime {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.instant.hash(state);
    }
}

impl fmt::Display for GoTime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let civil = self.offset.to_datetime(self.instant);
        write!(formatter, "{:04}-{:02}-{:02}", civil.year(), civil.month(), civil.day())?;
        write!(formatter, "T{:02}:{:02}:{:02}", civil.hour(), civil.minute(), civil.second())?;
        write_fraction(formatter, civil.subsec_nanosecond())?;
        write_offset(formatter, self.offset.seconds())
    }
}

fn write_fraction(formatter: &mut fmt::Formatter<'_>, nanoseconds: i32) -> fmt::Result {
    if nanoseconds == 0 {
        return Ok(());
    }
    let digits = format!("{nanoseconds:09}");
    write!(formatter, ".{}", digits.trim_end_matches('0'))
}

fn write_offset(formatter: &mut fmt::Formatter<'_>, seconds: i32) -> fmt::Result {
    if seconds == 0 {
        return formatter.write_str("Z");
    }
    let sign = if seconds < 0 { '-' } else { '+' };
    let minutes = seconds.abs() / 60;
    write!(formatter, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

/// The same text as [`fmt::Display`], so that a time in a log line or a failed assertion is readable.
impl fmt::Debug for GoTime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "GoTime({self})")
    }
}

/// The error for a text that is not a time as EVE writes it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a time; accepted: RFC 3339 with at most 9 fraction digits, as 2026-08-22T16:10:11.5Z"
)]
pub struct GoTimeError {
    text: String,
}

impl FromStr for GoTime {
    type Err = GoTimeError;

    fn from_str(text: &str) -> Result<Self, GoTimeError> {
        read(text.as_bytes()).ok_or_else(|| GoTimeError { text: text.chars().take(MAX_SHOWN).collect() })
    }
}

/// Number of characters of a bad time that the error repeats; the longest valid time has 35.
const MAX_SHOWN: usize = 40;

/// Reads `YYYY-MM-DDTHH:MM:SS[.fraction](Z|±HH:MM)`: the strict form that Go's JSON reader accepts.
fn read(text: &[u8]) -> Option<GoTime> {
    let (head, rest) = text.split_at_checked(19)?;
    let &[y1, y2, y3, y4, b'-', mo1, mo2, b'-', d1, d2, b'T', h1, h2, b':', mi1, mi2, b':', s1, s2] = head
    else {
        return None;
    };
    let (nanosecond, rest) = read_fraction(rest)?;
    let offset = read_offset(rest)?;
    let civil = DateTime::new(
        i16::try_from(number(&[y1, y2, y3, y4])?).ok()?,
        small(&[mo1, mo2])?,
        small(&[d1, d2])?,
        small(&[h1, h2])?,
        small(&[mi1, mi2])?,
        small(&[s1, s2])?,
        nanosecond,
    )
    .ok()?;
    let instant = offset.to_timestamp(civil).ok()?;
    Some(GoTime { instant, offset })
}

fn read_fraction(text: &[u8]) -> Option<(i32, &[u8])> {
    let Some(text) = text.strip_prefix(b".") else {
        return Some((0, text));
    };
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 || 9 < count {
        return None;
    }
    let (digits, rest) = text.split_at_checked(count)?;
    let missing = u32::try_from(9 - count).ok()?;
    Some((number(digits)? * 10_i32.pow(missing), rest))
}

fn read_offset(text: &[u8]) -> Option<Offset> {
    let (sign, hours, minutes) = match text {
        b"Z" => return Some(Offset::UTC),
        &[sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => (sign, number(&[h1, h2])?, number(&[m1, m2])?),
        _ => return None,
    };
    if 23 < hours || 59 < minutes {
        return None;
    }
    let seconds = (hours * 60 + minutes) * 60;
    Offset::from_seconds(if sign == b'-' { -seconds } else { seconds }).ok()
}

/// The value of the digits. There are at most nine of them, so the sum cannot overflow.
fn number(digits: &[u8]) -> Option<i32> {
    digits
        .iter()
        .try_fold(0_i32, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + i32::from(digit - b'0')))
}

fn small(digits: &[u8]) -> Option<i8> {
    i8::try_from(number(digits)?).ok()
}

impl Serialize for GoTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TimeVisitor)
    }
}

struct TimeVisitor;

impl Visitor<'_> for TimeVisitor {
    type Value = GoTime;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a time as 2026-08-22T16:10:11.5Z")
    }

    fn visit_unit<E: Error>(self) -> Result<GoTime, E> {
        Ok(GoTime::ZERO)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<GoTime, E> {
        text.parse().map_err(E::custom)
    }
}

impl JsonSchema for GoTime {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "GoTime".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "format": "date-time",
            "description": "RFC 3339, at most 9 fraction digits; 0001-01-01T00:00:00Z = unset"
        })
    }
}

#[cfg(test)]
mod tests;
