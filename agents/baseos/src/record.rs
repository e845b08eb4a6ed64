//! What has been accepted, started and finished: the part of the state that survives a crash and a power cut.

use runtime::OwnRequest;
use schemas::{BaseOsConfig, SCHEMA_VERSION, Topic};
use serde::{Deserialize, Serialize};
use text::one_line;

use crate::limits::{self, MOST_ERROR_BYTES};

/// So many images are remembered. A device has two partitions, and a controller wants a few images at a time.
const MOST_IMAGES: usize = 16;

/// The persistent record of baseosmgr, key `global`: on disk before the activate command is started.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ActivationRecord {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// The boot in which this was written.
    pub boot_id: String,
    /// The image that the gate is asked for.
    pub current: Option<Accepted>,
    /// The drain request that is ours.
    pub request: Option<OwnRequest>,
    /// The image that this request was made for; empty once that is over.
    pub asked_for: String,
    /// The last try failed and a pause runs.
    pub failed: Option<Failure>,
    /// What became of images, the newest last.
    pub images: Vec<ImageRecord>,
}

/// An image that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Accepted {
    /// What was wanted when it was accepted.
    pub config: BaseOsConfig,
    /// Accepted in an earlier boot: its configuration may be absent now without having been reverted.
    pub carried_over: bool,
}

/// A drain, or the reboot into an image, that failed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Failure {
    /// Why.
    pub error: String,
    /// When, in milliseconds of this boot's clock.
    pub at_ms: u64,
    /// It was the drain that failed, not nodeagent.
    pub is_drain: bool,
}

/// What became of an image.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ImageRecord {
    /// What was wanted when its activation was started.
    pub config: BaseOsConfig,
    /// The boot in which it was started.
    pub boot_id: String,
    /// How far it came.
    pub stage: Stage,
    /// How often its activation was started for this `RetryUpdateCounter`.
    pub starts: u32,
    /// Why it failed; empty when it did not.
    pub error: String,
}

/// How far an activation came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Stage {
    /// The command was about to be started.
    #[default]
    Started,
    /// It ended well.
    Finished,
    /// It failed.
    Failed,
    /// It was only written down.
    DryRun,
}

impl Topic for ActivationRecord {
    const NAME: &'static str = "ActivationRecord";
}

impl ActivationRecord {
    /// Nothing accepted, nothing remembered.
    pub fn new(boot_id: &str) -> Self {
        Self { schema_version: SCHEMA_VERSION, boot_id: boot_id.to_owned(), ..Self::default() }
    }

    /// What can be made of a record that was read, in the bounds that all others rely on, whoever wrote it.
    pub(crate) fn within_limits(self) -> Self {
        let is_usable = |config: &BaseOsConfig| limits::refusal(config).is_none();
        let failed = self.failed.map(|failed| {
            let error = one_line(&failed.error, limits::MOST_REASON_BYTES);
            Failure { error, ..failed }
        });
        let asked_for = one_line(&self.asked_for, limits::MOST_ID_BYTES);
        let current = self.current.filter(|current| is_usable(&current.config));
        let mut record = Self { current, asked_for, failed, ..self };
        record
            .images
            .retain(|image| is_usable(&image.config) && image.boot_id.len() <= limits::MOST_ID_BYTES);
        record.images.iter_mut().for_each(|image| image.error = one_line(&image.error, MOST_ERROR_BYTES));
        record.forget_oldest();
        record
    }

    fn forget_oldest(&mut self) {
        let too_many = self.images.len().saturating_sub(MOST_IMAGES);
        self.images.drain(..too_many);
    }

    /// Nothing that has to survive.
    pub fn is_empty(&self) -> bool {
        *self == Self::new(&self.boot_id)
    }

    /// An activation was started in this boot, and nobody has seen how it ended.
    pub(crate) fn has_start_without_result(&self) -> bool {
        self.images.iter().any(|image| image.stage == Stage::Started && image.boot_id == self.boot_id)
    }

    /// UUID of the image that the gate is asked for.
    pub fn current_uuid(&self) -> Option<&str> {
        self.current.as_ref().map(|current| current.config.content_tree_uuid.as_str())
    }

    /// What became of an image.
    pub fn image(&self, uuid: &str) -> Option<&ImageRecord> {
        self.images.iter().find(|image| image.config.content_tree_uuid == uuid)
    }

    /// Whether another image was started after this one.
    pub(crate) fn is_superseded(&self, uuid: &str) -> bool {
        let was_started = |image: &&ImageRecord| matches!(image.stage, Stage::Started | Stage::Finished);
        let newest = self.images.iter().rev().find(was_started);
        newest.is_some_and(|newest| newest.config.content_tree_uuid != uuid)
    }

    /// Remembers a start, as the newest one. A new `RetryUpdateCounter` counts anew; a dry run is no start.
    pub(crate) fn start(&mut self, config: &BaseOsConfig, stage: Stage) {
        let uuid = &config.content_tree_uuid;
        let starts = self
            .image(uuid)
            .filter(|image| image.config == *config && image.stage != Stage::DryRun)
            .map_or(1, |image| image.starts.saturating_add(1));
        self.forget(uuid);
        let image = ImageRecord {
            config: config.clone(),
            boot_id: self.boot_id.clone(),
            stage,
            starts,
            error: String::new(),
        };
        self.images.push(image);
        self.forget_oldest();
    }

    /// Notes how the activation of an image ended.
    pub(crate) fn end(&mut self, uuid: &str, result: &Result<(), String>) {
        if let Some(image) = self.images.iter_mut().find(|image| image.config.content_tree_uuid == uuid) {
            match result {
                Ok(()) => image.stage = Stage::Finished,
                Err(error) => {
                    image.stage = Stage::Failed;
                    image.error = one_line(error, MOST_ERROR_BYTES);
                }
            }
        }
    }

    pub(crate) fn forget(&mut self, uuid: &str) {
        self.images.retain(|image| image.config.content_tree_uuid != uuid);
    }

    /// The image is no longer the one that the gate is asked for; its request serves no other one.
    pub(crate) fn drop_current(&mut self) {
        self.current = None;
        self.failed = None;
        self.asked_for = String::new();
    }

    /// The same in another boot.
    pub(crate) fn in_new_boot(self, boot_id: &str) -> Self {
        let current = self.current.map(|current| Accepted { carried_over: true, ..current });
        Self { boot_id: boot_id.to_owned(), current, asked_for: String::new(), failed: None, ..self }
    }
}

#[cfg(test)]
mod tests {
    use pubsub::{AgentLock, Persistence, Publisher, Root, TopicKey};
    use schemas::agent;

    use super::*;

    /// All that may be remembered, in the longest spelling: a quotation mark takes two bytes.
    #[test]
    fn the_longest_record_can_be_published() {
        let long = |length| "\"".repeat(length);
        let config = |number| BaseOsConfig {
            content_tree_uuid: format!("{number:02}{}", long(126)),
            base_os_version: long(256),
            ..BaseOsConfig::default()
        };
        assert_eq!(crate::limits::refusal(&config(0)), None);
        let mut record = ActivationRecord::new(&"b".repeat(128));
        for number in 0..40 {
            let config = config(number);
            record.start(&config, Stage::Started);
            record.end(&config.content_tree_uuid, &Err(long(5000)));
        }
        record.current = Some(Accepted { config: config(0), carried_over: true });
        record.asked_for = long(128);
        record.failed =
            Some(Failure { error: long(limits::MOST_REASON_BYTES), at_ms: u64::MAX, is_drain: true });
        assert_eq!(record.images.len(), MOST_IMAGES);

        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let lock = AgentLock::acquire(&root, agent::BASEOSMGR).unwrap();
        let mut publisher = Publisher::open(&root, agent::BASEOSMGR, Persistence::Persistent, &lock).unwrap();
        publisher.publish(&TopicKey::global(), &record).unwrap();
    }
}
