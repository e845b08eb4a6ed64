//! Which nodes a verb is about.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use clap::Args;
use cluster::kubeconfig::Search;
use cluster::{ApiFailure, Cluster, connect, get_node, list_nodes_selected};
use drain::Selector;
use drain::view::NodeView;
use pubsub::Root;
use zedkube::{ADMINISTRATOR_KUBECONFIGS, KUBELET_KUBECONFIGS};

use super::{AskedDryRun, BARE_DRY_RUN, dry_run};
use crate::screen;

/// The arguments of every verb that is about nodes.
#[derive(Args, Debug)]
pub(crate) struct NodeArguments {
    /// Nodes: NAME or node/NAME
    #[arg(value_name = "NODE")]
    pub(crate) nodes: Vec<String>,
    /// The nodes with these labels instead: `role=edge,!spare`
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
    /// Kubeconfig file; else KUBECONFIG, ~/.kube/config, the files of k3s
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; else its current one
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Only say what would happen: `client` by one look, `server` by asking the server as well
    #[arg(
        long,
        value_name = "MODE",
        num_args = 0..=1,
        require_equals = true,
        default_value = "none",
        default_missing_value = BARE_DRY_RUN,
        value_parser = dry_run
    )]
    pub(crate) dry_run: AskedDryRun,
    /// Objects per answer of long lists; 0 = all in one
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub(crate) chunk_size: u32,
    /// Nothing: nodes have no namespace. kubectl takes it as well
    #[arg(short = 'n', long = "namespace", value_name = "NAME", hide = true)]
    _namespace: Option<String>,
    /// Nothing but a warning: each call has a time limit of its own
    #[arg(long, value_name = "DURATION", hide = true)]
    request_timeout: Option<String>,
}

impl NodeArguments {
    /// The nodes that the arguments choose, not yet looked up.
    ///
    /// # Errors
    /// As [`Chosen::from`].
    pub(crate) fn chosen(&self, verb: &str) -> anyhow::Result<Chosen> {
        Chosen::from(verb, &self.nodes, self.selector.as_deref())
    }

    /// The cluster, and the nodes as it has them now. Nothing is changed.
    ///
    /// # Errors
    /// No way to the cluster, or a node that does not exist.
    pub(crate) async fn find(&self, verb: &str, chosen: &Chosen) -> anyhow::Result<(Cluster, Vec<NodeView>)> {
        if let Some(warning) = self.dry_run.warning() {
            screen::say(warning);
        }
        if self.request_timeout.as_ref().is_some_and(|timeout| timeout != "0") {
            screen::say(
                "Warning: --request-timeout does not count: each call has its own limit, 10 s, an eviction 35 s",
            );
        }
        let cluster = reach(self.kubeconfig.as_deref(), self.context.as_deref(), verb).await?;
        let cluster = cluster.with_page(self.chunk_size);
        let nodes = chosen.resolve(&cluster).await?;
        if nodes.is_empty() {
            screen::say("No resources found: no node has these labels");
        }
        Ok((cluster, nodes))
    }
}

/// The nodes that the arguments choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Chosen {
    /// These, in this order, each once.
    Names(Vec<String>),
    /// Those with these labels.
    Selected(Selector),
}

impl Chosen {
    /// From `NODE…` and `--selector` of a verb.
    ///
    /// # Errors
    /// Both or none, something that is no node, or a selector that does not parse; in kubectl's words.
    pub(crate) fn from(verb: &str, names: &[String], selector: Option<&str>) -> anyhow::Result<Self> {
        let selector = selector.filter(|selector| !selector.is_empty());
        match (names, selector) {
            ([], None) => {
                bail!("USAGE: {verb} NODE [flags]\nSee 'ebb {verb} --help' for help and examples")
            }
            ([], Some(selector)) => Ok(Self::Selected(selector.parse().map_err(|error| {
                anyhow!("--selector={selector} must be a valid label selector: {error}")
            })?)),
            (_, Some(_)) => bail!(
                "cannot specify both a node name and a --selector option\nSee 'ebb {verb} --help' for help and \
                 examples"
            ),
            (names, None) => {
                let names = names.iter().map(|name| node_name(name)).collect::<anyhow::Result<Vec<_>>>()?;
                let mut seen = BTreeSet::new();
                Ok(Self::Names(names.into_iter().filter(|name| seen.insert(name.clone())).collect()))
            }
        }
    }

    /// The nodes as the server has them now.
    ///
    /// # Errors
    /// A node does not exist, all of which are named; or the server cannot be asked.
    pub(crate) async fn resolve(&self, cluster: &Cluster) -> anyhow::Result<Vec<NodeView>> {
        match self {
            Self::Names(names) => by_name(cluster, names).await,
            Self::Selected(selector) => {
                let nodes = list_nodes_selected(cluster, &selector.to_string()).await?;
                Ok(nodes.into_iter().map(|node| node.view).collect())
            }
        }
    }
}

async fn by_name(cluster: &Cluster, names: &[String]) -> anyhow::Result<Vec<NodeView>> {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for name in names {
        match get_node(cluster, name).await? {
            Some(node) => found.push(node),
            None => missing.push(format!("nodes \"{name}\" not found")),
        }
    }
    if !missing.is_empty() {
        bail!(Missing(missing));
    }
    Ok(found)
}

/// Nodes that do not exist; kubectl begins such a line in its own way.
#[derive(Debug)]
pub(crate) struct Missing(Vec<String>);

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Error from server (NotFound): {}", self.0.join(", "))
    }
}

impl std::error::Error for Missing {}

/// The name in `NAME`, `node/NAME`, `nodes/NAME` or `no/NAME`.
pub(crate) fn node_name(argument: &str) -> anyhow::Result<String> {
    match argument.split_once('/') {
        None if argument.is_empty() => bail!("a node without a name"),
        None | Some(("node" | "nodes" | "no", _)) => {
            let name = argument.split_once('/').map_or(argument, |(_, name)| name);
            if name.is_empty() || name.contains('/') {
                bail!(
                    "arguments in resource/name form must have a single resource and name, got {argument:?}"
                );
            }
            Ok(name.to_owned())
        }
        Some((kind, _)) => bail!("expected resource of type node, got {kind:?}"),
    }
}

/// Connects by the way of a person: `--kubeconfig`, `KUBECONFIG`, `~/.kube/config`, then k3s' own files. Nothing is sent yet. `verb` is what the API server's audit log gets to see.
async fn reach(kubeconfig: Option<&Path>, context: Option<&str>, verb: &str) -> Result<Cluster, ApiFailure> {
    let home = env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let own = home.map(|home| home.join(".kube/config"));
    let candidates = own.into_iter().chain(below(&Root::new("/"))).collect();
    let search = Search::with_environment(kubeconfig.map(Path::to_owned), candidates)
        .in_context(context.map(str::to_owned));
    Ok(connect(&search, verb).await?.cluster)
}

/// Where a verb on a node looks below a root: an administrator's kubeconfig, then the kubelet's own.
pub(crate) fn below(root: &Root) -> impl Iterator<Item = PathBuf> {
    ADMINISTRATOR_KUBECONFIGS.into_iter().chain(KUBELET_KUBECONFIGS).map(|path| root.join(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_arguments_choose() {
        let names = |names: &[&str]| Ok(Chosen::Names(names.iter().map(|name| (*name).to_owned()).collect()));
        let selected = |text: &str| Ok(Chosen::Selected(text.parse().unwrap()));
        let cases: [(&[&str], Option<&str>, Result<Chosen, &str>); 14] = [
            (&["a", "b"], None, names(&["a", "b"])),
            (&["node/a", "nodes/b", "no/c"], None, names(&["a", "b", "c"])),
            (&["a", "node/a", "b", "a"], None, names(&["a", "b"])),
            (&["a"], Some(""), names(&["a"])),
            (&[], Some("role=edge,!spare"), selected("role=edge,!spare")),
            (&[], None, Err("USAGE: drain NODE [flags]")),
            (&[], Some(""), Err("USAGE: drain NODE [flags]")),
            (&["a"], Some("x=y"), Err("cannot specify both a node name and a --selector option")),
            (&[], Some("a in ("), Err("--selector=a in ( must be a valid label selector: ")),
            (&["pod/a"], None, Err("expected resource of type node, got \"pod\"")),
            (&["deployment/a"], None, Err("expected resource of type node, got \"deployment\"")),
            (&["node/"], None, Err("must have a single resource and name, got \"node/\"")),
            (&["node/a/b"], None, Err("must have a single resource and name")),
            (&[""], None, Err("a node without a name")),
        ];
        for (given, selector, expected) in cases {
            let given: Vec<String> = given.iter().map(|name| (*name).to_owned()).collect();
            match (Chosen::from("drain", &given, selector), expected) {
                (Ok(chosen), Ok(expected)) => assert_eq!(chosen, expected),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (chosen, expected) => panic!("{given:?}: {chosen:?} instead of {expected:?}"),
            }
        }
    }
}
