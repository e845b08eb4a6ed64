//! What an operator orders and what agents keep about it: each is read or refused with a reason, means the same after it
//! was written, and an order lets pass only the requests that it is for.
//!
//! Parts: the name of a topic (`DrainOverride`, `CommandFreeze`, `CancelCommand`, `OperationRecord`, …) or `Record` (of
//! zedkube) with the item as content. `NodeDrainRequest AGENT` is a request of that agent that waits.
#![no_main]

use std::fs;
use std::path::Path;

use baseos::ActivationRecord;
use device_op::OperationRecord;
use libfuzzer_sys::fuzz_target;
use parts::{Part, parts};
use pubsub::{AgentLock, Persistence, Root, read_item};
use runtime::drain_order::{OverrideFile, let_pass};
use runtime::freeze::freeze;
use schemas::{
    CommandFreeze, DrainOrder, DrainOverride, DrainRequester, NodeDrainRequest, PassGate, Topic, agent,
    check_of, parse, to_bytes,
};
use session::Record;

/// Reads an item as its agent does, and again after it was written.
fn check<T: Topic>(content: &[u8]) {
    match parse::<T>(content) {
        Ok(item) => {
            let written = to_bytes(&item);
            let again = parse::<T>(&written).expect("what was written can be read");
            assert_eq!(to_bytes(&again), written, "{}", T::NAME);
        }
        Err(error) => assert!(!error.reason().is_empty() && !error.to_string().contains('\n'), "{error}"),
    }
}

fn check_item(part: &Part<'_>) {
    match part.word(0) {
        "OperationRecord" => check::<OperationRecord>(part.content),
        "ActivationRecord" => check::<ActivationRecord>(part.content),
        "Record" => {
            if let Ok(record) = serde_json::from_slice::<Record>(part.content) {
                let written = serde_json::to_vec(&record).expect("a record can be written");
                let again = serde_json::from_slice::<Record>(&written).expect("what was written can be read");
                assert_eq!(again.makes_sense(), record.makes_sense());
                assert_eq!(again, record);
            }
        }
        topic => {
            if let Some(Ok(written)) = check_of(topic).map(|check| check(part.content)) {
                let again = check_of(topic).map(|check| check(&written));
                assert_eq!(again, Some(Ok(written)), "{topic}");
            }
        }
    }
}

/// The item of a topic on the device, as anybody may have written it.
fn place<T: Topic>(root: &Root, agent: &str, persistence: Persistence, content: &[u8]) {
    let folder = root.folder::<T>(agent, persistence);
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("global.json"), content).expect("a file");
}

fn check_freeze(root: &Root, content: &[u8]) {
    place::<CommandFreeze>(root, agent::EBB, Persistence::Persistent, content);
    let wall = "2026-11-23T00:00:00Z".parse().expect("a time");
    let is_valid = parse::<CommandFreeze>(content).is_ok();
    match freeze(root, wall) {
        Some(freeze) => {
            assert!(freeze.ends_in_ms != Some(0) && !freeze.words.contains('\n'), "{freeze:?}");
        }
        None => assert!(is_valid, "a file that cannot be read counts as a freeze"),
    }
}

/// `ebb force` for a zedkube that takes no order.
fn check_order(root: &Root, order: &DrainOverride) {
    let is_for_all = order.requested_by == DrainRequester::None;
    if let Some(DrainOrder::Complete(covered)) = order.order() {
        assert_eq!(covered, order.requested_by);
    }
    let mut file = OverrideFile::new(root).expect("no order waits");
    file.write(order).expect("it can be written");
    let bytes = fs::read(file.path()).expect("it is there");
    assert_eq!(parse::<DrainOverride>(&bytes).as_ref(), Ok(order));
    assert!(file.withdraw().expect("it can be removed") && !file.path().exists(), "the order counts once");
    let lock = AgentLock::acquire(root, agent::EBB).expect("nobody has it");
    let passed = let_pass(root, order, &lock).expect("passes can be written");
    let passes = pubsub::read_items::<PassGate>(root, agent::EBB, Persistence::Volatile);
    assert_eq!(passes.items.len(), passed.len());
    for (by, agent) in
        [(DrainRequester::DeviceOp, agent::ZEDAGENT), (DrainRequester::Update, agent::BASEOSMGR)]
    {
        let key = pubsub::TopicKey::global();
        let request = read_item::<NodeDrainRequest>(root, agent, Persistence::Volatile, &key).ok().flatten();
        let is_covered = request.is_some() && (is_for_all || order.requested_by == by);
        assert_eq!(passed.iter().any(|one| one.wire_name() == agent), is_covered, "{order:?}");
        let pass = passes.items.iter().find(|(key, _)| key.as_str() == agent).map(|(_, pass)| pass);
        assert_eq!(
            pass.map(|pass| pass.requested_at),
            request.filter(|_| is_covered).map(|one| one.requested_at)
        );
    }
}

fuzz_target!(|input: &[u8]| {
    let shared = Path::new("/dev/shm");
    let device = if shared.is_dir() { tempfile::tempdir_in(shared) } else { tempfile::tempdir() };
    let device = device.expect("a temporary folder");
    let root = Root::new(device.path());
    let mut order = None;
    for part in parts(input) {
        check_item(&part);
        match part.word(0) {
            "CommandFreeze" => check_freeze(&root, part.content),
            "DrainOverride" => order = parse::<DrainOverride>(part.content).ok().or(order),
            "NodeDrainRequest" if [agent::ZEDAGENT, agent::BASEOSMGR].contains(&part.word(1)) => {
                place::<NodeDrainRequest>(&root, part.word(1), Persistence::Volatile, part.content);
            }
            _ => {}
        }
    }
    if let Some(order) = order {
        check_order(&root, &order);
    }
});
