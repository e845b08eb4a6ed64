//! Label selectors, from the text of a query or from the `LabelSelector` of an object: a list of requirements.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::object::{items, label_map, text};

/// Requirements that must all be met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Labels {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
}

impl Labels {
    /// Reads the `labelSelector` of a query; an empty one selects everything.
    pub(crate) fn parse(selector: &str) -> Result<Self, String> {
        let requirements =
            split_top_level(selector).into_iter().map(str::trim).filter(|part| !part.is_empty());
        Ok(Self { requirements: requirements.map(parse_requirement).collect::<Result<_, _>>()? })
    }

    /// Reads a `LabelSelector` object: `matchLabels` and `matchExpressions`. An empty object selects everything; the
    /// caller decides what a missing one means.
    pub(crate) fn from_object(selector: &Value) -> Result<Self, String> {
        let exact = label_map(selector.get("matchLabels")).into_iter().map(|(key, value)| Requirement {
            key: key.to_owned(),
            operator: Operator::In(vec![value.to_owned()]),
        });
        let mut requirements: Vec<_> = exact.collect();
        requirements.extend(Self::from_expressions(items(selector, "/matchExpressions"))?.requirements);
        Ok(Self { requirements })
    }

    /// Reads `matchExpressions`, also those of a node affinity term.
    pub(crate) fn from_expressions(expressions: &[Value]) -> Result<Self, String> {
        Ok(Self { requirements: expressions.iter().map(requirement_of).collect::<Result<_, _>>()? })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    pub(crate) fn matches(&self, labels: &BTreeMap<&str, &str>) -> bool {
        self.requirements
            .iter()
            .all(|requirement| requirement.matches(labels.get(requirement.key.as_str()).copied()))
    }
}

impl Requirement {
    fn matches(&self, value: Option<&str>) -> bool {
        match &self.operator {
            Operator::Exists => value.is_some(),
            Operator::Absent => value.is_none(),
            Operator::In(values) => value.is_some_and(|value| values.iter().any(|one| one == value)),
            Operator::NotIn(values) => value.is_none_or(|value| values.iter().all(|one| one != value)),
        }
    }
}

/// Splits at commas that are not inside parentheses.
fn split_top_level(selector: &str) -> Vec<&str> {
    let mut inside = false;
    selector
        .split(|character| {
            match character {
                '(' => inside = true,
                ')' => inside = false,
                _ => {}
            }
            character == ',' && !inside
        })
        .collect()
}

fn parse_requirement(part: &str) -> Result<Requirement, String> {
    let (key, operator) = read_requirement(part)?;
    if key.is_empty()
        || key.contains(|character: char| character.is_whitespace() || "()!=<>,".contains(character))
    {
        return Err(format!("unable to parse requirement: invalid label key in {part:?}"));
    }
    Ok(Requirement { key: key.to_owned(), operator })
}

fn read_requirement(part: &str) -> Result<(&str, Operator), String> {
    if let Some(key) = part.strip_prefix('!') {
        return Ok((key.trim(), Operator::Absent));
    }
    check_list(part)?;
    if let Some((head, values)) = part.split_once('(') {
        return read_set(part, head, values);
    }
    for (sign, negated) in [("!=", true), ("==", false), ("=", false)] {
        if let Some((key, value)) = part.split_once(sign) {
            let values = vec![value.trim().to_owned()];
            return Ok((key.trim(), if negated { Operator::NotIn(values) } else { Operator::In(values) }));
        }
    }
    Ok((part, Operator::Exists))
}

/// Checks that `in` or `notin` is followed by a list in parentheses; the error has the server's words.
fn check_list(part: &str) -> Result<(), String> {
    let mut words = part.split_whitespace().skip(1);
    let needs_list = matches!(words.next(), Some("in" | "notin"));
    match words.next().unwrap_or_default() {
        found if needs_list && !found.starts_with('(') => {
            Err(format!("unable to parse requirement: found '{found}' expected: '('"))
        }
        _ => Ok(()),
    }
}

fn read_set<'a>(part: &str, head: &'a str, values: &str) -> Result<(&'a str, Operator), String> {
    let unreadable = || format!("unable to parse requirement: {part:?} is not `key in (a,b)`");
    let values = values.strip_suffix(')').ok_or_else(unreadable)?;
    let values = values.split(',').map(|value| value.trim().to_owned()).collect();
    let (key, word) = head.trim().rsplit_once(char::is_whitespace).ok_or_else(unreadable)?;
    match word {
        "in" => Ok((key.trim(), Operator::In(values))),
        "notin" => Ok((key.trim(), Operator::NotIn(values))),
        _ => Err(unreadable()),
    }
}

fn requirement_of(expression: &Value) -> Result<Requirement, String> {
    let key = text(expression, "/key").to_owned();
    let values: Vec<String> =
        items(expression, "/values").iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let operator = match text(expression, "/operator") {
        "In" if !values.is_empty() => Operator::In(values),
        "NotIn" if !values.is_empty() => Operator::NotIn(values),
        "Exists" if values.is_empty() => Operator::Exists,
        "DoesNotExist" if values.is_empty() => Operator::Absent,
        other => return Err(format!("operator {other:?} of label {key:?} does not fit its values")),
    };
    Ok(Requirement { key, operator })
}
