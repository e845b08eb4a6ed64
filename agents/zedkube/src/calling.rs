//! Calls without an answer so far, and since when, so that a hanging call is noticed.

use std::collections::BTreeMap;

use session::{Effect, Event};

/// The calls in flight, by serial: name and start, in milliseconds of [`runtime::clock::awake_millis`], because a call
/// and its deadline stand still while the machine is suspended. Never more than the session has in flight.
#[derive(Debug, Default)]
pub(crate) struct Calling(BTreeMap<u32, (&'static str, u64)>);

impl Calling {
    /// Notes that the effect is being carried out.
    pub(crate) fn begin(&mut self, effect: &Effect, now_ms: u64) {
        if let Some((serial, call)) = effect.awaited() {
            self.0.insert(serial, (call, now_ms));
        }
    }

    /// Notes that the effect was not carried out after all.
    pub(crate) fn forget(&mut self, effect: &Effect) {
        if let Some((serial, _)) = effect.awaited() {
            self.0.remove(&serial);
        }
    }

    /// Notes that the answer has come.
    pub(crate) fn end(&mut self, event: &Event) {
        if let Some(serial) = event.answers() {
            self.0.remove(&serial);
        }
    }

    /// Name and start of the call that has been in flight for longest.
    pub(crate) fn longest(&self) -> Option<(&'static str, u64)> {
        self.0.values().copied().min_by_key(|(_, since)| *since)
    }
}

#[cfg(test)]
mod tests {
    use drain::cordon::Ownerless;
    use session::event::{CallError, SlotError};

    use super::*;

    #[test]
    fn every_call_is_waited_for_until_its_answer_comes() {
        let call_error = || CallError::Other(String::new());
        let failed = || Err(SlotError::Failed(call_error()));
        let cases = [
            (Effect::ListNodes { serial: 1 }, Event::NodesListed { serial: 1, result: Err(call_error()) }),
            (
                Effect::SampleNodes { serial: 10 },
                Event::NodesSampled { serial: 10, result: Err(call_error()) },
            ),
            (Effect::Probe { serial: 2 }, Event::Probed { serial: 2, result: Err(call_error()) }),
            (Effect::Cordon { serial: 3 }, Event::Cordoned { serial: 3, result: Err(call_error()) }),
            (Effect::Uncordon { serial: 4 }, Event::Uncordoned { serial: 4, result: Ok(()) }),
            (
                Effect::Adopt { serial: 5, whose: Ownerless::Eves },
                Event::Adopted { serial: 5, result: Ok(true) },
            ),
            (Effect::MarkWithoutSlot { serial: 11 }, Event::MarkedWithoutSlot { serial: 11, result: Ok(()) }),
            (Effect::ReadSlots { serial: 6 }, Event::Slots { serial: 6, result: failed() }),
            (
                Effect::WriteSlots { serial: 7, based_on: None, node: "n".into(), entry: None },
                Event::Slots { serial: 7, result: failed() },
            ),
            (Effect::AskHealth { serial: 8 }, Event::Health { serial: 8, result: Ok(()) }),
        ];
        let mut calling = Calling::default();
        for (effect, _) in &cases {
            calling.begin(effect, 100);
        }
        calling.begin(&Effect::Probe { serial: 9 }, 200);
        for (effect, answer) in &cases {
            assert_eq!(calling.longest().map(|(_, since)| since), Some(100), "{effect:?}");
            calling.end(answer);
            calling.end(answer);
        }
        assert_eq!(calling.longest(), Some(("the read of our node", 200)));
        calling.forget(&Effect::Probe { serial: 9 });
        assert_eq!(calling.longest(), None);
    }
}
