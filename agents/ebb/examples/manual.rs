//! Writes what people read on a device below a folder, for scripts/package: `manual DIR`, started in the root of the
//! source. `DIR/usr/share/man/man1` gets the man pages of all verbs; `DIR/usr/share/doc/ebb` the pages for operators, in
//! the places that they have in the source. Links to pages that are not there are taken out.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

/// The files and folders of the source for whoever has an installed ebb. What is for those who change it stays out:
/// decisions, references, tests.
const PAGES: [&str; 12] = [
    "CHANGELOG.md",
    "README.md",
    "SECURITY.md",
    "docs/README.md",
    "docs/beside-eve.md",
    "docs/commands.md",
    "docs/kubectl-differences.md",
    "docs/metrics",
    "docs/operations",
    "docs/settings.md",
    "docs/topics.md",
    "packaging/README.md",
];

fn main() -> Result<()> {
    let root = std::env::args_os().nth(1).context("usage: manual DIR")?;
    let root = Path::new(&root);
    let manual = root.join("usr/share/man/man1");
    fs::create_dir_all(&manual)?;
    for definition in [ebb::definition(), kubectl_ebb::cli::definition()] {
        clap_mangen::generate_to(definition, &manual)?;
    }
    for page in fs::read_dir(&manual)? {
        let path = page?.path();
        // The lines below a help are examples: they stay lines.
        let text =
            fs::read_to_string(&path)?.replace("\n.SH EXTRA\n", "\n.SH EXAMPLES AND EXIT CODES\n.nf\n");
        write(&path, &text)?;
    }
    let mut pages = BTreeSet::new();
    for page in PAGES {
        collect(Path::new(page), &mut pages)?;
    }
    for page in &pages {
        let copy = root.join("usr/share/doc/ebb").join(page);
        fs::create_dir_all(copy.parent().context("a page has a folder")?)?;
        if page.extension().is_some_and(|kind| kind == "md") {
            write(&copy, &installed(page, &pages)?)?;
        } else {
            fs::copy(page, copy)?;
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "what is written is not read while it is written")]
fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Adds all files of a folder, or the one file.
fn collect(path: &Path, pages: &mut BTreeSet<PathBuf>) -> Result<()> {
    if !path.is_dir() {
        fs::metadata(path).with_context(|| format!("{} is not in the source", path.display()))?;
        pages.insert(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        collect(&entry?.path(), pages)?;
    }
    Ok(())
}

/// The text of a page, in which all links to files lead to one of the pages.
fn installed(page: &Path, pages: &BTreeSet<PathBuf>) -> Result<String> {
    let folder = page.parent().context("a page has a folder")?;
    let is_there = |target: &str| {
        let file = target.split_once('#').map_or(target, |(file, _)| file);
        let path = normal(&folder.join(file));
        target.contains("://") || file.is_empty() || pages.iter().any(|page| page.starts_with(&path))
    };
    Ok(ebb::without_links(&fs::read_to_string(page)?, is_there))
}

/// The path without `..`.
fn normal(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut normal, component| {
        if component == Component::ParentDir {
            normal.pop();
        } else {
            normal.push(component);
        }
        normal
    })
}
