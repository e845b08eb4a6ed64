//! A running control plane, either this process's own or a shared one.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result};
use nix::sys::signal::Signal;

use crate::{
    binaries::Binaries,
    components::Component,
    coordinates::{Coordinates, ENVIRONMENT},
    kubectl::Kubectl,
    process::Folder,
    processes::Processes,
    wait::until,
};

/// How long a shared plane may take to answer: it runs already.
const ATTACH_LIMIT: Duration = Duration::from_mins(5);

/// A control plane, started by this process or shared by another one.
///
/// All calls block their thread. When the handle of an own control plane is dropped, or this process is killed, its
/// processes are killed and its folder is removed.
#[derive(Debug)]
pub struct ControlPlane {
    coordinates: Coordinates,
    kubectl: Kubectl,
    processes: Option<Processes>,
    /// The own control plane's folder, or this handle's folder for a shared one. Declared last, so it is dropped after
    /// the fields that use it.
    folder: Folder,
}

impl ControlPlane {
    /// Starts an own control plane; takes about 8 s, and minutes the first time, when the programs are built.
    ///
    /// Fails if the programs can neither be found nor built, or if one of them does not start: the error then shows the
    /// end of its log.
    pub fn start() -> Result<Self> {
        let binaries = Binaries::find_or_build()?;
        let folder = Folder::new()?;
        let (processes, coordinates) = Processes::start(folder.path(), &binaries)?;
        let kubectl = Kubectl::new(&binaries, &coordinates.kubeconfig, folder.path());
        Ok(Self { coordinates, kubectl, processes: Some(processes), folder })
    }

    /// The control plane that the environment variable [`ENVIRONMENT`] names; without it an own one.
    pub fn shared() -> Result<Self> {
        match env::var_os(ENVIRONMENT).filter(|value| !value.is_empty()) {
            Some(file) => Self::attach(Path::new(&file)),
            None => Self::start(),
        }
    }

    /// The running control plane whose coordinates are in `file`, as `control-plane run --ready-file` writes them.
    pub fn attach(file: &Path) -> Result<Self> {
        let coordinates = Coordinates::read(file)?;
        let binaries = Binaries::in_folder(&coordinates.binaries)?;
        let folder = Folder::new()?;
        let kubectl = Kubectl::new(&binaries, &coordinates.kubeconfig, folder.path());
        until("the shared control plane answers", ATTACH_LIMIT, || {
            kubectl.run(&["get", "--raw=/readyz"]).map(Some)
        })
        .with_context(|| {
            format!("is the `control-plane run` that wrote `{}` still running?", file.display())
        })?;
        Ok(Self { coordinates, kubectl, processes: None, folder })
    }

    /// The data that another process needs to use this control plane.
    pub fn coordinates(&self) -> &Coordinates {
        &self.coordinates
    }

    /// Kubeconfig of an administrator, readable by its owner only.
    pub fn kubeconfig(&self) -> &Path {
        &self.coordinates.kubeconfig
    }

    /// URL of the API server.
    pub fn server(&self) -> &str {
        &self.coordinates.server
    }

    /// Bearer token of that administrator, a member of `system:masters`.
    pub fn token(&self) -> &str {
        &self.coordinates.token
    }

    /// A command of `kubectl` 1.34 as that administrator, without its verb and arguments.
    pub fn kubectl(&self) -> Command {
        self.kubectl.command()
    }

    /// Runs `kubectl` and returns its standard output. An error contains the arguments and kubectl's message.
    pub fn run(&self, args: &[&str]) -> Result<String> {
        self.kubectl.run(args)
    }

    /// As [`ControlPlane::run`], with text on standard input, for `-f -`.
    pub fn run_with_input(&self, args: &[&str], input: &[u8]) -> Result<String> {
        self.kubectl.run_with_input(args, input)
    }

    /// Kills the API server: every connection breaks, new ones are refused. etcd keeps its data.
    ///
    /// Fails on a shared control plane, like the next three calls, because it would disturb the tests of other
    /// processes.
    pub fn stop_api_server(&mut self) -> Result<()> {
        self.own_mut()?.kill(Component::ApiServer)
    }

    /// Starts the API server again on the same port, and waits until it is ready.
    pub fn start_api_server(&mut self) -> Result<()> {
        let token = self.coordinates.token.clone();
        let id = self.own_mut()?.restart_api_server(&token)?;
        self.coordinates.pids.insert(Component::ApiServer, id);
        Ok(())
    }

    /// Freezes a component (SIGSTOP): its connections stay open, but it does nothing.
    pub fn pause(&self, component: Component) -> Result<()> {
        self.own()?.signal(component, Signal::SIGSTOP)
    }

    /// Lets a frozen component go on (SIGCONT).
    pub fn resume(&self, component: Component) -> Result<()> {
        self.own()?.signal(component, Signal::SIGCONT)
    }

    /// Path of a file in a folder that is removed with this handle.
    pub(crate) fn scratch(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn own(&self) -> Result<&Processes> {
        self.processes.as_ref().context(SHARED)
    }

    fn own_mut(&mut self) -> Result<&mut Processes> {
        self.processes.as_mut().context(SHARED)
    }
}

const SHARED: &str =
    "a shared control plane is not stopped or paused: start an own one with `ControlPlane::start`";
