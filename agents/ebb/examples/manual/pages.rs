//! Pages of the source, copied elsewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

use crate::write;

/// Files of the source, and the pictures that they show.
pub(crate) struct Pages(BTreeSet<PathBuf>);

impl Pages {
    /// These files, and all files of these folders.
    pub(crate) fn of<'a>(places: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let mut pages = Self(BTreeSet::new());
        for place in places {
            pages.collect(Path::new(place))?;
        }
        let pictures: Vec<_> = pages.pages().map(pictures).collect::<Result<_>>()?;
        pages.0.extend(pictures.into_iter().flatten());
        Ok(pages)
    }

    fn collect(&mut self, path: &Path) -> Result<()> {
        if !path.is_dir() {
            fs::metadata(path).with_context(|| format!("{} is not in the source", path.display()))?;
            self.0.insert(path.to_owned());
            return Ok(());
        }
        for entry in fs::read_dir(path)? {
            self.collect(&entry?.path())?;
        }
        Ok(())
    }

    fn pages(&self) -> impl Iterator<Item = &PathBuf> {
        self.0.iter().filter(|path| path.extension().is_some_and(|kind| kind == "md"))
    }

    /// Puts them below a folder, in the places that they have in the source.
    pub(crate) fn copy_to(&self, target: &Path) -> Result<()> {
        for path in &self.0 {
            let copy = target.join(path);
            fs::create_dir_all(copy.parent().context("a file has a folder")?)?;
            fs::copy(path, copy)?;
        }
        self.pages().try_for_each(|page| write(&target.join(page), &self.text(page)?))
    }

    /// The text of a page, in which all links to files lead to one of the files.
    fn text(&self, page: &Path) -> Result<String> {
        let folder = page.parent().context("a page has a folder")?;
        let is_there = |target: &str| {
            let file = target.split_once('#').map_or(target, |(file, _)| file);
            let path = normal(&folder.join(file));
            target.contains("://") || file.is_empty() || self.0.iter().any(|page| page.starts_with(&path))
        };
        Ok(ebb::without_links(&fs::read_to_string(page)?, is_there))
    }
}

/// The targets of all links of a text.
pub(crate) fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|part| Some(part.split_once(')')?.0))
}

fn pictures(page: &PathBuf) -> Result<Vec<PathBuf>> {
    let folder = page.parent().context("a page has a folder")?;
    let text = fs::read_to_string(page)?;
    let pictures =
        links(&text).filter(|target| Path::new(target).extension().is_some_and(|kind| kind == "png"));
    Ok(pictures.map(|target| normal(&folder.join(target))).collect())
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
