//! A layer as it was written: keys and values with their places, not checked yet.

use std::path::{Path, PathBuf};

use pubsub::{Owner, Root, read_checked};
use schemas::ConfigItemValueMap;
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::page::{ROWS, row_of};
use super::problem::{Origin, Problem};
use super::values::{of_controller, of_toml};
use crate::flags::AgentFlags;

/// The key of `[[rule]]`. It is not a setting with one value: the rules of all layers count.
pub(crate) const RULE: &str = "rule";

/// Limit in bytes for a settings file: many times the size of all settings.
const MOST_BYTES: u64 = 256 * 1024;
/// Limit for the files in `ebb.d`.
const MOST_FILES: usize = 256;

/// A key, its value, and their place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

/// A rule of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WrittenRule {
    /// A `[[rule]]` with its keys.
    Table { origin: Origin, entries: Vec<Entry> },
    /// Another value under the key `rule`.
    Other { origin: Origin, value: Value },
}

/// A layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fragment {
    /// The settings of the flags or of the controller, in their order.
    Entries(Vec<Entry>),
    /// The settings and rules of a file, in its order.
    File { path: PathBuf, entries: Vec<Entry>, rules: Vec<WrittenRule> },
    /// A file that cannot be used, so its settings are not known.
    Unusable { path: PathBuf, problems: Vec<Problem> },
}

/// All layers above the compiled defaults, lowest first.
pub(crate) fn fragments(
    root: &Root,
    flags: &AgentFlags,
    controller: Option<&ConfigItemValueMap>,
) -> Vec<Fragment> {
    let mut fragments: Vec<Fragment> =
        STANDARD_FILES.iter().filter_map(|path| file(&root.join(path), Missing::IsFine)).collect();
    fragments.extend(folder(&root.join(DROP_IN_FOLDER)));
    fragments.extend(controller.map(controllers));
    fragments.extend(flags.config.iter().filter_map(|path| file(path, Missing::IsAProblem)));
    fragments.push(Fragment::Entries(assignments(flags)));
    fragments
}

/// The settings files that exist or have to exist, the lowest layer first; a folder that cannot be listed counts as
/// one.
pub fn settings_files(root: &Root, flags: &AgentFlags) -> Vec<PathBuf> {
    let path = |fragment| match fragment {
        Fragment::File { path, .. } | Fragment::Unusable { path, .. } => Some(path),
        Fragment::Entries(_) => None,
    };
    fragments(root, flags, None).into_iter().filter_map(path).collect()
}

/// The paths to watch for changes of the settings.
pub(crate) fn watched_paths(root: &Root, flags: &AgentFlags) -> Vec<PathBuf> {
    let standard = STANDARD_FILES.iter().chain([&DROP_IN_FOLDER]).map(|path| root.join(path));
    standard.chain(flags.config.iter().cloned()).collect()
}

const STANDARD_FILES: [&str; 2] = ["/usr/lib/ebb/ebb.toml", "/etc/ebb/ebb.toml"];
const DROP_IN_FOLDER: &str = "/etc/ebb/ebb.d";

/// The treatment of a missing file: an error or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    IsFine,
    IsAProblem,
}

/// The files of a drop-in folder by name. Hidden files are left out, because editors create them.
fn folder(path: &Path) -> Vec<Fragment> {
    let names = match toml_names(path) {
        Ok(names) => names,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            return vec![unusable(path, &format!("cannot list the folder: {error}"), "a readable folder")];
        }
    };
    if names.len() > MOST_FILES {
        let accepted = format!("at most {MOST_FILES} files");
        return vec![unusable(path, &format!("{} files", names.len()), &accepted)];
    }
    names.iter().filter_map(|name| file(&path.join(name), Missing::IsFine)).collect()
}

fn toml_names(folder: &Path) -> std::io::Result<Vec<std::ffi::OsString>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        let bytes = name.as_encoded_bytes();
        if bytes.ends_with(b".toml") && !bytes.starts_with(b".") {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn file(path: &Path, missing: Missing) -> Option<Fragment> {
    match read_checked(path, MOST_BYTES, Owner::RootOrSelf) {
        Ok(Some(bytes)) => Some(file_content(path, &bytes)),
        Ok(None) if missing == Missing::IsFine => None,
        Ok(None) => Some(unusable(path, "there is no such file", "a settings file")),
        Err(refusal) => Some(unusable(path, &refusal.reason, &refusal.accepted)),
    }
}

fn unusable(path: &Path, reason: &str, accepted: &str) -> Fragment {
    let origin = Origin::File { path: path.to_owned(), line: None };
    Fragment::Unusable { path: path.to_owned(), problems: vec![Problem::with_file(origin, reason, accepted)] }
}

/// Parses a settings file. A file with a single syntax error is not used at all: after a broken `[section]` its keys
/// would belong to another section.
fn file_content(path: &Path, bytes: &[u8]) -> Fragment {
    let Ok(text) = std::str::from_utf8(bytes) else { return unusable(path, "it is not UTF-8", "TOML") };
    let (table, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        let origin = |offset| line_origin(path, text, offset);
        let mut entries = Vec::new();
        flatten(&mut entries, None, table.get_ref(), &origin);
        let rules = written_rules(table.get_ref(), &origin);
        return Fragment::File { path: path.to_owned(), entries, rules };
    }
    let problem = |error: &toml::de::Error| {
        let origin = line_origin(path, text, error.span().map_or(0, |span| span.start));
        Problem::with_file(origin, error.message(), "TOML")
    };
    Fragment::Unusable { path: path.to_owned(), problems: errors.iter().map(problem).collect() }
}

fn line_origin(path: &Path, text: &str, offset: usize) -> Origin {
    let line = text.get(..text.floor_char_boundary(offset)).unwrap_or_default().matches('\n').count() + 1;
    Origin::File { path: path.to_owned(), line: Some(line) }
}

/// The values under the key `rule`: tables, if it is written as `[[rule]]`.
fn written_rules(file: &DeTable<'_>, origin: &impl Fn(usize) -> Origin) -> Vec<WrittenRule> {
    let Some((name, value)) = file.iter().find(|(name, _)| name.get_ref() == RULE) else { return Vec::new() };
    let written_rule = |item: &Spanned<_>| written_rule(item.get_ref(), origin(item.span().start), origin);
    let is_leftover = value.get_ref().as_table().is_some_and(DeTable::is_empty);
    match value.get_ref().as_array() {
        Some(items) => items.iter().map(written_rule).collect(),
        None if is_leftover => Vec::new(),
        None => {
            vec![WrittenRule::Other { origin: origin(name.span().start), value: of_toml(value.get_ref()) }]
        }
    }
}

/// A table in a rule is not a section: it is the value of its key, and no key accepts it.
fn written_rule(value: &DeValue<'_>, start: Origin, origin: &impl Fn(usize) -> Origin) -> WrittenRule {
    let Some(table) = value.as_table() else {
        return WrittenRule::Other { origin: start, value: of_toml(value) };
    };
    let entry = |(name, value): (&Spanned<DeString<'_>>, &Spanned<DeValue<'_>>)| Entry {
        key: name.get_ref().to_string(),
        value: of_toml(value.get_ref()),
        origin: origin(name.span().start),
    };
    let mut lines: Vec<_> = table.iter().collect();
    lines.sort_by_key(|(name, _)| name.span().start);
    WrittenRule::Table { origin: start, entries: lines.into_iter().map(entry).collect() }
}

/// Turns tables and dotted keys into dotted keys, except rules. The parser limits how deep tables can be nested.
fn flatten(
    entries: &mut Vec<Entry>,
    section: Option<&str>,
    table: &DeTable<'_>,
    origin: &impl Fn(usize) -> Origin,
) {
    for (name, value) in table {
        let key = match section {
            Some(section) => format!("{section}.{}", name.get_ref()),
            None if name.get_ref() == RULE => continue,
            None => name.get_ref().to_string(),
        };
        // An empty section, left after its keys were commented out, is ignored.
        let is_leftover = |inner: &DeTable<'_>| inner.is_empty() && row_of(&key).is_none();
        if let Some(inner) = value.get_ref().as_table().filter(|inner| !inner.is_empty()) {
            flatten(entries, Some(&key), inner, origin);
        } else if !value.get_ref().as_table().is_some_and(is_leftover) {
            entries.push(Entry { key, value: of_toml(value.get_ref()), origin: origin(name.span().start) });
        }
    }
}

/// EVE's settings in the controller's map; its other settings are ignored.
fn controllers(map: &ConfigItemValueMap) -> Fragment {
    let entry = |key: &'static str| {
        let item = map.global_settings.get(key)?;
        Some(Entry { key: key.to_owned(), value: of_controller(item), origin: Origin::Controller })
    };
    Fragment::Entries(ROWS.iter().filter(|row| row.is_eve).filter_map(|row| entry(row.key)).collect())
}

/// The settings on the command line; later ones override earlier ones. An empty kubeconfig is none, as with kubectl.
fn assignments(flags: &AgentFlags) -> Vec<Entry> {
    let node = flags.node.iter().map(|name| entry("--node", "node.name", name));
    let kubeconfig = flags.kubeconfig.iter().filter(|path| !path.as_os_str().is_empty());
    let kubeconfig = kubeconfig.map(|path| entry("--kubeconfig", "cluster.kubeconfig", &absolute(path)));
    let set = flags.set.iter().map(|set| entry("--set", &set.key, &set.value));
    node.chain(kubeconfig).chain(set).collect()
}

fn entry(flag: &'static str, key: &str, value: &str) -> Entry {
    Entry { key: key.to_owned(), value: value.into(), origin: Origin::Flag(flag) }
}

/// An absolute path. A relative path on the command line is relative to the current folder; the settings of a daemon
/// know no such folder.
fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ebb uncordon --self --kubeconfig ""`, as with kubectl.
    #[test]
    fn an_empty_kubeconfig_is_none() {
        let flags = |path: &str| AgentFlags { kubeconfig: Some(path.into()), ..AgentFlags::default() };
        assert_eq!(assignments(&flags("/k")).len(), 1);
        assert!(assignments(&flags("")).is_empty());
    }
}
