//! BaseOsHold.Images: how far each image is, for the source that wants it.

use runtime::shown_try::ShownTry;
use schemas::{BaseOsConfig, BaseOsHoldState, CommandState, ImageLine, Source};
use text::one_line;

use crate::facts::{Configured, Facts};
use crate::limits::MOST_ERROR_BYTES;
use crate::need::{Need, Needs, Words, cannot_tell, need};
use crate::policy::Policy;
use crate::record::Accepted;
use crate::state::State;

/// Setting for the pause after a failure.
pub(crate) const RETRY: &str = "baseos.retry";

/// Limit for the lines of one source: BaseOsHold has to fit into one message of the socket protocol.
const MOST_LINES: usize = 8;

/// The lines of BaseOsHold. `words` are those of the current image.
pub(crate) fn lines(
    next: &State,
    facts: &Facts,
    needs: &Needs,
    words: &Words,
    policy: Policy,
) -> Vec<ImageLine> {
    let current = next.record.current.as_ref();
    let uuid = next.record.current_uuid();
    let given = facts.configs.values().filter_map(Configured::given);
    let given = given.map(|config| (facts.origin(&config.content_tree_uuid).source, config));
    // After a boot its file may not be back yet, and its source has to know what goes on.
    let is_back = |current: &&Accepted| facts.configs.contains_key(&current.config.content_tree_uuid);
    let carried_over = current.filter(|current| current.carried_over && !is_back(current));
    let carried_over = carried_over.map(|current| (current.source, &current.config));
    let first = given.chain(carried_over).filter_map(|(source, config)| {
        let (_, need) = needs.get(&config.content_tree_uuid)?;
        let is_current = uuid == Some(config.content_tree_uuid.as_str());
        let own = is_current.then(|| fate_of_current(source, need, words, next.next_try)).flatten();
        let content = || facts.content_obstacle(&config.content_tree_uuid);
        Some((source, config, own.unwrap_or_else(|| fate(source, need, content(), uuid))))
    });
    let outranked = facts.outranked.iter().map(|(source, config)| {
        let runs = need(&next.record, config, &facts.running, policy) == Need::Active;
        let first = facts.origin(&config.content_tree_uuid).source;
        let why = format!("source {first} configures the same image, and comes first");
        (*source, config, if runs { done() } else { (CommandState::Waiting, why) })
    });
    let wanted = first.chain(outranked).filter(|(_, config, _)| config.activate);
    let all: Vec<_> = wanted.map(|(source, config, fate)| line(source, config, fate)).collect();
    let of = |source| all.iter().filter(move |line| line.source == source).take(MOST_LINES).cloned();
    Source::ALL.into_iter().flat_map(of).collect()
}

fn line(source: Source, config: &BaseOsConfig, (state, reason): (CommandState, String)) -> ImageLine {
    ImageLine {
        source,
        content_tree_uuid: config.content_tree_uuid.clone(),
        base_os_version: config.base_os_version.clone(),
        retry_update_counter: config.retry_update_counter,
        state,
        reason: one_line(&reason, MOST_ERROR_BYTES),
    }
}

const fn done() -> (CommandState, String) {
    (CommandState::Done, String::new())
}

/// The fate of the current image, and the reason; `None` if it is idle.
fn fate_of_current(
    source: Source,
    need: &Need,
    (state, blocked_by, release): &Words,
    next_try: Option<ShownTry>,
) -> Option<(CommandState, String)> {
    match state {
        // The device stays up after a dry run: nothing more happens.
        BaseOsHoldState::Activated if *need == Need::DryRun => {
            Some((CommandState::Done, "dry run: no image is written".to_owned()))
        }
        BaseOsHoldState::Activating | BaseOsHoldState::Activated => {
            Some((CommandState::HandedOver, release.clone()))
        }
        BaseOsHoldState::Deferred => Some((CommandState::Waiting, blocked_by.clone())),
        BaseOsHoldState::Failed => {
            let in_full = |next: ShownTry| next.after_error(blocked_by, another_try(source), RETRY);
            Some((CommandState::Failed, next_try.map_or_else(|| blocked_by.clone(), in_full)))
        }
        BaseOsHoldState::Idle => None,
    }
}

/// What has to be given so that an image is tried again: the cluster's counter follows from its text.
pub(crate) const fn another_try(source: Source) -> &'static str {
    if matches!(source, Source::Cluster) { "another text" } else { "a new RetryUpdateCounter" }
}

/// The fate of another image, and the reason.
fn fate(
    source: Source,
    need: &Need,
    content: Option<String>,
    current: Option<&str>,
) -> (CommandState, String) {
    let again = another_try(source);
    let behind = || current.map(|current| format!("image {current} comes first")).unwrap_or_default();
    match need {
        Need::Active => done(),
        Need::Error(error) => (CommandState::Failed, format!("{error}; {again} allows another try")),
        Need::Impossible(why) => (CommandState::Failed, why.clone()),
        Need::Nothing => (
            CommandState::Failed,
            format!("another image was activated after this one; {again} activates it"),
        ),
        Need::Unknown(why) => (CommandState::Waiting, cannot_tell(why)),
        Need::Activation => (CommandState::Waiting, content.unwrap_or_else(behind)),
        Need::Reboot | Need::DryRun => (CommandState::Waiting, behind()),
    }
}
