//! What zedkube publishes for commands of the cluster: command files for device-op, the image for baseos, and a request
//! for a drain.

use std::collections::BTreeMap;

use pubsub::{Persistence, PublishError, Publisher, TopicKey};
use runtime::requester::new_request;
use runtime::{AgentContext, clock};
use schemas::{BaseOsConfig, DeviceOpsCmd, GoTime, NodeDrainRequest, Operation, Source, Topic, agent};

use super::decide::Standing;

/// A topic of ours below `/run`. It is opened when there is something to publish, or to take back of what an earlier
/// process has published.
#[derive(Debug)]
pub(super) struct Files<T> {
    context: AgentContext,
    topic: Option<Publisher<T>>,
}

impl<T: Topic> Files<T> {
    /// Nothing is opened yet.
    pub(super) fn new(context: &AgentContext) -> Self {
        Self { context: context.clone(), topic: None }
    }

    /// Opens the topic if it is needed, or if it exists. Returns false if it was not opened.
    pub(super) fn open(&mut self, is_needed: bool) -> Result<bool, PublishError> {
        let (root, lock) = (self.context.root(), self.context.lock());
        let exists = || root.folder::<T>(agent::ZEDKUBE, Persistence::Volatile).is_dir();
        if self.topic.is_none() && (is_needed || exists()) {
            let topic = Publisher::open(root, agent::ZEDKUBE, Persistence::Volatile, lock)?;
            self.topic = Some(topic.served()?);
        }
        Ok(self.topic.is_some())
    }

    /// The item as published last.
    pub(super) fn get(&self, key: &TopicKey) -> Option<&T> {
        self.topic.as_ref()?.get(key)
    }

    fn publish(&mut self, key: &TopicKey, item: &T) -> Result<(), PublishError> {
        let Some(topic) = &mut self.topic else { return Ok(()) };
        topic.publish(key, item).map(|_| ())
    }
}

impl Files<DeviceOpsCmd> {
    /// Publishes a command file, or writes it again if somebody has removed it. `text` is the reason of the operation.
    pub(super) fn command(
        &mut self,
        operation: Operation,
        file: Standing,
        text: &str,
    ) -> Result<(), PublishError> {
        let key = TopicKey::of_operation(operation);
        let before = self.get(&key);
        if let Some(same) = before.filter(|before| standing(before) == file).cloned() {
            return self.publish(&key, &same);
        }
        let Standing { counter, is_wanted } = file;
        if is_wanted {
            tracing::info!("DeviceOpsCmd: {operation} {counter} of {} is given: {text}", Source::Cluster);
        } else if before.is_some_and(|before| before.desired_state) {
            tracing::info!("DeviceOpsCmd: {operation} {counter} of {} is taken back", Source::Cluster);
        } else {
            tracing::debug!("the Node has no command {operation}: counter {counter} counts as done");
        }
        let file = DeviceOpsCmd {
            counter,
            desired_state: is_wanted,
            ops_time: GoTime::from(clock::wall()).to_string(),
            reason: if is_wanted { text.to_owned() } else { String::new() },
            ..DeviceOpsCmd::default()
        };
        self.publish(&key, &file)
    }
}

impl Files<BaseOsConfig> {
    /// The items as published last.
    pub(super) fn all(&self) -> Vec<BaseOsConfig> {
        self.topic.as_ref().map_or_else(Vec::new, |topic| topic.items().values().cloned().collect())
    }

    /// Configures these images, or writes their files again if somebody has removed them, and no other image.
    pub(super) fn configure(&mut self, images: &[BaseOsConfig]) -> Result<(), PublishError> {
        let Some(topic) = &mut self.topic else { return Ok(()) };
        let key = |image: &BaseOsConfig| TopicKey::parse(&image.content_tree_uuid).ok();
        let images: BTreeMap<_, _> = images.iter().filter_map(|image| Some((key(image)?, image))).collect();
        let others: Vec<_> = topic.items().keys().filter(|key| !images.contains_key(key)).cloned().collect();
        for key in others {
            tracing::info!("BaseOsConfig: image {key} of {} is removed", Source::Cluster);
            topic.unpublish(&key)?;
        }
        for (key, image) in images {
            if topic.get(&key) != Some(image) {
                let what = if image.activate { "given" } else { "taken back" };
                let BaseOsConfig { base_os_version, retry_update_counter, reason, .. } = image;
                let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
                tracing::info!(
                    "BaseOsConfig: image {key} {base_os_version}, RetryUpdateCounter {retry_update_counter} of source {}, \
                     is {what}{why}",
                    Source::Cluster
                );
            }
            topic.publish(&key, image)?;
        }
        Ok(())
    }
}

impl Files<NodeDrainRequest> {
    /// Requests a drain with this text; `None` withdraws the request.
    pub(super) fn request(&mut self, text: Option<&str>) -> Result<(), PublishError> {
        let key = TopicKey::global();
        let before = self.get(&key).cloned();
        let Some(text) = text else {
            let Some(topic) = &mut self.topic else { return Ok(()) };
            return topic.unpublish(&key).map(|_| ());
        };
        let request = before.clone().filter(|before| before.context == text);
        let request = request.unwrap_or_else(|| new_request(text.to_owned(), before.as_ref()));
        self.publish(&key, &request)
    }
}

/// What a command file asks for.
pub(super) const fn standing(file: &DeviceOpsCmd) -> Standing {
    Standing { counter: file.counter, is_wanted: file.desired_state }
}
