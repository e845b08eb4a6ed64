//! `ebb report`: one drain as a page for a browser, from the files of zedkube's flight recorder.

mod chart;
mod html;
mod page;
mod scale;
mod timeline;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use kubectl_ebb::screen;
use runtime::drain_history;

use crate::history::{Told, chosen};
use crate::operator::readable_root;

const EXAMPLES: &str = "\
Examples:
  ebb report --html drain.html          the last drain
  ebb report 12 --html /tmp/drain.html  drain 12 of `ebb history`
  ssh DEVICE ebb report --html - > drain.html";

/// Arguments of `ebb report`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReportArguments {
    /// The drain: its number in the list of `ebb history`, its UUID, or `last`
    #[arg(value_name = "ID", default_value = "last")]
    id: String,
    /// File that gets the page, in the place of what it has now; `-` for stdout
    #[arg(long, value_name = "FILE")]
    html: PathBuf,
    /// Folder that is used as the root of the device's files (for tests and containers)
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

/// Writes the page.
///
/// # Errors
/// There is no such drain, its file cannot be read, or the page cannot be written.
pub(crate) fn run(arguments: &ReportArguments) -> anyhow::Result<()> {
    let folder = drain_history::folder(&readable_root(&arguments.root)?);
    let files = drain_history::list(&folder)?;
    let drain = chosen(&files, &arguments.id)?;
    let lines = drain_history::read(&folder, drain)?;
    let told = Told::of(drain, &lines);
    let page = page::of(&told, &lines);
    if arguments.html == Path::new("-") {
        return screen::whole(&page).context("the page cannot be written to stdout");
    }
    let shown = text::path(&arguments.html);
    File::create(&arguments.html).and_then(|mut file| file.write_all(page.as_bytes())).with_context(
        || format!("{shown}: the page cannot be written; name a file in a folder that you may write to"),
    )?;
    screen::line(&format!("{shown}: drain {}", told.which()));
    Ok(())
}

#[cfg(test)]
mod tests;
