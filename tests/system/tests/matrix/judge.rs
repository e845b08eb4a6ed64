//! What a run came to.

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
    /// The run was over before the boundary came: boundaries are counted, and not each run has as many.
    NotReached,
    Wrong(String),
}

/// A run may have fewer boundaries than the one that listed them.
const TRIES: u32 = 3;

/// Runs the cell, again if its boundary did not come.
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

/// Once for each command, whatever happened.
fn check_lines(run: &Run<'_>, end: End) -> Result<()> {
    let lines = run.device.actions()?;
    let count = lines.len();
    match (run.scenario, end) {
        // A dry run of an image is written down in each boot in which it stands.
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

/// Keeps all that is known of a run that went wrong, where the environment says so.
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
    // It only helps a person.
    drop(file.and_then(|mut file| file.write_all(text.as_bytes())));
}
