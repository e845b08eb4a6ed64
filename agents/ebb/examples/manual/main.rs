//! Writes what people read, from the source and the program's own descriptions, started in the root of the source:
//!
//! - `manual package DIR`, for scripts/package: `DIR/usr/share/man/man1` gets the man pages of all verbs,
//!   `DIR/usr/share/doc/ebb` the pages for operators.
//! - `manual site DIR`, for scripts/site: DIR gets the pages of docs/site/SUMMARY.md, and a reference of the verbs and topics.
//!
//! Pages have the places that they have in the source. Links to pages that are not there are taken out.

mod pages;
mod reference;

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use pages::Pages;

/// The files and folders of the source for whoever has an installed ebb. What is for those who change it stays out:
/// decisions, references, tests.
const INSTALLED: [&str; 14] = [
    "CHANGELOG.md",
    "README.md",
    "SECURITY.md",
    "docs/README.md",
    "docs/beside-eve.md",
    "docs/commands.md",
    "docs/comparison.md",
    "docs/kubectl-differences.md",
    "docs/metrics",
    "docs/operations",
    "docs/settings.md",
    "docs/start",
    "docs/topics.md",
    "packaging/README.md",
];

/// The chapters of the site, in mdBook's notation, with the places of the pages in the source.
const SUMMARY: &str = "docs/site/SUMMARY.md";

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["package", target] => package(Path::new(target)),
        ["site", target] => site(Path::new(target)),
        _ => bail!("usage: manual package|site DIR"),
    }
}

fn package(root: &Path) -> Result<()> {
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
    Pages::of(INSTALLED)?.copy_to(&root.join("usr/share/doc/ebb"))
}

fn site(target: &Path) -> Result<()> {
    let mut summary = fs::read_to_string(SUMMARY).with_context(|| SUMMARY.to_owned())?;
    let pages = pages::links(&summary).map(ToOwned::to_owned).collect::<Vec<_>>();
    Pages::of(pages.iter().map(String::as_str).chain(["docs/metrics", "packaging/kubernetes"]))?
        .copy_to(target)?;
    // The last part of the summary is the reference.
    for (name, page) in reference::pages()? {
        let place = format!("docs/reference/{name}.md");
        let (title, _) =
            page.trim_start_matches("# ").split_once('\n').context("a page begins with its title")?;
        writeln!(summary, "- [{title}]({place})")?;
        write(&target.join(&place), &page)?;
    }
    write(&target.join("SUMMARY.md"), &summary)
}

#[expect(clippy::disallowed_methods, reason = "what is written is not read while it is written")]
fn write(path: &Path, text: &str) -> Result<()> {
    fs::create_dir_all(path.parent().context("a page has a folder")?)?;
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
