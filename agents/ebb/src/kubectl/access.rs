//! The way to the cluster of a person: `--kubeconfig`, `KUBECONFIG`, `~/.kube/config`, then k3s' own files.

use std::env;
use std::path::{Path, PathBuf};

use cluster::kubeconfig::Search;
use cluster::{ApiFailure, Cluster, connect};

/// What a person finds on a node: an administrator's kubeconfig of k3s (EVE's place, then its own), then the kubelet's
/// own one of k3s, RKE2, kubeadm, which reaches no other node.
const KUBECONFIGS: [&str; 5] = [
    "run/.kube/k3s/k3s.yaml",
    "etc/rancher/k3s/k3s.yaml",
    "var/lib/rancher/k3s/agent/kubelet.kubeconfig",
    "var/lib/rancher/rke2/agent/kubelet.kubeconfig",
    "etc/kubernetes/kubelet.conf",
];

/// Connects; nothing is sent yet. `verb` is what the API server's audit log gets to see.
pub(crate) async fn reach(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
    verb: &str,
) -> Result<Cluster, ApiFailure> {
    let home = env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let own = home.map(|home| home.join(".kube/config"));
    let candidates = own.into_iter().chain(below(Path::new("/"))).collect();
    let search = Search::with_environment(kubeconfig.map(Path::to_owned), candidates)
        .in_context(context.map(str::to_owned));
    Ok(connect(&search, verb).await?.cluster)
}

/// Where a verb on a node looks below a root.
pub(crate) fn below(root: &Path) -> impl Iterator<Item = PathBuf> {
    KUBECONFIGS.into_iter().map(|path| root.join(path))
}
