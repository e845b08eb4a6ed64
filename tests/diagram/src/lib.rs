//! State diagrams in the documentation, tested against the transitions that the real decisions make.
//!
//! A page holds blocks of Mermaid, `stateDiagram-v2`, one for each state machine. An arrow is `Idle --> Deferred`, or with words
//! `Idle --> Deferred: a command is accepted`. An arrow from `[*]` says where a machine begins; it is tested only if the
//! test reports such beginnings.
#![expect(clippy::expect_used, clippy::panic, reason = "it is part of tests, which fail by panicking")]

use std::collections::BTreeSet;
use std::env;
use std::fmt::Debug;
use std::path::Path;

/// From one phase to another.
pub type Transition = (String, String);

/// Rewrites the arrows of the pages instead of failing.
const UPDATE: &str = "UPDATE_DIAGRAMS";
const BEGIN: &str = "```mermaid\n";
const END: &str = "```\n";
const BEGINNING: &str = "[*]";

/// The name of an enum's variant, without what it holds.
pub fn variant_name(value: &impl Debug) -> String {
    format!("{value:?}").chars().take_while(char::is_ascii_alphanumeric).collect()
}

/// Fails if a transition was seen that the diagram of this page lacks, or if the diagram has one that was not seen.
/// With `UPDATE_DIAGRAMS=1` the page is rewritten: arrows come and go, words of those that stay are kept.
pub fn check_diagram(page: &Path, seen: &BTreeSet<Transition>) {
    check_diagrams(page, &[seen]);
}

/// The same for a page with several diagrams, in their order on the page.
///
/// # Panics
/// A diagram and what was seen differ, or the page cannot be read.
pub fn check_diagrams(page: &Path, seen: &[&BTreeSet<Transition>]) {
    let text = std::fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    if env::var_os(UPDATE).is_some() {
        #[expect(clippy::disallowed_methods, reason = "a page of the repository need not be durable")]
        std::fs::write(page, updated(&text, seen)).expect("the page can be written");
        return;
    }
    let differences = differences(&text, seen);
    assert!(differences.is_empty(), "{}: {}; {UPDATE}=1 rewrites it", page.display(), differences.join("; "));
}

/// What the diagrams lack, and what they have although it was not seen.
fn differences(page: &str, seen: &[&BTreeSet<Transition>]) -> Vec<String> {
    let diagrams = diagrams(page);
    assert_eq!(diagrams.len(), seen.len(), "one diagram for each state machine");
    let mut found = Vec::new();
    for (diagram, seen) in diagrams.into_iter().zip(seen) {
        let drawn: BTreeSet<Transition> = arrows(diagram, seen).into_iter().collect();
        let words = |(from, to): &Transition| format!("{from} --> {to}");
        found.extend(seen.difference(&drawn).map(|arrow| format!("lacks {}", words(arrow))));
        found.extend(drawn.difference(seen).map(|arrow| format!("has {}, which never occurs", words(arrow))));
    }
    found
}

/// The arrow of a line.
fn arrow(line: &str) -> Option<Transition> {
    let (from, to) = line.split_once(" --> ")?;
    let to = to.split(':').next().unwrap_or(to);
    Some((from.trim().to_owned(), to.trim().to_owned()))
}

/// Whether the arrow is compared with what was seen.
fn is_tested((from, _): &Transition, seen: &BTreeSet<Transition>) -> bool {
    from != BEGINNING || seen.iter().any(|(from, _)| from == BEGINNING)
}

/// The tested arrows of a diagram.
fn arrows(diagram: &str, seen: &BTreeSet<Transition>) -> Vec<Transition> {
    diagram.lines().filter_map(arrow).filter(|arrow| is_tested(arrow, seen)).collect()
}

/// The page with an arrow for each transition, in the order of the page, the new ones last in their diagram.
fn updated(page: &str, seen: &[&BTreeSet<Transition>]) -> String {
    let mut rest = page;
    let mut text = String::new();
    for seen in seen {
        let (before, diagram, after) = split(rest).expect("one diagram for each state machine");
        let stays =
            |line: &&str| arrow(line).is_none_or(|arrow| !is_tested(&arrow, seen) || seen.contains(&arrow));
        let mut lines: Vec<String> = diagram.lines().filter(stays).map(str::to_owned).collect();
        let drawn = arrows(diagram, seen);
        let is_new = |transition: &&Transition| !drawn.contains(*transition);
        lines.extend(seen.iter().filter(is_new).map(|(from, to)| format!("    {from} --> {to}")));
        text.extend([before, BEGIN, &lines.join("\n"), "\n", END]);
        rest = after;
    }
    text + rest
}

/// The diagrams of the page.
fn diagrams(page: &str) -> Vec<&str> {
    let mut rest = page;
    let mut found = Vec::new();
    while let Some((_, diagram, after)) = split(rest) {
        found.push(diagram);
        rest = after;
    }
    found
}

/// The text before the first diagram, the diagram, and the text after it.
fn split(page: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (diagram, after) = rest.split_once(END)?;
    Some((before, diagram, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# States

```mermaid
stateDiagram-v2
    [*] --> Idle
    Idle --> Busy: a command comes
    Busy --> Gone
```

Words.
";

    fn seen(transitions: &[(&str, &str)]) -> BTreeSet<Transition> {
        transitions.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect()
    }

    #[test]
    fn a_diagram_has_each_transition_and_no_other() {
        for (transitions, differs) in [
            (&[("Busy", "Gone"), ("Idle", "Busy")][..], &[][..]),
            (&[("Idle", "Busy")], &["has Busy --> Gone, which never occurs"]),
            (&[("Busy", "Gone"), ("Idle", "Busy"), ("Busy", "Idle")], &["lacks Busy --> Idle"]),
            (
                &[("[*]", "Busy"), ("Busy", "Gone"), ("Idle", "Busy")],
                &["lacks [*] --> Busy", "has [*] --> Idle, which never occurs"],
            ),
        ] {
            assert_eq!(differences(PAGE, &[&seen(transitions)]), differs, "{transitions:?}");
        }
    }

    #[test]
    fn an_updated_page_keeps_its_words() {
        let expected = PAGE.replace("    Busy --> Gone\n", "    Busy --> Idle\n");
        assert_eq!(updated(PAGE, &[&seen(&[("Idle", "Busy"), ("Busy", "Idle")])]), expected);
        let two = format!("{PAGE}{PAGE}");
        let (first, second) =
            (seen(&[("Idle", "Busy"), ("Busy", "Gone")]), seen(&[("Idle", "Busy"), ("Busy", "Idle")]));
        assert_eq!(updated(&two, &[&first, &second]), format!("{PAGE}{expected}"));
        assert_eq!(
            differences(&two, &[&first, &second]),
            ["lacks Busy --> Idle", "has Busy --> Gone, which never occurs"]
        );
    }

    #[test]
    fn a_variant_is_named_without_what_it_holds() {
        assert_eq!(variant_name(&Some(7)), "Some");
        assert_eq!(variant_name(&None::<u32>), "None");
    }
}
