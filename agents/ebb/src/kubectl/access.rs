//! The way to the cluster of a person: `--kubeconfig`, `KUBECONFIG`, `~/.kube/config`, then k3s' own files.

use std::env;
use std::path::{Path, PathBuf};

use cluster::kubeconfig::Search;
use cluster::{ApiFailure, Cluster, connect};

/// Where k3s puts its kubeconfig: EVE's place, then k3s' own.
const K3S: [&str; 2] = ["run/.kube/k3s/k3s.yaml", "etc/rancher/k3s/k3s.yaml"];

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

/// Where the agents look below a root.
pub(crate) fn below(root: &Path) -> impl Iterator<Item = PathBuf> {
    K3S.into_iter().map(|path| root.join(path))
}
