//! The processes of an own control plane, started in order.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, TcpStream},
    path::Path,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use nix::sys::signal::Signal;

use crate::{
    binaries::Binaries,
    components::{AUDIT_LOG, AUDIT_POLICY, CERTIFICATE, Component, KUBECONFIG, STAGES, Site, TOKENS},
    coordinates::Coordinates,
    credentials::{User, kubeconfig, token, write_private},
    kubectl::Kubectl,
    node_users::make_client_ca,
    ports::Reserved,
    process::{Process, last_lines},
    wait::until,
};

/// Time limit for the start of a component, on a busy machine.
const START_LIMIT: Duration = Duration::from_mins(2);
/// Number of lines of a component's log that are shown if it does not start.
const LOG_LINES: usize = 8;

/// The running components. Dropping them kills them.
#[derive(Debug)]
pub(crate) struct Processes {
    site: Site,
    binaries: Binaries,
    running: BTreeMap<Component, Process>,
}

impl Processes {
    /// Starts all components in `folder` and waits until each of them works.
    pub(crate) fn start(folder: &Path, binaries: &Binaries) -> Result<(Self, Coordinates)> {
        let (etcd, etcd_peers, api_server) = (Reserved::new()?, Reserved::new()?, Reserved::new()?);
        let site = Site {
            folder: folder.to_owned(),
            etcd: etcd.port(),
            etcd_peers: etcd_peers.port(),
            api_server: api_server.port(),
        };
        let token = token();
        write_private(&site.path(TOKENS), format!("{token},admin,admin,\"system:masters\"\n").as_bytes())?;
        write_private(&site.path(AUDIT_POLICY), include_bytes!("../config/audit-policy.yaml"))?;
        write_private(&site.path(STAGES), include_bytes!("../config/stages.yaml"))?;
        make_client_ca(&site)?;
        // Audit marks are offsets into the log, so it must exist from the beginning.
        write_private(&site.path(AUDIT_LOG), b"")?;

        let mut processes = Self { site, binaries: binaries.clone(), running: BTreeMap::new() };
        etcd.release();
        etcd_peers.release();
        processes.start_etcd()?;
        api_server.release();
        let kubectl = processes.start_api_server(&token)?;
        processes.start_clients(&kubectl)?;
        let coordinates = processes.coordinates(token);
        Ok((processes, coordinates))
    }

    /// Kills a component, as a power cut of its machine would.
    pub(crate) fn kill(&mut self, component: Component) -> Result<()> {
        self.running
            .remove(&component)
            .map(drop)
            .with_context(|| format!("{} does not run", component.program()))
    }

    /// Starts the API server, if it does not run, and waits until it is ready. Returns its process id.
    pub(crate) fn restart_api_server(&mut self, token: &str) -> Result<u32> {
        if self.running.contains_key(&Component::ApiServer) {
            bail!("kube-apiserver runs already");
        }
        self.start_api_server(token)?;
        self.process(Component::ApiServer).map(Process::id)
    }

    /// Sends a signal to one component.
    pub(crate) fn signal(&self, component: Component, signal: Signal) -> Result<()> {
        self.process(component)?.signal(signal)
    }

    fn start_etcd(&mut self) -> Result<()> {
        self.spawn(Component::Etcd)?;
        let port = self.site.etcd;
        self.until_works(Component::Etcd, || connect(port))
    }

    /// Returns the administrator's kubectl.
    fn start_api_server(&mut self, token: &str) -> Result<Kubectl> {
        self.spawn(Component::ApiServer)?;
        let port = self.site.api_server;
        self.until_works(Component::ApiServer, || connect(port))?;
        let user = User::Token(token.to_owned());
        let config = kubeconfig(&self.site.server(), &self.site.path(CERTIFICATE), &user)?;
        write_private(&self.site.path(KUBECONFIG), config.as_bytes())?;
        let kubectl = Kubectl::new(&self.binaries, &self.site.path(KUBECONFIG), &self.site.folder);
        self.until_works(Component::ApiServer, || kubectl.run(&["get", "--raw=/readyz"]).map(drop))?;
        Ok(kubectl)
    }

    /// Starts the components that work through the API server, and waits until the first result of each is seen there.
    fn start_clients(&mut self, kubectl: &Kubectl) -> Result<()> {
        for component in [Component::ControllerManager, Component::Scheduler, Component::Kwok] {
            self.spawn(component)?;
        }
        let created = |object: &str, namespace: &str| {
            let namespace = format!("--namespace={namespace}");
            kubectl.run(&["wait", "--for=create", object, &namespace, "--timeout=5s"]).map(drop)
        };
        self.until_works(Component::ControllerManager, || created("serviceaccount/default", "default"))?;
        self.until_works(Component::Scheduler, || created("lease/kube-scheduler", "kube-system"))
    }

    fn spawn(&mut self, component: Component) -> Result<()> {
        let process = Process::start(
            &self.binaries.path(component.program()),
            &self.site.arguments(component),
            &self.site.folder,
            &self.site.log(component),
        )?;
        self.running.insert(component, process);
        Ok(())
    }

    /// Waits until `look` succeeds; fails at once, with the last lines of the log, if the component ends.
    fn until_works(&mut self, component: Component, look: impl Fn() -> Result<()>) -> Result<()> {
        let name = component.program();
        let log = self.site.log(component);
        let process = self.running.get_mut(&component).with_context(|| format!("{name} does not run"))?;
        let outcome = until(&format!("{name} works"), START_LIMIT, || {
            if let Some(status) = process.ended()? {
                return Ok(Some(Err(anyhow!("{name} ended ({status})"))));
            }
            look().map(|()| Some(Ok(())))
        });
        outcome.and_then(|ended| ended).with_context(|| {
            format!("{name} did not start; its log ends with:\n{}", last_lines(&log, LOG_LINES))
        })
    }

    fn process(&self, component: Component) -> Result<&Process> {
        self.running.get(&component).with_context(|| format!("{} does not run", component.program()))
    }

    fn coordinates(&self, token: String) -> Coordinates {
        Coordinates {
            server: self.site.server(),
            token,
            kubeconfig: self.site.path(KUBECONFIG),
            certificate: self.site.path(CERTIFICATE),
            audit_log: self.site.path(AUDIT_LOG),
            binaries: self.binaries.folder().to_owned(),
            folder: self.site.folder.clone(),
            pids: self.running.iter().map(|(component, process)| (*component, process.id())).collect(),
        }
    }
}

fn connect(port: u16) -> Result<()> {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port))
        .map(drop)
        .with_context(|| format!("no process listens on port {port}"))
}
