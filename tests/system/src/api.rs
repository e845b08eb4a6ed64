//! Fast calls to an API server, for tests that make thousands of them: one kubectl takes a tenth of a second.

use std::path::Path;
use std::sync::OnceLock;

use anyhow::{Context, Result};
use http::header::CONTENT_TYPE;
use http::{Method, Request};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;
use tokio::runtime::Runtime;

/// Calls that block their thread.
#[derive(Clone)]
pub struct Api {
    client: Client,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Api")
    }
}

/// The runtime of all blocking calls and proxies of this process.
pub(crate) fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<std::io::Result<Runtime>> = OnceLock::new();
    let start = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    RUNTIME.get_or_init(start).as_ref().map_err(|error| anyhow::anyhow!("no runtime: {error}"))
}

impl Api {
    /// Opens calls with this kubeconfig.
    pub fn open(kubeconfig: &Path) -> Result<Self> {
        Self::open_for(kubeconfig, None)
    }

    /// Opens calls with an administrator's kubeconfig, in the name of another user, who is in no group.
    pub fn open_as(kubeconfig: &Path, user: &str) -> Result<Self> {
        Self::open_for(kubeconfig, Some(user))
    }

    fn open_for(kubeconfig: &Path, user: Option<&str>) -> Result<Self> {
        let client = runtime()?.block_on(async {
            let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
            let mut config =
                Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
            if let Some(user) = user {
                config.auth_info.impersonate = Some(user.to_owned());
            }
            anyhow::Ok(Client::try_from(config)?)
        })?;
        Ok(Self { client })
    }

    /// Reads an object or a list.
    pub fn get(&self, path: &str) -> Result<Value> {
        self.call(&Method::GET, path, "application/json", &Value::Null)
    }

    /// Reads an object; `None` if it does not exist.
    pub fn find(&self, path: &str) -> Result<Option<Value>> {
        match self.get(path) {
            Ok(found) => Ok(Some(found)),
            Err(error) if is_code(&error, 404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The `items` of a list.
    pub fn list(&self, path: &str) -> Result<Vec<Value>> {
        match self.get(path)?.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => Ok(items),
            _ => anyhow::bail!("{path} is no list"),
        }
    }

    /// Creates an object.
    pub fn create(&self, path: &str, object: &Value) -> Result<Value> {
        self.call(&Method::POST, path, "application/json", object)
    }

    /// Changes an object by a merge patch.
    pub fn patch(&self, path: &str, patch: &Value) -> Result<Value> {
        self.call(&Method::PATCH, path, "application/merge-patch+json", patch)
    }

    /// Changes an object by server-side apply.
    pub fn apply(&self, path: &str, object: &Value) -> Result<Value> {
        self.call(&Method::PATCH, path, "application/apply-patch+yaml", object)
    }

    /// Sends a PATCH as a merge patch, any other method with JSON.
    pub fn send(&self, method: &Method, path: &str, body: &Value) -> Result<Value> {
        let kind = if *method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        self.call(method, path, kind, body)
    }

    fn call(&self, method: &Method, path: &str, kind: &str, body: &Value) -> Result<Value> {
        let context = || format!("{method} {path}");
        let bytes = if body.is_null() { Vec::new() } else { serde_json::to_vec(body)? };
        let request =
            Request::builder().method(method.clone()).uri(path).header(CONTENT_TYPE, kind).body(bytes)?;
        runtime()?.block_on(self.client.request(request)).with_context(context)
    }
}

fn is_code(error: &anyhow::Error, code: u16) -> bool {
    matches!(error.downcast_ref(), Some(kube::Error::Api(status)) if status.code == code)
}
