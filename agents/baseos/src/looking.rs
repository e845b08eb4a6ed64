//! Reading what the facts are made of.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;

use pubsub::{Persistence, Root, Subscription, TopicKey, read_item, read_items};
use schemas::{BaseOsConfig, ContentTreeStatus, NodeAgentStatus, Source, SwState, agent};
use text::one_line;

use crate::facts::{Configured, Content};
use crate::limits;

const VOLATILE: Persistence = Persistence::Volatile;

/// So much of volumemgr's own words is repeated, in bytes.
const MOST_WORDS: usize = 512;

/// Whose configurations are read, and for whom they speak. For the same image the last one counts: a person before the
/// controller before the cluster.
pub(crate) const PUBLISHERS: [(&str, Source); 4] = [
    (Source::Cluster.agent(), Source::Cluster),
    (agent::ZEDAGENT, Source::Controller),
    (Source::Controller.agent(), Source::Controller),
    (Source::Person.agent(), Source::Person),
];

/// The images that are wanted.
#[derive(Debug, Default)]
pub(crate) struct Configs {
    /// By UUID.
    pub(crate) images: BTreeMap<String, Configured>,
    /// Who wants them.
    pub(crate) sources: BTreeMap<String, Source>,
    /// A folder could not be listed.
    pub(crate) is_partial: bool,
}

/// The images of all configurations.
pub(crate) fn configs(root: &Root) -> Configs {
    let Configs { images: mut configs, mut sources, mut is_partial } = Configs::default();
    for (publisher, source) in PUBLISHERS {
        let read = read_items::<BaseOsConfig>(root, publisher, VOLATILE);
        for (key, config) in read.items {
            let uuid = key.as_str().to_owned();
            let config = BaseOsConfig { content_tree_uuid: uuid.clone(), ..config };
            let refused = limits::refusal(&config)
                .map(|why| Configured::Refused(format!("refused BaseOsConfig of {publisher}: {why}")));
            sources.insert(uuid.clone(), source);
            configs.insert(uuid, refused.unwrap_or(Configured::Given(config)));
        }
        for refusal in read.refused {
            tracing::debug!("{refusal}");
            match refusal.path.file_name().and_then(TopicKey::of_file) {
                Some(Ok(key)) => {
                    sources.insert(key.as_str().to_owned(), source);
                    configs.insert(key.as_str().to_owned(), Configured::Unreadable);
                }
                Some(Err(_)) => {}
                None => is_partial = true,
            }
        }
    }
    Configs { images: configs, sources, is_partial }
}

/// What is refused of the configurations, for the log and the hold.
pub(crate) fn refused(configs: &BTreeMap<String, Configured>) -> Vec<String> {
    let refused = configs.iter().filter_map(|(uuid, configured)| match configured {
        Configured::Refused(why) => Some(format!("{}: {why}", one_line(uuid, MOST_WORDS))),
        Configured::Unreadable | Configured::Given(_) => None,
    });
    refused.collect()
}

/// The content of images. Where nobody reports on content it counts as loaded. `last` has the last good values.
pub(crate) fn contents(
    root: &Root,
    last: &Subscription<ContentTreeStatus>,
    uuids: &BTreeSet<String>,
) -> BTreeMap<String, Content> {
    let folder = root.folder::<ContentTreeStatus>(agent::VOLUMEMGR, VOLATILE);
    let is_reported =
        !matches!(fs::symlink_metadata(folder), Err(error) if error.kind() == ErrorKind::NotFound);
    let content = |uuid: &String| {
        let content = if is_reported { content(root, last, uuid)? } else { Content::LOADED };
        Some((uuid.clone(), content))
    };
    uuids.iter().filter_map(content).collect()
}

fn content(root: &Root, last: &Subscription<ContentTreeStatus>, uuid: &str) -> Option<Content> {
    let key = TopicKey::parse(uuid).ok()?;
    let (state, error) = match read_item::<ContentTreeStatus>(root, agent::VOLUMEMGR, VOLATILE, &key) {
        Ok(status) => status.map(|status| (status.state, status.error))?,
        Err(refusal) => (last.get(&key).map_or(SwState::INITIAL, |status| status.state), refusal.to_string()),
    };
    Some(Content { state, error: one_line(&error, MOST_WORDS) })
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
