//! How long texts of an image may be: all that is remembered has to fit one message of the socket protocol.

use schemas::BaseOsConfig;

/// The longest id of an image, in bytes. EVE's are UUIDs of 36.
pub(crate) const MOST_ID_BYTES: usize = 128;
/// The longest version of an image, in bytes; also of the one that runs. EVE's have about 60.
pub(crate) const MOST_VERSION_BYTES: usize = 256;
/// So much of the reason of a failed drain is read from a record; the longest that the gate gives, a reason of zedkube
/// and three refused files, is shorter.
pub(crate) const MOST_REASON_BYTES: usize = 3000;
/// So much of what an activate command said is remembered, in bytes: of sixteen images, in the longest spelling.
pub(crate) const MOST_ERROR_BYTES: usize = 700;

/// Why nothing can be made of a configuration, and what would be accepted.
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
