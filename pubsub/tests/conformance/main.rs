//! Checks that an EVE agent written in Go cannot tell our publisher or subscriber from EVE's.
//!
//! [`raw`] plays EVE's subscriber and EVE's publisher and shares no code with the crate. The cases come from the
//! protocol and from what EVE's own library was seen to do.

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
