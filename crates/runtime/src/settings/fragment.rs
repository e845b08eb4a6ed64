//! One layer as its writer left it: keys and values with their places, not judged yet.

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

/// The key of `[[rule]]`, which is no setting with one value: the rules of all layers count.
pub(crate) const RULE: &str = "rule";

/// A settings file may be this long: many times what all settings need.
const MOST_BYTES: u64 = 256 * 1024;
/// So many files are read from `ebb.d`.
const MOST_FILES: usize = 256;

/// A key, its value, and where they stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

/// One of the rules of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WrittenRule {
    /// A `[[rule]]` with its own keys.
    Table { origin: Origin, entries: Vec<Entry> },
    /// Something else that stands in its place.
    Other { origin: Origin, value: Value },
}

/// One layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fragment {
    /// What flags or the controller say, in their order.
    Entries(Vec<Entry>),
    /// What a file says, in its order.
    File { path: PathBuf, entries: Vec<Entry>, rules: Vec<WrittenRule> },
    /// A file that cannot be used: nobody knows what it would have said.
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
    fragments.push(Fragment::Entries(flags.assignments()));
    fragments
}

/// The settings files that there are, or have to be, the lowest layer first; a folder that cannot be listed is one.
pub fn settings_files(root: &Root, flags: &AgentFlags) -> Vec<PathBuf> {
    let path = |fragment| match fragment {
        Fragment::File { path, .. } | Fragment::Unusable { path, .. } => Some(path),
        Fragment::Entries(_) => None,
    };
    fragments(root, flags, None).into_iter().filter_map(path).collect()
}

/// The paths whose change can change the settings.
pub(crate) fn watched_paths(root: &Root, flags: &AgentFlags) -> Vec<PathBuf> {
    let standard = STANDARD_FILES.iter().chain([&DROP_IN_FOLDER]).map(|path| root.join(path));
    standard.chain(flags.config.iter().cloned()).collect()
}

const STANDARD_FILES: [&str; 2] = ["/usr/lib/ebb/ebb.toml", "/etc/ebb/ebb.toml"];
const DROP_IN_FOLDER: &str = "/etc/ebb/ebb.d";

/// Whether a file has to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    IsFine,
    IsAProblem,
}

/// The files of a drop-in folder by name; hidden files are an editor's.
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

/// What a settings file says. A file with a single syntax error is not used at all: after a broken
/// `[section]` its keys would land in another one.
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

/// What stands below `rule`: tables, if it was written as `[[rule]]`.
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

/// A table in a rule is no section: it is the value of its key, and none that a key takes.
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

/// Tables and dotted keys alike become dotted keys; rules are none. The parser bounds how deep tables can be nested.
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
        // An empty section, left over after its keys were commented out, says nothing.
        let is_leftover = |inner: &DeTable<'_>| inner.is_empty() && row_of(&key).is_none();
        if let Some(inner) = value.get_ref().as_table().filter(|inner| !inner.is_empty()) {
            flatten(entries, Some(&key), inner, origin);
        } else if !value.get_ref().as_table().is_some_and(is_leftover) {
            entries.push(Entry { key, value: of_toml(value.get_ref()), origin: origin(name.span().start) });
        }
    }
}

/// EVE's settings out of the controller's map; the others in it are none of ours.
fn controllers(map: &ConfigItemValueMap) -> Fragment {
    let entry = |key: &'static str| {
        let item = map.global_settings.get(key)?;
        Some(Entry { key: key.to_owned(), value: of_controller(item), origin: Origin::Controller })
    };
    Fragment::Entries(ROWS.iter().filter(|row| row.is_eve).filter_map(|row| entry(row.key)).collect())
}
