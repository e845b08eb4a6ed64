//! A file of any topic or a record of a drain, written by anybody: it is an item or none, and an item means the same after
//! it was written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use schemas::{
    BaseOsConfig, BaseOsHold, BaseOsStatus, ConfigItemValueMap, ContentTreeStatus, DeviceAction, DeviceLine,
    DeviceOpStatus, DeviceOpsCmd, DrainOverride, EdgeNodeClusterConfig, EdgeNodeInfo, Membership,
    NodeAgentStatus, NodeDrainReport, NodeDrainRequest, NodeDrainStatus, Topic, ZedAgentStatus, parse,
    to_bytes,
};
use session::Record;

fn check<T: Topic>(text: &[u8]) {
    match parse::<T>(text) {
        Ok(value) => {
            let written = to_bytes(&value);
            assert_eq!(parse::<T>(&written).as_ref(), Ok(&value), "{}", String::from_utf8_lossy(&written));
        }
        Err(error) => assert!(!error.reason().is_empty() && !error.accepted().is_empty()),
    }
}

/// What a restarted zedkube goes on from.
fn check_record(text: &[u8]) {
    if let Ok(record) = serde_json::from_slice::<Record>(text) {
        let written = serde_json::to_vec(&record).expect("a record can be written");
        assert_eq!(serde_json::from_slice::<Record>(&written).ok(), Some(record.clone()));
        let _ = record.makes_sense();
    }
}

fuzz_target!(|text: &[u8]| {
    check::<BaseOsConfig>(text);
    check::<BaseOsHold>(text);
    check::<BaseOsStatus>(text);
    check::<ConfigItemValueMap>(text);
    check::<ContentTreeStatus>(text);
    check::<DeviceAction>(text);
    check::<DeviceLine>(text);
    check::<DeviceOpStatus>(text);
    check::<DeviceOpsCmd>(text);
    check::<DrainOverride>(text);
    check::<EdgeNodeClusterConfig>(text);
    check::<EdgeNodeInfo>(text);
    check::<Membership>(text);
    check::<NodeAgentStatus>(text);
    check::<NodeDrainReport>(text);
    check::<NodeDrainRequest>(text);
    check::<NodeDrainStatus>(text);
    check::<ZedAgentStatus>(text);
    check_record(text);
});
