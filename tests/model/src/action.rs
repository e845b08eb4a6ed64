//! The steps that can happen next in the model.

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
    /// All four agents.
    pub const ALL: [Self; 4] = [Self::Zedkube, Self::DeviceOp, Self::BaseOs, Self::NodeAgent];

    /// The requester for whom the agent asks; `None` for agents that do not ask.
    pub const fn requester(self) -> Option<DrainRequester> {
        match self {
            Self::DeviceOp => Some(DrainRequester::DeviceOp),
            Self::BaseOs => Some(DrainRequester::Update),
            Self::Zedkube | Self::NodeAgent => None,
        }
    }
}

/// A party that can take a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    /// The device itself: going down, the kubelet, and things that end with time.
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
    /// The init system, which starts agents, and the controller after a boot.
    Init,
}

impl Party {
    /// The order in which parties get their turns.
    pub const ALL: [Self; 7] = [
        Self::Device,
        Self::Zedkube,
        Self::Server,
        Self::DeviceOp,
        Self::BaseOs,
        Self::NodeAgent,
        Self::Init,
    ];

    /// The party of this agent.
    pub const fn of(agent: Agent) -> Self {
        match agent {
            Agent::Zedkube => Self::Zedkube,
            Agent::DeviceOp => Self::DeviceOp,
            Agent::BaseOs => Self::BaseOs,
            Agent::NodeAgent => Self::NodeAgent,
        }
    }
}

/// One step of a party.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// The agent performs its next effect.
    Effect(Agent),
    /// zedkube takes one input and decides.
    Take(Input),
    /// The agent reads the next files of a poll; after the last ones it decides.
    Look(Agent),
    /// The task beside the agent's main loop ends.
    End(Agent),
    /// The server carries out the call at this index.
    Serve(usize),
    /// A terminating pod is gone.
    PodEnds,
    /// The agent starts.
    Start(Agent),
    /// The device goes down, and comes up again.
    GoDown,
    /// The kubelet reports the new boot.
    KubeletReports,
    /// The controller publishes again what it published before the boot.
    SayAgain,
    /// An activate command ends whose baseos has died.
    LeftRunningEnds,
    /// An outage ends.
    OutageEnds,
    /// The peer node can take pods again.
    PeerReturns,
    /// The peer node gives its slot back.
    PeerGivesBack,
    /// Time moves to the next moment at which a party wants to wake up.
    Jump,
    /// The next order of the script is given.
    Script,
}

/// The next transition of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The step of a machine without faults and delays: each party works until it has nothing to do, then the next
    /// party; when no party has anything to do, time moves on.
    Next,
    /// Another step. It costs one of the scenario's deviations.
    Other(Deviation),
}

/// A step that differs from the normal order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deviation {
    /// This task is done first, and its party gets the turn.
    Turn(Task),
    /// The agent is killed.
    Crash(Agent),
    /// The agent is killed and does not start again for a long time.
    LongCrash(Agent),
    /// The agent's next effect fails.
    WriteFails(Agent),
    /// The device loses power and boots again.
    PowerCut,
    /// The call at this index hangs.
    Late(usize),
    /// The call at this index is carried out, and its answer is lost.
    Lost(usize),
    /// The call at this index is refused.
    Refused(usize),
    /// A call is carried out whose sender waits for it no longer.
    Stray(usize),
    /// The API server does not answer for a while.
    Outage(Kind),
    /// A pod comes back.
    PodReturns,
    /// The peer takes a slot.
    PeerTakesSlot,
    /// The peer cannot take pods for a while.
    PeerDown,
    /// The reboot method in use does not work.
    MeansFail,
    /// The activate command fails.
    ActivationFails,
    /// A person or the controller gives an order.
    Order(Order),
}
