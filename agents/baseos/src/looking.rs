//! Reading what the facts are made of.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;

use pubsub::{Persistence, Root, TopicKey, lock_holder, read_item, read_items};
use runtime::error_chain;
use schemas::{BaseOsConfig, ContentTreeStatus, NodeAgentStatus, SwState, agent};

use crate::facts::{Configured, Content, NodeAgentView};

const VOLATILE: Persistence = Persistence::Volatile;

/// The images of both configurations; the controller's own (`ebb update`) counts where both have one. The flag says
/// that a folder could not be listed.
pub(crate) fn configs(root: &Root) -> (BTreeMap<String, Configured>, bool) {
    let mut configs = BTreeMap::new();
    let mut is_partial = false;
    for publisher in [agent::ZEDAGENT, agent::CONTROLLER] {
        let read = read_items::<BaseOsConfig>(root, publisher, VOLATILE);
        for (key, config) in read.items {
            let uuid = key.as_str().to_owned();
            let config = BaseOsConfig { content_tree_uuid: uuid.clone(), ..config };
            configs.insert(uuid, Configured::Given(config));
        }
        for refusal in read.refused {
            tracing::debug!("{refusal}");
            match refusal.path.file_name().and_then(TopicKey::of_file) {
                Some(Ok(key)) => {
                    configs.insert(key.as_str().to_owned(), Configured::Unreadable);
                }
                Some(Err(_)) => {}
                None => is_partial = true,
            }
        }
    }
    (configs, is_partial)
}

/// The content of images. Where nobody reports on content it counts as loaded.
pub(crate) fn contents(root: &Root, uuids: &BTreeSet<String>) -> BTreeMap<String, Content> {
    let folder = root.folder::<ContentTreeStatus>(agent::VOLUMEMGR, VOLATILE);
    let is_reported = !matches!(fs::metadata(folder), Err(error) if error.kind() == ErrorKind::NotFound);
    let content = |uuid: &String| {
        let content = if is_reported { content(root, uuid)? } else { Content::LOADED };
        Some((uuid.clone(), content))
    };
    uuids.iter().filter_map(content).collect()
}

fn content(root: &Root, uuid: &str) -> Option<Content> {
    let key = TopicKey::parse(uuid).ok()?;
    match read_item::<ContentTreeStatus>(root, agent::VOLUMEMGR, VOLATILE, &key) {
        Ok(status) => status.map(|status| Content { state: status.state, error: status.error }),
        Err(refusal) => Some(Content { state: SwState::INITIAL, error: refusal.to_string() }),
    }
}

/// nodeagent: its lock first, then its file. What cannot be read counts as running, or as unknown.
pub(crate) fn nodeagent(root: &Root) -> NodeAgentView {
    let is_running = match lock_holder(root, agent::NODEAGENT) {
        Ok(holder) => holder.is_some(),
        Err(error) => {
            tracing::debug!("{}", error_chain(&error));
            true
        }
    };
    let action = read_item(root, agent::NODEAGENT, VOLATILE, &TopicKey::global());
    if let Err(refusal) = &action {
        tracing::debug!("{refusal}");
    }
    NodeAgentView { is_running, action: action.ok().map(Option::unwrap_or_default) }
}

/// The partition that does not run, in EVE's words; empty where partitions have no such names.
pub(crate) fn other_partition(root: &Root) -> &'static str {
    let Ok(key) = TopicKey::parse(agent::NODEAGENT) else {
        return "";
    };
    let status = read_item::<NodeAgentStatus>(root, agent::NODEAGENT, VOLATILE, &key);
    match status.ok().flatten().map(|status| status.cur_part).as_deref() {
        Some("IMGA") => "IMGB",
        Some("IMGB") => "IMGA",
        Some(_) | None => "",
    }
}
