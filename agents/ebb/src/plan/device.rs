//! What the agents of this device know: their settings, and which Node they are.

use cluster::identity::{Identity, identify};
use cluster::kubeconfig::Search;
use cluster::{Cluster, connect, list_nodes};
use drain::Policy;
use pubsub::{Persistence, Root, TopicKey, read_item};
use runtime::settings::load;
use runtime::{AgentFlags, Settings, boot};
use schemas::{ConfigItemValueMap, EdgeNodeInfo, Topic, agent};

use crate::kubectl::access::below;

/// The settings of this device's agents.
#[derive(Debug)]
pub(crate) struct Device {
    root: Root,
    settings: Settings,
    /// How the agents would drain.
    pub(crate) policy: Policy,
    /// Settings and files that do not count, each with the reason.
    pub(crate) problems: Vec<String>,
}

impl Device {
    /// Reads the settings as the agents do, the controller's included.
    ///
    /// # Errors
    /// Mistakes on the command line.
    pub(crate) fn read(flags: &AgentFlags) -> anyhow::Result<Self> {
        let root = flags.root();
        let mut problems = Vec::new();
        let controller: Option<ConfigItemValueMap> = of_zedagent(&root, &mut problems);
        let loaded = load(&root, flags, controller.as_ref());
        let bad: Vec<String> = loaded.bad_flags().iter().map(ToString::to_string).collect();
        if !bad.is_empty() {
            anyhow::bail!(bad.join("\n"));
        }
        problems.extend(loaded.problems.iter().map(ToString::to_string));
        let settings = Settings::clone(&loaded.settings);
        Ok(Self { policy: zedkube::drain_policy(&settings), root, settings, problems })
    }

    /// Connects as zedkube does.
    ///
    /// # Errors
    /// There is no kubeconfig, or a broken one.
    pub(crate) async fn reach(&self) -> anyhow::Result<Cluster> {
        let candidates = below(self.root.path()).collect();
        let search = Search::with_environment(self.settings.cluster.kubeconfig.clone(), candidates);
        Ok(connect(&search, "plan").await?.cluster)
    }

    /// The name of the Node that is this machine.
    ///
    /// # Errors
    /// No Node is, as far as anybody can tell.
    pub(crate) async fn own_node(&self, cluster: &Cluster) -> anyhow::Result<String> {
        let info: Option<EdgeNodeInfo> = of_zedagent(&self.root, &mut Vec::new());
        let identity = Identity {
            node_name: self.settings.node.name.as_ref().map(|name| name.as_str().to_owned()),
            device_id: info.as_ref().map(|info| info.device_id.clone()),
            device_name: info.as_ref().map(|info| info.device_name.clone()),
            host_name: nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()),
            machine_id: boot::machine_id(&self.root),
        };
        Ok(identify(&list_nodes(cluster).await?, &identity)?.name)
    }
}

/// A topic of EVE's zedagent, if it is there and can be read.
fn of_zedagent<T: Topic>(root: &Root, problems: &mut Vec<String>) -> Option<T> {
    read_item(root, agent::ZEDAGENT, Persistence::Volatile, &TopicKey::global()).unwrap_or_else(|refusal| {
        problems.push(refusal.to_string());
        None
    })
}
