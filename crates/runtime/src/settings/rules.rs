//! The rules of all files in their order. Each file is checked on its own, and each rule is accepted or refused as a
//! whole.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use drain::rule::{Behaviour, Rule};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fragment::{Entry, RULE, WrittenRule};
use super::keys::RuleKeys;
use super::notation::NONE;
use super::page::{RULE_ROWS, Row};
use super::problem::{Origin, Problem};
use super::values::{as_flag, by_key, other, with};

/// Limit for the rules of all files: every pod is compared with each of them.
const MOST_RULES: usize = 100;

/// Limit for the rules that a text names.
const MOST_NAMES: usize = 5;

/// The rules in the order in which they are tried, with the origin of each.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleList {
    pub(crate) rules: Vec<Rule>,
    /// The origins by the rules' names.
    pub(crate) origins: BTreeMap<String, Origin>,
}

/// A rule for display: `ebb config show`, and the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShownRule {
    /// The name.
    pub name: String,
    /// The file and the line that it comes from.
    pub origin: String,
    /// The other keys with their values, in the order of the documentation; `-` for a value that is not set.
    pub values: Vec<(&'static str, String)>,
}

/// A rule in the form of its keys.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Keyed(#[serde(with = "RuleKeys")] pub(super) Rule);

impl RuleList {
    /// Adds the rules of one file, and returns every mistake in them. A bad rule is left out as a whole. In a live
    /// change, one bad rule makes the whole file bad, and the file keeps the rules that it had in `before`.
    pub(crate) fn add_file(
        &mut self,
        path: &Path,
        file: Vec<WrittenRule>,
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

    /// Adds the rules that the file at `path`, or the files in that folder, had before.
    pub(crate) fn keep(&mut self, path: &Path, before: &Self) {
        for rule in &before.rules {
            let origin = before.origins.get(&rule.name).filter(|origin| origin.is_from(path));
            if let Some(origin) = origin.filter(|_| self.has_room() && !self.origins.contains_key(&rule.name))
            {
                self.push(rule.clone(), origin.clone());
            }
        }
    }

    /// The rules in effect of the file at `path`, as text.
    pub(crate) fn of_file(&self, path: &Path) -> String {
        let is_of_file =
            |rule: &&Rule| self.origins.get(&rule.name).is_some_and(|origin| origin.is_from(path));
        let names: Vec<&str> = self.rules.iter().filter(is_of_file).map(|rule| rule.name.as_str()).collect();
        match names.len() {
            0 => "no rule of this file".to_owned(),
            1..=MOST_NAMES => format!("of this file the rules `{}`", names.join("`, `")),
            many => format!("of this file {many} rules"),
        }
    }

    /// Every rule in its order, for display.
    pub(crate) fn shown(&self) -> Vec<ShownRule> {
        self.rules.iter().map(|rule| self.shown_rule(rule)).collect()
    }

    fn shown_rule(&self, rule: &Rule) -> ShownRule {
        let values = by_key(&Keyed(rule.clone()));
        let shown = |row: &Row| Some((row.key, as_flag(values.get(row.key)?)));
        ShownRule {
            name: rule.name.clone(),
            origin: self.origins.get(&rule.name).unwrap_or(&Origin::Default).to_string(),
            values: RULE_ROWS.iter().filter(|row| row.default.is_some()).filter_map(shown).collect(),
        }
    }

    /// Adds a rule, or returns every mistake in it.
    fn add(&mut self, written: WrittenRule) -> Vec<Problem> {
        let (rule, origin) = match read(written) {
            Ok(read) => read,
            Err(problems) => return problems,
        };
        let name = rule.name.as_str().into();
        if let Some(first) = self.origins.get(&rule.name) {
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
        self.origins.insert(rule.name.clone(), origin);
        self.rules.push(rule);
    }

    fn has_room(&self) -> bool {
        self.rules.len() < MOST_RULES
    }
}

/// The rule with its origin, or every mistake in it. A rule with a mistake is refused, because half a rule would
/// select other pods.
fn read(written: WrittenRule) -> Result<(Rule, Origin), Vec<Problem>> {
    let (origin, entries) = match written {
        WrittenRule::Table { origin, entries } => (origin, entries),
        WrittenRule::Other { origin, value } => {
            let accepted = "a table below `[[rule]]`, with two brackets".to_owned();
            return Err(vec![Problem::with_value(origin, RULE, &value, accepted)]);
        }
    };
    let mut rule = Rule { name: "?".to_owned(), ..Rule::default() };
    let mut problems: Vec<Problem> = entries.iter().filter_map(|entry| enter(&mut rule, entry)).collect();
    let is_missing = |row: &&Row| row.default.is_none() && !entries.iter().any(|entry| entry.key == row.key);
    for row in RULE_ROWS.iter().filter(is_missing) {
        problems.push(problem(&origin, row.key, &other("nothing".to_owned()), row.accepted.to_owned()));
    }
    if problems.is_empty() && keeps_every_pod(&rule) {
        let accepted = "`skip` beside a selector, namespace or owner-kind: without any every pod would stay on the \
                        node, and it would count as drained";
        problems.push(problem(&origin, "behaviour", &"skip".into(), accepted.to_owned()));
    }
    if problems.is_empty() { Ok((rule, origin)) } else { Err(problems) }
}

/// Puts one key into the rule, or returns the mistake.
fn enter(rule: &mut Rule, Entry { key, value, origin }: &Entry) -> Option<Problem> {
    if !RULE_ROWS.iter().any(|row| row.key == key) {
        let known: Vec<&str> = RULE_ROWS.iter().map(|row| row.key).collect();
        return Some(problem(origin, key, value, known.join(", ")));
    }
    match with(&by_key(&Keyed(rule.clone())), [(key.as_str(), value.clone())]) {
        Ok(Keyed(longer)) => {
            *rule = longer;
            None
        }
        Err(accepted) => Some(problem(origin, key, value, accepted)),
    }
}

fn problem(origin: &Origin, key: &str, value: &Value, accepted: String) -> Problem {
    Problem::with_value(origin.clone(), &format!("{RULE}.{key}"), value, accepted)
}

/// True for a rule that skips pods and has no condition at all.
fn keeps_every_pod(rule: &Rule) -> bool {
    let selects_all = rule.selector.as_ref().is_none_or(|selector| selector.requirements.is_empty());
    rule.behaviour == Behaviour::Skip && selects_all && rule.namespace.is_none() && rule.owner_kind.is_none()
}

/// The form is `databases (/etc/ebb/ebb.toml:12): selector = app=db, behaviour = drain, order = 10`.
impl fmt::Display for ShownRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = self.values.iter().filter(|(_, value)| value != NONE);
        let values: Vec<String> = set.map(|(key, value)| format!("{key} = {value}")).collect();
        write!(f, "{} ({}): {}", self.name, self.origin, values.join(", "))
    }
}
