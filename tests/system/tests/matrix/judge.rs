//! Judges the result of a run.

use std::collections::BTreeSet;
use std::io::Write as _;

use anyhow::{Context, Result, ensure};
use system::Place;

use crate::plan::Cell;
use crate::run::{End, Run, Scenario};
use crate::trial::Trial;

/// The verdict on one cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ok,
    /// The run was over before the boundary was reached: boundaries are counted, and not every run has the same number.
    NotReached,
    Wrong(String),
}

/// Number of tries, because a run may have fewer boundaries than the run that listed them.
const TRIES: u32 = 3;

/// Runs the cell, and again if its boundary was not reached.
pub(crate) fn judge(place: &Place, cell: &Cell) -> Verdict {
    for _ in 0..TRIES {
        match attempt(place, cell) {
            Ok(Verdict::NotReached) => {}
            Ok(verdict) => return verdict,
            Err(error) => return Verdict::Wrong(format!("{error:#}")),
        }
    }
    Verdict::NotReached
}

fn attempt(place: &Place, cell: &Cell) -> Result<Verdict> {
    let mut run = Run::new(place, cell.boundary.scenario, Trial::of(cell))?;
    let end = run.go().and_then(|end| check_lines(&run, end));
    if let Err(error) = &end {
        keep(&run, cell, &format!("{error:#}"));
    }
    let at = || format!("at {:?}", Trial::met(&run.device, cell.boundary.agent).last());
    end.with_context(at)?;
    Ok(if run.trial.is_hit { Verdict::Ok } else { Verdict::NotReached })
}

/// Checks that each command was carried out exactly once, or not at all if it was held back.
fn check_lines(run: &Run<'_>, end: End) -> Result<()> {
    let lines = run.device.actions()?;
    let count = lines.len();
    match (run.scenario, end) {
        // The dry run of an image is recorded in each boot in which the image is wanted.
        (Scenario::Image, _) => {
            let in_boots: BTreeSet<_> = lines.iter().map(|line| &line.boot_id).collect();
            ensure!(count >= 1 && in_boots.len() == count, "{count} activations in {} boots", in_boots.len());
        }
        (_, End::Done) => ensure!(count == 1, "carried out {count} times"),
        (_, End::DoneByBoot) => {
            ensure!(count == run.trial.lines_at_boot, "carried out again after the boot");
        }
        (_, End::HeldBack) => {
            ensure!(count == 0, "held back, and carried out {count} times");
        }
    }
    Ok(())
}

/// Writes all data of a failed run to the folder in `EBB_MATRIX_LOGS`, if that is set.
fn keep(run: &Run<'_>, cell: &Cell, error: &str) {
    let Some(folder) = std::env::var_os("EBB_MATRIX_LOGS") else { return };
    let boundary = &cell.boundary;
    let name = format!(
        "{}-{}-{}-{}",
        boundary.scenario.title(),
        boundary.agent.verb(),
        boundary.number,
        cell.column.title().replace(' ', "-")
    );
    let text = format!("{error}\n{cell:?}\n{}", run.device.describe());
    let file = std::fs::File::create(std::path::Path::new(&folder).join(name));
    // A failed write is ignored: the file is only for people.
    drop(file.and_then(|mut file| file.write_all(text.as_bytes())));
}
