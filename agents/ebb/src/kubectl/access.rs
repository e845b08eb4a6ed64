//! The way to the cluster of a person: `--kubeconfig`, `KUBECONFIG`, `~/.kube/config`, then k3s' own files.

use std::env;
use std::path::{Path, PathBuf};

use cluster::kubeconfig::Search;
use cluster::{ApiFailure, Cluster, connect};
use pubsub::Root;
use zedkube::{ADMINISTRATOR_KUBECONFIGS, KUBELET_KUBECONFIGS};

/// Connects; nothing is sent yet. `verb` is what the API server's audit log gets to see.
pub(crate) async fn reach(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
    verb: &str,
) -> Result<Cluster, ApiFailure> {
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
