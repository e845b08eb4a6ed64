//! This device as its agents see it: their settings, and the Node object of this machine.

use std::ffi::OsString;

use anyhow::Context;
use cluster::identity::{Identity, identify};
use cluster::kubeconfig::Search;
use cluster::{Cluster, connect, list_nodes};
use drain::Policy;
use drain::view::NodeView;
use pubsub::{Persistence, Root, TopicKey, read_item};
use runtime::settings::load;
use runtime::{AgentFlags, Settings, boot};
use schemas::{ConfigItemValueMap, EdgeNodeInfo, agent};

use kubectl_ebb::kubectl::nodes::below;
use kubectl_ebb::screen;

/// The settings of this device's agents.
#[derive(Debug)]
pub(crate) struct Device {
    /// Root folder of the device's files.
    pub(crate) root: Root,
    /// The settings with all layers applied.
    pub(crate) settings: Settings,
    /// Policy by which the agents would drain this node.
    pub(crate) policy: Policy,
}

impl Device {
    /// As [`Device::load`], and prints a warning on stderr for each setting that is ignored.
    ///
    /// # Errors
    /// Invalid flags.
    pub(crate) fn read(flags: &AgentFlags) -> anyhow::Result<Self> {
        let (device, problems) = Self::load(flags)?;
        for problem in &problems {
            screen::say(&format!("Warning: {problem}"));
        }
        Ok(device)
    }

    /// Loads the settings as the agents do, the controller's included, and says why each one that is ignored is.
    ///
    /// # Errors
    /// Invalid flags.
    pub(crate) fn load(flags: &AgentFlags) -> anyhow::Result<(Self, Vec<String>)> {
        let root = flags.root();
        let (key, mut problems) = (TopicKey::global(), Vec::new());
        let controller: Option<ConfigItemValueMap> =
            read_item(&root, agent::ZEDAGENT, Persistence::Volatile, &key).unwrap_or_else(|refusal| {
                problems.push(refusal.to_string());
                None
            });
        let loaded = load(&root, flags, controller.as_ref());
        let bad: Vec<String> = loaded.bad_flags().iter().map(ToString::to_string).collect();
        if !bad.is_empty() {
            anyhow::bail!(bad.join("; "));
        }
        problems.extend(loaded.problems.iter().map(ToString::to_string));
        let settings = Settings::clone(&loaded.settings);
        Ok((Self { policy: settings.policy.drain.clone(), root, settings }, problems))
    }

    /// Finds the kubeconfig as zedkube does and makes a client; sends nothing yet. `verb` appears in the audit log of
    /// the API server.
    ///
    /// # Errors
    /// There is no kubeconfig, or it is broken.
    pub(crate) async fn reach(&self, verb: &str) -> anyhow::Result<Cluster> {
        let candidates = below(self.root.path()).collect();
        let search = Search::with_environment(self.settings.cluster.kubeconfig.clone(), candidates);
        Ok(connect(&search.distrusting(), verb).await?.cluster)
    }

    /// As [`Device::reach`], with the credentials that zedkube finds when a service manager has started it: those of the
    /// kubelet before an administrator's, and `KUBECONFIG` of this shell does not count.
    ///
    /// # Errors
    /// Those of [`Device::reach`].
    pub(crate) async fn reach_as_service(&self, verb: &str) -> anyhow::Result<Cluster> {
        let candidates = zedkube::kubeconfigs(&self.root);
        let explicit = self.settings.cluster.kubeconfig.clone();
        let search = Search { explicit, environment: Some(OsString::new()), candidates, ..Search::default() };
        Ok(connect(&search.distrusting(), verb).await?.cluster)
    }

    /// Finds the Node object of this machine.
    ///
    /// # Errors
    /// No Node can be identified as this machine; those of [`Device::identity`].
    pub(crate) async fn own_node(&self, cluster: &Cluster) -> anyhow::Result<NodeView> {
        Ok(identify(&list_nodes(cluster).await?, &self.identity()?)?.node)
    }

    /// What is known of this machine, by which its Node is found.
    ///
    /// # Errors
    /// EVE's EdgeNodeInfo cannot be read: the host name alone is not enough, it could match another Node.
    pub(crate) fn identity(&self) -> anyhow::Result<Identity> {
        let node_name = self.settings.node.name.as_ref().map(|name| name.as_str().to_owned());
        let info: Option<EdgeNodeInfo> = match node_name {
            Some(_) => None,
            None => read_item(&self.root, agent::ZEDAGENT, Persistence::Volatile, &TopicKey::global())
                .context("cannot tell which Node is this machine; set node.name, or fix that file")?,
        };
        let (machine_id, boot_id) = (boot::machine_id(&self.root), boot::boot_id(&self.root).ok());
        Ok(zedkube::identity(node_name, machine_id, boot_id, info.as_ref()))
    }
}
