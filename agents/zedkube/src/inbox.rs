//! Reads the input of other agents: drain requests, and EVE's topics about the cluster and the device.

use std::collections::BTreeMap;

use futures::future::select_all;
use pubsub::{Persistence, Refusal, Root, Subscription, TopicKey};
use runtime::shortened;
use schemas::{
    DeviceAction, DeviceActionState, DrainRequester, EdgeNodeClusterConfig, EdgeNodeInfo, NodeDrainRequest,
    RefusedInput, agent,
};
use session::membership::NodeAgent;
use session::{Answer, Request};

/// Bytes of a request's context that are kept. It is meant to be one line of text, and goes into the record, the report
/// and an annotation of the Node.
const LONGEST_CONTEXT: usize = 1024;

/// Everything that zedkube reads from other agents.
#[derive(Debug)]
pub(crate) struct Inbox {
    root: Root,
    /// The folders of those who may request a drain. The one below `/persist`, of requests that are kept over boots, comes
    /// first.
    folders: Vec<Folder>,
    cluster_config: Subscription<EdgeNodeClusterConfig>,
    /// EVE has published its config since this process began: from then on a missing item was deleted.
    has_seen_config: bool,
    node_info: Subscription<EdgeNodeInfo>,
    device_action: Subscription<DeviceAction>,
}

impl Inbox {
    /// Begins to watch. The present content can be read at once.
    pub(crate) fn open(root: &Root) -> Self {
        let persistence = Persistence::Volatile;
        let kept = Folder::open(root, agent::EBB, DrainRequester::None, Persistence::Persistent);
        let folders = DrainRequester::PUBLISHERS
            .map(|(agent, requester)| Folder::open(root, agent, requester, persistence));
        let mut inbox = Self {
            root: root.clone(),
            folders: [kept].into_iter().chain(folders).collect(),
            cluster_config: Subscription::open(root, agent::ZEDAGENT, persistence),
            has_seen_config: false,
            node_info: Subscription::follow(root, agent::ZEDAGENT, persistence),
            device_action: Subscription::open(root, agent::NODEAGENT, persistence),
        };
        inbox.see_config();
        inbox
    }

    /// Takes over the requests that the previous process had accepted. A request counts only if its file exists and
    /// cannot be read now, because it is half written or refused.
    pub(crate) fn go_on_from(&mut self, known: &[Request]) {
        for folder in &mut self.folders {
            let is_its =
                |request: &&Request| request.publisher == folder.agent && request.kept == folder.is_kept();
            let known = known.iter().find(is_its);
            if folder.good.is_none() && folder.is_doubtful() {
                folder.good = known.cloned();
            }
        }
    }

    /// Waits until the input changes. Cancel-safe.
    pub(crate) async fn changed(&mut self) {
        let requests = self.folders.iter_mut().map(|folder| Box::pin(folder.items.changed()));
        tokio::select! {
            _ = select_all(requests) => {}
            () = self.cluster_config.changed() => {}
            () = self.node_info.changed() => {}
            () = self.device_action.changed() => {}
        }
        for folder in &mut self.folders {
            folder.judge();
        }
        self.see_config();
    }

    fn see_config(&mut self) {
        let item = self.cluster_config.get(&TopicKey::global());
        self.has_seen_config |= item.is_some_and(|config| config.initialized);
    }

    /// The requests that exist now. One that is kept over boots counts instead of the other one of its publisher.
    pub(crate) fn requests(&self) -> Vec<Request> {
        let mut requests: Vec<Request> = Vec::new();
        for request in self.folders.iter().filter_map(|folder| folder.good.clone()) {
            if requests.iter().all(|known| known.publisher != request.publisher) {
                requests.push(request);
            }
        }
        requests
    }

    /// True if a file for a request that is kept over boots exists and has no request that is known.
    pub(crate) fn may_be_kept(&self) -> bool {
        self.folders.iter().any(|folder| folder.is_kept() && folder.good.is_none() && folder.is_doubtful())
    }

    /// Whether EVE's cluster config is valid; `Some(false)` also if it was there and was deleted. `None` if EVE says
    /// nothing: the topic does not exist, nothing was published yet, or the item cannot be read (D7: missing knowledge
    /// is no permission to go down).
    pub(crate) fn eve_config_valid(&self) -> Option<bool> {
        match self.cluster_config.get(&TopicKey::global()) {
            // EVE has not read its config yet.
            Some(config) if !config.initialized => None,
            Some(config) => Some(config.valid),
            None if self.cluster_config.refused().is_empty() => self.has_seen_config.then_some(false),
            None => None,
        }
    }

    /// EVE's zedagent publishes here, so this is an EVE device.
    pub(crate) fn has_eves_topics(&self) -> bool {
        self.root.folder::<EdgeNodeClusterConfig>(agent::ZEDAGENT, Persistence::Volatile).is_dir()
    }

    /// How far nodeagent is in this boot. An item that cannot be read does not count as acting.
    pub(crate) fn nodeagent(&self, boot_id: &str) -> NodeAgent {
        match self.device_action(boot_id) {
            None => NodeAgent::Silent,
            Some(action) if action.state == DeviceActionState::Acting => {
                let is_image = !action.content_tree_uuid.is_empty();
                NodeAgent::Acting(if is_image { DrainRequester::Update } else { DrainRequester::DeviceOp })
            }
            Some(_) => NodeAgent::NotActing,
        }
    }

    /// True if nodeagent has found in this boot that it cannot take this device down: a drain for it would be useless.
    pub(crate) fn has_no_means(&self, boot_id: &str) -> bool {
        self.device_action(boot_id).and_then(|action| action.means.as_ref()).is_some_and(Vec::is_empty)
    }

    /// What nodeagent says in this boot; `None` if it has said nothing.
    pub(crate) fn device_action(&self, boot_id: &str) -> Option<&DeviceAction> {
        self.device_action.get(&TopicKey::global()).filter(|action| action.boot_id == boot_id)
    }

    /// EVE's information about this device.
    pub(crate) fn node_info(&self) -> Option<&EdgeNodeInfo> {
        self.node_info.get(&TopicKey::global())
    }

    /// The input files that are refused now.
    pub(crate) fn refused(&self) -> Vec<RefusedInput> {
        let of_requests = self.folders.iter().flat_map(Folder::refusals);
        let others = self.cluster_config.refused().into_iter();
        let others = others.chain(self.node_info.refused()).chain(self.device_action.refused());
        of_requests.chain(others).map(|refusal| refused_input(&refusal)).collect()
    }
}

/// A refusal in the form of the report.
pub(crate) fn refused_input(refusal: &Refusal) -> RefusedInput {
    RefusedInput {
        path: refusal.path.display().to_string(),
        reason: format!("{}; accepted: {}", refusal.reason, refusal.accepted),
    }
}

/// The request folder of one agent.
#[derive(Debug)]
struct Folder {
    root: Root,
    agent: &'static str,
    requester: DrainRequester,
    persistence: Persistence,
    items: Subscription<NodeDrainRequest>,
    good: Option<Request>,
    refused: BTreeMap<TopicKey, Refusal>,
}

impl Folder {
    fn open(root: &Root, agent: &'static str, requester: DrainRequester, persistence: Persistence) -> Self {
        let items = Subscription::open(root, agent, persistence);
        let (good, refused) = (None, BTreeMap::new());
        let mut folder = Self { root: root.clone(), agent, requester, persistence, items, good, refused };
        folder.judge();
        folder
    }

    fn is_kept(&self) -> bool {
        self.persistence == Persistence::Persistent
    }

    /// The file of the request exists, and cannot be read now or is refused.
    fn is_doubtful(&self) -> bool {
        let key = TopicKey::global();
        self.items.is_unread(&key) || self.refused.contains_key(&key)
    }

    /// Accepts or refuses the items. If an item is refused, the last good request stays; if the item is gone, the
    /// request is gone.
    fn judge(&mut self) {
        let mut refused = BTreeMap::new();
        let mut good = None;
        for (key, item) in self.items.items() {
            match self.accept(key, item) {
                Ok(request) => good = Some(request),
                Err(refusal) => {
                    if self.refused.get(key) != Some(&refusal) {
                        tracing::warn!("NodeDrainRequest: {refusal}");
                    }
                    refused.insert(key.clone(), refusal);
                }
            }
        }
        // After a start the subscription does not know the last good request; `go_on_from` has set it.
        self.refused = refused;
        if good.is_none() && self.is_doubtful() {
            good = self.good.take();
        }
        self.good = good;
    }

    fn accept(&self, key: &TopicKey, item: &NodeDrainRequest) -> Result<Request, Refusal> {
        let refuse = |reason: String, accepted: String| {
            let path = self.root.item::<NodeDrainRequest>(self.agent, self.persistence, key);
            Err(Refusal::new(&path, reason, accepted))
        };
        if *key != TopicKey::global() {
            return refuse("the key is not the one that is read".to_owned(), "global.json".to_owned());
        }
        let expected = self.requester;
        if item.requested_by != expected {
            return refuse(
                format!("RequestedBy is {} {}", item.requested_by.code(), item.requested_by),
                format!("{} {expected} in the folder of {}", expected.code(), self.agent),
            );
        }
        Ok(Request {
            requester: self.requester,
            context: shortened(item.context.clone(), LONGEST_CONTEXT),
            requested_at: item.requested_at.to_string(),
            publisher: self.agent.to_owned(),
            answer: Answer::None,
            forced_by: String::new(),
            kept: self.is_kept(),
        })
    }

    fn refusals(&self) -> Vec<Refusal> {
        self.items.refused().into_iter().chain(self.refused.values().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pubsub::{AgentLock, Publisher};
    use schemas::GoTime;

    use super::*;

    /// Publishes requests in zedagent's folder below its own root.
    struct Bench {
        _folder: tempfile::TempDir,
        requests: Publisher<NodeDrainRequest>,
        root: Root,
    }

    impl Bench {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let root = Root::new(folder.path());
            let lock = AgentLock::acquire(&root, agent::ZEDAGENT).unwrap();
            let requests = Publisher::open(&root, agent::ZEDAGENT, Persistence::Volatile, &lock).unwrap();
            Self { _folder: folder, requests, root }
        }

        /// Publishes a request, which is known, and begins to write its file once more. Returns what is known.
        fn half_written(&mut self) -> Vec<Request> {
            self.publish("global", DrainRequester::DeviceOp);
            let known = Inbox::open(&self.root).requests();
            let key = TopicKey::global();
            let path = self.root.item::<NodeDrainRequest>(agent::ZEDAGENT, Persistence::Volatile, &key);
            #[expect(clippy::disallowed_methods, reason = "as a person's echo does")]
            std::fs::write(path, "{\"Requ").unwrap();
            known
        }

        fn publish(&mut self, key: &str, requested_by: DrainRequester) {
            self.publish_for(key, requested_by, "reboot");
        }

        fn publish_for(&mut self, key: &str, requested_by: DrainRequester, context: &str) {
            let item = NodeDrainRequest { requested_by, context: context.into(), requested_at: GoTime::ZERO };
            self.requests.publish(&TopicKey::parse(key).unwrap(), &item).unwrap();
        }
    }

    #[tokio::test]
    async fn only_the_global_key_with_the_folders_own_requester_is_taken() {
        for (key, requester, taken, reason) in [
            ("global", DrainRequester::DeviceOp, 1, None),
            ("global", DrainRequester::Update, 0, Some("RequestedBy is 3 UPDATE; accepted: 2 DEVICEOP")),
            ("global", DrainRequester::Unset, 0, Some("RequestedBy is 0 unset; accepted: 2 DEVICEOP")),
            (
                "other",
                DrainRequester::DeviceOp,
                0,
                Some("the key is not the one that is read; accepted: global.json"),
            ),
        ] {
            let mut bench = Bench::new();
            bench.publish(key, requester);
            let inbox = Inbox::open(&bench.root);
            assert_eq!(inbox.requests().len(), taken, "{key} {requester}");
            let refused = inbox.refused();
            assert_eq!(
                refused.first().map(|refused| refused.reason.starts_with(reason.unwrap_or("?"))),
                reason.map(|_| true)
            );
        }
    }

    #[tokio::test]
    async fn a_refused_request_leaves_the_last_good_one_standing() {
        let mut bench = Bench::new();
        bench.publish("global", DrainRequester::DeviceOp);
        let mut inbox = Inbox::open(&bench.root);
        bench.publish("global", DrainRequester::Update);
        inbox.changed().await;
        assert_eq!((inbox.requests().len(), inbox.refused().len()), (1, 1));
        bench.requests.unpublish(&TopicKey::global()).unwrap();
        inbox.changed().await;
        assert_eq!((inbox.requests().len(), inbox.refused().len()), (0, 0));
    }

    #[tokio::test]
    async fn nodeagent_acts_only_in_its_own_boot() {
        use DeviceActionState::{Acting, Done, Failed, Idle, Taken};
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let mut inbox = Inbox::open(&root);
        assert_eq!(inbox.nodeagent("boot"), NodeAgent::Silent, "no such topic");
        let lock = AgentLock::acquire(&root, agent::NODEAGENT).unwrap();
        let mut actions = Publisher::open(&root, agent::NODEAGENT, Persistence::Volatile, &lock).unwrap();
        for (boot_id, state, expected) in [
            ("boot", Idle, NodeAgent::NotActing),
            ("boot", Taken, NodeAgent::NotActing),
            ("boot", Acting, NodeAgent::Acting(DrainRequester::DeviceOp)),
            ("boot", Failed, NodeAgent::NotActing),
            ("boot", Done, NodeAgent::NotActing),
            ("", Acting, NodeAgent::Silent),
            ("another", Acting, NodeAgent::Silent),
        ] {
            let action = DeviceAction { boot_id: boot_id.to_owned(), state, ..DeviceAction::default() };
            actions.publish(&TopicKey::global(), &action).unwrap();
            inbox.changed().await;
            assert_eq!(inbox.nodeagent("boot"), expected, "{boot_id:?} {state:?}");
        }
        for (boot_id, means, expected) in [
            ("boot", None, false),
            ("boot", Some(vec![]), true),
            ("another", Some(vec![]), false),
            ("boot", Some(vec!["reboot(2)".to_owned()]), false),
        ] {
            let action = DeviceAction { boot_id: boot_id.to_owned(), means, ..DeviceAction::default() };
            actions.publish(&TopicKey::global(), &action).unwrap();
            inbox.changed().await;
            assert_eq!(inbox.has_no_means("boot"), expected, "{action:?}");
        }
    }

    #[tokio::test]
    async fn a_request_half_written_at_the_start_stands_as_it_was_known() {
        let mut bench = Bench::new();
        let known = bench.half_written();
        let mut inbox = Inbox::open(&bench.root);
        assert_eq!(inbox.requests(), [], "the recorded request is not known yet");
        inbox.go_on_from(&known);
        assert_eq!(inbox.requests(), known);
        inbox.changed().await;
        assert_eq!(
            (inbox.requests(), inbox.refused().len()),
            (known.clone(), 1),
            "refused after 2 s, it stands"
        );
        bench.requests.unpublish(&TopicKey::global()).unwrap();
        inbox.changed().await;
        assert_eq!(inbox.requests(), [], "withdrawn");
        // A request whose file is gone at the start was withdrawn, whatever was recorded.
        let mut inbox = Inbox::open(&bench.root);
        inbox.go_on_from(&known);
        assert_eq!(inbox.requests(), []);
    }

    #[tokio::test]
    async fn a_half_written_request_that_is_removed_at_once_is_withdrawn() {
        let mut bench = Bench::new();
        let known = bench.half_written();
        let mut inbox = Inbox::open(&bench.root);
        inbox.go_on_from(&known);
        assert_eq!(inbox.requests(), known);
        bench.requests.unpublish(&TopicKey::global()).unwrap();
        // It was neither an item nor refused yet, so neither items nor refusals change.
        let heard = tokio::time::timeout(Duration::from_secs(5), inbox.changed()).await;
        assert_eq!((heard, inbox.requests()), (Ok(()), vec![]));
    }

    /// A person's request below `/persist` outlasts boots.
    #[tokio::test]
    async fn a_kept_request_counts_instead_of_the_other_one_of_its_publisher() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let key = TopicKey::global();
        let lock = AgentLock::acquire(&root, agent::EBB).unwrap();
        let mut inbox = Inbox::open(&root);
        let mut files = [Persistence::Persistent, Persistence::Volatile]
            .map(|persistence| Publisher::open(&root, agent::EBB, persistence, &lock).unwrap());
        for (file, expected) in [(1, ("1", false)), (0, ("0", true))] {
            let requested_by = DrainRequester::None;
            let item =
                NodeDrainRequest { requested_by, context: file.to_string(), requested_at: GoTime::ZERO };
            files[file].publish(&key, &item).unwrap();
            inbox.changed().await;
            let found = inbox.requests();
            let found: Vec<_> =
                found.iter().map(|request| (request.context.as_str(), request.kept)).collect();
            assert_eq!((found, inbox.may_be_kept()), (vec![expected], false));
        }
        let known = inbox.requests();
        let path = root.item::<NodeDrainRequest>(agent::EBB, Persistence::Persistent, &key);
        for text in ["{", r#"{"RequestedBy": 2}"#] {
            #[expect(clippy::disallowed_methods, reason = "as a person's echo does")]
            std::fs::write(&path, text).unwrap();
            let mut inbox = Inbox::open(&root);
            assert_eq!(
                (inbox.requests()[0].kept, inbox.may_be_kept()),
                (false, true),
                "after a boot: {text}"
            );
            inbox.go_on_from(&known);
            assert_eq!(
                (inbox.requests(), inbox.may_be_kept()),
                (known.clone(), false),
                "after a restart: {text}"
            );
        }
        files[0].unpublish(&key).unwrap();
        assert!(!Inbox::open(&root).may_be_kept());
    }

    #[tokio::test]
    async fn a_long_context_is_cut() {
        for (context, expected) in [
            ("x".repeat(1024), "x".repeat(1024)),
            ("x".repeat(1025), format!("{}…", "x".repeat(1024))),
            ("x".repeat(60_000), format!("{}…", "x".repeat(1024))),
            (format!("{}é", "x".repeat(1023)), format!("{}…", "x".repeat(1023))),
        ] {
            let mut bench = Bench::new();
            bench.publish_for("global", DrainRequester::DeviceOp, &context);
            let inbox = Inbox::open(&bench.root);
            assert_eq!(inbox.requests().first().map(|request| request.context.clone()), Some(expected));
            assert_eq!(inbox.refused(), []);
        }
    }

    #[tokio::test]
    async fn a_request_of_a_mebibyte_is_refused_by_name_and_the_last_good_one_stands() {
        let mut bench = Bench::new();
        bench.publish("global", DrainRequester::DeviceOp);
        let mut inbox = Inbox::open(&bench.root);
        let path =
            bench.root.item::<NodeDrainRequest>(agent::ZEDAGENT, Persistence::Volatile, &TopicKey::global());
        let text = format!("{{\"RequestedBy\":2,\"Context\":\"{}\"}}", "x".repeat(1024 * 1024 - 100));
        #[expect(clippy::disallowed_methods, reason = "as a person's echo does")]
        std::fs::write(&path, text).unwrap();
        inbox.changed().await;
        let requests = inbox.requests();
        assert_eq!(requests.first().map(|request| request.context.as_str()), Some("reboot"));
        let refused = inbox.refused();
        let line = refused.first().unwrap();
        assert_eq!(line.path, path.display().to_string());
        assert_eq!(line.reason, "1048506 bytes; accepted: at most 65536 bytes");
    }

    /// D7.
    #[tokio::test]
    async fn eves_topic_decides_only_when_it_has_been_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        assert_eq!(Inbox::open(&root).eve_config_valid(), None, "no such topic");
        let lock = AgentLock::acquire(&root, agent::ZEDAGENT).unwrap();
        let mut configs = Publisher::open(&root, agent::ZEDAGENT, Persistence::Volatile, &lock).unwrap();
        assert_eq!(Inbox::open(&root).eve_config_valid(), None, "nothing published yet");
        for (initialized, valid, expected) in
            [(false, false, None), (false, true, None), (true, false, Some(false)), (true, true, Some(true))]
        {
            let config = EdgeNodeClusterConfig { initialized, valid, ..EdgeNodeClusterConfig::default() };
            configs.publish(&TopicKey::global(), &config).unwrap();
            assert_eq!(Inbox::open(&root).eve_config_valid(), expected, "{initialized} {valid}");
        }
        let mut inbox = Inbox::open(&root);
        configs.unpublish(&TopicKey::global()).unwrap();
        inbox.changed().await;
        assert_eq!(inbox.eve_config_valid(), Some(false), "it was deleted");
        let path =
            root.item::<EdgeNodeClusterConfig>(agent::ZEDAGENT, Persistence::Volatile, &TopicKey::global());
        #[expect(clippy::disallowed_methods, reason = "a broken file is what is wanted")]
        std::fs::write(path, "{").unwrap();
        assert_eq!(Inbox::open(&root).eve_config_valid(), None, "it cannot be read");
    }
}
