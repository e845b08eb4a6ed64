//! Random rounds, one class of faults at a time: real processes, a real control plane, real mounts.
//!
//! A round is one device with two commands, one after the other. While they are carried out, faults of the round's
//! class happen at random moments ([`class`]). [`round`] judges: every recorded action of the device (no pod that
//! should have left, no other node's slot), each command exactly once or refused with a message, and no trace of ours
//! left behind.
//!
//! The moments are random, and the machine's load decides what they hit: a seed names a round, but does not repeat it
//! exactly. `EBB_ROUNDS` is the number of rounds of each class (1 by default), `EBB_ROUNDS_SEED` the first seed,
//! `EBB_ROUNDS_CLASS` one class to run alone, `EBB_ROUNDS_AT_A_TIME` the number of devices at a time (5 by default);
//! `EBB_ROUNDS_LOGS=FOLDER` keeps all data of failed rounds. `scripts/rounds 60` runs 60 of each and prints the table.

#![expect(clippy::indexing_slicing, reason = "a test may fail by a panic; in JSON a missing field is null")]

mod class;
mod random;
mod round;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::Result;
use control_plane::ControlPlane;
use system::Place;

use class::Class;
use round::{Round, Verdict};

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_ebb-system");

/// Default number of devices at a time: they mostly wait.
const AT_A_TIME: u64 = 5;

#[test]
fn random_rounds_of_each_class() -> Result<()> {
    let rounds = variable("EBB_ROUNDS").unwrap_or(1);
    let first = variable("EBB_ROUNDS_SEED").unwrap_or(1);
    let at_a_time = variable("EBB_ROUNDS_AT_A_TIME").unwrap_or(AT_A_TIME);
    let only = std::env::var("EBB_ROUNDS_CLASS").ok();
    let classes =
        Class::ALL.into_iter().filter(|class| only.as_deref().is_none_or(|only| only == class.name()));
    let all: VecDeque<Round> = classes
        .filter(|class| class.is_possible())
        .flat_map(|class| (first..first + rounds).map(move |seed| Round { class, seed }))
        .collect();
    let plane = ControlPlane::shared()?;
    let (queue, verdicts) = (Mutex::new(all), Mutex::new(BTreeMap::new()));
    thread::scope(|scope| {
        let workers: Vec<_> =
            (0..at_a_time).map(|_| scope.spawn(|| work(&plane, &queue, &verdicts))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| anyhow::bail!("a panic")))
    })?;
    let verdicts = verdicts.into_inner().unwrap_or_else(PoisonError::into_inner);
    print(&table(&verdicts));
    anyhow::ensure!(verdicts.values().all(|verdict: &Verdict| verdict.wrong.is_none()), "not all is right");
    Ok(())
}

type Verdicts = Mutex<BTreeMap<Round, Verdict>>;

fn work(plane: &ControlPlane, queue: &Mutex<VecDeque<Round>>, verdicts: &Verdicts) -> Result<()> {
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let mut place = None;
    while let Some(round) = next() {
        let place = match &place {
            Some(place) => place,
            None => place.insert(Place::new(plane, "rounds")?),
        };
        let verdict = round.run(place);
        if let Some(wrong) = &verdict.wrong {
            tell(&format!("{} {}: {wrong}", round.class.name(), round.seed));
        }
        verdicts.lock().unwrap_or_else(PoisonError::into_inner).insert(round, verdict);
    }
    Ok(())
}

fn table(verdicts: &BTreeMap<Round, Verdict>) -> String {
    let mut text = format!("{:<24}{:>8}{:>8}{:>8}\n", "class", "rounds", "faults", "wrong");
    let classes: BTreeSet<Class> = verdicts.keys().map(|round| round.class).collect();
    for class in classes {
        let of_class =
            || verdicts.iter().filter(|(round, _)| round.class == class).map(|(_, verdict)| verdict);
        let faults: usize = of_class().map(|verdict| verdict.faults).sum();
        let wrong = of_class().filter(|verdict| verdict.wrong.is_some()).count();
        let line = format!("{:<24}{:>8}{faults:>8}{wrong:>8}\n", class.name(), of_class().count());
        text.push_str(&line);
    }
    text
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[expect(clippy::print_stdout, reason = "what scripts/rounds is for")]
fn print(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "a person waits for long")]
fn tell(text: &str) {
    eprintln!("{text}");
}
