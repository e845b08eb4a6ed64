//! A dry run: the activation is only written to a file.

use pubsub::{Persistence, Root};
use runtime::clock;
use runtime::device_actions::{self, WriteDownError};
use schemas::agent::BASEOSMGR;
use schemas::{BaseOsConfig, DeviceLine, GoTime, Source};

/// Appends a line to `device-actions.jsonl`, once per boot, source, image and counter.
pub(crate) fn write_down(
    root: &Root,
    boot_id: &str,
    config: &BaseOsConfig,
    source: Source,
    reason: &str,
) -> Result<(), WriteDownError> {
    let line = DeviceLine {
        action: "activate".to_owned(),
        reason: reason.to_owned(),
        counter: config.retry_update_counter,
        content_tree_uuid: config.content_tree_uuid.clone(),
        source,
        boot_id: boot_id.to_owned(),
        at: GoTime::from(clock::wall()),
    };
    device_actions::write_down(&root.agent_folder(BASEOSMGR, Persistence::Persistent), &line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_per_boot_source_image_and_counter() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let (person, controller) = (Source::Person, Source::Controller);
        for (boot_id, source, uuid, counter, lines) in [
            ("boot-1", controller, "a", 1, 1),
            ("boot-1", controller, "a", 1, 1),
            ("boot-1", controller, "a", 2, 2),
            ("boot-1", controller, "b", 2, 3),
            ("boot-1", person, "b", 2, 4),
            ("boot-2", person, "b", 2, 5),
        ] {
            let config = BaseOsConfig {
                content_tree_uuid: uuid.to_owned(),
                retry_update_counter: counter,
                ..BaseOsConfig::default()
            };
            write_down(&root, boot_id, &config, source, "why").unwrap();
            let path = folder.path().join("persist/status/baseosmgr/device-actions.jsonl");
            let text = std::fs::read_to_string(path).unwrap();
            assert_eq!(text.lines().count(), lines, "{boot_id} {source} {uuid} {counter}");
        }
    }
}
