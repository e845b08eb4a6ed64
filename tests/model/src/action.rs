//! What can happen next.

use schemas::DrainRequester;

use crate::scenario::{Kind, Order};
use crate::zedkube::Input;

/// An agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Agent {
    /// zedkube.
    Zedkube,
    /// device-op.
    DeviceOp,
    /// baseos.
    BaseOs,
    /// nodeagent.
    NodeAgent,
}

impl Agent {
    /// All four.
    pub const ALL: [Self; 4] = [Self::Zedkube, Self::DeviceOp, Self::BaseOs, Self::NodeAgent];

    /// Whom it asks for.
    pub const fn requester(self) -> Option<DrainRequester> {
        match self {
            Self::DeviceOp => Some(DrainRequester::DeviceOp),
            Self::BaseOs => Some(DrainRequester::Update),
            Self::Zedkube | Self::NodeAgent => None,
        }
    }
}

/// Who can do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    /// The device itself: going down, the kubelet, what ends with time.
    Device,
    /// zedkube.
    Zedkube,
    /// The API server, and the kubelets that end pods.
    Server,
    /// device-op.
    DeviceOp,
    /// baseos.
    BaseOs,
    /// nodeagent.
    NodeAgent,
    /// What starts agents, and the controller after a boot.
    Init,
}

impl Party {
    /// The order in which they get their turns.
    pub const ALL: [Self; 7] = [
        Self::Device,
        Self::Zedkube,
        Self::Server,
        Self::DeviceOp,
        Self::BaseOs,
        Self::NodeAgent,
        Self::Init,
    ];

    /// The agent's own.
    pub const fn of(agent: Agent) -> Self {
        match agent {
            Agent::Zedkube => Self::Zedkube,
            Agent::DeviceOp => Self::DeviceOp,
            Agent::BaseOs => Self::BaseOs,
            Agent::NodeAgent => Self::NodeAgent,
        }
    }
}

/// One step of somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// The agent does its next effect.
    Effect(Agent),
    /// zedkube takes something in, and decides.
    Take(Input),
    /// The agent reads the next files of a look; after the last one it decides.
    Look(Agent),
    /// What runs beside the agent's loop ends.
    End(Agent),
    /// The server serves the call at this place.
    Serve(usize),
    /// A terminating pod is gone.
    PodEnds,
    /// The agent starts.
    Start(Agent),
    /// The device goes down, and comes up again.
    GoDown,
    /// The kubelet reports the new boot.
    KubeletReports,
    /// The controller says again what it said before the boot.
    SayAgain,
    /// An activate command ends that has outlived its baseos.
    LeftRunningEnds,
    /// An outage ends.
    OutageEnds,
    /// The peer can take pods again.
    PeerReturns,
    /// The peer gives its slot back.
    PeerGivesBack,
    /// Time goes on to the next moment at which somebody wants to be woken.
    Jump,
    /// The next order of the script.
    Script,
}

/// What happens next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// What a prompt and lucky machine does: each party works until it has nothing to do, then the next one; time goes on
    /// when nobody has.
    Next,
    /// Something else. Costs one of the scenario's deviations.
    Other(Deviation),
}

/// Something that goes differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deviation {
    /// This is done first, and its party has the turn.
    Turn(Task),
    /// The agent is killed.
    Crash(Agent),
    /// The agent is killed and stays away for long.
    LongCrash(Agent),
    /// The agent's next effect fails.
    WriteFails(Agent),
    /// The device loses power, and comes up again.
    PowerCut,
    /// The call at this place hangs.
    Late(usize),
    /// It is served, and its answer is lost.
    Lost(usize),
    /// It is refused.
    Refused(usize),
    /// A call that nobody waits for is served.
    Stray(usize),
    /// The API server is away for a while.
    Outage(Kind),
    /// A pod comes back.
    PodReturns,
    /// The peer takes a slot.
    PeerTakesSlot,
    /// The peer cannot take pods for a while.
    PeerDown,
    /// The means that is used does not work.
    MeansFail,
    /// The activate command fails.
    ActivationFails,
    /// Somebody orders something.
    Order(Order),
}
