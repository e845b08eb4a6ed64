//! The five programs of a control plane and their command lines.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The API server's certificate; the server creates it, with a certificate authority, in this file.
pub(crate) const CERTIFICATE: &str = "certificates/apiserver.crt";
/// The API server's private key, which also signs the tokens of service accounts.
const KEY: &str = "certificates/apiserver.key";
/// Kubeconfig of the administrator.
pub(crate) const KUBECONFIG: &str = "admin.kubeconfig";
/// Bearer tokens that the API server accepts.
pub(crate) const TOKENS: &str = "tokens.csv";
/// Rules that say which requests are audited.
pub(crate) const AUDIT_POLICY: &str = "audit-policy.yaml";
/// The log of the audited requests.
pub(crate) const AUDIT_LOG: &str = "audit.log";
/// Certificate of the authority that signs client certificates.
pub(crate) const CLIENT_CA: &str = "client-ca.crt";
/// Key of the authority that signs client certificates.
pub(crate) const CLIENT_CA_KEY: &str = "client-ca.key";
/// The stages of objects that kwok simulates.
pub(crate) const STAGES: &str = "stages.yaml";

/// A program of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Component {
    /// etcd: the store behind the API server.
    Etcd,
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager: workloads, budget status, taints, volume attachments.
    ControllerManager,
    /// kube-scheduler.
    Scheduler,
    /// kwok: plays kubelets and the attacher.
    Kwok,
}

impl Component {
    /// The file name of the program.
    pub fn program(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kwok => "kwok",
        }
    }
}

/// The folder and the ports of a control plane.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) folder: PathBuf,
    pub(crate) etcd: u16,
    pub(crate) etcd_peers: u16,
    pub(crate) api_server: u16,
}

impl Site {
    /// The API server's URL.
    pub(crate) fn server(&self) -> String {
        format!("https://127.0.0.1:{}", self.api_server)
    }

    /// Path of a file in the control plane's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The log of one component.
    pub(crate) fn log(&self, component: Component) -> PathBuf {
        self.path(&format!("{}.log", component.program()))
    }

    /// The command line of one component.
    pub(crate) fn arguments(&self, component: Component) -> Vec<String> {
        match component {
            Component::Etcd => self.etcd(),
            Component::ApiServer => self.api_server(),
            Component::ControllerManager => self.controller_manager(),
            Component::Scheduler => self.scheduler(),
            Component::Kwok => self.kwok(),
        }
    }

    fn etcd(&self) -> Vec<String> {
        let clients = format!("http://127.0.0.1:{}", self.etcd);
        let peers = format!("http://127.0.0.1:{}", self.etcd_peers);
        vec![
            self.file("data-dir", "etcd"),
            "--name=default".to_owned(),
            "--unsafe-no-fsync".to_owned(),
            "--log-level=warn".to_owned(),
            format!("--listen-client-urls={clients}"),
            format!("--advertise-client-urls={clients}"),
            format!("--listen-peer-urls={peers}"),
            format!("--initial-advertise-peer-urls={peers}"),
            format!("--initial-cluster=default={peers}"),
        ]
    }

    fn api_server(&self) -> Vec<String> {
        vec![
            format!("--etcd-servers=http://127.0.0.1:{}", self.etcd),
            format!("--secure-port={}", self.api_server),
            "--bind-address=127.0.0.1".to_owned(),
            // The loopback address must not become an endpoint of the `kubernetes` service, because no controller would
            // correct it.
            "--advertise-address=127.0.0.1".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            self.file("cert-dir", "certificates"),
            self.file("token-auth-file", TOKENS),
            self.file("client-ca-file", CLIENT_CA),
            // As in k3s and kubeadm: a kubelet's credentials are confined to its own node.
            "--authorization-mode=Node,RBAC".to_owned(),
            "--enable-admission-plugins=NodeRestriction".to_owned(),
            // The API server creates its serving key before it reads this option, and keeps the key over a restart.
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
            self.file("service-account-key-file", KEY),
            self.file("service-account-signing-key-file", KEY),
            "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
            "--allow-privileged=true".to_owned(),
            "--profiling=false".to_owned(),
            self.file("audit-policy-file", AUDIT_POLICY),
            self.file("audit-log-path", AUDIT_LOG),
            // One audit log file, never rotated (the limit is in MiB): audit marks are offsets into it.
            "--audit-log-maxsize=1000000".to_owned(),
        ]
    }

    fn controller_manager(&self) -> Vec<String> {
        let mut arguments = self.client_of_api_server();
        arguments.extend([
            "--controllers=*,-nodeipam".to_owned(),
            "--use-service-account-credentials=true".to_owned(),
            "--secure-port=0".to_owned(),
            "--profiling=false".to_owned(),
            // Only this sync handles a claim that the component saw before its volume. The default interval is 15 s.
            "--pvclaimbinder-sync-period=1s".to_owned(),
            self.file("root-ca-file", CERTIFICATE),
            self.file("service-account-private-key-file", KEY),
        ]);
        arguments.extend(leader_election());
        arguments
    }

    fn scheduler(&self) -> Vec<String> {
        let mut arguments = self.client_of_api_server();
        arguments.extend(["--secure-port=0".to_owned(), "--profiling=false".to_owned()]);
        arguments.extend(leader_election());
        arguments
    }

    fn kwok(&self) -> Vec<String> {
        let mut arguments = self.client_of_api_server();
        arguments.extend([
            "--manage-all-nodes=true".to_owned(),
            self.file("config", STAGES),
            // The default of a kubelet. The leases keep the nodes Ready.
            "--node-lease-duration-seconds=40".to_owned(),
            "--cidr=10.64.0.1/16".to_owned(),
        ]);
        arguments
    }

    fn client_of_api_server(&self) -> Vec<String> {
        vec![self.file("kubeconfig", KUBECONFIG)]
    }

    fn file(&self, option: &str, name: &str) -> String {
        format!("--{option}={}", self.path(name).display())
    }
}

/// The lease is renewed every 2 s, as is usual, so that its age shows a frozen component. But a component must survive
/// an outage or a pause of many minutes: with the usual deadline of 10 s it would exit.
fn leader_election() -> [String; 4] {
    [
        "--leader-elect=true".to_owned(),
        "--leader-elect-lease-duration=7200s".to_owned(),
        "--leader-elect-renew-deadline=3600s".to_owned(),
        "--leader-elect-retry-period=2s".to_owned(),
    ]
}
