//! One row of the table of settings: all that is known about a setting, in one place.

use std::fmt;

use super::groups::Settings;
use super::raw::Raw;
use super::value::SettingValue;

/// From when on a changed value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Live {
    /// At once.
    Yes,
    /// From the next attempt of a drain on; a running one keeps what it started with.
    NextAttempt,
    /// From the next operation of the device on.
    NextAction,
    /// From the next start of the agent on.
    No,
}

/// As the documentation's table says it.
impl fmt::Display for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Yes => "yes",
            Self::NextAttempt => "next attempt",
            Self::NextAction => "next action",
            Self::No => "no",
        })
    }
}

/// One setting, or one key of a `[[rule]]`: drives reading, problems, documentation and `ebb config show` alike.
pub(crate) struct Row<S: 'static = Settings> {
    /// The key in files, in `--set` and (EVE's) in the controller's map.
    pub(crate) key: &'static str,
    /// The compiled default, written as for `--set`; `-` if nothing is set, empty if somebody has to say it.
    pub(crate) default: &'static str,
    /// From when on a change counts.
    pub(crate) live: Live,
    /// EVE's controller may set it.
    pub(crate) is_eve: bool,
    /// The value that stands in for a bad one; without it the layer below keeps its say.
    pub(crate) when_bad: Option<&'static str>,
    /// Where the value lives and what it accepts.
    pub(crate) place: &'static dyn Place<S>,
    /// One sentence for the operator.
    pub(crate) meaning: &'static str,
}

impl<S> Row<S> {
    /// A row of ours.
    pub(crate) const fn new(
        key: &'static str,
        default: &'static str,
        live: Live,
        place: &'static dyn Place<S>,
        meaning: &'static str,
    ) -> Self {
        Self { key, default, live, is_eve: false, when_bad: None, place, meaning }
    }

    /// The same, settable by EVE's controller.
    pub(crate) const fn eve(self) -> Self {
        Self { is_eve: true, ..self }
    }

    /// The same, with a value that stands in for a bad one.
    pub(crate) const fn or_when_bad(self, word: &'static str) -> Self {
        Self { when_bad: Some(word), ..self }
    }
}

impl<S> fmt::Debug for Row<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Row").field(&self.key).finish()
    }
}

/// Where a value lives in `S`, the settings or one rule, whatever its type.
pub(crate) trait Place<S>: Sync {
    /// Puts the value of `raw` there; false, and nothing changed, if it is not accepted.
    #[must_use]
    fn set(&self, raw: &Raw, settings: &mut S) -> bool;
    /// Takes the value over from other settings.
    fn take(&self, from: &S, settings: &mut S);
    /// The value as it would be given to `--set`.
    fn show(&self, settings: &S) -> String;
    /// What is accepted, in words.
    fn accepted(&self) -> String;
    /// What is accepted instead of this refused value, in words.
    fn accepted_instead(&self, raw: &Raw) -> String;
}

/// A [`Place`] with a type.
pub(crate) struct Field<S, T: SettingValue> {
    /// Reads the field.
    pub(crate) get: fn(&S) -> &T,
    /// The same field, to be written.
    pub(crate) get_mut: fn(&mut S) -> &mut T,
    /// What bounds it.
    pub(crate) limits: T::Limits,
}

impl<S, T: SettingValue> Place<S> for Field<S, T> {
    fn set(&self, raw: &Raw, settings: &mut S) -> bool {
        let Some(value) = T::read(raw, &self.limits) else { return false };
        *(self.get_mut)(settings) = value;
        true
    }

    fn take(&self, from: &S, settings: &mut S) {
        *(self.get_mut)(settings) = (self.get)(from).clone();
    }

    fn show(&self, settings: &S) -> String {
        (self.get)(settings).show()
    }

    fn accepted(&self) -> String {
        T::accepted(&self.limits)
    }

    fn accepted_instead(&self, raw: &Raw) -> String {
        T::accepted_instead(raw, &self.limits)
    }
}

/// The [`Field`] at a path below [`Settings`]: `field!(drain.attempts, 1..=100)`; or below another type:
/// `field!(Rule: order)`.
macro_rules! field {
    ($($name:ident).+) => { $crate::settings::row::field!(Settings: $($name).+, ()) };
    ($($name:ident).+, $limits:expr) => { $crate::settings::row::field!(Settings: $($name).+, $limits) };
    ($of:ty: $($name:ident).+) => { $crate::settings::row::field!($of: $($name).+, ()) };
    ($of:ty: $($name:ident).+, $limits:expr) => {
        &$crate::settings::row::Field {
            get: |settings: &$of| &settings.$($name).+,
            get_mut: |settings: &mut $of| &mut settings.$($name).+,
            limits: $limits,
        }
    };
}
pub(crate) use field;
