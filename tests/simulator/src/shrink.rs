//! The smallest history in which the same is still wrong: parts of it are left out as long as that is so.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};

use crate::coverage::Extent;
use crate::{Ended, numbers, run};

/// Shrinks the history of this seed, and tells the smallest one. True if nothing is wrong in it.
pub(crate) fn shrink(seed: u64) -> Result<bool> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let whole = run(&program, seed, &[]);
    let Some(wrong) = whole.wrong.clone() else {
        println!("nothing is wrong in the history of seed {seed}");
        return Ok(true);
    };
    let invariant = name_of(&wrong);
    let (left_out, smallest) = smallest(&program, seed, invariant, whole);
    print!("{}", smallest.story);
    println!("to play this again: scripts/simulate {seed} --without {}", numbers(&left_out));
    Ok(false)
}

/// The name of the invariant that was broken first.
fn name_of(wrong: &str) -> &str {
    wrong.split_once(": ").map_or(wrong, |(name, _)| name)
}

/// Leaves out half of the parts, then quarters, and so on down to single ones, as long as this helps.
fn smallest(program: &Path, seed: u64, invariant: &str, whole: Ended) -> (BTreeSet<u32>, Ended) {
    // A history without an end says nothing of its parts; there never were so many.
    const MOST: u32 = 64;
    let parts = match Extent::of_story(&whole.story).parts {
        0 => MOST,
        parts => parts,
    };
    let (mut left_out, mut best) = (BTreeSet::new(), whole);
    let mut size = parts;
    loop {
        let mut has_shrunk = false;
        let kept: Vec<u32> = (1..=parts).filter(|part| !left_out.contains(part)).collect();
        for some in kept.chunks(usize::try_from(size).unwrap_or(1)) {
            let fewer: BTreeSet<u32> = left_out.iter().chain(some).copied().collect();
            let ended = run(program, seed, &["--without".to_owned(), numbers(&fewer)]);
            if ended.wrong.as_deref().map(name_of) == Some(invariant) {
                eprintln!("{} of {parts} parts are left", parts as usize - fewer.len());
                (left_out, best, has_shrunk) = (fewer, ended, true);
            }
        }
        if size == 1 && !has_shrunk {
            return (left_out, best);
        }
        size = (size / 2).max(1);
    }
}
