//! Commands of source `cluster`: takes them from the annotations of our Node, publishes them for device-op, and answers
//! on the Node.
//!
//! Nothing is queued: with each turn of the loop the command files follow from what stands on the Node now, and the answer
//! from what device-op says now. device-op alone keeps the counters, so a text that was carried out is not carried out
//! again. The one thing that is kept here is which commands the Node was seen without (topic UncommandedNode).

mod answering;
mod decide;

use std::collections::BTreeSet;
use std::path::Path;

use cluster::NodeFacts;
use cluster::node_commands::{CommandAnswer, NodeCommand, NodeCommands};
use drain::Moment;
use pubsub::{
    MAX_FILE_BYTES, Owner, PathWatch, Persistence, PublishError, Publisher, Root, Subscription, TopicKey,
    read_checked,
};
use runtime::{AgentContext, clock, error_chain};
use schemas::{
    DeviceAction, DeviceOpStatus, DeviceOpsCmd, GoTime, Operation, SCHEMA_VERSION, Source, UncommandedNode,
    agent, parse,
};
use session::Phase;

use crate::link::Link;
use crate::membership::Kept;
use answering::Answering;
use decide::{Device, Known, Standing};

/// The commands of the cluster, and their answers.
#[derive(Debug)]
pub(crate) struct Commanding {
    context: AgentContext,
    /// Opened when there is something to publish or to take back.
    files: Option<Publisher<DeviceOpsCmd>>,
    /// Opened when our Node is first seen: a slow disk must not keep zedkube from publishing its first status.
    uncommanded: Option<Kept<UncommandedNode>>,
    /// The counters that device-op had recorded when this turn began.
    recorded: [Option<u32>; 2],
    /// The commands whose counter was recorded already when their file was published.
    repeated: BTreeSet<NodeCommand>,
    /// What is stored in `uncommanded`, or would be if the disk took it.
    seen_without: UncommandedNode,
    device_op: Option<DeviceOp>,
    answering: Answering,
    /// The answer that was worked out last.
    last: Option<CommandAnswer>,
    /// The commands that stand, the one that came last at the end.
    came: Vec<(NodeCommand, u32)>,
    /// The last error about our files, so that the log has it once.
    trouble: Option<String>,
}

/// What device-op says; followed only while commands of the cluster count.
#[derive(Debug)]
struct DeviceOp {
    status: Subscription<DeviceOpStatus>,
    counters: PathWatch,
}

/// What the rest of zedkube knows, for one turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around<'a> {
    /// Setting `commands.from-cluster`.
    pub(crate) is_on: bool,
    /// Our Node, as its watch shows it; `None` if that does not show it.
    pub(crate) node: Option<&'a NodeFacts>,
    /// Phase of the drain.
    pub(crate) phase: &'a Phase,
    /// What nodeagent says in this boot.
    pub(crate) action: Option<&'a DeviceAction>,
}

impl Commanding {
    /// Nothing is read or published yet. Has to be called in a tokio runtime.
    pub(crate) fn new(context: &AgentContext, link: Link) -> Self {
        Self {
            context: context.clone(),
            files: None,
            uncommanded: None,
            recorded: [None; 2],
            repeated: BTreeSet::new(),
            seen_without: UncommandedNode::default(),
            device_op: None,
            answering: Answering::start(link),
            last: None,
            came: Vec::new(),
            trouble: None,
        }
    }

    /// Waits until device-op says something new. Cancel-safe.
    pub(crate) async fn changed(&mut self) {
        match &mut self.device_op {
            None => std::future::pending().await,
            Some(DeviceOp { status, counters }) => tokio::select! {
                () = status.changed() => {}
                () = counters.changed() => {}
            },
        }
    }

    /// Brings the command files, and the answer on the Node, up to date. Returns when that has to be repeated.
    pub(crate) fn turn(&mut self, around: &Around<'_>, now: Moment) -> Moment {
        self.follow_device_op(around.is_on);
        if around.is_on {
            self.recorded = OPERATIONS.map(|operation| recorded(self.context.root(), operation));
        }
        let noted = self.note_uncommanded(around);
        let commanded = self.command(around);
        let trouble = noted.and(commanded).err().map(|error| error_chain(&error));
        if let Some(text) = trouble.as_ref().filter(|text| self.trouble.as_ref() != Some(text)) {
            tracing::error!("the commands of the cluster cannot be published: {text}");
        }
        self.trouble = trouble;
        around.node.map_or(Moment::NEVER, |node| self.answer(node, around, now))
    }

    fn follow_device_op(&mut self, is_on: bool) {
        let root = self.context.root();
        if !is_on {
            self.device_op = None;
        } else if self.device_op.is_none() {
            self.device_op = Some(DeviceOp {
                status: Subscription::open(root, agent::ZEDAGENT, Persistence::Volatile),
                counters: PathWatch::new(OPERATIONS.map(|operation| root.join(counter_file(operation)))),
            });
        }
    }

    /// Notes which commands our Node is seen without. While commands do not count nothing is noted, and what was is
    /// forgotten: a text that was written meanwhile must not become a command when the setting changes.
    fn note_uncommanded(&mut self, around: &Around<'_>) -> Result<(), PublishError> {
        let root = self.context.root();
        let has_noted = || {
            root.item::<UncommandedNode>(agent::ZEDKUBE, Persistence::Persistent, &TopicKey::global())
                .exists()
        };
        let Some(node) = around.node.filter(|_| around.is_on || has_noted()) else { return Ok(()) };
        if self.uncommanded.is_none() {
            let kept: Kept<UncommandedNode> = Kept::open(&self.context)?;
            self.seen_without = kept.get().cloned().unwrap_or_default();
            self.uncommanded = Some(kept);
        }
        let Some(kept) = &mut self.uncommanded else { return Ok(()) };
        if !around.is_on {
            self.seen_without = UncommandedNode::default();
            return kept.unpublish();
        }
        let uid = &node.view.uid;
        let is_bare =
            |command: &NodeCommand| node.commands.given.iter().all(|given| given.command != *command);
        let bare = NodeCommand::ALL.into_iter().filter(is_bare).map(|command| command.name().to_owned());
        let known = if self.seen_without.node_uid == *uid {
            self.seen_without.commands.clone()
        } else {
            BTreeSet::new()
        };
        let commands = known.into_iter().chain(bare).collect();
        self.seen_without =
            UncommandedNode { schema_version: SCHEMA_VERSION, node_uid: uid.clone(), commands };
        if kept.get() != Some(&self.seen_without) {
            kept.publish(&self.seen_without)?;
        }
        Ok(())
    }

    /// Publishes the commands that follow from the Node's annotations.
    fn command(&mut self, around: &Around<'_>) -> Result<(), PublishError> {
        let has_files =
            || self.context.root().folder::<DeviceOpsCmd>(agent::ZEDKUBE, Persistence::Volatile).is_dir();
        if self.files.is_none() && !around.is_on && !has_files() {
            return Ok(());
        }
        for command in NodeCommand::ALL {
            let known = self.known(command, around);
            let file = decide::file(&known);
            if file != known.file {
                self.repeated.remove(&command);
                // After a boot there is no file before this one, and the command may wait, or be done by that boot.
                let is_repeated = |file: &Standing| {
                    file.is_wanted && known.file.is_some() && known.recorded == Some(file.counter)
                };
                self.repeated.extend(file.filter(is_repeated).map(|_| command));
            }
            self.publish(known.operation, file)?;
        }
        Ok(())
    }

    fn publish(&mut self, operation: Operation, file: Option<Standing>) -> Result<(), PublishError> {
        let Some(Standing { counter, is_wanted }) = file else { return Ok(()) };
        let Ok(key) = TopicKey::parse(operation.name()) else { return Ok(()) };
        let files = self.opened()?;
        let before = files.get(&key).filter(|file| standing(file) == Standing { counter, is_wanted });
        let ops_time =
            before.map_or_else(|| GoTime::from(clock::wall()).to_string(), |file| file.ops_time.clone());
        if before.is_none() {
            let what = if is_wanted { "is given" } else { "does not stand" };
            tracing::info!("DeviceOpsCmd: {operation} {counter} of {} {what}", Source::Cluster);
        }
        let file = DeviceOpsCmd { counter, desired_state: is_wanted, ops_time, ..DeviceOpsCmd::default() };
        files.publish(&key, &file).map(|_| ())
    }

    fn opened(&mut self) -> Result<&mut Publisher<DeviceOpsCmd>, PublishError> {
        let (root, lock) = (self.context.root(), self.context.lock());
        let open = || Publisher::open(root, agent::ZEDKUBE, Persistence::Volatile, lock)?.served();
        let files = self.files.take().map_or_else(open, Ok)?;
        Ok(self.files.insert(files))
    }

    /// Works the answer out, and has it written if the Node shows another one.
    fn answer(&mut self, node: &NodeFacts, around: &Around<'_>, now: Moment) -> Moment {
        let shown = node.commands.answer();
        let last = self.last.take().or_else(|| shown.clone());
        let status = self.device_op.as_ref().and_then(|device_op| device_op.status.get(&TopicKey::global()));
        let device = Device {
            status: status.filter(|status| status.boot_id == self.context.boot_id()),
            action: around.action,
            phase: around.phase,
            last: last.as_ref(),
        };
        let answers = NodeCommand::ALL.map(|command| decide::answer(&self.known(command, around), &device));
        self.came = decide::in_order(&self.came, &node.commands.given, last.as_ref());
        let answer = decide::shown(answers.into_iter().flatten(), &self.came).map(|progress| {
            let is_same = |last: &&CommandAnswer| progress.is_same(last);
            let since = last.as_ref().filter(is_same).map(|last| last.since.clone());
            progress.dated(since.unwrap_or_else(|| GoTime::from(clock::wall()).to_string()))
        });
        self.last.clone_from(&answer);
        self.answering.answer(&node.view, node.commands.state.is_some(), shown.as_ref(), answer, now)
    }

    /// What is known of one command.
    fn known<'a>(&self, command: NodeCommand, around: &Around<'a>) -> Known<'a> {
        let operation = operation(command);
        let of_node = |node: &'a NodeFacts| {
            let NodeCommands { given, .. } = &node.commands;
            (command.counter(&node.view.uid, ""), given.iter().find(|given| given.command == command))
        };
        let key = TopicKey::parse(operation.name()).ok();
        let file = key.and_then(|key| self.files.as_ref()?.get(&key));
        let recorded = OPERATIONS.iter().zip(self.recorded).find(|(other, _)| **other == operation);
        Known {
            command,
            operation,
            is_on: around.is_on,
            node: around.node.map(of_node),
            is_seen_without: self.seen_without.commands.contains(command.name()),
            file: file.map(standing),
            recorded: recorded.and_then(|(_, counter)| counter),
            is_repeated: self.repeated.contains(&command),
        }
    }
}

/// The operations that the cluster can command.
const OPERATIONS: [Operation; 2] = [Operation::Reboot, Operation::Shutdown];

const fn operation(command: NodeCommand) -> Operation {
    match command {
        NodeCommand::Reboot => Operation::Reboot,
        NodeCommand::Shutdown => Operation::Shutdown,
    }
}

const fn standing(file: &DeviceOpsCmd) -> Standing {
    Standing { counter: file.counter, is_wanted: file.desired_state }
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
