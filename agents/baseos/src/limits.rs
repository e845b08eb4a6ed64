//! Limits for the texts of an image: a record with all its images has to fit into one message of the socket protocol.

use schemas::BaseOsConfig;

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

/// The reason why a configuration is refused, with the accepted values; None if it is accepted.
pub(crate) fn refusal(config: &BaseOsConfig) -> Option<String> {
    let fields = [
        ("ContentTreeUUID", &config.content_tree_uuid, MOST_ID_BYTES),
        ("BaseOsVersion", &config.base_os_version, MOST_VERSION_BYTES),
    ];
    fields.into_iter().find_map(|(field, text, most)| {
        if most < text.len() {
            return Some(format!("{field} has {} bytes; accepted: at most {most} bytes", text.len()));
        }
        let has_control = text.chars().any(char::is_control);
        has_control.then(|| format!("{field} holds control characters; accepted: plain text"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_says_the_limit() {
        let long = |length| "x".repeat(length);
        for (id, version, refused) in [
            (long(36), long(60), None),
            (long(128), long(256), None),
            (String::new(), String::new(), None),
            ("é".repeat(64), "é".repeat(128), None),
            (long(129), long(60), Some("ContentTreeUUID has 129 bytes; accepted: at most 128 bytes")),
            (long(36), long(257), Some("BaseOsVersion has 257 bytes; accepted: at most 256 bytes")),
            (
                long(36),
                "1\n2".to_owned(),
                Some("BaseOsVersion holds control characters; accepted: plain text"),
            ),
        ] {
            let config =
                BaseOsConfig { content_tree_uuid: id, base_os_version: version, ..BaseOsConfig::default() };
            assert_eq!(refusal(&config).as_deref(), refused);
        }
    }
}
