//! The two servers under test.

mod asked;
mod busy;
mod held;
mod longhorn;
mod users;
mod webhook;

use std::fs;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use cluster::Cluster;
use control_plane::{Component, ControlPlane};
use fake_cluster::{Controller, Effect, FakeCluster, Fault, Reply, Settings};
use jiff::SignedDuration;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::sync::OnceCell;

use crate::caller::Caller;
use crate::objects;

pub use asked::{Asked, Client};
pub use busy::Busy;
pub use held::Held;
pub use webhook::WEBHOOK;

/// A server with the Kubernetes API, and the faults that a test can cause in it.
#[derive(Debug)]
pub struct Target {
    server: Server,
    admin: OnceCell<Caller>,
}

#[derive(Debug)]
enum Server {
    Fake(FakeCluster),
    /// Other tests use this control plane too.
    Shared(&'static ControlPlane),
    Own(Arc<Mutex<ControlPlane>>),
}

impl Target {
    /// A fake cluster of its own. Its times are those of a small real cluster, except where a test would only have to
    /// wait: for bookmarks, the end of a namespace, a detach.
    pub fn fake() -> Result<Self> {
        Self::fake_ahead(SignedDuration::ZERO)
    }

    /// As [`Target::fake`], with a wall clock that is ahead of ours by this time; negative if it is behind.
    pub fn fake_ahead(clock_ahead: SignedDuration) -> Result<Self> {
        let settings = Settings {
            clock_ahead,
            bookmark_every: Duration::from_millis(50),
            namespace_empties_after: Duration::from_millis(500),
            volume_detach_after: Duration::from_millis(10),
            ..Settings::default()
        };
        Ok(Self::of(Server::Fake(FakeCluster::start_with(settings)?)))
    }

    /// The real control plane that `EBB_CONTROL_PLANE` names; without it, one for all tests of this process.
    pub fn shared() -> Result<Self> {
        static SHARED: OnceLock<Result<ControlPlane, String>> = OnceLock::new();
        let shared = SHARED.get_or_init(|| ControlPlane::shared().map_err(|error| format!("{error:#}")));
        let plane = shared.as_ref().map_err(|error| anyhow!("no control plane: {error}"))?;
        Ok(Self::of(Server::Shared(plane)))
    }

    /// A real control plane of its own, which can be stopped and frozen; its start takes 8 s.
    pub fn own() -> Result<Self> {
        Ok(Self::of(Server::Own(Arc::new(Mutex::new(ControlPlane::start()?)))))
    }

    fn of(server: Server) -> Self {
        Self { server, admin: OnceCell::new() }
    }

    /// True if this is the fake: only for set-up that cannot be the same. Comparisons must not depend on it.
    pub(crate) fn is_fake(&self) -> bool {
        matches!(self.server, Server::Fake(_))
    }

    /// The calls of the administrator.
    pub async fn admin(&self) -> Result<&Caller> {
        self.admin.get_or_try_init(|| async { self.caller(self.kubeconfig()?, None).await }).await
    }

    /// The calls of a client with an unknown token.
    pub async fn with_wrong_token(&self) -> Result<Caller> {
        let mut config = self.kubeconfig()?;
        for user in &mut config.auth_infos {
            user.auth_info = Some(serde_json::from_str(r#"{"token": "wrong"}"#)?);
        }
        self.caller(config, None).await
    }

    /// The calls of a user without any rights. The fake knows no rights, so it gets a rule that refuses the next calls
    /// with this verb on this object.
    pub async fn as_nobody(&self, verb: &str, resource: &str, namespace: &str, name: &str) -> Result<Caller> {
        if let Server::Fake(fake) = &self.server {
            let reply = Reply::forbidden("nobody", verb, resource, namespace, name);
            fake.faults().add(Fault::on(verb, resource, Effect::Answer(reply)).named(name).always());
        }
        self.caller(self.kubeconfig()?, Some("nobody")).await
    }

    /// Forbids evictions in this namespace by a `ValidatingAdmissionPolicy` of the same name, with `why` as its text.
    /// The fake knows no policies, so it gets a rule for `pod`. The real server learns the policy a little later.
    pub async fn forbid_evictions(&self, namespace: &str, pod: &str, why: &str) -> Result<()> {
        if let Server::Fake(fake) = &self.server {
            let reply = Reply::policy_denial(namespace, pod, why);
            let fault = Fault::on("create", "pods/eviction", Effect::Answer(reply));
            fake.faults().add(fault.named(pod).always());
            return Ok(());
        }
        let [policy, binding] = objects::policy_against_evictions(namespace, why);
        let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
        self.admin().await?.post(path, &policy).await?.object()?;
        let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
        self.admin().await?.post(path, &binding).await?.object().map(drop)
    }

    /// Freezes the kube-controller-manager.
    pub fn pause_controller_manager(&self) -> Result<()> {
        match &self.server {
            Server::Fake(fake) => {
                for controller in Controller::MANAGER {
                    fake.faults().pause(controller);
                }
                Ok(())
            }
            Server::Own(plane) => lock(plane).pause(Component::ControllerManager),
            Server::Shared(_) => bail!(SHARED),
        }
    }

    /// Lets the kube-controller-manager go on.
    pub fn resume_controller_manager(&self) -> Result<()> {
        match &self.server {
            Server::Fake(fake) => {
                for controller in Controller::MANAGER {
                    fake.faults().resume(controller);
                }
                Ok(())
            }
            Server::Own(plane) => lock(plane).resume(Component::ControllerManager),
            Server::Shared(_) => bail!(SHARED),
        }
    }

    /// Stops the API server: connections break, new ones are refused.
    pub async fn stop_api_server(&self) -> Result<()> {
        match &self.server {
            Server::Fake(fake) => Ok(fake.faults().api_down()?),
            Server::Own(plane) => blocking(plane, ControlPlane::stop_api_server).await,
            Server::Shared(_) => bail!(SHARED),
        }
    }

    /// Starts the API server again. Its watch cache is new, so it knows no earlier versions.
    pub async fn start_api_server(&self) -> Result<()> {
        match &self.server {
            Server::Fake(fake) => {
                fake.faults().forget_history();
                Ok(fake.faults().api_up()?)
            }
            Server::Own(plane) => blocking(plane, ControlPlane::start_api_server).await,
            Server::Shared(_) => bail!(SHARED),
        }
    }

    fn kubeconfig(&self) -> Result<Kubeconfig> {
        let text = match &self.server {
            Server::Fake(fake) => fake.kubeconfig(),
            Server::Shared(plane) => fs::read_to_string(plane.kubeconfig())?,
            Server::Own(plane) => fs::read_to_string(lock(plane).kubeconfig())?,
        };
        Kubeconfig::from_yaml(&text).context("the target's kubeconfig is not valid")
    }

    async fn caller(&self, mut config: Kubeconfig, user: Option<&str>) -> Result<Caller> {
        for info in config.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
            info.impersonate = user.map(str::to_owned);
        }
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        Ok(Caller::new(Cluster::from_config(config, "contract")?))
    }
}

const SHARED: &str = "a shared control plane is not stopped or frozen: use `Target::own`";

fn lock(plane: &Mutex<ControlPlane>) -> std::sync::MutexGuard<'_, ControlPlane> {
    plane.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the call outside of the runtime's only thread, so that watches go on meanwhile.
async fn blocking(plane: &Arc<Mutex<ControlPlane>>, act: fn(&mut ControlPlane) -> Result<()>) -> Result<()> {
    let plane = Arc::clone(plane);
    tokio::task::spawn_blocking(move || act(&mut lock(&plane))).await?
}
