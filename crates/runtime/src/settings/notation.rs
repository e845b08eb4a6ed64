//! The notations of setting values: a small type for each notation, which also has its limits.
//!
//! `#[serde(with = "Span::<1, DAY>")]` makes a field of type `Duration` be written as `"90s"` and refuse values
//! outside its limits. A refusal is a text with the accepted values.

use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use drain::policy::{MaxRetries, StatefulParallel};
use jiff::civil::Time;
use serde::de::value::{Error as Refusal, StrDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error, IntoDeserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer, forward_to_deserialize_any};
use serde_json::Value;

use super::duration;

/// A notation for values of type [`Notation::Of`].
pub(crate) trait Notation {
    type Of;

    /// Parses a value; `None` if it is not accepted.
    fn read(written: &Value) -> Option<Self::Of>;

    fn write(value: &Self::Of) -> Value;

    /// The text with the accepted values, if it is constant.
    const ACCEPTED: &str = "";

    /// The text with the accepted values.
    fn accepted() -> String {
        Self::ACCEPTED.to_owned()
    }

    /// The text with the accepted values after this value was refused. It says more than [`Self::accepted`] if a
    /// value can be wrong in many ways.
    fn accepted_instead(_refused: &Value) -> String {
        Self::accepted()
    }

    /// Parses a field for serde: `#[serde(with = "…")]` calls it.
    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self::Of, D::Error> {
        let written = Value::deserialize(deserializer)?;
        Self::read(&written).ok_or_else(|| D::Error::custom(Self::accepted_instead(&written)))
    }

    /// Writes a field for serde.
    fn serialize<S: Serializer>(value: &Self::Of, serializer: S) -> Result<S::Ok, S::Error> {
        Self::write(value).serialize(serializer)
    }
}

/// The word for "not set", if a setting has no default.
pub(crate) const NONE: &str = "-";

/// A value that may be left unset.
pub(crate) struct OrNone<N>(PhantomData<N>);

impl<N: Notation> Notation for OrNone<N> {
    type Of = Option<N::Of>;

    fn read(written: &Value) -> Option<Self::Of> {
        if written == NONE { Some(None) } else { N::read(written).map(Some) }
    }

    fn write(value: &Self::Of) -> Value {
        value.as_ref().map_or_else(|| NONE.into(), N::write)
    }

    fn accepted() -> String {
        format!("{}; `-` for none", N::accepted())
    }

    fn accepted_instead(refused: &Value) -> String {
        format!("{}; `-` for none", N::accepted_instead(refused))
    }
}

/// `true` or `false`.
pub(crate) struct Flag;

impl Notation for Flag {
    type Of = bool;
    const ACCEPTED: &str = "true or false";

    fn read(written: &Value) -> Option<bool> {
        written.as_bool()
    }

    fn write(value: &bool) -> Value {
        (*value).into()
    }
}

/// A whole number with limits.
pub(crate) struct Count<const MIN: i64, const MAX: i64, T = u32>(PhantomData<T>);

impl<const MIN: i64, const MAX: i64, T> Notation for Count<MIN, MAX, T>
where
    T: TryFrom<i64> + TryInto<i64> + Copy,
{
    type Of = T;

    fn read(written: &Value) -> Option<T> {
        let number = written.as_i64().filter(|number| (MIN..=MAX).contains(number))?;
        number.try_into().ok()
    }

    fn write(value: &T) -> Value {
        (*value).try_into().unwrap_or(MAX).into()
    }

    fn accepted() -> String {
        format!("a number from {MIN} to {MAX}")
    }
}

pub(crate) const MINUTE: u64 = 60;
pub(crate) const HOUR: u64 = 60 * MINUTE;
pub(crate) const DAY: u64 = 24 * HOUR;
pub(crate) const YEAR: u64 = 365 * DAY;

/// The largest number in EVE's settings.
pub(crate) const MOST: i64 = u32::MAX as i64;

/// A duration as a bare number of hours or seconds: EVE's keys fix the unit. No value overflows: 2^32 hours are 2^44
/// seconds (EVE's own code overflows).
pub(crate) struct Number<const UNIT: u64, const MIN: i64, const MAX: i64>;

impl<const UNIT: u64, const MIN: i64, const MAX: i64> Notation for Number<UNIT, MIN, MAX> {
    type Of = Duration;

    fn read(written: &Value) -> Option<Duration> {
        Count::<MIN, MAX>::read(written).map(|number| Duration::from_secs(u64::from(number) * UNIT))
    }

    fn write(value: &Duration) -> Value {
        (value.as_secs() / UNIT).into()
    }

    fn accepted() -> String {
        let unit = if UNIT == HOUR { "hours" } else { "seconds" };
        format!("{} ({unit}, without unit)", Count::<MIN, MAX>::accepted())
    }
}

/// A duration with its unit, with limits in seconds.
pub(crate) struct Span<const SHORTEST: u64, const LONGEST: u64>;

impl<const SHORTEST: u64, const LONGEST: u64> Span<SHORTEST, LONGEST> {
    const LIMITS: RangeInclusive<Duration> = Duration::from_secs(SHORTEST)..=Duration::from_secs(LONGEST);
}

impl<const SHORTEST: u64, const LONGEST: u64> Notation for Span<SHORTEST, LONGEST> {
    type Of = Duration;

    fn read(written: &Value) -> Option<Duration> {
        duration::parse(written.as_str()?).filter(|duration| Self::LIMITS.contains(duration))
    }

    fn write(value: &Duration) -> Value {
        duration::show(*value).into()
    }

    fn accepted() -> String {
        let (shortest, longest) =
            (duration::show(*Self::LIMITS.start()), duration::show(*Self::LIMITS.end()));
        format!("a duration such as `90s`, from {shortest} to {longest}")
    }
}

/// A time on the clock of some zone, to the minute.
pub(crate) struct TimeOfDay;

impl Notation for TimeOfDay {
    type Of = Time;
    const ACCEPTED: &str = "a time of day such as `22:30`";

    fn read(written: &Value) -> Option<Time> {
        let text = written.as_str().filter(|text| text.len() == "22:30".len())?;
        Time::strptime("%H:%M", text).ok()
    }

    fn write(value: &Time) -> Value {
        value.strftime("%H:%M").to_string().into()
    }
}

/// A time limit of a wait, where zero means no limit.
pub(crate) struct Endless<const LONGEST: u64>;

impl<const LONGEST: u64> Notation for Endless<LONGEST> {
    type Of = Option<Duration>;

    fn read(written: &Value) -> Option<Self::Of> {
        Span::<0, LONGEST>::read(written).map(|limit| Some(limit).filter(|limit| !limit.is_zero()))
    }

    fn write(value: &Self::Of) -> Value {
        Span::<0, LONGEST>::write(&value.unwrap_or_default())
    }

    fn accepted() -> String {
        format!("{}; `0s` for ever", Span::<0, LONGEST>::accepted())
    }
}

/// The pause before an attempt without a new command, where zero means no such attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retry {
    /// Written `0s`: only a new command leads to another attempt.
    #[default]
    Never,
    /// The pause after the failure.
    After(Duration),
}

impl Notation for Retry {
    type Of = Self;

    fn read(written: &Value) -> Option<Self> {
        let pause = Span::<0, { 30 * DAY }>::read(written)?;
        Some(if pause.is_zero() { Self::Never } else { Self::After(pause) })
    }

    fn write(value: &Self) -> Value {
        let pause = match value {
            Self::Never => Duration::ZERO,
            Self::After(pause) => *pause,
        };
        duration::show(pause).into()
    }

    fn accepted() -> String {
        format!("{}; `0s` never", Span::<0, { 30 * DAY }>::accepted())
    }
}

/// A limit for the refused evictions of a pod: a number, a word of its own, or none.
pub(crate) struct Retries<const MOST: i64>;

impl<const MOST: i64> Notation for Retries<MOST> {
    type Of = MaxRetries;

    fn read(written: &Value) -> Option<MaxRetries> {
        match written.as_str() {
            Some(NONE) => Some(MaxRetries::Unlimited),
            Some(MaxRetries::AUTO) => Some(MaxRetries::Auto),
            Some(_) => None,
            None => Count::<0, MOST>::read(written).map(MaxRetries::Times),
        }
    }

    fn write(value: &MaxRetries) -> Value {
        match value {
            MaxRetries::Unlimited => NONE.into(),
            MaxRetries::Auto => MaxRetries::AUTO.into(),
            MaxRetries::Times(times) => (*times).into(),
        }
    }

    fn accepted() -> String {
        format!("{}, or `{}`; `-` for none", Count::<0, MOST>::accepted(), MaxRetries::AUTO)
    }
}

/// A number of pods that leave at a time. `auto` is no setting, because a device keeps MCM's order.
pub(crate) struct AtATime<const MOST: i64>;

impl<const MOST: i64> Notation for AtATime<MOST> {
    type Of = StatefulParallel;

    fn read(written: &Value) -> Option<StatefulParallel> {
        Count::<1, MOST, usize>::read(written).map(StatefulParallel::Count)
    }

    fn write(value: &StatefulParallel) -> Value {
        match value {
            StatefulParallel::Count(number) => Count::<1, MOST, usize>::write(number),
            StatefulParallel::Auto => StatefulParallel::AUTO.into(),
        }
    }

    fn accepted() -> String {
        Count::<1, MOST>::accepted()
    }
}

/// Linux' limit for a path in bytes, with the terminating NUL.
const PATH_MAX: usize = 4096;

/// A path that begins with `/`.
pub(crate) struct AbsolutePath;

impl Notation for AbsolutePath {
    type Of = PathBuf;
    const ACCEPTED: &str = "an absolute path";

    fn read(written: &Value) -> Option<PathBuf> {
        let text = written.as_str()?;
        let fits = text.starts_with('/') && text.len() < PATH_MAX && !text.contains('\0');
        fits.then(|| PathBuf::from(text))
    }

    fn write(value: &PathBuf) -> Value {
        value.display().to_string().into()
    }
}

/// A word of an enum, as its `Deserialize` knows them.
pub(crate) struct Word<T>(PhantomData<T>);

impl<T: DeserializeOwned + Serialize> Notation for Word<T> {
    type Of = T;

    fn read(written: &Value) -> Option<T> {
        let word: StrDeserializer<'_, Refusal> = written.as_str()?.into_deserializer();
        T::deserialize(word).ok()
    }

    fn write(value: &T) -> Value {
        serde_json::to_value(value).unwrap_or_default()
    }

    fn accepted() -> String {
        let mut words: &[&str] = &[];
        // The probe refuses every value: only the words are used.
        T::deserialize(Probe(&mut words)).map_or_else(|_| quoted(words), |_| String::new())
    }
}

/// The words in the form `` `a`, `b` ``.
pub(crate) fn quoted(words: &[&str]) -> String {
    format!("`{}`", words.join("`, `"))
}

/// A deserializer without a value, which notes the words of the enum that is deserialized.
struct Probe<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Refusal;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Refusal> {
        Err(Refusal::custom("not one of a few words"))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        words: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Refusal> {
        *self.0 = words;
        Err(Refusal::custom("no value"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}
