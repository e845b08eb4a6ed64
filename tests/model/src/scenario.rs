//! Scenarios: the orders, the possible deviations, and the limits, which are small so that time need not move far.

use std::collections::BTreeSet;
use std::time::Duration;

use runtime::settings::Retry;
use schemas::DrainOrder;
use schemas::{Operation, Source};
use session::Policy;

/// An action of a person or of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// Gives a command with the next counter.
    Command(Operation),
    /// Withdraws a command (`DesiredState` false).
    TakeBack(Operation),
    /// Withdraws a command by removing its item.
    Remove(Operation),
    /// A person on the device gives a command, with the next counter of a person's.
    PersonCommands(Operation),
    /// A person on the device withdraws that command.
    PersonTakesBack(Operation),
    /// The controller wants the new image.
    Activate,
    /// The controller does not want the image any more.
    Revert,
    /// The controller wants the image and another try: a new `RetryUpdateCounter`.
    Retry,
    /// An operator writes an override file.
    Override(Word),
    /// A person runs `kubectl cordon`.
    CordonByHand,
    /// A person runs `kubectl uncordon`.
    UncordonByHand,
}

impl Order {
    /// Source of the command, if the order is one.
    pub const fn source(self) -> Source {
        match self {
            Self::PersonCommands(_) | Self::PersonTakesBack(_) => Source::Person,
            Self::Command(_)
            | Self::TakeBack(_)
            | Self::Remove(_)
            | Self::Activate
            | Self::Revert
            | Self::Retry
            | Self::Override(_)
            | Self::CordonByHand
            | Self::UncordonByHand => Source::Controller,
        }
    }
}

/// The override files that are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Word {
    /// COMPLETE for device-op.
    ForDeviceOp,
    /// COMPLETE for all requesters.
    ForAll,
    /// Drains are switched off.
    Disable,
    /// Drains are switched on again.
    Enable,
}

impl Word {
    /// The order as zedkube reads it.
    pub const fn command(self) -> DrainOrder {
        match self {
            Self::ForDeviceOp => DrainOrder::Complete(schemas::DrainRequester::DeviceOp),
            Self::ForAll => DrainOrder::Complete(schemas::DrainRequester::None),
            Self::Disable => DrainOrder::Disable,
            Self::Enable => DrainOrder::Enable,
        }
    }
}

/// A kind of deviation from a machine without faults and delays. Each deviation costs one of [`Scenario::deviations`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Another party goes first: an agent, the server, or time.
    Turn,
    /// An agent is killed between two effects, and starts again at once.
    Crash,
    /// An agent is killed and does not start again for longer than `drain.start.timeout`.
    LongCrash,
    /// An effect of an agent fails.
    WriteFails,
    /// The device loses power.
    PowerCut,
    /// A call hangs for some seconds.
    Late,
    /// A call is carried out, but its answer is lost.
    Lost,
    /// The server refuses a call.
    Refused,
    /// A call is carried out although its agent is dead or has given it up.
    Stray,
    /// The API server does not answer for some seconds.
    Outage,
    /// The API server does not answer for longer than `drain.skip.k8sapinotreachable.timeout`.
    LongOutage,
    /// A scheduler with a stale cache binds a pod to our node.
    PodReturns,
    /// The other node takes a free slot for some seconds.
    PeerTakesSlot,
    /// The other node cannot take pods for longer than the peer window.
    PeerDown,
    /// The device has no reboot method that works.
    MeansFail,
    /// The activate command fails.
    ActivationFails,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 16] = [
        Self::Turn,
        Self::Crash,
        Self::LongCrash,
        Self::WriteFails,
        Self::PowerCut,
        Self::Late,
        Self::Lost,
        Self::Refused,
        Self::Stray,
        Self::Outage,
        Self::LongOutage,
        Self::PodReturns,
        Self::PeerTakesSlot,
        Self::PeerDown,
        Self::MeansFail,
        Self::ActivationFails,
    ];
}

/// A defect that is built in on purpose, to prove that the search finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// The gate takes the answer to an earlier request for the answer to this one.
    AnswerToAnyRequest,
    /// nodeagent goes on with an accepted command without checking whether it was withdrawn.
    NodeAgentDoesNotLookAgain,
    /// nodeagent goes on with the command of an agent that is dead and cannot withdraw it.
    NodeAgentBelievesTheDead,
    /// zedkube does not see pods that come back after its COMPLETE.
    NoSnapshots,
    /// zedkube does not lift its cordon.
    NoUncordon,
    /// zedkube lifts every cordon, whoever set it.
    UncordonsAll,
    /// device-op's files on `/persist` do not survive a boot.
    PersistIsLost,
    /// The absence of zedkube is not reset for a new request.
    AbsenceGoesOn,
    /// zedkube does not see that a request is withdrawn.
    DeafToWithdrawal,
    /// zedkube does not see requests at all.
    DeafToRequests,
    /// zedkube sees no pods on any node.
    BlindToPods,
    /// zedkube does not give its slot back.
    NoGiveBack,
    /// zedkube believes to have a slot once it has asked for it.
    ImaginedSlots,
    /// zedkube forgets the other holders of slots whenever it starts.
    ForgetsHolders,
    /// nodeagent does not see that an image is being activated.
    BlindToActivation,
    /// An activate command is not visible any more once its baseos is dead.
    NoActivationLock,
    /// nodeagent's hooks never end.
    EndlessHooks,
}

/// Limits of the shells that are not part of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `drain.start.timeout`.
    pub start_timeout_ms: u64,
    /// `device-op.retry` and `baseos.retry`.
    pub retry: Retry,
    /// Duration of a hanging call, a short outage, or a slot of the other node.
    pub short_ms: u64,
    /// Duration of a long outage, a long crash, or a peer that is down.
    pub long_ms: u64,
}

/// One scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub struct Scenario {
    /// Name of the scenario.
    pub name: &'static str,
    /// The orders, each given once everything has come to rest after the previous one.
    pub script: Vec<Order>,
    /// Orders that may be given at any time; each costs a deviation.
    pub orders: Vec<Order>,
    /// The kinds of deviations that may happen.
    pub kinds: BTreeSet<Kind>,
    /// The number of deviations in one run.
    pub deviations: u8,
    /// Number of pods on our node at the start.
    pub pods: usize,
    /// How long the other node has a slot, from the start.
    pub peer_holds_ms: u64,
    /// There are `device.pre` hooks.
    pub has_hooks: bool,
    /// After a boot the controller publishes again what it published before.
    pub republishes: bool,
    /// `/run` survives a boot.
    pub keeps_run: bool,
    /// zedkube's limits.
    pub policy: Policy,
    /// All other limits.
    pub limits: Limits,
    /// A defect that is built in.
    pub mutation: Option<Mutation>,
    /// Steps are counted as part of the state, so that no state appears twice: for random walks, which end where a
    /// state appears again.
    pub counts_steps: bool,
}

impl Scenario {
    /// A scenario with these orders and without deviations.
    pub fn new(name: &'static str, script: &[Order]) -> Self {
        Self {
            name,
            script: script.to_vec(),
            orders: Vec::new(),
            kinds: BTreeSet::new(),
            deviations: 0,
            pods: 1,
            peer_holds_ms: 0,
            has_hooks: false,
            republishes: false,
            keeps_run: false,
            policy: policy(),
            limits: Limits {
                start_timeout_ms: 4_000,
                retry: Retry::After(Duration::from_secs(8)),
                short_ms: 3_000,
                long_ms: 14_000,
            },
            mutation: None,
            counts_steps: false,
        }
    }

    /// Allows this number of deviations of these kinds.
    #[must_use]
    pub fn with(mut self, deviations: u8, kinds: &[Kind]) -> Self {
        self.deviations = deviations;
        self.kinds = kinds.iter().copied().collect();
        self
    }

    /// Allows these orders at any time.
    #[must_use]
    pub fn orders(mut self, orders: &[Order]) -> Self {
        self.orders = orders.to_vec();
        self
    }

    /// Builds this defect in.
    #[must_use]
    pub fn broken(mut self, mutation: Mutation) -> Self {
        self.mutation = Some(mutation);
        self
    }
}

/// The default policy of a device, with limits of seconds.
fn policy() -> Policy {
    let seconds = Duration::from_secs;
    Policy {
        drain: drain::Policy {
            retry: seconds(4),
            attempt_timeout: seconds(60),
            freeze_limit: seconds(30),
            ..drain::Policy::device()
        },
        attempts: 3,
        retry_pause: seconds(6),
        cordon_tries: 3,
        cordon_pause: seconds(2),
        unreachable_timeout: seconds(10),
        peer_window: seconds(4),
        down_max: seconds(8),
        wait_limit: Some(seconds(120)),
        force_ttl: seconds(15),
        ..Policy::device()
    }
}
