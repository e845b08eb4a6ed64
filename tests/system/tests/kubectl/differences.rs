//! The wanted differences between the two programs, each with its entry in `docs/kubectl-differences.md`.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};

use crate::said::Said;

/// A wanted difference. Any other one is a defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Difference {
    /// kubectl names the first reason against a pod, ebb names all. Random pods can show only this difference.
    AllReasons,
    /// An unreadable DaemonSet is an error for kubectl, and an existing DaemonSet for ebb.
    UnreadableDaemonSet,
    /// A pod can ask to stay, by a label.
    DrainLabel,
}

impl Difference {
    const ALL: [Self; 3] = [Self::AllReasons, Self::UnreadableDaemonSet, Self::DrainLabel];

    /// The text by which the entry is found on the page.
    fn entry(self) -> &'static str {
        match self {
            Self::AllReasons => "K7",
            Self::UnreadableDaemonSet => "K16",
            Self::DrainLabel => "`ebb.dev/drain`",
        }
    }
}

/// The difference that explains these two answers about the same random pods; `None` for a defect.
pub(crate) fn between(kubectl: &Said, ebb: &Said) -> Option<Difference> {
    let same_end = (kubectl.code, &kubectl.evicted) == (ebb.code, &ebb.evicted);
    let same_pods = kubectl.refused.keys().eq(ebb.refused.keys());
    let mut reasons = kubectl.refused.values().zip(ebb.refused.values());
    let keeps_all = reasons.all(|(theirs, ours)| theirs.is_subset(ours));
    (same_end && same_pods && keeps_all).then_some(Difference::AllReasons)
}

#[test]
fn every_difference_has_its_entry() -> Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/kubectl-differences.md");
    let text = std::fs::read_to_string(path).context("docs/kubectl-differences.md")?;
    for difference in Difference::ALL {
        assert!(text.contains(difference.entry()), "{difference:?}: no `{}`", difference.entry());
    }
    Ok(())
}

/// A test that was renamed would prove nothing any more.
#[test]
fn every_test_on_the_page_exists() -> Result<()> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let page = std::fs::read_to_string(root.join("docs/kubectl-differences.md"))?;
    let mut sources = String::new();
    for folder in ["tests", "agents", "crates"] {
        read_all(&root.join(folder), &mut sources)?;
    }
    let is_test = |name: &&str| {
        name.matches('_').count() >= 2
            && name.chars().all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '_')
    };
    let names: BTreeSet<&str> = page.split('`').skip(1).step_by(2).filter(is_test).collect();
    assert!(names.len() > 40, "{names:?}");
    let missing: Vec<_> = names.iter().filter(|name| !sources.contains(&format!("fn {name}("))).collect();
    assert!(missing.is_empty(), "{missing:?}");
    Ok(())
}

fn read_all(folder: &Path, sources: &mut String) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read_all(&path, sources)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push_str(&std::fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

#[test]
fn only_more_reasons_are_forgiven() {
    let said = |code, evicted: &[&str], refused: &[(&str, &[&str])]| {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let refused = refused.iter().map(|(pod, reasons)| ((*pod).to_owned(), texts(reasons)));
        Said { code: Some(code), evicted: texts(evicted), refused: refused.collect() }
    };
    let kubectl = said(1, &[], &[("s/a", &["x"]), ("s/b", &["y"])]);
    for (ebb, forgiven) in [
        (said(1, &[], &[("s/a", &["x", "y"]), ("s/b", &["y"])]), true),
        (said(1, &[], &[("s/a", &["y"]), ("s/b", &["y"])]), false),
        (said(1, &[], &[("s/a", &["x"])]), false),
        (said(1, &[], &[("s/a", &["x"]), ("s/b", &["y"]), ("s/c", &["y"])]), false),
        (said(2, &[], &[("s/a", &["x"]), ("s/b", &["y"])]), false),
        (said(1, &["s/c"], &[("s/a", &["x"]), ("s/b", &["y"])]), false),
    ] {
        assert_eq!(between(&kubectl, &ebb).is_some(), forgiven, "{ebb:?}");
    }
}
