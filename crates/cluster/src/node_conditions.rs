//! What a Node says about its drain: the conditions `DrainInProgress` and `Drained`, which KEP-5683 names. Any version of
//! Kubernetes stores them, `kubectl describe node` shows them, and `kubectl wait --for=condition=Drained` waits for them.
//!
//! The KEP knows no owner of a condition, and others write the same two (`kubectl drain`, one day). So a message of zedkube
//! begins with `zedkube: `, and zedkube removes no condition with another message.

mod story;

use drain::cordon::field_manager;
use kube::core::Request;
use kube::core::params::{Patch, PatchParams};
use serde_json::{Map, Value, json};
use text::one_line;

use crate::failure::ApiFailure;
use crate::nodes::{PATH, check_name, get_node_facts};
use crate::objects::Condition;
use crate::operation::Operation;
use crate::wire::Cluster;

pub use story::{DrainEnd, DrainStory, DrainTrouble};

/// Reason of both conditions while a drain waits for its turn.
pub const PENDING: &str = "DrainPending";

/// Reason of both conditions when a drain is over and the node is not drained.
pub const NOT_DRAINED: &str = "NotDrained";

/// Reason of both conditions when a drain has failed.
pub const FAILED: &str = "DrainFailed";

/// Reason of both conditions while the node is given back.
pub const RETURNING: &str = "Returning";

/// Type of the condition that is true while a drain goes on.
pub const DRAIN_IN_PROGRESS: &str = "DrainInProgress";

/// Type of the condition that is true while the node is drained.
pub const DRAINED: &str = "Drained";

/// How the messages of zedkube begin.
const OURS: &str = "zedkube: ";

/// Longest message, in bytes.
const LONGEST_MESSAGE: usize = 1024;

/// Longest reason or time that is read, in bytes.
const LONGEST_WORD: usize = 256;

/// How far a drain is, as both conditions tell it together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainState {
    /// `DrainInProgress` is true.
    InProgress,
    /// `Drained` is true.
    Drained,
    /// Both are false: nothing goes on now, and the node is not drained.
    Neither,
}

/// What zedkube says about the drain of its Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainSaid {
    /// How far the drain is.
    pub state: DrainState,
    /// Reason of both conditions, one word in CamelCase.
    pub reason: &'static str,
    /// Message of the condition that is true, or of `DrainInProgress` if none is.
    message: String,
}

/// One of the two conditions, as it stands on a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainCondition {
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word: why.
    pub reason: String,
    /// The same for people, on one line.
    pub message: String,
    /// When the status changed last, in RFC 3339; empty if nobody says.
    pub since: String,
}

/// Both conditions, as they stand on a Node; `None` for one that does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainConditions {
    /// `DrainInProgress`.
    pub in_progress: Option<DrainCondition>,
    /// `Drained`.
    pub drained: Option<DrainCondition>,
}

impl DrainSaid {
    /// The text without its mark; it is put on one line, and cut if it is too long.
    pub fn new(state: DrainState, reason: &'static str, text: &str) -> Self {
        // Three bytes are for the mark of a cut.
        Self { state, reason, message: one_line(&format!("{OURS}{text}"), LONGEST_MESSAGE - 3) }
    }

    /// The text without its mark.
    pub fn text(&self) -> &str {
        self.message.strip_prefix(OURS).unwrap_or_default()
    }

    /// Status and message of both conditions, with their types. Only one of them tells the story.
    fn conditions(&self) -> [(&'static str, &'static str, String); 2] {
        let elsewhere = |kind| format!("{OURS}see condition {kind}");
        let (progress, drained) = match self.state {
            DrainState::InProgress => ("True", "False"),
            DrainState::Drained => ("False", "True"),
            DrainState::Neither => ("False", "False"),
        };
        let (of_progress, of_drained) = if self.state == DrainState::Drained {
            (elsewhere(DRAINED), self.message.clone())
        } else {
            (self.message.clone(), elsewhere(DRAIN_IN_PROGRESS))
        };
        [(DRAIN_IN_PROGRESS, progress, of_progress), (DRAINED, drained, of_drained)]
    }
}

impl DrainCondition {
    fn of(condition: &Condition) -> Self {
        let word = |text: &Option<String>| one_line(text.as_deref().unwrap_or_default(), LONGEST_WORD);
        Self {
            status: word(&condition.status),
            reason: word(&condition.reason),
            message: one_line(condition.message.as_deref().unwrap_or_default(), LONGEST_MESSAGE),
            since: condition.last_transition_time.map(|at| at.to_string()).unwrap_or_default(),
        }
    }

    /// The status is `True`.
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }

    /// What zedkube says in it; `None` if another program has written it.
    pub fn said(&self) -> Option<&str> {
        self.message.strip_prefix(OURS)
    }
}

impl DrainConditions {
    /// Takes both from the conditions of a Node.
    pub(crate) fn of(conditions: &[Condition]) -> Self {
        let find = |kind| conditions.iter().find(|condition| condition.is(kind)).map(DrainCondition::of);
        Self { in_progress: find(DRAIN_IN_PROGRESS), drained: find(DRAINED) }
    }

    /// What a Node shows to which zedkube has said this.
    pub fn telling(said: Option<&DrainSaid>) -> Self {
        let Some(said) = said else { return Self::default() };
        let [in_progress, drained] = said.conditions().map(|(_, status, message)| {
            let (status, reason) = (status.to_owned(), said.reason.to_owned());
            Some(DrainCondition { status, reason, message, since: String::new() })
        });
        Self { in_progress, drained }
    }

    /// True if the Node shows just what zedkube says; with `None`, if it shows no word of zedkube.
    pub fn show(&self, said: Option<&DrainSaid>) -> bool {
        let Some(said) = said else {
            return self
                .each()
                .into_iter()
                .all(|(_, shown)| shown.is_none_or(|shown| shown.said().is_none()));
        };
        self.all_are(said, |shown, status, message| {
            (&*shown.status, &*shown.reason, &*shown.message) == (status, said.reason, message)
        })
    }

    /// True if the Node shows the state that zedkube tells, in whatever words.
    fn tell_the_same(&self, said: Option<&DrainSaid>) -> bool {
        said.is_some_and(|said| self.all_are(said, |shown, status, _| shown.status == status))
    }

    /// True if the Node shows both conditions, and each is so, compared with its status and message of `said`.
    fn all_are(&self, said: &DrainSaid, is_so: impl Fn(&DrainCondition, &str, &str) -> bool) -> bool {
        let mut pairs = said.conditions().into_iter().zip(self.each());
        pairs.all(|((_, status, message), (_, shown))| {
            shown.is_some_and(|shown| is_so(shown, status, &message))
        })
    }

    fn each(&self) -> [(&'static str, Option<&DrainCondition>); 2] {
        [(DRAIN_IN_PROGRESS, self.in_progress.as_ref()), (DRAINED, self.drained.as_ref())]
    }

    /// The patch after which a Node that shows these conditions says `said`; `now` is the API server's time.
    fn patch(&self, said: Option<&DrainSaid>, now: Option<&str>) -> Vec<Value> {
        let Some(said) = said else {
            let ours = self
                .each()
                .into_iter()
                .filter(|(_, shown)| shown.is_some_and(|shown| shown.said().is_some()));
            return ours.map(|(kind, _)| json!({"type": kind, "$patch": "delete"})).collect();
        };
        let changed = |((kind, status, message), (_, shown)): ((_, _, _), (_, Option<&DrainCondition>))| {
            let mut condition =
                json!({"type": kind, "status": status, "reason": said.reason, "message": message});
            let is_changed = shown.is_none_or(|shown| shown.status != status);
            if let (Some(fields), Some(now)) = (condition.as_object_mut(), now) {
                fields.insert("lastHeartbeatTime".to_owned(), json!(now));
                fields.extend(is_changed.then(|| ("lastTransitionTime".to_owned(), json!(now))));
            }
            condition
        };
        said.conditions().into_iter().zip(self.each()).map(changed).collect()
    }
}

/// Writes what zedkube says about the drain into the Node with this UID, which shows `shown` (`None`: the Node is read first);
/// without `said`, removes what zedkube has said there. At most two calls. All other conditions stay as they are.
pub async fn say(
    cluster: &Cluster,
    node: &str,
    uid: &str,
    shown: Option<&DrainConditions>,
    said: Option<&DrainSaid>,
) -> Result<(), ApiFailure> {
    let operation = Operation::on_cluster("patch", "nodes/status", node);
    check_name(&operation)?;
    let read = match shown {
        Some(_) => None,
        None => get_node_facts(&cluster.at_leisure(), node).await?.map(|node| node.drain),
    };
    let shown = shown.or(read.as_ref()).cloned().unwrap_or_default();
    if shown.show(said) {
        return Ok(());
    }
    let params =
        PatchParams { field_manager: Some(field_manager(AGENT).to_owned()), ..PatchParams::default() };
    let now = cluster.server_time().map(|now| now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    let status = Map::from_iter([("conditions".to_owned(), json!(shown.patch(said, now.as_deref())))]);
    let body = json!({"metadata": {"uid": uid}, "status": status});
    let request = Request::new(PATH).patch_subresource("status", node, &params, &Patch::Strategic(body));
    // Other words for the same state keep no call waiting.
    let paced = if shown.tell_the_same(said) { &cluster.at_leisure() } else { cluster };
    paced.fetch::<Value>(&operation, request).await.map(drop)
}

/// Who writes, by its name as owner of a cordon.
const AGENT: &str = "zedkube";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::still_cluster;

    #[tokio::test]
    async fn the_conditions_are_written_beside_those_of_others_and_only_ours_are_removed() {
        use DrainState::{Drained, InProgress, Neither};
        let (fake, cluster) = still_cluster();
        fake.edit("nodes", "", "edge-a", |node| {
            node["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
        })
        .unwrap();
        let facts = async || get_node_facts(&cluster, "edge-a").await.unwrap().unwrap();
        let uid = facts().await.view.uid;
        let others = DrainConditions::default();
        assert!(others.show(None) && !others.show(Some(&DrainSaid::new(Neither, "Returning", ""))));
        let long = "é".repeat(1000);
        for (state, progress, drained) in
            [(InProgress, "True", "False"), (Drained, "False", "True"), (Neither, "False", "False")]
        {
            for text in ["one\ntwo", long.as_str()] {
                let shown = facts().await.drain;
                let said = DrainSaid::new(state, "AdminRequested", text);
                assert!(!shown.show(Some(&said)), "{shown:?}");
                say(&cluster, "edge-a", &uid, Some(&shown), Some(&said)).await.unwrap();
                let found = facts().await;
                assert!(found.drain.show(Some(&said)) && !found.drain.show(None), "{found:?}");
                assert!(found.view.ready && found.view.conditions.is_empty(), "a drain is no trouble");
                let [shown_progress, shown_drained] =
                    [&found.drain.in_progress, &found.drain.drained].map(|shown| shown.clone().unwrap());
                assert_eq!((&*shown_progress.status, &*shown_drained.status), (progress, drained));
                assert!(!shown_progress.since.is_empty() && shown_progress.message.len() <= LONGEST_MESSAGE);
                let tells = if state == Drained { &shown_drained } else { &shown_progress };
                assert!(tells.said().unwrap().starts_with(if text == long { "é" } else { "one two" }));
            }
        }
        // Another program tells that the node is drained, in its own words.
        fake.edit("nodes", "", "edge-a", |node| {
            node["status"]["conditions"][2]["message"] = json!("kubectl drain is over");
        })
        .unwrap();
        let shown = facts().await.drain;
        let other = say(&cluster, "edge-a", "another", Some(&shown), None).await;
        assert!(other.is_err_and(|failure| failure.text().contains("metadata.uid")));
        say(&cluster, "edge-a", &uid, Some(&shown), None).await.unwrap();
        let found = facts().await.drain;
        assert_eq!((found.in_progress.is_none(), found.drained.is_some()), (true, true));
        assert!(found.show(None), "nothing of ours is left");
    }

    /// `kubectl get node -w` and alerts count from the time of the last change of the status.
    #[test]
    fn the_time_is_that_of_the_last_change_of_the_status() {
        let now = Some("2026-11-29T17:00:00Z");
        let shown = |status: &str| {
            let condition = DrainCondition { status: status.to_owned(), ..DrainCondition::default() };
            DrainConditions { in_progress: Some(condition), drained: None }
        };
        for (before, said, changes) in [
            (DrainConditions::default(), DrainState::InProgress, [true, true]),
            (shown("True"), DrainState::InProgress, [false, true]),
            (shown("True"), DrainState::Drained, [true, true]),
            (shown("False"), DrainState::Neither, [false, true]),
        ] {
            let patch = before.patch(Some(&DrainSaid::new(said, "", "")), now);
            let has_time = |condition: &Value| condition.get("lastTransitionTime").is_some();
            assert_eq!(patch.iter().map(has_time).collect::<Vec<_>>(), changes, "{before:?} {said:?}");
        }
    }
}
