//! References in code and pages lead to something: pages, source files, and the numbers of defects, measured facts and
//! differences.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Extensions of the files that are searched for references.
const KINDS: [&str; 4] = ["rs", "md", "toml", "yaml"];

/// The chapters of the site that scripts/site makes.
const SUMMARY: &str = "docs/site/SUMMARY.md";

/// For each letter of a number: the page that has its entry, and the text before the number there.
const NUMBERS: [(char, &str, &str); 3] = [
    ('D', "docs/reference/eve-defects.md", "### D"),
    ('M', "docs/reference/measured.md", "### M"),
    ('K', "docs/kubectl-differences.md", "| K"),
];

#[test]
fn every_page_and_source_file_that_is_named_exists() -> Result<()> {
    let texts = texts()?;
    let names: BTreeSet<_> = texts.iter().filter_map(|(path, _)| path.file_name()?.to_str()).collect();
    let mut missing = BTreeSet::new();
    for (path, text) in &texts {
        let folder = path.parent().context("a file has a folder")?;
        for name in words(text, "._-/").filter(|name| is_reference(name, path)) {
            let below_root = name.find("docs/").map_or(name, |start| name.get(start..).unwrap_or(name));
            let exists = names.contains(name)
                || Path::new(ROOT).join(below_root).exists()
                || folder.join(name).exists();
            if !exists {
                missing.insert(format!("{}: {name}", path.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    Ok(())
}

/// The site has only the pages of its summary, and takes links to others out.
#[test]
fn every_page_of_docs_is_in_the_summary_of_the_site() -> Result<()> {
    let summary = std::fs::read_to_string(Path::new(ROOT).join(SUMMARY))?;
    let pages = texts()?.into_iter().map(|(path, _)| path).filter(|path| kind_of(path) == "md");
    let mut missing = BTreeSet::new();
    for page in pages {
        let page = page.strip_prefix(ROOT)?.display().to_string();
        if page.starts_with("docs/") && page != SUMMARY && !summary.contains(&format!("]({page})")) {
            missing.insert(page);
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    Ok(())
}

/// True for a page and, outside of code, for a source file with its path from the root of the repository. A page may be
/// named without its folder.
fn is_reference(name: &str, path: &Path) -> bool {
    let from_root =
        ["agents/", "crates/", "pubsub/", "schemas/", "tests/"].iter().any(|top| name.starts_with(top));
    kind_of(Path::new(name)) == "md" || kind_of(path) != "rs" && from_root && kind_of(Path::new(name)) == "rs"
}

/// The extension of a file's name without its dot; empty if there is none.
fn kind_of(path: &Path) -> &str {
    path.extension().and_then(|kind| kind.to_str()).unwrap_or_default()
}

#[test]
fn every_number_has_its_entry() -> Result<()> {
    let mut missing = BTreeSet::new();
    for (letter, page, before) in NUMBERS {
        let entries = entries(&std::fs::read_to_string(Path::new(ROOT).join(page))?, letter, before);
        assert!(entries.len() > 5, "{page}: {entries:?}");
        for (path, text) in texts()? {
            let cited = words(&text, "").filter_map(|word| number(word, letter));
            for number in cited.filter(|number| !entries.contains(number)) {
                missing.insert(format!("{}: {letter}{number} is not in {page}", path.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    Ok(())
}

/// The numbers at the start of lines that begin like an entry: `### D7: …`, `| K11, K12 | …`.
fn entries(page: &str, letter: char, before: &str) -> BTreeSet<u32> {
    let heads = page.lines().filter(|line| line.starts_with(before));
    heads.flat_map(|line| words(line, "").map_while(move |word| number(word, letter))).collect()
}

fn number(word: &str, letter: char) -> Option<u32> {
    let digits = word.strip_prefix(letter)?;
    (digits.len() <= 2).then(|| digits.parse().ok())?
}

/// The words of a text, made of letters, digits and what is in `joined`.
fn words<'a>(text: &'a str, joined: &'static str) -> impl Iterator<Item = &'a str> {
    text.split(move |one: char| !one.is_ascii_alphanumeric() && !joined.contains(one))
        .filter(|word| !word.is_empty())
}

/// The files of the repository that may contain references, without this file, which explains numbers in general.
fn texts() -> Result<Vec<(PathBuf, String)>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from(ROOT)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && name != ".git" {
                folders.push(path);
            } else if KINDS.contains(&kind_of(&path)) && name != "references.rs" {
                let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
                found.push((path, text));
            }
        }
    }
    Ok(found)
}
