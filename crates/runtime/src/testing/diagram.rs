//! State diagrams in the documentation, tested against the transitions that the real decisions make.
//!
//! A page holds one block of Mermaid, `stateDiagram-v2`. Its arrows are `Idle --> Deferred`, or with words
//! `Idle --> Deferred: a command is accepted`. Arrows from `[*]` say where a process begins, and are not tested.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fmt::Debug;
use std::path::Path;

/// From one phase to another.
pub type Transition = (String, String);

/// Rewrites the arrows of the pages instead of failing.
const UPDATE: &str = "UPDATE_DIAGRAMS";
const BEGIN: &str = "```mermaid\n";
const END: &str = "```\n";

/// The name of an enum's variant, without what it holds.
pub fn variant_name(value: &impl Debug) -> String {
    format!("{value:?}").chars().take_while(char::is_ascii_alphanumeric).collect()
}

/// Fails if a transition was seen that the diagram of this page lacks, or if the diagram has one that was not seen.
/// With `UPDATE_DIAGRAMS=1` the page is rewritten: arrows come and go, words of those that stay are kept.
pub fn check_diagram(page: &Path, seen: &BTreeSet<Transition>) {
    let text = std::fs::read_to_string(page).unwrap();
    if env::var_os(UPDATE).is_some() {
        #[expect(clippy::disallowed_methods, reason = "a page of the repository need not be durable")]
        std::fs::write(page, updated(&text, seen)).unwrap();
        return;
    }
    let (lacks, never_occurs) = differences(&text, seen);
    assert!(
        lacks.is_empty() && never_occurs.is_empty(),
        "{} lacks {lacks:?} and has {never_occurs:?}, which never occurs; {UPDATE}=1 rewrites it",
        page.display()
    );
}

/// The transitions that the diagram lacks, and those that it has and that were not seen.
fn differences(page: &str, seen: &BTreeSet<Transition>) -> (Vec<Transition>, Vec<Transition>) {
    let drawn: BTreeSet<Transition> = arrows(page).into_keys().collect();
    (seen.difference(&drawn).cloned().collect(), drawn.difference(seen).cloned().collect())
}

/// The tested arrows of a page, each with the words behind it.
fn arrows(page: &str) -> BTreeMap<Transition, String> {
    let arrow = |line: &str| {
        let (from, to) = line.trim().split_once(" --> ")?;
        let (to, words) = to.split_once(':').unwrap_or((to, ""));
        (from != "[*]").then(|| ((from.to_owned(), to.trim().to_owned()), words.to_owned()))
    };
    let (_, diagram, _) = split(page);
    diagram.lines().filter_map(arrow).collect()
}

/// The page with an arrow for each transition, in the order of the page, the new ones last.
fn updated(page: &str, seen: &BTreeSet<Transition>) -> String {
    let (before, diagram, after) = split(page);
    let drawn = arrows(page);
    let stays = |line: &&str| {
        let names = line.trim().split(':').next().and_then(|line| line.split_once(" --> "));
        names.is_none_or(|(from, to)| from == "[*]" || seen.contains(&(from.to_owned(), to.to_owned())))
    };
    let mut lines: Vec<String> = diagram.lines().filter(stays).map(str::to_owned).collect();
    let is_new = |transition: &&Transition| !drawn.contains_key(*transition);
    lines.extend(seen.iter().filter(is_new).map(|(from, to)| format!("    {from} --> {to}")));
    format!("{before}{BEGIN}{}\n{END}{after}", lines.join("\n"))
}

/// What stands before the diagram, the diagram, and what stands behind it.
fn split(page: &str) -> (&str, &str, &str) {
    let (before, rest) = page.split_once(BEGIN).expect("a block of mermaid");
    let (diagram, after) = rest.split_once(END).expect("the end of the block");
    (before, diagram, after)
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
        for (transitions, lacks, never_occurs) in [
            (&[("Busy", "Gone"), ("Idle", "Busy")][..], &[][..], &[][..]),
            (&[("Idle", "Busy")], &[], &[("Busy", "Gone")]),
            (&[("Busy", "Gone"), ("Idle", "Busy"), ("Busy", "Idle")], &[("Busy", "Idle")], &[]),
        ] {
            let (found_lacks, found_never) = differences(PAGE, &seen(transitions));
            assert_eq!(found_lacks.into_iter().collect::<BTreeSet<_>>(), seen(lacks));
            assert_eq!(found_never.into_iter().collect::<BTreeSet<_>>(), seen(never_occurs));
        }
    }

    #[test]
    fn an_updated_page_keeps_its_words() {
        let expected = PAGE.replace("    Busy --> Gone\n", "    Busy --> Idle\n");
        assert_eq!(updated(PAGE, &seen(&[("Idle", "Busy"), ("Busy", "Idle")])), expected);
    }

    #[test]
    fn a_variant_is_named_without_what_it_holds() {
        assert_eq!(variant_name(&Some(7)), "Some");
        assert_eq!(variant_name(&None::<u32>), "None");
    }
}
