//! Reads the files that the facts are made of.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;

use pubsub::{Persistence, Root, TopicKey, read_item, read_items};
use runtime::settings::Settings;
use schemas::{BaseOsConfig, ContentTreeStatus, NodeAgentStatus, Source, SwState, agent};
use text::one_line;

use crate::facts::{Configured, Content, Origin};

const VOLATILE: Persistence = Persistence::Volatile;

/// Limit in bytes for the texts of volumemgr, and for the reason of a person or of the cluster, that are shown.
const MOST_WORDS: usize = 512;

/// Limit in bytes for the person who wants an image, who is only displayed.
const MOST_BY: usize = 64;

/// The publishers of BaseOsConfig and the source that each stands for. If several configure the same image, the last
/// in this list counts: the operator before the controller before the cluster.
pub(crate) const PUBLISHERS: [(&str, Source); 4] = [
    (Source::Cluster.agent(), Source::Cluster),
    (agent::ZEDAGENT, Source::Controller),
    (Source::Controller.agent(), Source::Controller),
    (Source::Person.agent(), Source::Person),
];

/// The configured images.
#[derive(Debug, Default)]
pub(crate) struct Configs {
    /// The configurations by image UUID.
    pub(crate) images: BTreeMap<String, Configured>,
    /// Who wants each image.
    pub(crate) sources: BTreeMap<String, Origin>,
    /// The configurations that do not count, because another source configures the same image and comes first.
    pub(crate) outranked: Vec<(Source, BaseOsConfig)>,
    /// True if a folder could not be listed.
    pub(crate) is_partial: bool,
}

/// Reads the configurations of all publishers. With `commands.from-cluster` off those of the cluster do not count,
/// whoever has written them.
pub(crate) fn configs(root: &Root, settings: &Settings) -> Configs {
    let Configs { images: mut configs, mut sources, mut outranked, mut is_partial } = Configs::default();
    let counts = |(_, source): &(&str, Source)| *source != Source::Cluster || settings.commands.from_cluster;
    for (publisher, source) in PUBLISHERS.into_iter().filter(counts) {
        let read = read_items::<BaseOsConfig>(root, publisher, VOLATILE);
        for (key, config) in read.items {
            let uuid = key.as_str().to_owned();
            // Author and reason make no configuration new. The author counts only in a command of an operator.
            let is_person = source == Source::Person;
            let by = if is_person { one_line(&config.by, MOST_BY) } else { String::new() };
            let reason =
                if source.gives_reason() { one_line(&config.reason, MOST_WORDS) } else { String::new() };
            let before = sources.insert(uuid.clone(), Origin { source, by, reason });
            let (by, reason) = (String::new(), String::new());
            let config = BaseOsConfig { content_tree_uuid: uuid.clone(), by, reason, ..config };
            let refused = config
                .refusal()
                .map(|why| Configured::Refused(format!("refused BaseOsConfig of {publisher}: {why}")));
            let other = configs.insert(uuid, refused.unwrap_or(Configured::Given(config)));
            let other = before.zip(other).filter(|(before, _)| before.source != source);
            if let Some((before, Configured::Given(other))) = other {
                outranked.push((before.source, other));
            }
        }
        for refusal in read.refused {
            tracing::debug!("{refusal}");
            match refusal.path.file_name().and_then(TopicKey::of_file) {
                Some(Ok(key)) => {
                    sources.insert(key.as_str().to_owned(), Origin { source, ..Origin::default() });
                    configs.insert(key.as_str().to_owned(), Configured::Unreadable);
                }
                Some(Err(_)) => {}
                None => is_partial = true,
            }
        }
    }
    Configs { images: configs, sources, outranked, is_partial }
}

/// The refused configurations, for the log and BaseOsHold.
pub(crate) fn refused(configs: &BTreeMap<String, Configured>) -> Vec<String> {
    let refused = configs.iter().filter_map(|(uuid, configured)| match configured {
        Configured::Refused(why) => Some(format!("{}: {why}", one_line(uuid, MOST_WORDS))),
        Configured::Unreadable | Configured::Given(_) => None,
    });
    refused.collect()
}

/// The content of the images. If no agent reports on content, it counts as loaded. `good` holds the states that were read
/// last: a file that cannot be read now leaves them as they were.
pub(crate) fn contents(
    root: &Root,
    good: &mut BTreeMap<String, SwState>,
    uuids: &BTreeSet<String>,
) -> BTreeMap<String, Content> {
    let folder = root.folder::<ContentTreeStatus>(agent::VOLUMEMGR, VOLATILE);
    let is_reported =
        !matches!(fs::symlink_metadata(folder), Err(error) if error.kind() == ErrorKind::NotFound);
    good.retain(|uuid, _| uuids.contains(uuid));
    let content = |uuid: &String| {
        let content = if is_reported { content(root, good, uuid)? } else { Content::LOADED };
        Some((uuid.clone(), content))
    };
    uuids.iter().filter_map(content).collect()
}

fn content(root: &Root, good: &mut BTreeMap<String, SwState>, uuid: &str) -> Option<Content> {
    let key = TopicKey::parse(uuid).ok()?;
    let (state, error) = match read_item::<ContentTreeStatus>(root, agent::VOLUMEMGR, VOLATILE, &key) {
        Ok(Some(status)) => {
            good.insert(uuid.to_owned(), status.state);
            (status.state, status.error)
        }
        Ok(None) => {
            good.remove(uuid);
            return None;
        }
        Err(refusal) => (good.get(uuid).copied().unwrap_or(SwState::INITIAL), refusal.to_string()),
    };
    Some(Content { state, error: one_line(&error, MOST_WORDS) })
}

/// The partition that is not running, by EVE's name; empty if the partitions have no such names.
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
