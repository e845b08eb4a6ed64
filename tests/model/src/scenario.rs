//! What is tried: who commands what, what may go differently, and the limits, small so that time need not go far.

use std::collections::BTreeSet;
use std::time::Duration;

use runtime::settings::Retry;
use schemas::DrainOrder;
use schemas::{Operation, Source};
use session::Policy;

/// What a person, or a controller, does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// Gives a command with the next counter.
    Command(Operation),
    /// Takes it back (`DesiredState` false).
    TakeBack(Operation),
    /// Takes it back by removing its item.
    Remove(Operation),
    /// A person on the device gives a command, with the next counter of a person's.
    PersonCommands(Operation),
    /// And takes it back.
    PersonTakesBack(Operation),
    /// Wants the new image.
    Activate,
    /// Does not want it any more.
    Revert,
    /// Wants it, and another try: a new `RetryUpdateCounter`.
    Retry,
    /// Writes an override file.
    Override(Word),
    /// `kubectl cordon`.
    CordonByHand,
    /// `kubectl uncordon`.
    UncordonByHand,
}

impl Order {
    /// Who gives it, of a command.
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
    /// COMPLETE for everybody.
    ForAll,
    /// No drains.
    Disable,
    /// Drains again.
    Enable,
}

impl Word {
    /// As zedkube reads it.
    pub const fn command(self) -> DrainOrder {
        match self {
            Self::ForDeviceOp => DrainOrder::Complete(schemas::DrainRequester::DeviceOp),
            Self::ForAll => DrainOrder::Complete(schemas::DrainRequester::None),
            Self::Disable => DrainOrder::Disable,
            Self::Enable => DrainOrder::Enable,
        }
    }
}

/// What may go differently from how a prompt and lucky machine does it. Each time costs one of
/// [`Scenario::deviations`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Somebody else goes first: another agent, the server, or time.
    Turn,
    /// An agent is killed between two effects, and comes back at once.
    Crash,
    /// The same, and it stays away for longer than `drain.start.timeout`.
    LongCrash,
    /// An effect of an agent fails.
    WriteFails,
    /// The device loses power.
    PowerCut,
    /// A call hangs for some seconds.
    Late,
    /// A call is served, but its answer is lost.
    Lost,
    /// The server refuses a call.
    Refused,
    /// A call of an agent that is dead, or has given it up, is served all the same.
    Stray,
    /// The API server is away for some seconds.
    Outage,
    /// The same, for longer than `drain.skip.k8sapinotreachable.timeout`.
    LongOutage,
    /// A scheduler with a stale cache binds a pod to our node.
    PodReturns,
    /// The other node takes a free slot for some seconds.
    PeerTakesSlot,
    /// The other node cannot take pods for longer than the peer window.
    PeerDown,
    /// The device has no means that works.
    MeansFail,
    /// The activate command fails.
    ActivationFails,
}

impl Kind {
    /// All of them.
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

/// A mistake that is built in on purpose, to see that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// The gate takes an answer to an earlier request for one to this.
    AnswerToAnyRequest,
    /// nodeagent goes on with what it has taken, without looking whether it still stands.
    NodeAgentDoesNotLookAgain,
    /// nodeagent goes on with the command of an agent that is dead and cannot take it back.
    NodeAgentBelievesTheDead,
    /// zedkube does not see pods that come back once it has said COMPLETE.
    NoPictures,
    /// zedkube forgets to take its cordon back.
    NoUncordon,
    /// zedkube uncordons whoever has cordoned.
    UncordonsAll,
    /// What device-op keeps does not survive a boot.
    PersistIsLost,
    /// The absence of zedkube counts on for a new request.
    AbsenceGoesOn,
    /// zedkube never hears of a request that is withdrawn.
    DeafToWithdrawal,
    /// zedkube never hears of a request at all.
    DeafToRequests,
    /// zedkube sees no pods on any node.
    BlindToPods,
    /// zedkube forgets to give its slot back.
    NoGiveBack,
    /// zedkube takes its slot for granted once it has asked for it.
    ImaginedSlots,
    /// zedkube forgets who else has a slot whenever it starts.
    ForgetsHolders,
    /// nodeagent does not see that an image is being activated.
    BlindToActivation,
    /// An activate command is not seen any more once its baseos is dead.
    NoActivationLock,
    /// nodeagent's hooks never end.
    EndlessHooks,
}

/// Limits of the shells that are not in a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `drain.start.timeout`.
    pub start_timeout_ms: u64,
    /// `device-op.retry` and `baseos.retry`.
    pub retry: Retry,
    /// A hanging call, a short outage, a slot of the other node.
    pub short_ms: u64,
    /// A long outage, a long crash, a peer that is down.
    pub long_ms: u64,
}

/// One thing to try.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What is ordered, each order once everything has come to rest after the one before.
    pub script: Vec<Order>,
    /// What else may be ordered, at any time; each costs a deviation.
    pub orders: Vec<Order>,
    /// What may go differently.
    pub kinds: BTreeSet<Kind>,
    /// How often something may go differently in one run.
    pub deviations: u8,
    /// Pods on our node in the beginning.
    pub pods: usize,
    /// The other node has a slot for so long from the beginning.
    pub peer_holds_ms: u64,
    /// There are `device.pre` hooks.
    pub has_hooks: bool,
    /// The controller says after a boot again what it said before.
    pub republishes: bool,
    /// `/run` is kept over a boot.
    pub keeps_run: bool,
    /// zedkube's limits.
    pub policy: Policy,
    /// All other limits.
    pub limits: Limits,
    /// A mistake, built in.
    pub mutation: Option<Mutation>,
    /// Steps are counted in the state, so that no state is ever met twice: for random walks, which end where a state is
    /// met again.
    pub counts_steps: bool,
}

impl Scenario {
    /// One run without anything going wrong, with these orders.
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

    /// So often one of these may happen.
    #[must_use]
    pub fn with(mut self, deviations: u8, kinds: &[Kind]) -> Self {
        self.deviations = deviations;
        self.kinds = kinds.iter().copied().collect();
        self
    }

    /// These may be ordered at any time.
    #[must_use]
    pub fn orders(mut self, orders: &[Order]) -> Self {
        self.orders = orders.to_vec();
        self
    }

    /// With this mistake.
    #[must_use]
    pub fn broken(mut self, mutation: Mutation) -> Self {
        self.mutation = Some(mutation);
        self
    }
}

/// The defaults of a device with limits of seconds.
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
