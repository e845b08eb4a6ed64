//! What follows from the host's answer, and from what was commanded before.

use schemas::{SCHEMA_VERSION, SentinelRecord, SentinelState};

/// The host's answer to the question whether it needs a reboot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is not asked: no setting says how.
    Off,
    /// It needs none.
    NotNeeded,
    /// It needs one, for this reason. `mark` identifies what asks.
    Needed { reason: String, mark: String },
    /// It cannot be told, for this reason.
    Unknown(String),
}

impl Answer {
    /// The answer of two places that are asked. One that needs a reboot is enough.
    pub(crate) fn or(self, other: Self) -> Self {
        match (self, other) {
            (needed @ Self::Needed { .. }, _) | (_, needed @ Self::Needed { .. }) => needed,
            (unknown @ Self::Unknown(_), _) | (_, unknown @ Self::Unknown(_)) => unknown,
            (Self::Off, other) | (other, Self::Off) => other,
            (Self::NotNeeded, Self::NotNeeded) => Self::NotNeeded,
        }
    }
}

/// What has to be done with the command for a reboot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CommandChange {
    /// It is given, for this reason.
    Give(String),
    /// It is taken back, if it was given in this boot.
    TakeBack,
    /// It stays as it is.
    None,
}

/// What follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    /// The record as it has to be on disk before anything else follows.
    pub(crate) record: Option<SentinelRecord>,
    pub(crate) command: CommandChange,
    pub(crate) state: SentinelState,
    pub(crate) reason: String,
}

/// Decides what follows in the boot with this id from the host's answer. `record` is about the last command.
///
/// One command for each boot: a host whose answer changes to and fro does not reboot to and fro.
pub(crate) fn decide(record: Option<&SentinelRecord>, answer: &Answer, boot_id: &str) -> Decision {
    let record = record.cloned();
    let is_of_boot = |record: &SentinelRecord| record.boot_id == boot_id;
    let (record, command, state, reason) = match (answer, record) {
        (Answer::Unknown(why), record) => (record, CommandChange::None, SentinelState::Unknown, why.clone()),
        (Answer::Off | Answer::NotNeeded, record) => {
            let is_off = matches!(answer, Answer::Off);
            let state = if is_off { SentinelState::Off } else { SentinelState::NotNeeded };
            let record =
                record.filter(is_of_boot).map(|record| SentinelRecord { taken_back: true, ..record });
            (record, CommandChange::TakeBack, state, String::new())
        }
        (Answer::Needed { reason, .. }, Some(record)) if is_of_boot(&record) && record.taken_back => {
            (Some(record), CommandChange::TakeBack, SentinelState::TakenBack, reason.clone())
        }
        (Answer::Needed { reason, mark }, Some(record))
            if !is_of_boot(&record) && !record.taken_back && record.mark == *mark =>
        {
            (Some(record), CommandChange::TakeBack, SentinelState::StillAsks, reason.clone())
        }
        (Answer::Needed { reason, mark }, _) => {
            let record = SentinelRecord {
                schema_version: SCHEMA_VERSION,
                boot_id: boot_id.to_owned(),
                mark: mark.clone(),
                taken_back: false,
            };
            (Some(record), CommandChange::Give(reason.clone()), SentinelState::Commanded, reason.clone())
        }
    };
    Decision { record, command, state, reason }
}

#[cfg(test)]
mod tests {
    use SentinelState::{Commanded, NotNeeded, Off, StillAsks, TakenBack, Unknown};

    use super::*;

    fn needed(mark: &str) -> Answer {
        Answer::Needed { reason: "libc6".to_owned(), mark: mark.to_owned() }
    }

    fn record(boot_id: &str, mark: &str, taken_back: bool) -> SentinelRecord {
        let (boot_id, mark) = (boot_id.to_owned(), mark.to_owned());
        SentinelRecord { schema_version: SCHEMA_VERSION, boot_id, mark, taken_back }
    }

    #[test]
    fn one_reboot_for_each_boot_and_none_that_does_not_help() {
        let (give, back, keep) =
            (CommandChange::Give("libc6".to_owned()), CommandChange::TakeBack, CommandChange::None);
        let unknown = Answer::Unknown("time-out".to_owned());
        let given = || Some(record("b2", "m", false));
        for (before, answer, after, change, state) in [
            (None, Answer::Off, None, &back, Off),
            (None, Answer::NotNeeded, None, &back, NotNeeded),
            (None, unknown.clone(), None, &keep, Unknown),
            (None, needed("m"), given(), &give, Commanded),
            (given(), needed("m"), given(), &give, Commanded),
            // It asks for more.
            (given(), needed("n"), Some(record("b2", "n", false)), &give, Commanded),
            (given(), unknown.clone(), given(), &keep, Unknown),
            (given(), Answer::NotNeeded, Some(record("b2", "m", true)), &back, NotNeeded),
            (given(), Answer::Off, Some(record("b2", "m", true)), &back, Off),
            (Some(record("b2", "m", true)), needed("m"), Some(record("b2", "m", true)), &back, TakenBack),
            (Some(record("b2", "m", true)), needed("n"), Some(record("b2", "m", true)), &back, TakenBack),
            // The boot after it.
            (Some(record("b1", "m", false)), needed("m"), Some(record("b1", "m", false)), &back, StillAsks),
            (Some(record("b1", "m", false)), unknown, Some(record("b1", "m", false)), &keep, Unknown),
            (Some(record("b1", "m", false)), needed("n"), Some(record("b2", "n", false)), &give, Commanded),
            (Some(record("b1", "m", false)), Answer::NotNeeded, None, &back, NotNeeded),
            (Some(record("b1", "m", true)), needed("m"), given(), &give, Commanded),
        ] {
            let decision = decide(before.as_ref(), &answer, "b2");
            let found = (&decision.record, &decision.command, decision.state);
            assert_eq!(found, (&after, change, state), "{before:?} {answer:?}");
        }
    }

    #[test]
    fn one_place_that_asks_is_enough() {
        let unknown = || Answer::Unknown("why".to_owned());
        for (one, other, both) in [
            (Answer::Off, Answer::Off, Answer::Off),
            (Answer::Off, Answer::NotNeeded, Answer::NotNeeded),
            (Answer::NotNeeded, Answer::NotNeeded, Answer::NotNeeded),
            (Answer::NotNeeded, unknown(), unknown()),
            (Answer::Off, unknown(), unknown()),
            (needed("m"), unknown(), needed("m")),
            (needed("m"), Answer::NotNeeded, needed("m")),
        ] {
            assert_eq!(one.clone().or(other.clone()), both);
            assert_eq!(other.or(one), both);
        }
    }
}
