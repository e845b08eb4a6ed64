//! Settings: what an operator or a controller may change, read from layers, complete and within limits.
//!
//! Layers, later wins: compiled defaults, `ROOT/usr/lib/ebb/ebb.toml`, `ROOT/etc/ebb/ebb.toml`,
//! `ROOT/etc/ebb/ebb.d/*.toml` by name, the controller's `ConfigItemValueMap` (EVE's keys), `--config`, `--set`.
//! Rules are added up instead: those of all files count.
//! Each layer is first a `fragment` (keys and values as written, with their lines); [`load`] judges all of them
//! by one `table` and gives [`Settings`] without a hole, the origin of every value, and every [`Problem`] at once.
//! The page `docs/settings.md` shows that table.

mod command;
mod duration;
mod fragment;
mod groups;
mod live;
mod load;
mod names;
mod problem;
mod raw;
mod row;
mod rule;
mod rules;
mod table;
mod value;
mod words;

pub use command::{Command, VersionSource};
pub(crate) use fragment::Entry;
pub use fragment::settings_files;
pub use groups::{
    ApiSettings, BaseosSettings, ClusterSettings, CordonSettings, DeviceOpSettings, DeviceSettings,
    DrainSettings, EvictSettings, ForceSettings, HealthSettings, LonghornSettings, NodeSettings,
    PeerSettings, PodSettings, Settings, SlotSettings, StatefulSettings, VolumeSettings,
};
pub use live::SettingsWatch;
pub use load::{Loaded, ShownSetting, load};
pub use names::{DnsLabel, NodeName};
pub use problem::{Origin, Problem};
pub(crate) use raw::Raw;
pub use row::Live;
pub use rule::{OwnerKind, Rule, RuleName};
pub use rules::ShownRule;
pub use value::{Hours, MaxRetries, Retry, Seconds, Wait};
pub use words::{
    Behaviour, ClusterMode, DetachTimeout, LonghornDrainPolicy, StatefulOrder, UnhealthyNode, WithoutDrain,
    WithoutZedkube,
};

#[cfg(test)]
#[path = "settings/table_tests.rs"]
mod table_tests;
