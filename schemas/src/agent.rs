//! The agents: their names on the wire, which are EVE's, and the names that a person reads.
//!
//! The constants are the first folder of a topic's path, and the names of sockets, locks and pid files. Wherever a
//! person reads the name of an agent (status, log, units, verbs, docs) it is [`Agent::name`]; what a person types may be
//! either ([`Agent::from_name`]).

use std::fmt;

/// Drains the node; publishes the status and the report.
pub const ZEDKUBE: &str = "zedkube";
/// Gates reboot, shutdown and poweroff: [`Agent::DeviceOp`].
pub const ZEDAGENT: &str = "zedagent";
/// Carries out what has been released.
pub const NODEAGENT: &str = "nodeagent";
/// Gates the activation of images: [`Agent::Baseos`].
pub const BASEOSMGR: &str = "baseosmgr";
/// Reports the state of images; EVE's own, we only read it.
pub const VOLUMEMGR: &str = "volumemgr";
/// The person at the command line.
pub const EBB: &str = "ebb";
/// The shutdown of the machine itself (`ebb hold`), which waits for a drain.
pub const HOLD: &str = "ebb-hold";
/// The host that asks for a reboot: [`Agent::Sentinel`].
pub const SENTINEL: &str = "sentinel";
/// Whoever commands the device: a controller's agent, or `ebb reboot` and `ebb update`.
pub const CONTROLLER: &str = "controller";

/// One of our agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    /// Cordons and drains the node.
    Zedkube,
    /// Holds reboot, shutdown and poweroff back (EVE's zedagent).
    DeviceOp,
    /// Carries reboot, shutdown and poweroff out.
    Nodeagent,
    /// Holds the activation of images back (EVE's baseosmgr).
    Baseos,
    /// Commands a reboot when the host needs one. It runs only where a site wants it.
    Sentinel,
}

impl Agent {
    /// The four that every device runs, in the order in which they are started: who answers comes before who asks.
    pub const ALL: [Self; 4] = [Self::Zedkube, Self::DeviceOp, Self::Nodeagent, Self::Baseos];

    /// The name that a person reads, and the verb that runs the agent.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zedkube => "zedkube",
            Self::DeviceOp => "device-op",
            Self::Nodeagent => "nodeagent",
            Self::Baseos => "baseos",
            Self::Sentinel => SENTINEL,
        }
    }

    /// EVE's name: in folders, sockets, locks and pid files.
    pub const fn wire_name(self) -> &'static str {
        match self {
            Self::Zedkube => ZEDKUBE,
            Self::DeviceOp => ZEDAGENT,
            Self::Nodeagent => NODEAGENT,
            Self::Baseos => BASEOSMGR,
            Self::Sentinel => SENTINEL,
        }
    }

    /// The agent of this name, of either kind.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .chain([Self::Sentinel])
            .find(|agent| agent.name() == name || agent.wire_name() == name)
    }
}

impl fmt::Display for Agent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The name that a person reads for a publisher; that of one that is not ours stays.
pub fn shown(publisher: &str) -> &str {
    match Agent::from_name(publisher) {
        Some(agent) => agent.name(),
        None => publisher,
    }
}

/// Who asks for a drain, for people: zedkube publishes what the cluster commands.
pub fn shown_asker(publisher: &str) -> &str {
    match publisher {
        ZEDKUBE => "the cluster",
        HOLD | NODEAGENT => "the shutdown of this machine",
        other => shown(other),
    }
}

/// The name on the wire of what a person has typed; that of an agent that is not ours stays.
pub fn on_wire(name: &str) -> &str {
    match Agent::from_name(name) {
        Some(agent) => agent.wire_name(),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_agent_has_one_name_for_people_and_one_on_the_wire() {
        for (agent, name, wire_name) in [
            (Agent::Zedkube, "zedkube", "zedkube"),
            (Agent::DeviceOp, "device-op", "zedagent"),
            (Agent::Nodeagent, "nodeagent", "nodeagent"),
            (Agent::Baseos, "baseos", "baseosmgr"),
            (Agent::Sentinel, "sentinel", "sentinel"),
        ] {
            assert_eq!(
                (agent.name(), agent.wire_name(), agent.to_string().as_str()),
                (name, wire_name, name)
            );
            for either in [name, wire_name] {
                assert_eq!(Agent::from_name(either), Some(agent));
                assert_eq!((shown(either), on_wire(either)), (name, wire_name));
            }
        }
        assert_eq!(Agent::from_name("ebb"), None);
        assert_eq!((shown("ebb"), on_wire("volumemgr")), ("ebb", "volumemgr"));
    }
}
