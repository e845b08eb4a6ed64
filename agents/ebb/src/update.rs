//! `ebb update`: a wish for an image, given by a person on the device.
//!
//! It writes topic BaseOsConfig of agent `ebb`; baseos does the rest, the drain first.

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use pubsub::{Persistence, Publisher, Root, TopicKey, read_item};
use schemas::{BaseOsConfig, BaseOsHold, BaseOsHoldState, agent};
use serde::Serialize;
use uuid::Uuid;

use crate::place::{Place, because, reason};
use crate::waiting::{SOON, until};
use crate::{journal, peers};

/// So many characters of a version; EVE's have about 30.
const LONGEST_VERSION: usize = 255;

/// What `ebb update` takes.
#[derive(Args, Debug)]
pub(crate) struct UpdateArguments {
    /// The image: the UUID of its content tree
    #[arg(value_name = "IMAGE-UUID")]
    image: Uuid,
    /// The version that the image has when it runs
    #[arg(long = "version", value_name = "V", value_parser = version, required_unless_present_any = ["revert", "retry"])]
    image_version: Option<String>,
    /// Take the wish back
    #[arg(long, conflicts_with_all = ["retry", "image_version"])]
    revert: bool,
    /// Allow another try after one that failed
    #[arg(long)]
    retry: bool,
    /// Why: shown here and in the journal
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// The answer as JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Document<'a> {
    #[serde(flatten)]
    config: &'a BaseOsConfig,
    reason: &'a str,
    by: String,
    /// What baseos still shows of an image that was reverted; null for one that is wanted, or if it does not run.
    hold: Option<BaseOsHoldState>,
}

/// Writes the wish.
pub(crate) fn run(arguments: &UpdateArguments) -> anyhow::Result<ExitCode> {
    let root = arguments.place.root()?;
    let key = TopicKey::parse(&arguments.image.hyphenated().to_string())?;
    let runs = peers::runs(&root, agent::BASEOSMGR);
    // To take something back has to be possible whenever it stands.
    if runs || !arguments.revert {
        peers::require(&root, agent::BASEOSMGR)?;
    }
    let before = read_item(&root, agent::EBB, Persistence::Volatile, &key)
        .context("nobody knows what is wanted now")?;
    let config = wanted(arguments, &key, before)?;
    publish(&root, &key, &config)?;
    let why = arguments.reason.as_deref().unwrap_or_default();
    record(&root, &config, why);
    let hold = (arguments.revert && runs).then(|| after_revert(&root, &config)).transpose()?;
    tell(arguments, &config, hold.as_ref(), why)
}

/// The configuration that is to stand.
///
/// # Errors
/// It stands already, or there is none to change.
fn wanted(
    arguments: &UpdateArguments,
    key: &TopicKey,
    before: Option<BaseOsConfig>,
) -> anyhow::Result<BaseOsConfig> {
    let Some(before) = before else {
        let Some(version) = arguments.image_version.clone().filter(|_| !arguments.retry) else {
            bail!(
                "image {key} is not wanted by a command from here; a controller's image is retried or reverted at the \
                 controller"
            );
        };
        return Ok(BaseOsConfig {
            base_os_version: version,
            content_tree_uuid: key.as_str().to_owned(),
            retry_update_counter: 0,
            activate: true,
        });
    };
    let mut config = BaseOsConfig { activate: !arguments.revert, ..before.clone() };
    key.as_str().clone_into(&mut config.content_tree_uuid);
    if let Some(version) = &arguments.image_version {
        config.base_os_version.clone_from(version);
    }
    if arguments.retry {
        config.retry_update_counter = next_retry(&before)?;
    }
    if config.activate == before.activate
        && config.base_os_version == before.base_os_version
        && !arguments.retry
    {
        let hint = "`ebb status` says how far it is, --retry allows another try after a failure";
        let (is, hint) =
            if before.activate { ("wanted", hint) } else { ("reverted", "`ebb status` says how far it is") };
        bail!("image {key} is {is} already; {hint}");
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

fn publish(root: &Root, key: &TopicKey, config: &BaseOsConfig) -> anyhow::Result<()> {
    let lock = peers::speak_as(root, agent::EBB)?;
    let mut configs = Publisher::open(root, agent::EBB, Persistence::Volatile, &lock)?;
    configs.publish(key, config)?;
    Ok(())
}

fn record(root: &Root, config: &BaseOsConfig, why: &str) {
    let BaseOsConfig { base_os_version, content_tree_uuid, retry_update_counter, activate } = config;
    let text = format!(
        "BaseOsConfig: image {content_tree_uuid} {base_os_version}, Activate {activate}, RetryUpdateCounter \
         {retry_update_counter}, by {}: {why}",
        peers::user()
    );
    journal::record(root, &text);
}

/// What is left of an image that was reverted, once nothing is or after a while.
fn after_revert(root: &Root, config: &BaseOsConfig) -> anyhow::Result<BaseOsHold> {
    let read = || {
        let hold =
            read_item::<BaseOsHold>(root, agent::BASEOSMGR, Persistence::Volatile, &TopicKey::global());
        let hold = hold.ok().flatten().unwrap_or_default();
        if hold.content_tree_uuid == config.content_tree_uuid { hold } else { BaseOsHold::default() }
    };
    let is_gone = |hold: &BaseOsHold| hold.state == BaseOsHoldState::Idle;
    let folder = root.folder::<BaseOsHold>(agent::BASEOSMGR, Persistence::Volatile);
    crate::in_runtime(async {
        let gone = until([folder], SOON, || Some(read()).filter(is_gone)).await;
        Ok(gone.unwrap_or_else(read))
    })
}

fn tell(
    arguments: &UpdateArguments,
    config: &BaseOsConfig,
    hold: Option<&BaseOsHold>,
    why: &str,
) -> anyhow::Result<ExitCode> {
    let because = because(why);
    let BaseOsConfig { base_os_version, content_tree_uuid: image, .. } = config;
    let line = match (arguments.revert, hold) {
        (true, None) => {
            format!("image {image} is reverted{because}; baseosmgr does not run, and reads it when it starts")
        }
        (true, Some(hold)) if hold.state == BaseOsHoldState::Idle => {
            format!("image {image} is reverted{because}: nothing of it is pending")
        }
        (true, Some(hold)) => format!(
            "image {image} is reverted{because}, but it is still {}: `ebb status` follows it",
            hold_words(hold)
        ),
        (false, _) => format!(
            "image {image} {base_os_version} is wanted{because}: once it is loaded and the node is drained; `ebb status` \
             follows it, `ebb update {image} --revert` takes it back"
        ),
    };
    if !arguments.revert {
        peers::warn_without_zedkube(&arguments.place.root()?);
    }
    let document = Document { config, reason: why, by: peers::user(), hold: hold.map(|hold| hold.state) };
    arguments.place.answer(&line, &document)?;
    Ok(ExitCode::SUCCESS)
}

fn hold_words(hold: &BaseOsHold) -> String {
    let state = match hold.state {
        BaseOsHoldState::Idle => "idle",
        BaseOsHoldState::Deferred => "held back",
        BaseOsHoldState::Activating => "being activated, which nobody can stop",
        BaseOsHoldState::Activated => "activated",
        BaseOsHoldState::Failed => "failed",
    };
    if hold.blocked_by.is_empty() { state.to_owned() } else { format!("{state} ({})", hold.blocked_by) }
}

fn version(text: &str) -> Result<String, String> {
    let fits = !text.trim().is_empty() && text.chars().nth(LONGEST_VERSION).is_none();
    if fits && !text.contains(char::is_control) && text.trim() == text {
        Ok(text.to_owned())
    } else {
        Err(format!("accepted: a version of 1 to {LONGEST_VERSION} characters, such as 16.0.1-kvm-amd64"))
    }
}
