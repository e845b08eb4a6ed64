//! The rules of all files in their order: judged file by file, each rule as a whole.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::Serialize;

use super::fragment::{RULE, RawRule};
use super::problem::{Origin, Problem};
use super::raw::Raw;
use super::rule::Rule;
use super::table::{RULE_ROWS, rule_row_of};

/// So many rules in all files together: every pod is held against each of them.
const MOST_RULES: usize = 100;

/// So many rules are named where it is said what holds.
const MOST_NAMES: usize = 5;

/// Rules in the order in which they count, each with its place.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleList {
    pub(crate) rules: Vec<Rule>,
    /// By the rule's name.
    pub(crate) origins: BTreeMap<String, Origin>,
}

/// One rule for a reader: `ebb config show`, and the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShownRule {
    /// Its name.
    pub name: String,
    /// Which file it comes from, and its line there.
    pub origin: String,
    /// Its other keys with their values, in the order of the documentation; `-` where nothing is set.
    pub values: Vec<(&'static str, String)>,
}

impl RuleList {
    /// Adds the rules of one file and gives every mistake in them. A bad rule is left out as a whole. In a live change
    /// it is the file's rules that are bad, and the file keeps those it had `before`.
    pub(crate) fn add_file(
        &mut self,
        path: &Path,
        file: Vec<RawRule>,
        before: Option<&Self>,
    ) -> Vec<Problem> {
        let mut longer = self.clone();
        let problems: Vec<Problem> = file.into_iter().flat_map(|rule| longer.add(rule)).collect();
        match before {
            Some(before) if !problems.is_empty() => self.keep(path, before),
            Some(_) | None => *self = longer,
        }
        problems
    }

    /// Adds the rules that the file at `path`, or the files of that folder, had before.
    pub(crate) fn keep(&mut self, path: &Path, before: &Self) {
        for rule in &before.rules {
            let origin = before.origins.get(rule.name.as_str()).filter(|origin| origin.is_from(path));
            if let Some(origin) = origin.filter(|_| self.has_room() && self.place_of(rule).is_none()) {
                self.push(rule.clone(), origin.clone());
            }
        }
    }

    /// What holds of the file at `path`, in words.
    pub(crate) fn of_file(&self, path: &Path) -> String {
        let is_of_file = |rule: &&Rule| self.place_of(rule).is_some_and(|origin| origin.is_from(path));
        let names: Vec<&str> = self.rules.iter().filter(is_of_file).map(|rule| rule.name.as_str()).collect();
        match names.len() {
            0 => "no rule of this file".to_owned(),
            1..=MOST_NAMES => format!("of this file the rules `{}`", names.join("`, `")),
            many => format!("of this file {many} rules"),
        }
    }

    /// Every rule in its order.
    pub(crate) fn shown(&self) -> Vec<ShownRule> {
        let origin = |rule: &Rule| self.place_of(rule).unwrap_or(&Origin::Default).to_string();
        let values = |rule: &Rule| {
            let rows = RULE_ROWS.iter().filter(|row| !row.default.is_empty());
            rows.map(|row| (row.key, row.place.show(rule))).collect()
        };
        let shown = |rule: &Rule| ShownRule {
            name: rule.name.as_str().to_owned(),
            origin: origin(rule),
            values: values(rule),
        };
        self.rules.iter().map(shown).collect()
    }

    /// Adds a rule, or gives everything that is wrong with it.
    fn add(&mut self, raw: RawRule) -> Vec<Problem> {
        let (rule, origin) = match read(raw) {
            Ok(read) => read,
            Err(problems) => return problems,
        };
        let name = Raw::Text(rule.name.as_str().to_owned());
        if let Some(first) = self.place_of(&rule) {
            let accepted = format!("a name that no other rule has; the rule at {first} has this one");
            return vec![Problem::with_value(origin, "rule.name", &name, accepted)];
        }
        if !self.has_room() {
            let accepted = format!("at most {MOST_RULES} rules in all files together");
            return vec![Problem::with_value(origin, RULE, &name, accepted)];
        }
        self.push(rule, origin);
        Vec::new()
    }

    fn push(&mut self, rule: Rule, origin: Origin) {
        self.origins.insert(rule.name.as_str().to_owned(), origin);
        self.rules.push(rule);
    }

    fn place_of(&self, rule: &Rule) -> Option<&Origin> {
        self.origins.get(rule.name.as_str())
    }

    fn has_room(&self) -> bool {
        self.rules.len() < MOST_RULES
    }
}

/// The rule that was written, with its place; or everything that is wrong with it, since half a rule is another rule.
fn read(raw: RawRule) -> Result<(Rule, Origin), Vec<Problem>> {
    let (origin, entries) = match raw {
        RawRule::Table { origin, entries } => (origin, entries),
        RawRule::Other { origin, value } => {
            let accepted = "a table below `[[rule]]`, with two brackets".to_owned();
            return Err(vec![Problem::with_value(origin, RULE, &value, accepted)]);
        }
    };
    let mut rule = Rule::default();
    let mut problems = Vec::new();
    for entry in &entries {
        let accepted = match rule_row_of(&entry.key) {
            Some(row) if row.place.set(&entry.value, &mut rule) => continue,
            Some(row) => row.place.accepted_instead(&entry.value),
            None => RULE_ROWS.iter().map(|row| row.key).collect::<Vec<_>>().join(", "),
        };
        let key = format!("{RULE}.{}", entry.key);
        problems.push(Problem::with_value(entry.origin.clone(), &key, &entry.value, accepted));
    }
    for row in RULE_ROWS.iter().filter(|row| row.default.is_empty()) {
        if !entries.iter().any(|entry| entry.key == row.key) {
            let (key, nothing) = (format!("{RULE}.{}", row.key), Raw::Other("nothing".to_owned()));
            problems.push(Problem::with_value(origin.clone(), &key, &nothing, row.place.accepted()));
        }
    }
    if problems.is_empty() && rule.keeps_every_pod() {
        let accepted = "`skip` beside a selector, namespace or owner-kind: without any every pod would stay on the \
                        node, and it would count as drained";
        let word = Raw::Text("skip".to_owned());
        problems.push(Problem::with_value(origin.clone(), "rule.behaviour", &word, accepted.to_owned()));
    }
    if problems.is_empty() { Ok((rule, origin)) } else { Err(problems) }
}

/// `databases (/etc/ebb/ebb.toml:12): selector = app=db, behaviour = drain, order = 10`.
impl fmt::Display for ShownRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = self.values.iter().filter(|(_, value)| value != "-");
        let values: Vec<String> = set.map(|(key, value)| format!("{key} = {value}")).collect();
        write!(f, "{} ({}): {}", self.name, self.origin, values.join(", "))
    }
}
