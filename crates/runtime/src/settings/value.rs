//! How a setting's type is read, what it accepts and how it is shown: one small impl per type.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::duration;
use super::raw::Raw;

/// A type that a setting can have.
pub(crate) trait SettingValue: Sized + Clone {
    /// What bounds it: a range, a span of time, nothing.
    type Limits: Sync;

    /// The value that `raw` names, or `None` if it is not accepted.
    fn read(raw: &Raw, limits: &Self::Limits) -> Option<Self>;

    /// What is accepted, in words, for problems and for the documentation.
    fn accepted(limits: &Self::Limits) -> String;

    /// What is accepted instead of a value that was refused, in words; more than [`Self::accepted`] where the value
    /// can be wrong in many ways.
    fn accepted_instead(_refused: &Raw, limits: &Self::Limits) -> String {
        Self::accepted(limits)
    }

    /// The value as it would be given to `--set`.
    fn show(&self) -> String;
}

/// The word for "nothing is set" where a setting has no default.
const NONE: &str = "-";

impl<T: SettingValue> SettingValue for Option<T> {
    type Limits = T::Limits;

    fn read(raw: &Raw, limits: &Self::Limits) -> Option<Self> {
        if raw.text() == Some(NONE) { Some(None) } else { T::read(raw, limits).map(Some) }
    }

    fn accepted(limits: &Self::Limits) -> String {
        format!("{}; `-` for none", T::accepted(limits))
    }

    fn accepted_instead(refused: &Raw, limits: &Self::Limits) -> String {
        format!("{}; `-` for none", T::accepted_instead(refused, limits))
    }

    fn show(&self) -> String {
        self.as_ref().map_or_else(|| NONE.to_owned(), T::show)
    }
}

impl SettingValue for u32 {
    type Limits = RangeInclusive<Self>;

    fn read(raw: &Raw, limits: &Self::Limits) -> Option<Self> {
        Self::try_from(raw.integer()?).ok().filter(|number| limits.contains(number))
    }

    fn accepted(limits: &Self::Limits) -> String {
        format!("a number from {} to {}", limits.start(), limits.end())
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl SettingValue for i32 {
    type Limits = ();

    fn read(raw: &Raw, (): &()) -> Option<Self> {
        Self::try_from(raw.integer()?).ok()
    }

    fn accepted((): &()) -> String {
        format!("a number from {} to {}", Self::MIN, Self::MAX)
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl SettingValue for bool {
    type Limits = ();

    fn read(raw: &Raw, (): &()) -> Option<Self> {
        raw.flag()
    }

    fn accepted((): &()) -> String {
        "true or false".to_owned()
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// The shortest and the longest duration that a setting takes.
pub(crate) type Span = RangeInclusive<Duration>;

impl SettingValue for Duration {
    type Limits = Span;

    fn read(raw: &Raw, limits: &Span) -> Option<Self> {
        duration::parse(raw.text()?).filter(|duration| limits.contains(duration))
    }

    fn accepted(limits: &Span) -> String {
        let (shortest, longest) = (duration::show(*limits.start()), duration::show(*limits.end()));
        format!("a duration such as `90s`, from {shortest} to {longest}")
    }

    fn show(&self) -> String {
        duration::show(*self)
    }
}

/// A bare number whose unit EVE's key fixes: hours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hours(pub u32);

impl Hours {
    /// The same as a duration. No value overflows: 2^32 hours are 2^44 seconds (EVE's own does: D26).
    pub fn duration(self) -> Duration {
        Duration::from_secs(u64::from(self.0) * 3600)
    }
}

impl SettingValue for Hours {
    type Limits = RangeInclusive<u32>;

    fn read(raw: &Raw, limits: &Self::Limits) -> Option<Self> {
        u32::read(raw, limits).map(Self)
    }

    fn accepted(limits: &Self::Limits) -> String {
        format!("{} (hours, without unit)", u32::accepted(limits))
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

/// A bare number whose unit EVE's key fixes: seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seconds(pub u32);

impl Seconds {
    /// The same as a duration.
    pub fn duration(self) -> Duration {
        Duration::from_secs(u64::from(self.0))
    }
}

impl SettingValue for Seconds {
    type Limits = RangeInclusive<u32>;

    fn read(raw: &Raw, limits: &Self::Limits) -> Option<Self> {
        u32::read(raw, limits).map(Self)
    }

    fn accepted(limits: &Self::Limits) -> String {
        format!("{} (seconds, without unit)", u32::accepted(limits))
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

/// A limit to a wait where zero means that there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Written `0s`.
    #[default]
    ForEver,
    /// Give up after this long.
    AtMost(Duration),
}

impl SettingValue for Wait {
    type Limits = Span;

    fn read(raw: &Raw, limits: &Span) -> Option<Self> {
        Duration::read(raw, limits)
            .map(|limit| if limit.is_zero() { Self::ForEver } else { Self::AtMost(limit) })
    }

    fn accepted(limits: &Span) -> String {
        format!("{}; `0s` for ever", Duration::accepted(limits))
    }

    fn show(&self) -> String {
        match self {
            Self::ForEver => duration::show(Duration::ZERO),
            Self::AtMost(limit) => limit.show(),
        }
    }
}

/// When to try again by oneself, where zero means never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retry {
    /// Written `0s`: only a new command starts another try.
    #[default]
    Never,
    /// So long after the failure.
    After(Duration),
}

impl SettingValue for Retry {
    type Limits = Span;

    fn read(raw: &Raw, limits: &Span) -> Option<Self> {
        Duration::read(raw, limits)
            .map(|pause| if pause.is_zero() { Self::Never } else { Self::After(pause) })
    }

    fn accepted(limits: &Span) -> String {
        format!("{}; `0s` never", Duration::accepted(limits))
    }

    fn show(&self) -> String {
        match self {
            Self::Never => duration::show(Duration::ZERO),
            Self::After(pause) => pause.show(),
        }
    }
}

/// After how many refused evictions a pod is deleted instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxRetries {
    /// As many as fit into the attempt: its deadline divided by `evict.retry` (MCM's own value).
    Auto,
    /// This many.
    Times(u32),
}

impl SettingValue for MaxRetries {
    type Limits = RangeInclusive<u32>;

    fn read(raw: &Raw, limits: &Self::Limits) -> Option<Self> {
        if raw.text() == Some("auto") { Some(Self::Auto) } else { u32::read(raw, limits).map(Self::Times) }
    }

    fn accepted(limits: &Self::Limits) -> String {
        format!("{}, or `auto`", u32::accepted(limits))
    }

    fn show(&self) -> String {
        match self {
            Self::Auto => "auto".to_owned(),
            Self::Times(times) => times.show(),
        }
    }
}

/// Linux' limit to a path, terminating NUL included.
const PATH_MAX: usize = 4096;

impl SettingValue for PathBuf {
    type Limits = ();

    fn read(raw: &Raw, (): &()) -> Option<Self> {
        let text = raw.text()?;
        let fits = text.starts_with('/') && text.len() < PATH_MAX && !text.contains('\0');
        fits.then(|| Self::from(text))
    }

    fn accepted((): &()) -> String {
        "an absolute path".to_owned()
    }

    fn show(&self) -> String {
        self.display().to_string()
    }
}
