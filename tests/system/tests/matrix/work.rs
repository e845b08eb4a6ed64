//! Runs many cells at a time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail};
use control_plane::ControlPlane;
use system::Place;

use crate::judge::{Verdict, judge};
use crate::plan::{Boundary, Cell};
use crate::run::{Agent, Run, Scenario};
use crate::trial::Trial;

pub(crate) type Results = BTreeMap<Cell, Verdict>;

/// Creates places.
pub(crate) fn places(plane: &ControlPlane, count: usize) -> Result<Vec<Place>> {
    let make = |_| Place::new(plane, "matrix");
    thread::scope(|scope| {
        // Each creation takes seconds and mostly waits; more at a time do not help on two cores.
        let workers: Vec<_> = (0..4_usize)
            .map(|worker| {
                scope.spawn(move || (0..count).skip(worker).step_by(4).map(make).collect::<Result<Vec<_>>>())
            })
            .collect();
        let mut all = Vec::new();
        for worker in workers {
            match worker.join() {
                Ok(places) => all.extend(places?),
                Err(_) => bail!("no place: a thread panicked"),
            }
        }
        Ok(all)
    })
}

/// Runs the scenario without a fault, and returns the boundaries that the agents reached.
pub(crate) fn boundaries(places: &[Place], scenario: Scenario) -> Result<Vec<Boundary>> {
    let place = places.first().context("a place")?;
    let mut run = Run::new(place, scenario, Trial::none())?;
    run.go().with_context(|| run.device.describe())?;
    let mut all = Vec::new();
    for agent in Agent::ALL {
        for (index, name) in Trial::met(&run.device, agent).into_iter().enumerate() {
            all.push(Boundary { scenario, agent, number: u32::try_from(index)? + 1, name });
        }
    }
    Ok(all)
}

/// Runs all cells, one at a time at each place.
pub(crate) fn all(cells: &[Cell], places: &[Place]) -> Results {
    let queue: Mutex<VecDeque<&Cell>> = Mutex::new(cells.iter().collect());
    let results = Mutex::new(Results::new());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    thread::scope(|scope| {
        for place in places {
            scope.spawn(|| {
                while let Some(cell) = next() {
                    let verdict = judge(place, cell);
                    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                    results.insert(cell.clone(), verdict);
                    tell(results.len(), cells.len());
                }
            });
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Prints the progress, because a person waits for half an hour.
#[expect(clippy::print_stderr, reason = "beside the table, which is the output")]
fn tell(done: usize, of: usize) {
    if done.is_multiple_of(50) {
        eprintln!("{done} of {of} cells");
    }
}
