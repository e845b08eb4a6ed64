//! What machine this is: which Kubernetes runs here, and who starts its services.

use cluster::kubeconfig::KUBELETS;
use pubsub::Root;
use runtime::zedbox::check_zedbox;

/// Where a package puts what the cluster has to grant.
const MANIFEST: &str = "/usr/share/ebb/kubernetes/ebb-nodes.yaml";

/// A distribution of Kubernetes that says by its files that it runs here.
#[derive(Debug)]
struct Kind {
    name: &'static str,
    /// The kubelet's own kubeconfig.
    kubelet: &'static str,
    /// An administrator's kubeconfig, which only a server has.
    administrator: &'static str,
    /// kubectl with that kubeconfig.
    kubectl: &'static str,
}

const KINDS: [Kind; 3] = {
    let [k3s, rke2, kubeadm] = KUBELETS;
    [
        Kind {
            name: "k3s",
            kubelet: k3s,
            administrator: "/etc/rancher/k3s/k3s.yaml",
            kubectl: "k3s kubectl",
        },
        Kind {
            name: "RKE2",
            kubelet: rke2,
            administrator: "/etc/rancher/rke2/rke2.yaml",
            kubectl: "/var/lib/rancher/rke2/bin/kubectl --kubeconfig /etc/rancher/rke2/rke2.yaml",
        },
        Kind {
            name: "kubeadm",
            kubelet: kubeadm,
            administrator: "/etc/kubernetes/admin.conf",
            kubectl: "kubectl --kubeconfig /etc/kubernetes/admin.conf",
        },
    ]
};

/// This machine.
#[derive(Debug)]
pub(crate) struct Host {
    kind: Option<&'static Kind>,
    is_server: bool,
    /// True if systemd is process 1.
    pub(crate) has_systemd: bool,
    /// What EVE's zedbox forbids, if it runs here.
    pub(crate) zedbox: Option<String>,
}

impl Host {
    /// Looks at the files below the root.
    pub(crate) fn look(root: &Root) -> Self {
        let is_here = |path: &str| root.join(path).is_file();
        let kind = KINDS.iter().find(|kind| is_here(kind.kubelet) || is_here(kind.administrator));
        Self {
            is_server: kind.is_some_and(|kind| is_here(kind.administrator)),
            kind,
            has_systemd: root.join("/run/systemd/system").is_dir(),
            zedbox: check_zedbox(root).err().map(|error| error.to_string()),
        }
    }

    /// For example `k3s server, systemd`.
    pub(crate) fn words(&self) -> String {
        let kubernetes = match self.kind {
            Some(kind) if self.is_server => format!("{} server", kind.name),
            Some(kind) => format!("{} agent", kind.name),
            None => "neither k3s nor RKE2 nor kubeadm".to_owned(),
        };
        let manager = if self.has_systemd { "systemd" } else { "no systemd" };
        format!("{kubernetes}, {manager}")
    }

    /// What grants zedkube the rights that a kubelet lacks: here if this is a server, else where an administrator sits.
    pub(super) fn grant(&self) -> String {
        match self.kind.filter(|_| self.is_server) {
            Some(kind) => format!("{} apply -f {MANIFEST}", kind.kubectl),
            None => {
                format!("an administrator of the cluster: kubectl apply -f ebb-nodes.yaml ({MANIFEST} here)")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_known_by_its_files() -> anyhow::Result<()> {
        let k3s = "var/lib/rancher/k3s/agent/kubelet.kubeconfig";
        for (files, words, grant) in [
            (&[][..], "neither k3s nor RKE2 nor kubeadm, no systemd", "an administrator"),
            (&[k3s], "k3s agent, no systemd", "an administrator"),
            (&[k3s, "etc/rancher/k3s/k3s.yaml"], "k3s server, no systemd", "k3s kubectl apply -f /usr/"),
            (&["etc/rancher/k3s/k3s.yaml"], "k3s server, no systemd", "k3s kubectl apply -f /usr/"),
            (
                &["var/lib/rancher/rke2/agent/kubelet.kubeconfig"],
                "RKE2 agent, no systemd",
                "an administrator",
            ),
            (&["etc/kubernetes/kubelet.conf"], "kubeadm agent, no systemd", "an administrator"),
            (
                &["etc/kubernetes/kubelet.conf", "etc/kubernetes/admin.conf", "run/systemd/system/x"],
                "kubeadm server, systemd",
                "kubectl --kubeconfig /etc/kubernetes/admin.conf apply -f /usr/",
            ),
            // Folders alone prove nothing.
            (
                &["var/lib/rancher/k3s/agent/x"],
                "neither k3s nor RKE2 nor kubeadm, no systemd",
                "an administrator",
            ),
        ] {
            let folder = tempfile::tempdir()?;
            for file in files {
                let path = folder.path().join(file);
                std::fs::create_dir_all(path.parent().unwrap())?;
                std::fs::File::create(path)?;
            }
            let host = Host::look(&Root::new(folder.path()));
            assert_eq!(host.words(), words, "{files:?}");
            assert!(host.grant().starts_with(grant), "{files:?}: {}", host.grant());
        }
        Ok(())
    }
}
