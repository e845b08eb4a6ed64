//! Limits for the texts of an image: a record with all its images has to fit into one message of the socket protocol.

/// Limit for the id of an image, in bytes. EVE's ids are UUIDs of 36 bytes.
pub(crate) const MOST_ID_BYTES: usize = 128;
/// Limit for the version of an image, in bytes, configured or running. EVE's have about 60.
pub(crate) const MOST_VERSION_BYTES: usize = 256;
/// Limit in bytes for the reason of a failed drain that is read from a record. The longest reason of the gate (one of
/// zedkube and three refused files) is shorter.
pub(crate) const MOST_REASON_BYTES: usize = 3000;
/// Limit in bytes for the error of an activate command in the record, so that 16 of them fit even in their longest
/// JSON form.
pub(crate) const MOST_ERROR_BYTES: usize = 700;
