//! The phase in which an attempt runs: it gets the attempt's events until the attempt has ended.

use schemas::Outcome;

use crate::context::StepContext;
use crate::event::Event;
use crate::next::Next;
use crate::phase::{Cordoning, Phase};
use crate::state::State;

/// Begins the attempt, on a node that is cordoned; after a restart the recorded attempt goes on.
pub(crate) fn begin(state: &mut State, cordoning: &Cordoning, context: &mut StepContext<'_>) -> Next {
    let (attempt, api_back) = (context.next_serial(), state.api.back);
    state.enter(Phase::Attempting { attempt: cordoning.attempt, started: cordoning.started }, context.now);
    let start = match state.left.take() {
        Some(left) if cordoning.resumes => drain::Event::Resume { attempt, api_back, record: Box::new(left) },
        Some(_) | None => drain::Event::Start { attempt, api_back },
    };
    state.drive(start, context);
    if state.api.outage.is_away() {
        state.drive(drain::Event::ApiAway, context);
    }
    // The watches may have run before this attempt; they report only changes, so the attempt gets their last snapshot.
    if let Some(snapshot) = state.snapshot.clone() {
        state.drive(drain::Event::Snapshot(snapshot), context);
    }
    conclude(state)
}

/// Gives the event to the attempt. News about the API server that came to the session itself has reached the attempt
/// before.
pub(crate) fn step(state: &mut State, event: Event, context: &mut StepContext<'_>) -> Next {
    if event == Event::Tick {
        state.drive(drain::Event::Tick, context);
    } else if let Event::Drain(event) = event {
        state.drive(event, context);
    }
    conclude(state)
}

fn conclude(state: &mut State) -> Next {
    let Phase::Attempting { attempt, started } = state.phase else { return Next::Stay };
    let drain::State::Ended(ended, outcome) = &state.drain else { return Next::Stay };
    state.session.gone += ended.gone();
    match outcome {
        drain::Outcome::Drained => Next::Finish(Outcome::Drained),
        drain::Outcome::NodeGone => Next::Finish(Outcome::NodeGone),
        drain::Outcome::Failed(failure) => {
            let cordoning = Cordoning { attempt, started, ..Cordoning::default() };
            Next::AttemptFailed(cordoning, failure.to_string())
        }
    }
}
