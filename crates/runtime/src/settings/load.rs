//! From layers to settings: later layers win, every mistake is listed, none stops an agent.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pubsub::{Refusal, Root};
use schemas::ConfigItemValueMap;
use serde::Serialize;

use super::fragment::{Entry, Fragment, RULE, RawRule, fragments};
use super::groups::Settings;
use super::problem::{Origin, Problem};
use super::raw::Raw;
use super::row::{Live, Row};
use super::rules::{RuleList, ShownRule};
use super::table::{ROWS, row_of};
use crate::flags::AgentFlags;

/// So many problems are kept; a file full of garbage must not fill the log.
const MOST_PROBLEMS: usize = 200;

/// The settings in effect, where each comes from, and every mistake that was found on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// What code uses.
    pub settings: Arc<Settings>,
    /// By key.
    pub origins: BTreeMap<&'static str, Origin>,
    /// Where each rule stands, by its name.
    pub rule_origins: BTreeMap<String, Origin>,
    /// In the order of the layers; at most 200.
    pub problems: Vec<Problem>,
    /// Keys with a new value that counts only after a restart of the agent.
    pub after_restart: Vec<&'static str>,
    /// The controller's items that are refused as a whole: what they said before counts.
    pub refused: Vec<Refusal>,
}

/// One setting for a reader: `ebb config show`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShownSetting {
    /// The key.
    pub key: &'static str,
    /// The value in effect, as it would be given to `--set`.
    pub value: String,
    /// Which layer it comes from.
    pub origin: String,
    /// The compiled default.
    pub default: &'static str,
    /// What is accepted.
    pub accepted: String,
    /// From when on a change counts.
    pub live: String,
    /// What it does.
    pub meaning: &'static str,
}

/// Reads all layers: defaults, files, the controller's values, `--config`, `--set`.
///
/// Never fails. A key with a bad value keeps the layer below, except the three that become `wait`; an unusable
/// file counts as a bad value of those three. The caller decides about [`Loaded::bad_flags`].
pub fn load(root: &Root, flags: &AgentFlags, controller: Option<&ConfigItemValueMap>) -> Loaded {
    Layering::new(None).finish(fragments(root, flags, controller))
}

impl Loaded {
    /// The same after a change. What is bad now keeps the value it had; what cannot change live keeps it, too.
    #[must_use]
    pub fn reload(&self, root: &Root, flags: &AgentFlags, controller: Option<&ConfigItemValueMap>) -> Self {
        Layering::new(Some(self)).finish(fragments(root, flags, controller))
    }

    /// The mistakes on the command line, for which a program exits with 2.
    pub fn bad_flags(&self) -> Vec<Problem> {
        self.problems.iter().filter(|problem| problem.origin.is_flag()).cloned().collect()
    }

    /// Every setting with its value and origin, in the order of the documentation.
    pub fn shown(&self) -> Vec<ShownSetting> {
        ROWS.iter().map(|row| self.shown_row(row)).collect()
    }

    /// Every rule with its values and origin, in the order in which they count.
    pub fn shown_rules(&self) -> Vec<ShownRule> {
        self.rule_list().shown()
    }

    fn rule_list(&self) -> RuleList {
        RuleList { rules: self.settings.rules.clone(), origins: self.rule_origins.clone() }
    }

    fn shown_row(&self, row: &Row) -> ShownSetting {
        ShownSetting {
            key: row.key,
            value: row.place.show(&self.settings),
            origin: self.origin(row.key).to_string(),
            default: row.default,
            accepted: row.place.accepted(),
            live: row.live.to_string(),
            meaning: row.meaning,
        }
    }

    fn origin(&self, key: &str) -> &Origin {
        self.origins.get(key).unwrap_or(&Origin::Default)
    }

    fn in_effect(&self, row: &Row) -> String {
        format!("{} ({})", row.place.show(&self.settings), self.origin(row.key))
    }
}

/// Settings under construction.
struct Layering<'a> {
    /// What was in effect before a live change.
    before: Option<&'a Loaded>,
    settings: Settings,
    origins: BTreeMap<&'static str, Origin>,
    /// All layers' rules count, so they are kept apart from the settings, of which the last wins.
    rules: RuleList,
    problems: Vec<Problem>,
}

impl<'a> Layering<'a> {
    /// The compiled defaults. A test proves that each row accepts its own.
    fn new(before: Option<&'a Loaded>) -> Self {
        let mut layering = Self {
            before,
            settings: Settings::default(),
            origins: BTreeMap::new(),
            rules: RuleList::default(),
            problems: Vec::new(),
        };
        for row in ROWS {
            layering.put(row, row.default, &Origin::Default);
        }
        layering
    }

    fn finish(mut self, fragments: Vec<Fragment>) -> Loaded {
        for fragment in fragments {
            match fragment {
                Fragment::Entries(entries) => self.enter_all(entries),
                Fragment::File { path, entries, rules } => {
                    self.enter_all(entries);
                    self.enter_rules(&path, rules);
                }
                Fragment::Unusable { path, problems } => self.pass_over(&path, problems),
            }
        }
        let after_restart = self.keep_what_needs_a_restart();
        let Self { mut settings, origins, rules, problems, .. } = self;
        settings.rules = rules.rules;
        let rule_origins = rules.origins;
        let settings = Arc::new(settings);
        let refused = Vec::new();
        let mut loaded = Loaded { settings, origins, rule_origins, problems, after_restart, refused };
        loaded.say_what_holds();
        loaded
    }

    fn enter_all(&mut self, entries: Vec<Entry>) {
        for entry in entries {
            self.enter(entry);
        }
    }

    fn enter(&mut self, entry: Entry) {
        let Entry { key, value, origin } = entry;
        let Some(row) = row_of(&key) else {
            self.complain([Problem::with_value(origin, &key, &value, known_keys(&key))]);
            return;
        };
        if row.place.set(&value, &mut self.settings) {
            self.origins.insert(row.key, origin);
        } else {
            let accepted = row.place.accepted_instead(&value);
            self.complain([Problem::with_value(origin.clone(), &key, &value, accepted)]);
            self.make_safe(row, &origin);
        }
    }

    fn enter_rules(&mut self, path: &Path, rules: Vec<RawRule>) {
        let before = self.before.map(Loaded::rule_list);
        let problems = self.rules.add_file(path, rules, before.as_ref());
        self.complain(problems);
    }

    fn complain(&mut self, problems: impl IntoIterator<Item = Problem>) {
        let room = MOST_PROBLEMS.saturating_sub(self.problems.len());
        self.problems.extend(problems.into_iter().take(room));
    }

    /// After a bad value: what held before the change, else the safe word, else the layer below as it is.
    fn make_safe(&mut self, row: &'static Row, origin: &Origin) {
        if let Some(before) = self.before {
            self.keep(row, before);
        } else if let Some(word) = row.when_bad {
            self.put(row, word, origin);
        }
    }

    /// After an unusable file or folder: all that came from it stays, and at a first start the safe words hold, since
    /// it may have said them.
    fn pass_over(&mut self, path: &Path, problems: Vec<Problem>) {
        self.complain(problems);
        if let Some(before) = self.before {
            self.rules.keep(path, &before.rule_list());
        }
        for row in ROWS {
            match (self.before, row.when_bad) {
                (Some(before), _) if before.origin(row.key).is_from(path) => self.keep(row, before),
                (None, Some(word)) => {
                    self.put(row, word, &Origin::File { path: path.to_owned(), line: None });
                }
                (Some(_), _) | (None, None) => {}
            }
        }
    }

    fn keep_what_needs_a_restart(&mut self) -> Vec<&'static str> {
        let Some(before) = self.before else { return Vec::new() };
        let mut changed = Vec::new();
        for row in ROWS.iter().filter(|row| row.live == Live::No) {
            if row.place.show(&self.settings) != row.place.show(&before.settings) {
                self.keep(row, before);
                changed.push(row.key);
            }
        }
        changed
    }

    fn keep(&mut self, row: &'static Row, before: &Loaded) {
        row.place.take(&before.settings, &mut self.settings);
        self.origins.insert(row.key, before.origin(row.key).clone());
    }

    /// Puts a value that we wrote ourselves.
    fn put(&mut self, row: &'static Row, word: &str, origin: &Origin) {
        if row.place.set(&Raw::Bare(word.to_owned()), &mut self.settings) {
            self.origins.insert(row.key, origin.clone());
        }
    }
}

impl Loaded {
    /// Completes the problems once all layers are known.
    fn say_what_holds(&mut self) {
        let safe: Vec<&Row> = ROWS.iter().filter(|row| row.when_bad.is_some()).collect();
        let safe: Vec<String> =
            safe.iter().map(|row| format!("{} = {}", row.key, self.in_effect(row))).collect();
        let rules = self.rule_list();
        let mut problems = std::mem::take(&mut self.problems);
        for problem in &mut problems {
            if problem.key.is_empty() {
                problem.in_effect = safe.join(", ");
            } else if let Some(path) = problem.origin.file().filter(|_| is_of_a_rule(&problem.key)) {
                problem.in_effect = rules.of_file(path);
            } else if let Some(row) = row_of(&problem.key) {
                problem.in_effect = self.in_effect(row);
            }
        }
        self.problems = problems;
    }
}

fn is_of_a_rule(key: &str) -> bool {
    key.split('.').next() == Some(RULE)
}

/// What an unknown key could have been: the settings of its section, or the one that ends like it.
fn known_keys(key: &str) -> String {
    if is_of_a_rule(key) || key.split('.').next_back() == Some(RULE) {
        return "rules as `[[rule]]` in a file, each with its keys below it".to_owned();
    }
    // A key written below the last `[section]` instead of above the first one.
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
#[path = "load_tests.rs"]
mod tests;
