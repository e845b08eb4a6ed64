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

/// The reason why a configuration is refused, with the accepted values; None if it is accepted. `ebb update` accepts the
/// same. Both texts are given to the commands that write an image, in their environment.
pub(crate) fn refusal(config: &BaseOsConfig) -> Option<String> {
    if !BaseOsConfig::is_id(&config.content_tree_uuid) {
        return Some(
            "ContentTreeUUID is no UUID; accepted: such as 6ba7b810-9dad-11d1-80b4-000000000002".to_owned(),
        );
    }
    if !BaseOsConfig::is_version(&config.base_os_version) {
        return Some(format!(
            "BaseOsVersion cannot be used as the version of an image; accepted: {}",
            BaseOsConfig::ACCEPTED_VERSION
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_says_what_is_accepted() {
        const ID: &str = "6ba7b810-9dad-11d1-80b4-000000000002";
        let long = |length| "x".repeat(length);
        let (id, version) = (Some("ContentTreeUUID is no UUID"), Some("BaseOsVersion cannot be used"));
        for (uuid, text, refused) in [
            (ID, "16.0.1-kvm-amd64", None),
            (ID, "v2 of the line, é", None),
            (ID, &long(255), None),
            (ID, &long(256), version),
            (ID, &"é".repeat(129), version),
            (ID, "", version),
            (ID, "1\n2", version),
            (ID, "../../../x", version),
            (ID, "1/../../x", version),
            (ID, "-rf", version),
            (ID, " 1", version),
            ("", "2.0", id),
            ("../../etc", "2.0", id),
            ("6ba7b810x9dad-11d1-80b4-000000000002", "2.0", id),
            ("6ba7b810-9dad-11d1-80b4-00000000000g", "2.0", id),
        ] {
            let (content_tree_uuid, base_os_version) = (uuid.to_owned(), text.to_owned());
            let config = BaseOsConfig { content_tree_uuid, base_os_version, ..BaseOsConfig::default() };
            let said = refusal(&config);
            assert!(said.is_none() == refused.is_none(), "{uuid} {text}: {said:?}");
            assert!(said.unwrap_or_default().starts_with(refused.unwrap_or_default()), "{uuid} {text}");
        }
    }
}
