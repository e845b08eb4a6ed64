//! The images that are accepted, started and finished: the part of the state that survives a crash and a power cut.

use runtime::OwnRequest;
use runtime::retry::doubled;
use runtime::settings::Retry;
use schemas::{BaseOsConfig, SCHEMA_VERSION, Source, Topic};
use serde::{Deserialize, Serialize};
use text::one_line;

use crate::limits::{self, MOST_ERROR_BYTES};

/// Limit for the number of images in the record. A device has two partitions, and a controller wants a few images at
/// a time.
const MOST_IMAGES: usize = 16;

/// The persistent record of baseos (agent `baseosmgr`, key `global`). It is written before the activate command is
/// started.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ActivationRecord {
    /// [`SCHEMA_VERSION`] of the writer.
    pub(crate) schema_version: u32,
    /// The boot in which this was written.
    pub(crate) boot_id: String,
    /// The image for which the drain is requested.
    pub(crate) current: Option<Accepted>,
    /// baseos's own drain request.
    pub(crate) request: Option<OwnRequest>,
    /// UUID of the image for which that request was made; empty once the image is over.
    pub(crate) asked_for: String,
    /// The failure of the last attempt. While it is set, a pause runs.
    pub(crate) failed: Option<Failure>,
    /// Failures of the reboot into the current image in a row: the pause doubles with each.
    pub(crate) setbacks: u32,
    /// The started images and their results, the newest last.
    pub(crate) images: Vec<ImageRecord>,
}

/// An accepted image.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Accepted {
    /// The configuration, updated while the image is current.
    pub config: BaseOsConfig,
    /// Accepted in an earlier boot: its configuration file may be absent now without having been reverted.
    pub carried_over: bool,
    /// The source of the configuration.
    pub source: Source,
}

/// A failed drain, or a failed reboot into an image.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Failure {
    /// The reason, for display.
    pub error: String,
    /// Time of the failure, in milliseconds of this boot's clock.
    pub at_ms: u64,
    /// The drain failed, not nodeagent.
    pub is_drain: bool,
}

impl Failure {
    /// The pause before the next attempt, after this number of failures of the reboot in a row.
    pub(crate) fn pause(&self, setbacks: u32, retry: Retry) -> Retry {
        if self.is_drain { retry } else { doubled(retry, setbacks) }
    }
}

/// The last activation of an image.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct ImageRecord {
    /// The configuration when the activation was started.
    pub config: BaseOsConfig,
    /// The boot in which the activation was started.
    pub boot_id: String,
    /// The progress of the activation.
    pub stage: Stage,
    /// Number of starts of the activation for this `RetryUpdateCounter`.
    pub starts: u32,
    /// The error of the activation; empty if it did not fail.
    pub error: String,
}

/// Progress of an activation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// The activate command was started; its result is not known.
    #[default]
    Started,
    /// The activate command succeeded.
    Finished,
    /// The activate command failed.
    Failed,
    /// The activation was only written to a file.
    DryRun,
}

impl Topic for ActivationRecord {
    const NAME: &'static str = "ActivationRecord";
}

impl ActivationRecord {
    /// An empty record.
    pub(crate) fn new(boot_id: &str) -> Self {
        Self { schema_version: SCHEMA_VERSION, boot_id: boot_id.to_owned(), ..Self::default() }
    }

    /// Brings a record that was read from a file into the limits that the other functions rely on, because the file
    /// may have been edited by hand.
    pub(crate) fn within_limits(self) -> Self {
        let is_bare = |config: &BaseOsConfig| config.by.is_empty() && config.reason.is_empty();
        let is_usable = |config: &BaseOsConfig| config.refusal().is_none() && is_bare(config);
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

    /// True if the record holds nothing that has to survive a restart.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::new(&self.boot_id)
    }

    /// True if an activation was started in this boot and its result is not known.
    pub(crate) fn has_start_without_result(&self) -> bool {
        self.images.iter().any(|image| image.stage == Stage::Started && image.boot_id == self.boot_id)
    }

    /// UUID of the image for which the drain is requested.
    pub(crate) fn current_uuid(&self) -> Option<&str> {
        self.current.as_ref().map(|current| current.config.content_tree_uuid.as_str())
    }

    /// The last activation of this image.
    pub(crate) fn image(&self, uuid: &str) -> Option<&ImageRecord> {
        self.images.iter().find(|image| image.config.content_tree_uuid == uuid)
    }

    /// True if an activation of another image was started after the one of this image.
    pub(crate) fn is_superseded(&self, uuid: &str) -> bool {
        let was_started = |image: &&ImageRecord| matches!(image.stage, Stage::Started | Stage::Finished);
        let newest = self.images.iter().rev().find(was_started);
        newest.is_some_and(|newest| newest.config.content_tree_uuid != uuid)
    }

    /// Notes a start as the newest one. A new `RetryUpdateCounter` begins to count from 1; a dry run is not counted
    /// as a start.
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

    /// Notes the result of an activation.
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

    /// Ends the current image. Its drain request serves no other image.
    pub(crate) fn drop_current(&mut self) {
        self.current = None;
        (self.failed, self.setbacks) = (None, 0);
        self.asked_for = String::new();
    }

    /// The record as a new boot goes on from it.
    pub(crate) fn in_new_boot(self, boot_id: &str) -> Self {
        let current = self.current.map(|current| Accepted { carried_over: true, ..current });
        let asked_for = String::new();
        Self { boot_id: boot_id.to_owned(), current, asked_for, failed: None, setbacks: 0, ..self }
    }
}

#[cfg(test)]
mod tests {
    use pubsub::{AgentLock, Persistence, Publisher, Root, TopicKey};
    use schemas::agent;

    use super::*;

    /// The largest possible record in its longest JSON form: a quotation mark takes two bytes.
    #[test]
    fn the_longest_record_can_be_published() {
        let long = |length| "\"".repeat(length);
        let config = |number| BaseOsConfig {
            content_tree_uuid: format!("6ba7b810-9dad-11d1-80b4-0000000000{number:02}"),
            base_os_version: format!("1{}", long(254)),
            ..BaseOsConfig::default()
        };
        assert_eq!(config(0).refusal(), None);
        let mut record = ActivationRecord::new(&"b".repeat(128));
        for number in 0..40 {
            let config = config(number);
            record.start(&config, Stage::Started);
            record.end(&config.content_tree_uuid, &Err(long(5000)));
        }
        record.current = Some(Accepted { config: config(0), carried_over: true, source: Source::Controller });
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
