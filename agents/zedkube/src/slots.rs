//! The Lease of the slots, as the session sees it.

use cluster::slots::{SlotFailure, SlotLease, Slots, read_slots, write_slots};
use runtime::Settings;
use session::Event;
use session::event::Trouble;
use session::leasing::SlotTrouble;
use session::slots::{Holder, Lease};
use tokio::sync::mpsc;

use crate::link::{Link, tell, trouble};

/// Which Lease the settings name.
pub(crate) fn lease(settings: &Settings) -> SlotLease {
    SlotLease {
        namespace: settings.slots.namespace.as_str().to_owned(),
        group: settings.slots.group.as_str().to_owned(),
    }
}

/// Reads the Lease.
pub(crate) fn read(link: Link, lease: SlotLease, serial: u32, events: mpsc::Sender<Event>) {
    tokio::spawn(async move {
        let result = match link.cluster().await {
            Ok((cluster, _)) => read_slots(&cluster, &lease).await,
            Err(failure) => Err(failure.into()),
        };
        tell(&events, answer(serial, result)).await;
    });
}

/// Writes the Lease.
pub(crate) fn write(
    link: Link,
    lease: SlotLease,
    serial: u32,
    based_on: Option<String>,
    holders: Vec<Holder>,
    events: mpsc::Sender<Event>,
) {
    tokio::spawn(async move {
        let holders: Vec<_> = holders.into_iter().map(to_wire).collect();
        let result = match link.cluster().await {
            Ok((cluster, _)) => write_slots(&cluster, &lease, based_on.as_deref(), &holders).await,
            Err(failure) => Err(failure.into()),
        };
        tell(&events, answer(serial, result)).await;
    });
}

fn answer(serial: u32, result: Result<Slots, SlotFailure>) -> Event {
    let result = result.map(of_wire).map_err(|failure| match failure {
        SlotFailure::Conflict => SlotTrouble::Conflict,
        SlotFailure::Unreadable { text } => SlotTrouble::Failed(Trouble::Other(text)),
        SlotFailure::Api(failure) => SlotTrouble::Failed(trouble(&failure)),
    });
    Event::Slots { serial, result }
}

fn of_wire(slots: Slots) -> Lease {
    let holder = |holder: cluster::slots::Holder| Holder {
        node: holder.node,
        node_uid: holder.node_uid,
        boot_id: holder.boot_id,
        renewal: holder.renewal,
    };
    Lease { version: slots.version, holders: slots.holders.into_iter().map(holder).collect() }
}

fn to_wire(holder: Holder) -> cluster::slots::Holder {
    cluster::slots::Holder {
        node: holder.node,
        node_uid: holder.node_uid,
        boot_id: holder.boot_id,
        renewal: holder.renewal,
    }
}
