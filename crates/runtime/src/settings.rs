//! The settings, which an operator or a controller may change: read from layers, complete, and within limits.
//!
//! Layers, later ones override earlier ones: compiled defaults, `ROOT/usr/lib/ebb/ebb.toml`, `ROOT/etc/ebb/ebb.toml`,
//! `ROOT/etc/ebb/ebb.d/*.toml` by name, the controller's `ConfigItemValueMap` (EVE's keys), `--config`, `--set`.
//! Rules do not override each other: those of all files count. Each layer is first a `fragment` (keys and values as
//! written, with their lines). [`load`] puts one value after the other into [`Settings`], whose types (`keys`,
//! `notation`) accept it or refuse it with the accepted values. The result is complete settings, the origin of every
//! value, and every [`Problem`]. Defaults and meanings are those of `docs/settings.md` (`page`).

mod command;
mod duration;
mod fragment;
mod keys;
mod live;
mod load;
mod names;
mod notation;
mod page;
mod problem;
mod rules;
mod values;

pub use command::{Command, VersionSource};
pub(crate) use duration::show as show_duration;
pub use fragment::settings_files;
pub use keys::{
    BaseosSettings, ClusterSettings, DeviceOpSettings, DeviceSettings, DrainSettings, EveSettings,
    HealthSettings, HoldSettings, InhibitMode, InhibitSettings, LonghornSettings, NodeSettings,
    NotifySettings, SentinelSettings, Settings, SlotSettings, WindowSettings,
};
pub use live::SettingsWatch;
pub use load::{Loaded, ShownSetting, load};
pub use names::{Day, LonghornDrainPolicy};
pub use notation::Retry;
pub use problem::{Origin, Problem};
pub use rules::ShownRule;

#[cfg(test)]
mod tests;
