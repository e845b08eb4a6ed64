//! Where the way to the API server is described, and whether that has changed.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use http::HeaderValue;
use kube::Config;
use kube::config::{AuthInfo, Kubeconfig, KubeconfigError};
use serde_json::Value;

use crate::failure::{ApiFailure, kubeconfig_text};

/// No kubeconfig is longer: a path that leads elsewhere must not fill the memory.
const LONGEST: u64 = 4 * 1024 * 1024;

/// Where to look for a kubeconfig, in this order; the first hit counts, even if it turns out to be broken: another
/// one further down might lead to another cluster.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// From a setting or flag. Counts even if there is no such file.
    pub explicit: Option<PathBuf>,
    /// The value of `KUBECONFIG`: one path, or several to be merged. Counts even if there are no such files.
    pub environment: Option<OsString>,
    /// Tried in order; those that do not exist are passed over.
    pub candidates: Vec<PathBuf>,
    /// At last: the service account of the pod that we run in, if we run in one.
    pub in_cluster: bool,
    /// Which context of the kubeconfig; `None` = its current one.
    pub context: Option<String>,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// These files, to be merged; mostly one.
    Files(Vec<PathBuf>),
    /// The service account of the pod that we run in.
    InCluster,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files(paths) => {
                let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
                write!(f, "kubeconfig {}", paths.join(", "))
            }
            Self::InCluster => f.write_str("service account of this pod"),
        }
    }
}

/// Differs as soon as one of the files was replaced or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint(Vec<Option<(u64, Option<SystemTime>)>>);

impl Search {
    /// Looks in the environment of this process as well: `KUBECONFIG`, and the pod that we may run in.
    pub fn with_environment(explicit: Option<PathBuf>, candidates: Vec<PathBuf>) -> Self {
        let environment = env::var_os("KUBECONFIG");
        Self { explicit, environment, candidates, in_cluster: true, context: None }
    }

    /// With this context instead of the kubeconfig's current one.
    #[must_use]
    pub fn in_context(self, context: Option<String>) -> Self {
        Self { context, ..self }
    }

    /// What counts now; `None` when there is no kubeconfig at all.
    pub fn find(&self) -> Option<Origin> {
        if let Some(path) = &self.explicit {
            return Some(Origin::Files(vec![path.clone()]));
        }
        let named: Vec<PathBuf> = self.environment.iter().flat_map(env::split_paths).collect();
        let named: Vec<PathBuf> = named.into_iter().filter(|path| !path.as_os_str().is_empty()).collect();
        if !named.is_empty() {
            return Some(Origin::Files(named));
        }
        if let Some(path) = self.candidates.iter().find(|path| path.exists()) {
            return Some(Origin::Files(vec![path.clone()]));
        }
        let pod = self.in_cluster && env::var_os("KUBERNETES_SERVICE_HOST").is_some();
        pod.then_some(Origin::InCluster)
    }

    /// What was looked for, for the message that nothing was found.
    pub(crate) fn places(&self) -> String {
        let candidates = self.candidates.iter().map(|path| path.display().to_string());
        let environment = self.environment.is_none().then(|| "KUBECONFIG".to_owned());
        let pod = self.in_cluster.then(|| "service account of a pod".to_owned());
        environment.into_iter().chain(candidates).chain(pod).collect::<Vec<_>>().join(", ")
    }
}

impl Origin {
    /// The files as they are now. Take it before `Origin::load`, so that a change in between is seen later.
    pub fn fingerprint(&self) -> Fingerprint {
        let paths = match self {
            Self::Files(paths) => paths.as_slice(),
            Self::InCluster => &[],
        };
        Fingerprint(paths.iter().map(|path| stamp(path)).collect())
    }

    /// Reads it. Whatever is wrong with it is [`ApiFailure::Unreachable`]. Reads files and may run a credential
    /// plugin, so it blocks.
    pub(crate) fn load(&self, context: Option<&str>) -> Result<Config, ApiFailure> {
        let config = match (self, context) {
            (Self::Files(paths), _) => from_files(paths, context)?,
            (Self::InCluster, Some(context)) => {
                return Err(broken(self, &format!("it has no contexts, so no `{context}`")));
            }
            (Self::InCluster, None) => {
                Config::incluster().map_err(|error| ApiFailure::unreachable(format!("{self}: {error}")))?
            }
        };
        self.check(&config)?;
        Ok(config)
    }

    /// What kube takes for granted, and panics without.
    fn check(&self, config: &Config) -> Result<(), ApiFailure> {
        let url = &config.cluster_url;
        if !matches!(url.scheme_str(), Some("http" | "https")) || url.host().is_none_or(str::is_empty) {
            return Err(broken(self, "its cluster's server is not a URL such as https://127.0.0.1:6443"));
        }
        if config.root_cert.as_ref().is_some_and(Vec::is_empty) {
            return Err(broken(self, "its certificate-authority holds no certificate"));
        }
        if !are_headers(&config.auth_info) {
            return Err(broken(self, "its token holds characters that HTTP forbids"));
        }
        Ok(())
    }
}

fn stamp(path: &Path) -> Option<(u64, Option<SystemTime>)> {
    fs::metadata(path).ok().map(|metadata| (metadata.len(), metadata.modified().ok()))
}

fn from_files(paths: &[PathBuf], context: Option<&str>) -> Result<Config, ApiFailure> {
    let origin = Origin::Files(paths.to_vec());
    let mut merged = Kubeconfig::default();
    for path in paths {
        check_size(path)?;
        let next =
            Kubeconfig::read_from(path).map_err(|error| broken_file(path, &kubeconfig_text(&error)))?;
        merged = merged.merge(next).map_err(|error| broken(&origin, &kubeconfig_text(&error)))?;
    }
    if let Some(context) = context {
        choose(&mut merged, context).map_err(|why| broken(&origin, &why))?;
    }
    // kube takes HTTPS_PROXY for a proxy as well. The own cluster is reached directly; only a proxy that the
    // kubeconfig itself asks for would be needed, and we have none.
    let proxy = merged.clusters.iter().any(|named| {
        named.cluster.as_ref().is_some_and(|c| c.proxy_url.as_ref().is_some_and(|url| !url.is_empty()))
    });
    if proxy {
        return Err(broken(&origin, "it asks for a proxy (proxy-url), which is not supported"));
    }
    let mut config = Config::try_from(merged)
        .map_err(|error: KubeconfigError| broken(&origin, &kubeconfig_text(&error)))?;
    config.proxy_url = None;
    Ok(config)
}

/// Makes this context the current one.
fn choose(kubeconfig: &mut Kubeconfig, context: &str) -> Result<(), String> {
    let names: Vec<&str> = kubeconfig.contexts.iter().map(|named| named.name.as_str()).collect();
    if !names.contains(&context) {
        return Err(format!("it has no context `{context}`; there are: {}", names.join(", ")));
    }
    kubeconfig.current_context = Some(context.to_owned());
    Ok(())
}

fn check_size(path: &Path) -> Result<(), ApiFailure> {
    let metadata = fs::metadata(path).map_err(|error| broken_file(path, &error.to_string()))?;
    if !metadata.is_file() {
        return Err(broken_file(path, "it is not a file"));
    }
    if metadata.len() > LONGEST {
        return Err(broken_file(path, "it is longer than 4 MiB"));
    }
    Ok(())
}

/// Whether the texts that become an `Authorization` header can be one. They are hidden in types of a crate that only
/// shows them when they are written out again.
fn are_headers(auth: &AuthInfo) -> bool {
    let Ok(auth) = serde_json::to_value(auth) else {
        return false;
    };
    let plugin = auth.pointer("/auth-provider/config").and_then(Value::as_object);
    let texts = plugin.into_iter().flat_map(serde_json::Map::values).chain(auth.get("token"));
    texts.filter_map(Value::as_str).all(|text| HeaderValue::from_str(text).is_ok())
}

fn broken_file(path: &Path, what: &str) -> ApiFailure {
    ApiFailure::unreachable(format!("cannot use kubeconfig `{}`: {what}", path.display()))
}

fn broken(origin: &Origin, what: &str) -> ApiFailure {
    ApiFailure::unreachable(format!("cannot use {origin}: {what}"))
}
