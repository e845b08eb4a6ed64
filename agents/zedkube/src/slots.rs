//! Reads and writes the slot table for the session.

use cluster::slots::{SlotFailure, SlotMap, Slots, read_slots, write_slots};
use runtime::Settings;
use session::Event;
use session::event::{CallError, SlotError};
use session::slots::{Holder, PassedOver, SlotTable};
use tokio::sync::mpsc;

use crate::link::{Link, call_error, tell};

/// The ConfigMap that the settings name.
pub fn slot_map(settings: &Settings) -> SlotMap {
    SlotMap::new(settings.slots.namespace.as_str(), settings.slots.group.as_str())
}

/// Reads the slot table; answers with [`Event::Slots`].
pub(crate) fn read(link: Link, map: SlotMap, serial: u32, events: mpsc::Sender<Event>) {
    tokio::spawn(async move {
        let result = match link.cluster().await {
            Ok((cluster, _)) => read_slots(&cluster, &map).await,
            Err(failure) => Err(failure.into()),
        };
        tell(&events, answer(serial, result)).await;
    });
}

/// Writes our entry, or removes it; answers with [`Event::Slots`].
pub(crate) fn write(
    link: Link,
    map: SlotMap,
    serial: u32,
    based_on: Option<String>,
    node: String,
    entry: Option<Holder>,
    events: mpsc::Sender<Event>,
) {
    tokio::spawn(async move {
        let entry = entry.map(to_wire);
        let result = match link.cluster().await {
            Ok((cluster, _)) => write_slots(&cluster, &map, based_on.as_deref(), &node, entry.as_ref()).await,
            Err(failure) => Err(failure.into()),
        };
        tell(&events, answer(serial, result)).await;
    });
}

fn answer(serial: u32, result: Result<Slots, SlotFailure>) -> Event {
    let result = result.map(slot_table).map_err(|failure| match failure {
        SlotFailure::Conflict => SlotError::Conflict,
        SlotFailure::Missing { text } => SlotError::Failed(CallError::Other(text)),
        SlotFailure::Api(failure) => SlotError::Failed(call_error(&failure)),
    });
    Event::Slots { serial, result }
}

/// The session's form of a slot table that was read.
pub fn slot_table(slots: Slots) -> SlotTable {
    SlotTable {
        version: slots.version,
        uid: slots.uid,
        holders: slots.holders.into_iter().map(of_entry).collect(),
        unreadable: slots.unreadable.into_iter().map(|unreadable| unreadable.node).collect(),
    }
}

fn of_entry(holder: cluster::Holder) -> Holder {
    let cluster::Holder { node, node_uid, boot_id, renewal, passed_over } = holder;
    let passed = |cluster::PassedOver { node, node_uid, renewal }| PassedOver { node, node_uid, renewal };
    Holder { node, node_uid, boot_id, renewal, passed_over: passed_over.into_iter().map(passed).collect() }
}

fn to_wire(holder: Holder) -> cluster::Holder {
    let Holder { node, node_uid, boot_id, renewal, passed_over } = holder;
    let passed = |PassedOver { node, node_uid, renewal }| cluster::PassedOver { node, node_uid, renewal };
    let passed_over = passed_over.into_iter().map(passed).collect();
    cluster::Holder { node, node_uid, boot_id, renewal, passed_over }
}
