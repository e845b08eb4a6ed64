//! The scenarios that are searched.

use schemas::Operation::{Poweroff, Reboot, Shutdown};

use crate::rule::Rule;
use crate::scenario::Order::{
    Activate, Command, CordonByHand, Override, Remove, Revert, TakeBack, UncordonByHand,
};
use crate::scenario::{Kind, Scenario, Word};

/// All scenarios, with so many deviations of every kind.
pub fn all(deviations: u8) -> Vec<Scenario> {
    let any = |name, script: &[_]| Scenario::new(name, script).with(deviations, &Kind::ALL);
    // Whoever has activated an image waits for ever when the device cannot reboot: `known` tells.
    let works: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| *kind != Kind::MeansFail).collect();
    let update = |name, script: &[_]| Scenario::new(name, script).with(deviations, &works);
    vec![
        any("reboot", &[Command(Reboot)]).orders(&[TakeBack(Reboot), Remove(Reboot)]),
        update("update", &[Activate]).orders(&[Revert]),
        update("both", &[Activate]).orders(&[Command(Reboot), Revert]),
        shutdown(deviations),
        any("poweroff", &[Command(Reboot)]).orders(&[
            Command(Poweroff),
            TakeBack(Poweroff),
            TakeBack(Reboot),
        ]),
        any("override", &[Command(Reboot)]).orders(&[
            Override(Word::ForDeviceOp),
            Override(Word::ForAll),
            Override(Word::Disable),
            Override(Word::Enable),
        ]),
        any("by-hand", &[Command(Reboot)]).orders(&[CordonByHand, UncordonByHand, TakeBack(Reboot)]),
        Scenario {
            republishes: true,
            has_hooks: true,
            ..update("controller", &[Command(Reboot)]).orders(&[Activate, TakeBack(Reboot)])
        },
    ]
}

/// With two deviations a shutdown can be carried out twice: the crate's documentation tells how.
fn shutdown(deviations: u8) -> Scenario {
    let mut scenario = Scenario::new("shutdown", &[Command(Shutdown), Command(Reboot)]);
    if deviations > 1 {
        scenario.excluded.insert(Rule::NothingTwice);
    }
    scenario.with(deviations, &Kind::ALL).orders(&[TakeBack(Shutdown)])
}
