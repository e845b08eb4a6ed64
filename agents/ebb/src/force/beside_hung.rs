//! An order to complete while zedkube hangs: it takes no override, so the order goes to the gate of each agent that asks.

use std::fs;
use std::io::ErrorKind;
use std::time::Duration;

use anyhow::Context;
use pubsub::{Persistence, Publisher, Root, TopicKey, read_item};
use runtime::boot::boot_id;
use runtime::liveness::silent_for;
use runtime::settings::load;
use runtime::{AgentFlags, SettingsWatch};
use schemas::{
    DrainOrder, DrainOverride, DrainRequester, NodeDrainRequest, PassGate, SCHEMA_VERSION, age, agent,
};

use super::override_file::{OverrideFile, Taken};
use super::result::Became;
use crate::peers;

/// The agents whose operations can pass, and what an operator calls them.
const REQUESTERS: [(&str, DrainRequester, &str); 2] = [
    (agent::ZEDAGENT, DrainRequester::DeviceOp, "device-op"),
    (agent::BASEOSMGR, DrainRequester::Update, "baseos"),
];

/// Takes the override back that zedkube did not take, and lets the requests that stand now pass. Nothing when the order is
/// another one, zedkube does not hang for `drain.start.timeout`, or it has taken the override meanwhile.
///
/// # Errors
/// The order cannot be taken back or written: then the override stays, and counts when zedkube looks.
pub(super) fn let_pass(
    root: &Root,
    order: &DrainOverride,
    file: &OverrideFile,
) -> anyhow::Result<Option<Became>> {
    let (Some(DrainOrder::Complete(_)), Some(silent)) = (order.order(), hung_for(root)) else {
        return Ok(None);
    };
    let lock = peers::speak_as(root, agent::EBB)?;
    let requests = standing(root, order.requested_by);
    let age = age(u64::try_from(silent.as_millis()).unwrap_or(u64::MAX));
    let hangs = format!("zedkube hangs: its touch file is {age} old");
    if requests.is_empty() {
        return Ok(Some(Became {
            taken: Taken::Not,
            line: format!("{hangs}; no request stands that could pass beside it"),
            hint: "give the command (`ebb reboot`), then this order again; or restart zedkube, then give it again".to_owned(),
            is_undrained: false,
            left: Vec::new(),
        }));
    }
    // It was taken back when zedkube did not look. Where that failed it would count a second time, for a later request,
    // when zedkube goes on.
    match fs::remove_file(file.path()) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).context("cannot take the override back that zedkube does not take");
        }
        Ok(()) | Err(_) => {}
    }
    let boot_id = boot_id(root)?;
    let mut passes = Publisher::<PassGate>::open(root, agent::EBB, Persistence::Volatile, &lock)?;
    let mut whose = Vec::new();
    for (publisher, requested_by, name, request) in requests {
        let pass = PassGate {
            schema_version: SCHEMA_VERSION,
            boot_id: boot_id.clone(),
            requested_by,
            requested_at: request.requested_at,
            by: order.by.clone(),
            reason: order.reason.clone(),
        };
        passes.publish(&TopicKey::parse(publisher)?, &pass)?;
        whose.push(name);
    }
    let line = format!(
        "{hangs}; {}'s request passes without it, this once: this node is NOT drained; which pods are left on it is not \
         known",
        whose.join("'s and ")
    );
    Ok(Some(Became {
        taken: Taken::Applied,
        line,
        hint: String::new(),
        is_undrained: true,
        left: Vec::new(),
    }))
}

/// Since when zedkube's loop has shown no progress, if that is as long as the gate calls hung.
fn hung_for(root: &Root) -> Option<Duration> {
    let flags = AgentFlags { root: root.path().to_owned(), ..AgentFlags::default() };
    let settings = SettingsWatch::fixed(load(root, &flags, None)).current();
    silent_for(root, agent::ZEDKUBE).filter(|silent| settings.drain.start_timeout <= *silent)
}

type Request = (&'static str, DrainRequester, &'static str, NodeDrainRequest);

fn standing(root: &Root, covered: DrainRequester) -> Vec<Request> {
    let is_covered = |by: DrainRequester| covered == DrainRequester::None || covered == by;
    let standing =
        REQUESTERS.into_iter().filter(|(_, by, _)| is_covered(*by)).filter_map(|(publisher, by, name)| {
            let item =
                read_item(root, publisher, Persistence::Volatile, &TopicKey::global()).ok().flatten()?;
            Some((publisher, by, name, item))
        });
    standing.collect()
}
