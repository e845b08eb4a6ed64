//! `ebb update`: a person on the device requests an image.
//!
//! The verb writes topic BaseOsConfig of agent `ebb`; baseos drains the node and activates the image.

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use pubsub::{Persistence, Publisher, Root, TopicKey, read_item, read_items};
use runtime::peers;
use schemas::{Agent, BaseOsConfig, BaseOsHold, BaseOsHoldState, agent};
use serde::Serialize;
use uuid::Uuid;

use crate::operator::{OperatorFlags, because, journal, reason, warn_without_zedkube};
use crate::waiting::{SOON, until};

/// Arguments of `ebb update`.
#[derive(Args, Debug)]
pub(crate) struct UpdateArguments {
    /// Image: the UUID of its content tree
    #[arg(value_name = "IMAGE-UUID")]
    image: Uuid,
    /// Version of the image, as the image reports it when it runs
    #[arg(long = "version", value_name = "V", value_parser = version, required_unless_present_any = ["revert", "retry"])]
    image_version: Option<String>,
    /// Take the update back, as `ebb cancel update` does
    #[arg(long, conflicts_with_all = ["retry", "image_version"])]
    revert: bool,
    /// Try the update again after it failed
    #[arg(long)]
    retry: bool,
    /// Reason, shown in the answer, in `ebb status`, in the journal and in the reboot reason
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: Option<String>,
    #[command(flatten)]
    place: OperatorFlags,
}

/// JSON form of the answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Document<'a> {
    #[serde(flatten)]
    config: &'a BaseOsConfig,
    reason: &'a str,
    by: String,
    /// State of baseos after a revert; null for a new update, or if baseos does not run.
    hold: Option<BaseOsHoldState>,
}

/// Requests the image, or takes the request back.
pub(crate) fn run(arguments: &UpdateArguments) -> anyhow::Result<ExitCode> {
    let why = arguments.reason.as_deref().unwrap_or_default();
    if arguments.revert {
        return revert(Some(arguments.image), why, &arguments.place);
    }
    let root = arguments.place.root()?;
    let key = key_of(arguments.image)?;
    peers::require(&root, Agent::Baseos)?;
    let config = wanted(arguments, &key, current(&root, &key)?)?;
    publish(&root, &key, &config, why)?;
    record(&root, &config, why);
    warn_without_zedkube(&root);
    let BaseOsConfig { base_os_version, content_tree_uuid: image, .. } = &config;
    let line = format!(
        "image {image} {base_os_version} is wanted{}: once it is loaded and the node is drained; `ebb status` follows \
         it, `ebb cancel update` takes it back",
        because(why)
    );
    arguments
        .place
        .answer(&line, &Document { config: &config, reason: why, by: peers::user(), hold: None })?;
    Ok(ExitCode::SUCCESS)
}

/// Takes back the update to this image, or the only active one: `ebb update IMAGE --revert`, `ebb cancel update`. It
/// must be possible whenever an update is requested, whether baseos runs or not.
///
/// # Errors
/// No update is requested on this device, or several are and none is named; another process is writing as `ebb`; a file
/// cannot be read or written.
pub(crate) fn revert(image: Option<Uuid>, why: &str, place: &OperatorFlags) -> anyhow::Result<ExitCode> {
    let root = place.root()?;
    let runs = peers::runs(&root, Agent::Baseos);
    if runs {
        peers::require(&root, Agent::Baseos)?;
    }
    let key = image.map_or_else(|| only_wanted(&root), key_of)?;
    let before = current(&root, &key)?.with_context(|| not_from_here(&key))?;
    if !before.activate {
        bail!("image {key} is reverted already; `ebb status` says how far it is");
    }
    let config = BaseOsConfig { activate: false, content_tree_uuid: key.as_str().to_owned(), ..before };
    publish(&root, &key, &config, why)?;
    record(&root, &config, why);
    let hold = runs.then(|| after_revert(&root, &config)).transpose()?;
    let line = format!("image {key} is reverted{}{}", because(why), follows(hold.as_ref()));
    let hold = hold.map(|hold| hold.state);
    place.answer(&line, &Document { config: &config, reason: why, by: peers::user(), hold })?;
    Ok(ExitCode::SUCCESS)
}

fn key_of(image: Uuid) -> anyhow::Result<TopicKey> {
    Ok(TopicKey::parse(&image.hyphenated().to_string())?)
}

/// The only image that is requested on this device.
fn only_wanted(root: &Root) -> anyhow::Result<TopicKey> {
    let read = read_items::<BaseOsConfig>(root, agent::EBB, Persistence::Volatile);
    if let Some(refusal) = read.refused.first() {
        bail!("cannot tell which images are wanted, so name the one to take back: {refusal}");
    }
    let wanted: Vec<_> = read.items.into_iter().filter(|(_, config)| config.activate).collect();
    match wanted.as_slice() {
        [] => bail!(
            "there is no update to take back: no command from here wants an image (`ebb status`); a controller's image is \
             reverted at the controller"
        ),
        [(key, _)] => Ok(key.clone()),
        several => {
            let named =
                |(key, config): &(TopicKey, BaseOsConfig)| format!("{key} ({})", config.base_os_version);
            let named: Vec<String> = several.iter().map(named).collect();
            bail!(
                "{} images are wanted: {}; say which one to take back: `ebb cancel update IMAGE-UUID`",
                several.len(),
                named.join(", ")
            )
        }
    }
}

/// The present request for this image from this device, without its author.
fn current(root: &Root, key: &TopicKey) -> anyhow::Result<Option<BaseOsConfig>> {
    let config = read_item(root, agent::EBB, Persistence::Volatile, key);
    let config = config.context("cannot tell which image is wanted now")?;
    Ok(config.map(|config| BaseOsConfig { by: String::new(), reason: String::new(), ..config }))
}

fn not_from_here(key: &TopicKey) -> String {
    format!(
        "image {key} is not wanted by a command from here; a controller's image is retried or reverted at the controller"
    )
}

/// The configuration to publish.
///
/// # Errors
/// The same configuration is published already, or there is none to change.
fn wanted(
    arguments: &UpdateArguments,
    key: &TopicKey,
    before: Option<BaseOsConfig>,
) -> anyhow::Result<BaseOsConfig> {
    let Some(before) = before else {
        let version = arguments.image_version.clone().filter(|_| !arguments.retry);
        return Ok(BaseOsConfig {
            base_os_version: version.with_context(|| not_from_here(key))?,
            content_tree_uuid: key.as_str().to_owned(),
            activate: true,
            ..BaseOsConfig::default()
        });
    };
    let mut config = BaseOsConfig { activate: true, ..before.clone() };
    key.as_str().clone_into(&mut config.content_tree_uuid);
    if let Some(version) = &arguments.image_version {
        config.base_os_version.clone_from(version);
    }
    if arguments.retry {
        config.retry_update_counter = next_retry(&before)?;
    }
    if before.activate && config.base_os_version == before.base_os_version && !arguments.retry {
        bail!(
            "image {key} is wanted already; `ebb status` says how far it is, --retry allows another try after a failure"
        );
    }
    Ok(config)
}

fn next_retry(before: &BaseOsConfig) -> anyhow::Result<u32> {
    before.retry_update_counter.checked_add(1).with_context(|| {
        format!(
            "image {} has used the last retry counter, {}; give it another UUID",
            before.content_tree_uuid,
            u32::MAX
        )
    })
}

fn publish(root: &Root, key: &TopicKey, config: &BaseOsConfig, why: &str) -> anyhow::Result<()> {
    let config = BaseOsConfig { by: peers::user(), reason: why.to_owned(), ..config.clone() };
    let lock = peers::speak_as(root, agent::EBB)?;
    let mut configs = Publisher::open(root, agent::EBB, Persistence::Volatile, &lock)?;
    configs.publish(key, &config)?;
    Ok(())
}

fn record(root: &Root, config: &BaseOsConfig, why: &str) {
    let BaseOsConfig { base_os_version, content_tree_uuid, retry_update_counter, activate, .. } = config;
    let text = format!(
        "BaseOsConfig: image {content_tree_uuid} {base_os_version}, Activate {activate}, RetryUpdateCounter \
         {retry_update_counter}, by {}: {why}",
        peers::user()
    );
    journal(root, &text, why);
}

/// State of baseos after a revert: as soon as it is idle, or after a timeout.
fn after_revert(root: &Root, config: &BaseOsConfig) -> anyhow::Result<BaseOsHold> {
    let read = || {
        let hold =
            read_item::<BaseOsHold>(root, agent::BASEOSMGR, Persistence::Volatile, &TopicKey::global());
        let hold = hold.ok().flatten().unwrap_or_default();
        if hold.content_tree_uuid == config.content_tree_uuid { hold } else { BaseOsHold::default() }
    };
    let is_gone = |hold: &BaseOsHold| hold.state == BaseOsHoldState::Idle;
    let folder = root.folder::<BaseOsHold>(agent::BASEOSMGR, Persistence::Volatile);
    kubectl_ebb::in_runtime(async {
        let gone = until([folder], SOON, || Some(read()).filter(is_gone)).await;
        Ok(gone.unwrap_or_else(read))
    })
}

/// End of the sentence about a revert: the state of baseos, or that it does not run.
fn follows(hold: Option<&BaseOsHold>) -> String {
    match hold {
        None => "; baseos does not run, and reads it when it starts".to_owned(),
        Some(hold) if hold.state == BaseOsHoldState::Idle => ": nothing of it is pending".to_owned(),
        Some(hold) => format!(", but it is still {}: `ebb status` follows it", hold_words(hold)),
    }
}

fn hold_words(hold: &BaseOsHold) -> String {
    let state = match hold.state {
        BaseOsHoldState::Idle => "idle",
        BaseOsHoldState::Deferred => "held back",
        BaseOsHoldState::Activating => "being activated, which cannot be stopped",
        BaseOsHoldState::Activated => "activated",
        BaseOsHoldState::Failed => "failed",
    };
    if hold.blocked_by.is_empty() { state.to_owned() } else { format!("{state} ({})", hold.blocked_by) }
}

fn version(text: &str) -> Result<String, String> {
    if BaseOsConfig::is_version(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("accepted: {}", BaseOsConfig::ACCEPTED_VERSION))
    }
}
