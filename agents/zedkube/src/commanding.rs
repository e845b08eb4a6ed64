//! Commands of source `cluster`: takes them from the annotations of our Node, publishes them for device-op, for baseos
//! and for our own drains, and answers on the Node.
//!
//! Nothing is queued: the files follow from what stands on the Node now, and the answer from what those three say
//! now. device-op and baseos keep the counters, so a text that was carried out is not carried out again. The one thing
//! that is kept here is which commands the Node was seen without (topic UncommandedNode).

mod answering;
mod decide;
mod files;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use cluster::NodeFacts;
use cluster::node_commands::{CommandAnswer, NodeCommand};
use drain::Moment;
use pubsub::{
    MAX_FILE_BYTES, Owner, PathWatch, Persistence, PublishError, Root, Subscription, TopicKey, read_checked,
};
use runtime::{AgentContext, clock, error_chain};
use schemas::{
    BaseOsConfig, BaseOsHold, DeviceAction, DeviceOpStatus, DeviceOpsCmd, GoTime, ImageLine,
    NodeDrainRequest, Operation, SCHEMA_VERSION, Source, UncommandedNode, agent, parse,
};
use session::Phase;

use crate::link::Link;
use crate::membership::Kept;
use answering::Answering;
pub(crate) use decide::OwnRequest;
use decide::{Device, Known, OperationFiles, Standing, Taker, operation};
use files::{Files, standing};

/// How often the files are looked at although nothing has happened: somebody may have removed one, or the disk may have
/// refused one.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// The commands of the cluster, and their answers.
#[derive(Debug)]
pub(crate) struct Commanding {
    context: AgentContext,
    operations: Files<DeviceOpsCmd>,
    images: Files<BaseOsConfig>,
    requests: Files<NodeDrainRequest>,
    /// Opened when it is first asked for, which is after the first status: a slow disk must not keep that back.
    uncommanded: Option<Kept<UncommandedNode>>,
    /// What is stored in `uncommanded`, or would be if the disk took it.
    seen_without: UncommandedNode,
    /// The counters that device-op had recorded when they were last read.
    recorded: BTreeMap<NodeCommand, u32>,
    /// Whether the counter of each command was recorded already when its file was published, or first seen.
    repeated: BTreeMap<NodeCommand, bool>,
    takers: Option<Takers>,
    answering: Answering,
    /// The answer that was worked out last.
    last: Option<CommandAnswer>,
    /// The commands that stand, the one that came last at the end.
    came: Vec<(NodeCommand, u32)>,
    /// The last error about our files, so that the log has it once.
    trouble: Option<String>,
    /// What the files and the answer follow from, as it was looked at last.
    looked_at: Option<Around>,
    /// device-op or baseos has said something since.
    has_heard: bool,
    /// When to look again although nothing has happened.
    again: Moment,
}

/// What device-op and baseos say; followed only while commands of the cluster count.
#[derive(Debug)]
struct Takers {
    device_op: Subscription<DeviceOpStatus>,
    counters: PathWatch,
    baseos: Subscription<BaseOsHold>,
}

/// What the rest of zedkube knows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Around {
    /// Setting `commands.from-cluster`.
    pub(crate) is_on: bool,
    /// Our Node, as its watch shows it; `None` if that does not show it.
    pub(crate) node: Option<NodeFacts>,
    /// Phase of the drain.
    pub(crate) phase: Phase,
    /// The request that we have published, if the drain knows it.
    pub(crate) request: Option<OwnRequest>,
    /// What nodeagent says in this boot.
    pub(crate) action: Option<DeviceAction>,
}

impl Commanding {
    /// Nothing is read or published yet. Has to be called in a tokio runtime.
    pub(crate) fn new(context: &AgentContext, link: Link) -> Self {
        Self {
            context: context.clone(),
            operations: Files::new(context),
            images: Files::new(context),
            requests: Files::new(context),
            uncommanded: None,
            seen_without: UncommandedNode::default(),
            recorded: BTreeMap::new(),
            repeated: BTreeMap::new(),
            takers: None,
            answering: Answering::start(link),
            last: None,
            came: Vec::new(),
            trouble: None,
            looked_at: None,
            has_heard: false,
            again: Moment(0),
        }
    }

    /// Waits until device-op or baseos says something new. Cancel-safe.
    pub(crate) async fn changed(&mut self) {
        match &mut self.takers {
            None => std::future::pending().await,
            Some(Takers { device_op, counters, baseos }) => tokio::select! {
                () = device_op.changed() => {}
                () = counters.changed() => {}
                () = baseos.changed() => {}
            },
        }
        self.has_heard = true;
    }

    /// Brings the files, and the answer on the Node, up to date if the Node, the setting, the drain, nodeagent,
    /// device-op or baseos says something else than before. Returns when this has to be called again.
    pub(crate) fn turn(&mut self, around: Around, now: Moment) -> Moment {
        let is_news = std::mem::take(&mut self.has_heard) || self.looked_at.as_ref() != Some(&around);
        if is_news || self.again <= now {
            self.again = self.look(&around, now);
            self.looked_at = Some(around);
        }
        self.again
    }

    fn look(&mut self, around: &Around, now: Moment) -> Moment {
        self.follow_takers(around.is_on);
        if around.is_on {
            self.read_recorded();
        }
        let (noted, commanded) = (self.note_uncommanded(around), self.command(around));
        let trouble = noted.and(commanded).err().map(|error| error_chain(&error));
        if let Some(text) = trouble.as_ref().filter(|text| self.trouble.as_ref() != Some(text)) {
            tracing::error!("the commands of the cluster cannot be published: {text}");
        }
        let files_at = if around.is_on || trouble.is_some() { now + LOOK_AGAIN } else { Moment::NEVER };
        self.trouble = trouble;
        let Some(node) = &around.node else {
            self.answering.forget();
            return files_at;
        };
        self.answer(node, around, now).min(files_at)
    }

    fn follow_takers(&mut self, is_on: bool) {
        let (root, volatile) = (self.context.root(), Persistence::Volatile);
        if !is_on {
            self.takers = None;
        } else if self.takers.is_none() {
            let counters = NodeCommand::ALL.into_iter().filter_map(operation);
            self.takers = Some(Takers {
                device_op: Subscription::open(root, agent::ZEDAGENT, volatile),
                counters: PathWatch::new(counters.map(|operation| root.join(counter_file(operation)))),
                baseos: Subscription::open(root, agent::BASEOSMGR, volatile),
            });
        }
    }

    fn read_recorded(&mut self) {
        let of = |command| Some((command, recorded(self.context.root(), operation(command)?)?));
        self.recorded = NodeCommand::ALL.into_iter().filter_map(of).collect();
    }

    /// True if a drain that stands on our Node counts, because this Node was seen without one before. Reads that at the
    /// first call, if commands of the cluster count at all.
    pub(crate) fn obeys_drains(&mut self, is_on: bool) -> bool {
        is_on && self.recall().is_ok() && self.seen_without.commands.contains(NodeCommand::Drain.name())
    }

    /// What is kept of the commands that our Node was seen without; read at the first call.
    fn recall(&mut self) -> Result<&mut Kept<UncommandedNode>, PublishError> {
        let kept = if let Some(kept) = self.uncommanded.take() {
            kept
        } else {
            let kept: Kept<UncommandedNode> = Kept::open(&self.context)?;
            self.seen_without = kept.get().cloned().unwrap_or_default();
            kept
        };
        Ok(self.uncommanded.insert(kept))
    }

    /// Notes which commands our Node is seen without. While commands do not count nothing is noted, and what was is
    /// forgotten: a text that was written meanwhile must not become a command when the setting changes.
    fn note_uncommanded(&mut self, around: &Around) -> Result<(), PublishError> {
        let root = self.context.root();
        let has_noted = || {
            root.item::<UncommandedNode>(agent::ZEDKUBE, Persistence::Persistent, &TopicKey::global())
                .exists()
        };
        let Some(node) = around.node.as_ref().filter(|_| around.is_on || has_noted()) else { return Ok(()) };
        self.recall()?;
        let seen_without = if around.is_on { self.seen_now(node) } else { UncommandedNode::default() };
        self.seen_without = seen_without.clone();
        let kept = self.recall()?;
        if !around.is_on {
            kept.unpublish()
        } else if kept.get() == Some(&seen_without) {
            Ok(())
        } else {
            kept.publish(&seen_without)
        }
    }

    /// What this Node was seen without until now.
    fn seen_now(&self, node: &NodeFacts) -> UncommandedNode {
        let uid = &node.view.uid;
        let is_bare = |command: &NodeCommand| node.commands.of_kind(*command).is_none();
        let bare = NodeCommand::ALL.into_iter().filter(is_bare).map(|command| command.name().to_owned());
        let known = self.seen_without.commands.iter().filter(|_| self.seen_without.node_uid == *uid);
        let commands = known.cloned().chain(bare).collect();
        UncommandedNode { schema_version: SCHEMA_VERSION, node_uid: uid.clone(), commands }
    }

    /// Publishes what follows from the Node's annotations.
    fn command(&mut self, around: &Around) -> Result<(), PublishError> {
        let is_seen = around.is_on && around.node.is_some();
        if self.operations.open(is_seen)? {
            for command in NodeCommand::ALL {
                if let Some(operation) = operation(command) {
                    self.command_operation(command, operation, around)?;
                }
            }
        }
        let node = around.node.as_ref().filter(|_| around.is_on);
        let is_given = |command| node.is_some_and(|node| node.commands.of_kind(command).is_some());
        let is_of_cluster = |line: &ImageLine| line.source == Source::Cluster;
        let is_held = self.hold().is_some_and(|hold| hold.images.iter().any(is_of_cluster));
        if self.images.open(is_given(NodeCommand::Update) || is_held)? {
            let update = self.known(NodeCommand::Update, around);
            let images = decide::images(&update, self.images.all(), self.hold());
            self.images.configure(&images)?;
        }
        if self.requests.open(is_given(NodeCommand::Drain))? {
            let present = self.requests.get(&TopicKey::global()).map(|request| request.context.clone());
            let text = decide::request(&self.known(NodeCommand::Drain, around), present.as_deref());
            self.requests.request(text)?;
        }
        Ok(())
    }

    fn command_operation(
        &mut self,
        command: NodeCommand,
        operation: Operation,
        around: &Around,
    ) -> Result<(), PublishError> {
        let (known, files) = (self.known(command, around), self.files_of(command, operation));
        let file = decide::file(&known, files);
        if file != files.file || !self.repeated.contains_key(&command) {
            let is_repeated = |file: Standing| file.is_wanted && files.recorded == Some(file.counter);
            self.repeated.insert(command, file.is_some_and(is_repeated));
        }
        let text = known.text().unwrap_or_default();
        file.map_or(Ok(()), |file| self.operations.command(operation, file, text))
    }

    /// Works the answer out, and has it written if the Node shows another one.
    fn answer(&mut self, node: &NodeFacts, around: &Around, now: Moment) -> Moment {
        let shown = node.commands.answer();
        let last = self.last.take().or_else(|| shown.clone());
        let device = Device { action: around.action.as_ref(), phase: &around.phase, last: last.as_ref() };
        let answers = NodeCommand::ALL.map(|command| {
            decide::answer(&self.known(command, around), &self.taker(command, around), &device)
        });
        self.came = decide::in_order(&self.came, &node.commands.given, last.as_ref());
        let answer = decide::shown(answers.into_iter().flatten(), &self.came).map(|answer| {
            let same = last.as_ref().filter(|last| answer.tells_the_same(last));
            let since = same.map(|last| last.since.clone());
            let since = since.unwrap_or_else(|| GoTime::from(clock::wall()).to_string());
            CommandAnswer { since, ..answer }
        });
        self.last.clone_from(&answer);
        self.answering.answer(&node.view, node.commands.state.is_some(), shown.as_ref(), answer, now)
    }

    /// What is known of one command.
    fn known<'a>(&self, command: NodeCommand, around: &'a Around) -> Known<'a> {
        let of_node =
            |node: &'a NodeFacts| (command.counter(&node.view.uid, ""), node.commands.of_kind(command));
        Known {
            command,
            is_on: around.is_on,
            node: around.node.as_ref().map(of_node),
            is_seen_without: self.seen_without.commands.contains(command.name()),
        }
    }

    /// Who carries a command out, with what they say in this boot.
    fn taker<'a>(&'a self, command: NodeCommand, around: &'a Around) -> Taker<'a> {
        let (takers, key) = (self.takers.as_ref(), TopicKey::global());
        let boot_id = self.context.boot_id();
        let of_device_op = |operation| {
            let status = takers.and_then(|takers| takers.device_op.get(&key));
            let status = status.filter(|status| status.boot_id == boot_id);
            Taker::DeviceOp(operation, self.files_of(command, operation), status)
        };
        match command {
            NodeCommand::Reboot => of_device_op(Operation::Reboot),
            NodeCommand::Shutdown => of_device_op(Operation::Shutdown),
            NodeCommand::Update => Taker::Baseos(self.hold()),
            NodeCommand::Drain => Taker::Drain(around.request.as_ref()),
        }
    }

    /// What baseos says in this boot.
    fn hold(&self) -> Option<&BaseOsHold> {
        let hold = self.takers.as_ref()?.baseos.get(&TopicKey::global());
        hold.filter(|hold| hold.boot_id == self.context.boot_id())
    }

    fn files_of(&self, command: NodeCommand, operation: Operation) -> OperationFiles {
        OperationFiles {
            file: self.operations.get(&TopicKey::of_operation(operation)).map(standing),
            recorded: self.recorded.get(&command).copied(),
            is_repeated: self.repeated.get(&command).is_some_and(|is_repeated| *is_repeated),
        }
    }
}

fn counter_file(operation: Operation) -> std::path::PathBuf {
    Path::new(Source::Cluster.counter_folder()).join(operation.counter_file())
}

/// The counter that device-op has recorded; `None` if there is none, or if its file cannot be read.
fn recorded(root: &Root, operation: Operation) -> Option<u32> {
    let bytes =
        read_checked(&root.join(counter_file(operation)), MAX_FILE_BYTES, Owner::RootOrSelf).ok()??;
    Some(parse::<DeviceOpsCmd>(&bytes).ok()?.counter)
}
