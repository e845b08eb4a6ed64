//! A datagram of a peer that is not believed: it is a message or none, and a message is written as it was read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pubsub::frame::Message;

fuzz_target!(|datagram: &[u8]| {
    Message::key_of_truncated_update(datagram);
    match Message::decode(datagram) {
        Ok(message) => {
            let written = message.encode();
            assert_eq!(Message::decode(&written).as_ref(), Ok(&message));
            // `restarted a 007` is read as 7; everything else has one spelling.
            assert!(written == datagram || matches!(message, Message::Restarted { .. }));
        }
        Err(error) => assert!(error.to_string().len() < 400, "an error repeats only the start: {error}"),
    }
});
