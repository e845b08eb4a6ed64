//! An EVE agent written in Go cannot tell that it talks to us, in either role.
//!
//! [`raw`] plays EVE's subscriber and EVE's publisher and shares no code with the crate. The cases are those of the wire
//! contract and of what was seen of EVE's own library.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail by a panic"
)]

mod device;
mod properties;
mod publisher;
mod raw;
mod roles;
mod subscriber;
mod topics;
