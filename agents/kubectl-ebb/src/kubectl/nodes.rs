//! The nodes that a verb is about.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use cluster::kubeconfig::{ADMINISTRATORS, KUBELETS, Overrides, Search};
use cluster::{ApiFailure, Cluster, NodeFacts, connect, get_node_facts, list_nodes, list_nodes_selected};
use drain::Selector;
use drain::view::NodeView;

use super::{AskedDryRun, BARE_DRY_RUN, dry_run};
use crate::called::program;
use crate::screen;

/// Arguments of every verb that is about nodes.
#[derive(Args, Debug)]
pub struct NodeArguments {
    /// Nodes, each as NAME or node/NAME
    #[arg(value_name = "NODE")]
    pub(crate) nodes: Vec<String>,
    /// Choose nodes by label instead of by name, such as `role=edge,!spare`
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
    /// Kubeconfig file; default: KUBECONFIG, then ~/.kube/config, then the files of k3s
    // clap's own parser of paths refuses an empty one.
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; default: its current context
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    #[command(flatten)]
    person: Person,
    /// Only print what would happen: `client` sends read requests only, `server` also asks the API server in dry-run
    /// mode
    #[arg(
        long,
        value_name = "MODE",
        num_args = 0..=1,
        require_equals = true,
        default_value = "none",
        default_missing_value = BARE_DRY_RUN,
        value_parser = dry_run
    )]
    pub dry_run: AskedDryRun,
    /// Return long lists in chunks of N objects; 0 = all objects at once
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub(crate) chunk_size: u32,
    /// Ignored: nodes have no namespace. Accepted because kubectl accepts it
    #[arg(short = 'n', long = "namespace", value_name = "NAME", hide = true)]
    _namespace: Option<String>,
    /// Ignored with a warning: each call has its own time limit
    #[arg(long, value_name = "DURATION", hide = true)]
    request_timeout: Option<String>,
}

/// What [`NodeArguments::each`] has done.
#[derive(Debug)]
pub(crate) struct Done {
    /// The connection.
    pub(crate) cluster: Cluster,
    /// How many nodes there were.
    pub(crate) total: usize,
    /// The nodes to which it could not be done.
    pub(crate) failed: Vec<String>,
}

impl Done {
    /// 0 if it could be done to all nodes, else 1.
    pub(crate) fn exit_code(&self) -> ExitCode {
        if self.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Flags that choose a cluster and a person, each instead of what the kubeconfig says.
#[derive(Args, Debug)]
struct Person {
    /// Cluster of the kubeconfig; default: that of the context
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// User of the kubeconfig whose credentials are sent; default: that of the context
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Act as this user, or as `system:serviceaccount:NAMESPACE:NAME`
    #[arg(long = "as", value_name = "USER")]
    impersonate: Option<String>,
    /// Act as a member of this group; may be given several times
    #[arg(long = "as-group", value_name = "GROUP")]
    groups: Vec<String>,
    /// Act with this UID
    #[arg(long = "as-uid", value_name = "UID")]
    uid: Option<String>,
}

impl NodeArguments {
    /// The nodes as the arguments name them, not yet looked up.
    ///
    /// # Errors
    /// As [`Chosen::from`].
    pub(crate) fn chosen(&self, verb: &str) -> anyhow::Result<Chosen> {
        Chosen::from(verb, &self.nodes, self.selector.as_deref())
    }

    /// Connects to the cluster and reads the nodes. Changes nothing.
    ///
    /// # Errors
    /// There is no usable kubeconfig, or a node does not exist.
    pub(crate) async fn find(&self, verb: &str, chosen: &Chosen) -> anyhow::Result<(Cluster, Vec<NodeView>)> {
        let (cluster, nodes) = self.find_facts(verb, chosen).await?;
        Ok((cluster, nodes.into_iter().map(|node| node.view).collect()))
    }

    /// Finds the nodes, and does one thing to each of them. A node to which it cannot be done is named, and the others go on.
    ///
    /// # Errors
    /// As [`NodeArguments::find`].
    pub(crate) async fn each(
        &self,
        verb: &str,
        chosen: &Chosen,
        mut one: impl AsyncFnMut(&Cluster, &NodeFacts) -> Result<(), String>,
    ) -> anyhow::Result<Done> {
        let (cluster, nodes) = self.find_facts(verb, chosen).await?;
        let mut failed = Vec::new();
        for node in &nodes {
            if let Err(why) = one(&cluster, node).await {
                let name = &node.view.name;
                screen::say(&format!("error: unable to {verb} node {name:?}: {why}"));
                failed.push(name.clone());
            }
        }
        Ok(Done { cluster, total: nodes.len(), failed })
    }

    /// As [`NodeArguments::find`], with the commands on each Node.
    ///
    /// # Errors
    /// As [`NodeArguments::find`].
    pub(crate) async fn find_facts(
        &self,
        verb: &str,
        chosen: &Chosen,
    ) -> anyhow::Result<(Cluster, Vec<NodeFacts>)> {
        if let Some(warning) = self.dry_run.warning() {
            screen::say(warning);
        }
        if self.request_timeout.as_ref().is_some_and(|timeout| timeout != "0") {
            screen::say(
                "Warning: --request-timeout does not count: each call has its own limit, 10 s, an eviction 35 s",
            );
        }
        let cluster = reach(self.kubeconfig.clone(), self.overrides(), verb).await?;
        let cluster = cluster.with_page(self.chunk_size);
        let nodes = chosen.resolve(&cluster).await?;
        if nodes.is_empty() {
            screen::say("No resources found: no node has these labels");
        }
        Ok((cluster, nodes))
    }

    /// The names of all nodes.
    ///
    /// # Errors
    /// There is no usable kubeconfig, or the call failed.
    pub(crate) async fn names(&self) -> Result<Vec<String>, ApiFailure> {
        let cluster = reach(self.kubeconfig.clone(), self.overrides(), "completion").await?;
        Ok(list_nodes(&cluster).await?.into_iter().map(|node| node.view.name).collect())
    }

    /// True if flags choose a cluster, or a person, by the parts of a kubeconfig.
    pub fn chooses_cluster(&self) -> bool {
        self.overrides() != Overrides::default()
    }

    fn overrides(&self) -> Overrides {
        let Person { cluster, user, impersonate, groups, uid } = &self.person;
        Overrides {
            context: self.context.clone(),
            cluster: cluster.clone(),
            user: user.clone(),
            impersonate: impersonate.clone(),
            groups: groups.clone(),
            uid: uid.clone(),
        }
    }
}

/// The choice of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Chosen {
    /// Nodes by name, in this order, without duplicates.
    Names(Vec<String>),
    /// Nodes that match this label selector.
    Selected(Selector),
}

impl Chosen {
    /// Makes the choice from `NODE…` and `--selector` of a verb.
    ///
    /// # Errors
    /// Both or neither is given, an argument is not a node, or the selector is invalid; in kubectl's words.
    pub(crate) fn from(verb: &str, names: &[String], selector: Option<&str>) -> anyhow::Result<Self> {
        let selector = selector.filter(|selector| !selector.is_empty());
        match (names, selector) {
            ([], None) => {
                bail!("USAGE: {verb} NODE [flags]; see '{} {verb} --help' for help and examples", program())
            }
            ([], Some(selector)) => Ok(Self::Selected(selector.parse().map_err(|error| {
                anyhow!("--selector={selector} must be a valid label selector: {error}")
            })?)),
            (_, Some(_)) => bail!(
                "cannot specify both a node name and a --selector option; see '{} {verb} --help' for help and \
                 examples",
                program()
            ),
            (names, None) => {
                let names = names.iter().map(|name| node_name(name)).collect::<anyhow::Result<Vec<_>>>()?;
                let mut seen = BTreeSet::new();
                Ok(Self::Names(names.into_iter().filter(|name| seen.insert(name.clone())).collect()))
            }
        }
    }

    /// Reads the nodes from the API server.
    ///
    /// # Errors
    /// Nodes do not exist (the error names all of them), or the call failed.
    pub(crate) async fn resolve(&self, cluster: &Cluster) -> anyhow::Result<Vec<NodeFacts>> {
        match self {
            Self::Names(names) => by_name(cluster, names).await,
            Self::Selected(selector) => Ok(list_nodes_selected(cluster, &selector.to_string()).await?),
        }
    }
}

async fn by_name(cluster: &Cluster, names: &[String]) -> anyhow::Result<Vec<NodeFacts>> {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for name in names {
        match get_node_facts(cluster, name).await? {
            Some(node) => found.push(node),
            None => missing.push(format!("nodes \"{name}\" not found")),
        }
    }
    if !missing.is_empty() {
        bail!(Missing(missing));
    }
    Ok(found)
}

/// Nodes that do not exist. The text begins as kubectl's does, without `error:`.
#[derive(Debug)]
pub(crate) struct Missing(Vec<String>);

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Error from server (NotFound): {}", self.0.join(", "))
    }
}

impl std::error::Error for Missing {}

/// The node name in `NAME`, `node/NAME`, `nodes/NAME` or `no/NAME`; the letter case of the kind does not matter.
pub fn node_name(argument: &str) -> anyhow::Result<String> {
    let is_node = |kind: &str| ["node", "nodes", "no"].iter().any(|name| kind.eq_ignore_ascii_case(name));
    match argument.split_once('/') {
        None if argument.is_empty() => bail!("the name of a node is empty"),
        None => Ok(argument.to_owned()),
        Some((kind, name)) if is_node(kind) => {
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

/// Makes a client from the kubeconfig of the user: `--kubeconfig`, `KUBECONFIG`, `~/.kube/config`, then k3s' own files.
/// Sends nothing yet. `verb` appears in the audit log of the API server.
async fn reach(kubeconfig: Option<PathBuf>, overrides: Overrides, verb: &str) -> Result<Cluster, ApiFailure> {
    let home = env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let own = home.map(|home| home.join(".kube/config"));
    let candidates = own.into_iter().chain(below(Path::new("/"))).collect();
    let search = Search::with_environment(kubeconfig, candidates).choosing(overrides);
    Ok(connect(&search, verb).await?.cluster)
}

/// Kubeconfig files below a root folder, for a verb about nodes: first those of an administrator, then the kubelet's.
pub fn below(root: &Path) -> impl Iterator<Item = PathBuf> {
    ADMINISTRATORS.into_iter().chain(KUBELETS).map(|path| root.join(path.trim_start_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_arguments_choose() {
        let names = |names: &[&str]| Ok(Chosen::Names(names.iter().map(|name| (*name).to_owned()).collect()));
        let selected = |text: &str| Ok(Chosen::Selected(text.parse().unwrap()));
        let cases: [(&[&str], Option<&str>, Result<Chosen, &str>); 15] = [
            (&["a", "b"], None, names(&["a", "b"])),
            (&["node/a", "nodes/b", "no/c"], None, names(&["a", "b", "c"])),
            (&["Node/a", "NODES/b", "No/c"], None, names(&["a", "b", "c"])),
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
            (&[""], None, Err("the name of a node is empty")),
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
