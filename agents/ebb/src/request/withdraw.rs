//! `ebb cancel`: the request of `ebb request`, withdrawn.

use std::process::ExitCode;

use anyhow::bail;
use pubsub::{Persistence, Publisher, TopicKey};
use schemas::{DrainRequester, NodeDrainRequest, agent};

use super::Document;
use crate::place::Place;
use crate::{journal, peers};

/// Withdraws the request.
///
/// # Errors
/// None stands, or not one of a person; it cannot be removed.
pub(crate) fn withdraw(place: &Place) -> anyhow::Result<ExitCode> {
    let root = place.root()?;
    let Some(request) = super::standing(&root)? else {
        bail!(
            "no drain is requested from here; `ebb cancel reboot` (shutdown, poweroff, update) takes back a command, and \
             `ebb status` says who asks"
        );
    };
    let NodeDrainRequest { requested_at, requested_by, context } = &request;
    if *requested_by != DrainRequester::None {
        bail!(
            "the request in our folder is none of a person (RequestedBy {}); remove it by hand",
            requested_by.code()
        );
    }
    let lock = peers::speak_as(&root, agent::EBB)?;
    let mut requests: Publisher<NodeDrainRequest> =
        Publisher::open(&root, agent::EBB, Persistence::Volatile, &lock)?;
    requests.unpublish(&TopicKey::global())?;
    journal::record(
        &root,
        &format!("NodeDrainRequest withdrawn: {context} of {requested_at} by {}", peers::user()),
    );
    let follows = if peers::runs(&root, agent::ZEDKUBE) {
        "zedkube gives the node back unless somebody else asks: see `ebb status`"
    } else {
        "zedkube does not run, and gives the node back when it starts"
    };
    let line = format!("the drain request ({context}) is withdrawn: {follows}");
    place.answer(&line, &Document { request: &request, by: peers::user() })?;
    Ok(ExitCode::SUCCESS)
}
