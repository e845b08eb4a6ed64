//! A dry run: the activation is only written to a file.

use pubsub::{Persistence, Root};
use runtime::clock;
use runtime::device_actions::{self, WriteDownError};
use schemas::agent::BASEOSMGR;
use schemas::{BaseOsConfig, DeviceLine, GoTime};

/// Appends a line to `device-actions.jsonl`, once per boot, image and counter.
pub(crate) fn write_down(root: &Root, boot_id: &str, config: &BaseOsConfig) -> Result<(), WriteDownError> {
    let line = DeviceLine {
        action: "activate".to_owned(),
        reason: format!("image {}", config.base_os_version),
        counter: config.retry_update_counter,
        content_tree_uuid: config.content_tree_uuid.clone(),
        source: schemas::Source::default(),
        boot_id: boot_id.to_owned(),
        at: GoTime::from(clock::wall()),
    };
    device_actions::write_down(&root.agent_folder(BASEOSMGR, Persistence::Persistent), &line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_per_boot_image_and_counter() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        for (boot_id, uuid, counter, lines) in [
            ("boot-1", "a", 1, 1),
            ("boot-1", "a", 1, 1),
            ("boot-1", "a", 2, 2),
            ("boot-1", "b", 2, 3),
            ("boot-2", "b", 2, 4),
        ] {
            let config = BaseOsConfig {
                content_tree_uuid: uuid.to_owned(),
                retry_update_counter: counter,
                ..BaseOsConfig::default()
            };
            write_down(&root, boot_id, &config).unwrap();
            let path = folder.path().join("persist/status/baseosmgr/device-actions.jsonl");
            let text = std::fs::read_to_string(path).unwrap();
            assert_eq!(text.lines().count(), lines, "{boot_id} {uuid} {counter}");
        }
    }
}
