//! A file of any topic or a record of a drain, written by anybody: it is an item or none, and an item means the same after
//! it was written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use session::Record;

/// Items of every topic that has a type.
fn check_items(text: &[u8]) {
    for (topic, check) in schemas::checks() {
        match check(text) {
            Ok(written) => {
                let again = check(&written);
                assert_eq!(again.as_ref(), Ok(&written), "{topic}: {}", String::from_utf8_lossy(&written));
            }
            Err(error) => assert!(!error.reason().is_empty() && !error.accepted().is_empty()),
        }
    }
}

/// The record from which a restarted zedkube goes on.
fn check_record(text: &[u8]) {
    if let Ok(record) = serde_json::from_slice::<Record>(text) {
        let written = serde_json::to_vec(&record).expect("a record can be written");
        assert_eq!(serde_json::from_slice::<Record>(&written).ok(), Some(record.clone()));
        let _ = record.makes_sense();
    }
}

fuzz_target!(|text: &[u8]| {
    check_items(text);
    check_record(text);
});
