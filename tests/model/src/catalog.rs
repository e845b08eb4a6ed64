//! The scenarios that are searched.

use schemas::Operation::{Poweroff, Reboot, Shutdown};

use crate::scenario::Order::{
    Activate, Command, CordonByHand, Override, PersonCommands, PersonTakesBack, Remove, Revert, TakeBack,
    UncordonByHand,
};
use crate::scenario::{Kind, Scenario, Word};

/// All scenarios, each with this number of deviations of every kind.
pub fn all(deviations: u8) -> Vec<Scenario> {
    let any = |name, script: &[_]| Scenario::new(name, script).with(deviations, &Kind::ALL);
    vec![
        any("reboot", &[Command(Reboot)]).orders(&[TakeBack(Reboot), Remove(Reboot)]),
        any("update", &[Activate]).orders(&[Revert]),
        any("both", &[Activate]).orders(&[Command(Reboot), Revert]),
        any("shutdown", &[Command(Shutdown), Command(Reboot)]).orders(&[TakeBack(Shutdown)]),
        any("poweroff", &[Command(Reboot)]).orders(&[
            Command(Poweroff),
            TakeBack(Poweroff),
            TakeBack(Reboot),
        ]),
        any("sources", &[Command(Reboot), PersonCommands(Shutdown)]).orders(&[
            PersonCommands(Reboot),
            PersonTakesBack(Reboot),
            Command(Shutdown),
        ]),
        any("override", &[Command(Reboot)]).orders(&[
            Override(Word::ForDeviceOp),
            Override(Word::ForAll),
            Override(Word::Disable),
            Override(Word::Enable),
        ]),
        any("by-hand", &[Command(Reboot)]).orders(&[CordonByHand, UncordonByHand, TakeBack(Reboot)]),
        Scenario {
            keeps_run: true,
            ..any("kept-run", &[Command(Reboot)]).orders(&[Activate, TakeBack(Reboot)])
        },
        Scenario {
            republishes: true,
            has_hooks: true,
            ..any("controller", &[Command(Reboot)]).orders(&[Activate, TakeBack(Reboot)])
        },
    ]
}
