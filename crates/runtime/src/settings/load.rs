//! Makes settings of the layers: later layers override earlier ones, every mistake is listed, and no mistake stops an
//! agent.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pubsub::{Refusal, Root};
use schemas::ConfigItemValueMap;
use serde::Serialize;
use serde_json::Value;

use super::fragment::{Entry, Fragment, RULE, WrittenRule, fragments};
use super::keys::{Settings, WindowSettings};
use super::page::{NOT_LIVE, ROWS, Row, row_of};
use super::problem::{Origin, Problem};
use super::rules::{RuleList, ShownRule};
use super::values::{Values, as_flag, by_key, readings, with};
use crate::flags::AgentFlags;

/// Limit for the number of problems: a file full of garbage must not fill the log.
const MOST_PROBLEMS: usize = 200;

/// Settings that decide whether a device may go down undrained. A bad value of one of these becomes [`SAFE_WORD`]; a
/// bad value of any other setting leaves the layer below in effect.
pub(crate) const SAFE: [&str; 3] = ["api-unreachable", "no-peer", "drain.start.on-timeout"];
const SAFE_WORD: &str = "wait";
/// How the keys of the window begin, and a section whose name has a typing error.
const WINDOW: &str = "window";

/// The settings in effect, the origin of each, and every mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The settings.
    pub settings: Arc<Settings>,
    /// The origin of each setting by key; a key that is missing here has the compiled default.
    pub origins: BTreeMap<&'static str, Origin>,
    /// The origin of each rule, by its name.
    pub rule_origins: BTreeMap<String, Origin>,
    /// The problems in the order of the layers; at most 200.
    pub problems: Vec<Problem>,
    /// Keys whose new value takes effect only after a restart of the agent.
    pub after_restart: Vec<&'static str>,
    /// Items of the controller that are refused as a whole: their last good content stays in effect.
    pub refused: Vec<Refusal>,
    /// The layers as they were written.
    pub(crate) fragments: Vec<Fragment>,
}

/// A setting for display: `ebb config show`, and with `--json` as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ShownSetting {
    /// The key.
    pub key: &'static str,
    /// The value in effect, in the form for `--set`.
    pub value: String,
    /// The layer that it comes from.
    pub origin: String,
    /// The compiled default.
    pub default: &'static str,
    /// The accepted values.
    pub accepted: &'static str,
    /// When a change takes effect.
    pub live: &'static str,
    /// The meaning.
    pub meaning: &'static str,
}

/// Reads all layers: defaults, files, the controller's values, `--config`, `--set`.
///
/// Never fails. A key with a bad value keeps the value of the layer below, except the three keys that become `wait`;
/// an unusable file counts as a bad value of those three. The caller decides about [`Loaded::bad_flags`].
pub fn load(root: &Root, flags: &AgentFlags, controller: Option<&ConfigItemValueMap>) -> Loaded {
    Layering::new(None).finish(fragments(root, flags, controller))
}

impl Loaded {
    /// Reads all layers again after a change. A setting that is bad now, or that cannot change while the agent runs,
    /// keeps its value.
    #[must_use]
    pub fn reload(&self, root: &Root, flags: &AgentFlags, controller: Option<&ConfigItemValueMap>) -> Self {
        let fragments = fragments(root, flags, controller);
        // Most looks find what is known: at least one is made every 30 s.
        if fragments == self.fragments {
            return self.clone();
        }
        Layering::new(Some(self)).finish(fragments)
    }

    /// The mistakes on the command line, which lead to exit code 2.
    pub fn bad_flags(&self) -> Vec<Problem> {
        self.problems.iter().filter(|problem| problem.origin.is_flag()).cloned().collect()
    }

    /// Every setting with its value and origin, in the order of the documentation.
    pub fn shown(&self) -> Vec<ShownSetting> {
        let values = by_key(&*self.settings);
        let shown = |row: &Row| ShownSetting {
            key: row.key,
            value: values.get(row.key).map(as_flag).unwrap_or_default(),
            origin: self.origin(row.key).to_string(),
            default: row.default.unwrap_or_default(),
            accepted: row.accepted,
            live: row.live,
            meaning: row.meaning,
        };
        ROWS.iter().map(shown).collect()
    }

    /// Every rule with its values and origin, in the order in which the rules are tried.
    pub fn shown_rules(&self) -> Vec<ShownRule> {
        self.rule_list().shown()
    }

    fn rule_list(&self) -> RuleList {
        RuleList { rules: self.settings.policy.drain.rules.clone(), origins: self.rule_origins.clone() }
    }

    fn origin(&self, key: &str) -> &Origin {
        self.origins.get(key).unwrap_or(&Origin::Default)
    }

    fn in_effect(&self, values: &Values, key: &str) -> String {
        let value = values.get(key).map(as_flag).unwrap_or_default();
        format!("{value} ({})", self.origin(key))
    }
}

/// The settings in effect before a live change.
struct Before<'a> {
    loaded: &'a Loaded,
    values: Values,
    rules: RuleList,
}

/// Settings while the layers are read.
struct Layering<'a> {
    before: Option<Before<'a>>,
    settings: Settings,
    /// The values of `settings` by key.
    values: Values,
    origins: BTreeMap<&'static str, Origin>,
    /// The rules of all layers count, so they are kept apart from the settings, of which the last value counts.
    rules: RuleList,
    problems: Vec<Problem>,
    is_window_mistaken: bool,
}

impl<'a> Layering<'a> {
    /// Begins with the compiled defaults.
    fn new(before: Option<&'a Loaded>) -> Self {
        let settings = Settings::default();
        let before = before.map(|loaded| Before {
            loaded,
            values: by_key(&*loaded.settings),
            rules: loaded.rule_list(),
        });
        Self {
            before,
            values: by_key(&settings),
            settings,
            origins: BTreeMap::new(),
            rules: RuleList::default(),
            problems: Vec::new(),
            is_window_mistaken: false,
        }
    }

    fn finish(mut self, fragments: Vec<Fragment>) -> Loaded {
        for fragment in fragments.clone() {
            match fragment {
                Fragment::Entries(entries) => self.enter_all(entries),
                Fragment::File { path, entries, rules } => {
                    self.enter_all(entries);
                    self.enter_rules(&path, rules);
                }
                Fragment::Unusable { path, problems } => self.skip_unusable(&path, problems),
            }
        }
        let after_restart = self.keep_what_needs_a_restart();
        let window = self.window_despite_mistakes();
        let Self { settings, values, origins, rules, problems, .. } = self;
        let mut settings = settings.complete();
        settings.policy.drain.rules = rules.rules;
        if let Some(window) = window {
            settings.window = window;
        }
        let mut loaded = Loaded {
            settings: Arc::new(settings),
            origins,
            rule_origins: rules.origins,
            problems,
            after_restart,
            refused: Vec::new(),
            fragments,
        };
        loaded.name_values_in_effect(&values);
        loaded
    }

    fn enter_all(&mut self, entries: Vec<Entry>) {
        if self.put_all(&entries) {
            return;
        }
        for entry in entries {
            self.enter(entry);
        }
    }

    /// Puts all values at once if every one of them is good as it is written, else none. One by one, each would make all
    /// settings anew.
    fn put_all(&mut self, entries: &[Entry]) -> bool {
        let known = |entry: &Entry| Some(row_of(&entry.key)?.key).filter(|_| !entry.origin.is_flag());
        let Some(keys) = entries.iter().map(known).collect::<Option<Vec<_>>>() else { return false };
        let written = || keys.iter().copied().zip(entries);
        let all = written().map(|(key, entry)| (key, entry.value.clone()));
        let Ok(settings) = with(&self.values, all) else { return false };
        self.settings = settings;
        self.values = by_key(&self.settings);
        self.origins.extend(written().map(|(key, entry)| (key, entry.origin.clone())));
        true
    }

    fn enter(&mut self, Entry { key, value, origin }: Entry) {
        let Some(row) = row_of(&key) else {
            self.complain([Problem::with_value(origin, &key, &value, known_keys(&key))]);
            return;
        };
        if let Err(accepted) = self.put_written(row.key, &value, &origin) {
            self.complain([Problem::with_value(origin.clone(), &key, &value, accepted)]);
            self.make_safe(row.key, &origin);
        }
    }

    /// Puts a value as it is written. A value on the command line is text, whatever type the setting has.
    fn put_written(&mut self, key: &'static str, value: &Value, origin: &Origin) -> Result<(), String> {
        let (value, literal) = match value.as_str().filter(|_| origin.is_flag()) {
            Some(text) => readings(text),
            None => (value.clone(), None),
        };
        let refused = self.put(key, value, origin);
        match literal {
            Some(literal) if refused.is_err() => self.put(key, literal, origin),
            Some(_) | None => refused,
        }
    }

    /// Puts a value, or returns the accepted values.
    fn put(&mut self, key: &'static str, value: Value, origin: &Origin) -> Result<(), String> {
        self.settings = with(&self.values, [(key, value)])?;
        self.values = by_key(&self.settings);
        if *origin == Origin::Default {
            self.origins.remove(key);
        } else {
            self.origins.insert(key, origin.clone());
        }
        Ok(())
    }

    fn enter_rules(&mut self, path: &Path, rules: Vec<WrittenRule>) {
        let before = self.before.as_ref().map(|before| &before.rules);
        let problems = self.rules.add_file(path, rules, before);
        self.complain(problems);
    }

    fn complain(&mut self, problems: impl IntoIterator<Item = Problem>) {
        for problem in problems {
            // A whole file has no key.
            self.is_window_mistaken |= problem.key.is_empty() || problem.key.starts_with(WINDOW);
            if self.problems.len() < MOST_PROBLEMS {
                self.problems.push(problem);
            }
        }
    }

    /// The window in effect where nobody knows which one is meant: after a change the one from before it.
    fn window_despite_mistakes(&self) -> Option<WindowSettings> {
        let before = self.before.as_ref().map(|before| before.loaded.settings.window.clone());
        let unknown = || WindowSettings { is_mistaken: true, ..self.settings.window.clone() };
        self.is_window_mistaken.then(|| before.unwrap_or_else(unknown))
    }

    /// After a bad value: the value from before the change; at a first start the safe word, or the layer below.
    fn make_safe(&mut self, key: &'static str, origin: &Origin) {
        if self.before.is_some() {
            self.keep(key);
        } else if SAFE.contains(&key) {
            self.put_safe_word(key, origin);
        }
    }

    /// After an unusable file or folder: its settings from before the change stay in effect. At a first start the
    /// safe words take effect, because the file may have set them.
    fn skip_unusable(&mut self, path: &Path, problems: Vec<Problem>) {
        self.complain(problems);
        let Some(before) = &self.before else {
            let origin = Origin::File { path: path.to_owned(), line: None };
            for key in SAFE {
                self.put_safe_word(key, &origin);
            }
            return;
        };
        self.rules.keep(path, &before.rules);
        let origins = &before.loaded.origins;
        let of_file = origins.iter().filter(|(_, origin)| origin.is_from(path)).map(|(key, _)| *key);
        for key in of_file.collect::<Vec<_>>() {
            self.keep(key);
        }
    }

    fn keep_what_needs_a_restart(&mut self) -> Vec<&'static str> {
        let Some(before) = &self.before else { return Vec::new() };
        let has_changed =
            |row: &&Row| row.live == NOT_LIVE && self.values.get(row.key) != before.values.get(row.key);
        let changed: Vec<&str> = ROWS.iter().filter(has_changed).map(|row| row.key).collect();
        for key in &changed {
            self.keep(key);
        }
        changed
    }

    /// Puts the value from before the change.
    fn keep(&mut self, key: &'static str) {
        let Some(before) = &self.before else { return };
        let Some(value) = before.values.get(key).cloned() else { return };
        let origin = before.loaded.origin(key).clone();
        // The value was accepted before.
        self.put(key, value, &origin).unwrap_or_default();
    }

    fn put_safe_word(&mut self, key: &'static str, origin: &Origin) {
        // A test shows that all three keys accept this word.
        self.put(key, SAFE_WORD.into(), origin).unwrap_or_default();
    }
}

impl Loaded {
    /// Completes the problems with the values in effect, once all layers are read.
    fn name_values_in_effect(&mut self, values: &Values) {
        let safe = SAFE.map(|key| format!("{key} = {}", self.in_effect(values, key))).join(", ");
        let rules = self.rule_list();
        let mut problems = std::mem::take(&mut self.problems);
        for problem in &mut problems {
            if problem.key.is_empty() {
                problem.in_effect.clone_from(&safe);
            } else if let Some(path) = problem.origin.file().filter(|_| is_of_a_rule(&problem.key)) {
                problem.in_effect = rules.of_file(path);
            } else if problem.key.starts_with(WINDOW) && self.settings.window.is_mistaken {
                "the window never opens".clone_into(&mut problem.in_effect);
            } else if let Some(row) = row_of(&problem.key) {
                problem.in_effect = self.in_effect(values, row.key);
            }
        }
        self.problems = problems;
    }
}

fn is_of_a_rule(key: &str) -> bool {
    key.split('.').next() == Some(RULE)
}

/// The accepted values for an unknown key: the settings of its section, or the one with the same ending.
fn known_keys(key: &str) -> String {
    if is_of_a_rule(key) || key.split('.').next_back() == Some(RULE) {
        return "rules as `[[rule]]` in a file, each with its keys below it".to_owned();
    }
    // A key that is written below the last `[section]` instead of above the first one.
    if let Some(row) = ROWS.iter().find(|row| key.ends_with(&format!(".{}", row.key))) {
        return format!("`{}`; it must stand above the first [section]", row.key);
    }
    let section = key.split('.').next().unwrap_or(key);
    let of_section: Vec<&str> =
        ROWS.iter().map(|row| row.key).filter(|known| known.split('.').next() == Some(section)).collect();
    if of_section.is_empty() {
        "a setting that `ebb config show` lists".to_owned()
    } else {
        of_section.join(", ")
    }
}

#[cfg(test)]
mod tests;
