//! Finds and loads the kubeconfig, and notices changes of its files.
//!
//! This crate itself reads what a kubeconfig names, with limits, and gives kube the contents: kube's own way never sees
//! a new certificate.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use kube::Config;
use kube::config::{AuthInfo, Cluster, Context, Kubeconfig, KubeconfigError, NamedContext};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::credentials;
use crate::failure::{ApiFailure, kubeconfig_text, words};
use trust::Trust;

/// A proxy that is never used: it keeps kube from reading one from the environment.
const UNUSED_PROXY: &str = "http://unused.invalid";

/// The kubelet's own kubeconfigs: k3s, RKE2, kubeadm. They give no rights on other nodes.
pub const KUBELETS: [&str; 3] = [
    "/var/lib/rancher/k3s/agent/kubelet.kubeconfig",
    "/var/lib/rancher/rke2/agent/kubelet.kubeconfig",
    "/etc/kubernetes/kubelet.conf",
];

/// An administrator's kubeconfig of k3s: first EVE's place, then k3s' own.
pub const ADMINISTRATORS: [&str; 2] = ["/run/.kube/k3s/k3s.yaml", "/etc/rancher/k3s/k3s.yaml"];

/// The places to search for a kubeconfig, in this order. The first one that exists is used even if it is broken, because
/// the next one might lead to another cluster.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// The path from a setting or flag. It is used even if the file does not exist.
    pub explicit: Option<PathBuf>,
    /// The value of `KUBECONFIG`: one path, or several to be merged, of which missing files are skipped, as kubectl
    /// does. It is used even if none of the files exists.
    pub environment: Option<OsString>,
    /// Paths that are tried in order; missing files are skipped.
    pub candidates: Vec<PathBuf>,
    /// True to use at last the service account of the pod in which this process runs, if there is one.
    pub in_cluster: bool,
    /// What a person chooses instead of what the kubeconfig says.
    pub overrides: Overrides,
    /// Which files may be read; the service account of a pod always may.
    pub trust: Trust,
}

/// What a person chooses instead of what the kubeconfig says, as kubectl's flags of these names. An empty text chooses
/// nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// The context to use; else the current one.
    pub context: Option<String>,
    /// The cluster to use, by its name in the kubeconfig; else that of the context.
    pub cluster: Option<String>,
    /// The user whose credentials are sent, by its name in the kubeconfig; else that of the context.
    pub user: Option<String>,
    /// Act as this user (`--as`).
    pub impersonate: Option<String>,
    /// Act as a member of these groups (`--as-group`), and of none that the kubeconfig names.
    pub groups: Vec<String>,
    /// Act with this UID (`--as-uid`).
    pub uid: Option<String>,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// These files, to be merged; usually one.
    Files(Vec<PathBuf>),
    /// The service account of the pod that this process runs in.
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

/// The state of the files when they were read: the kubeconfig and every file that it names, except token files, which
/// are read again and again anyway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fingerprint(Vec<(PathBuf, Option<Stamp>)>);

/// Inode, length and time of change. It differs as soon as the file, or the target of a link, is replaced or written.
type Stamp = (u64, u64, Option<SystemTime>);

impl Fingerprint {
    /// Notes the stamp of a file. Has to be called before the file is read, so that a change in between is noticed
    /// later.
    fn take(&mut self, path: &Path) {
        self.0.push((path.to_owned(), stamp(path)));
    }

    /// True if one of the files was replaced, written, removed or created since.
    pub(crate) fn has_changed(&self) -> bool {
        self.0.iter().any(|(path, seen)| stamp(path) != *seen)
    }
}

/// The content of a kubeconfig and of all files that it names, so that kube has nothing to read or to run.
#[derive(Debug)]
pub(crate) struct Description {
    pub(crate) config: Config,
    pub(crate) tokens: credentials::Origin,
    pub(crate) seen: Fingerprint,
}

impl Search {
    /// Adds the environment of this process: `KUBECONFIG`, and the pod that the process may run in.
    ///
    /// An empty path, as of `--kubeconfig ""`, is none, as with kubectl.
    pub fn with_environment(explicit: Option<PathBuf>, candidates: Vec<PathBuf>) -> Self {
        let environment = env::var_os("KUBECONFIG");
        let explicit = explicit.filter(|path| !path.as_os_str().is_empty());
        Self { explicit, environment, candidates, in_cluster: true, ..Self::default() }
    }

    /// Lets a person choose instead of the kubeconfig.
    #[must_use]
    pub fn choosing(self, overrides: Overrides) -> Self {
        Self { overrides, ..self }
    }

    /// Reads only files of root and of this process's user.
    #[must_use]
    pub fn distrusting(self) -> Self {
        Self { trust: Trust::RootOrSelf, ..self }
    }

    /// The first place that has a kubeconfig; `None` if none has.
    pub fn find(&self) -> Option<Origin> {
        if let Some(path) = &self.explicit {
            return Some(Origin::Files(vec![path.clone()]));
        }
        let named: Vec<PathBuf> = self.environment.iter().flat_map(env::split_paths).collect();
        let named: Vec<PathBuf> = named.into_iter().filter(|path| !path.as_os_str().is_empty()).collect();
        if !named.is_empty() {
            let (missing, there): (Vec<_>, Vec<_>) = named.into_iter().partition(|path| is_missing(path));
            return Some(Origin::Files(if there.is_empty() { missing } else { there }));
        }
        if let Some(path) = self.candidates.iter().find(|path| path.exists()) {
            return Some(Origin::Files(vec![path.clone()]));
        }
        let pod = self.in_cluster && env::var_os("KUBERNETES_SERVICE_HOST").is_some();
        pod.then_some(Origin::InCluster)
    }

    /// The places that are searched, in words, for the message that nothing was found.
    pub fn places(&self) -> String {
        let candidates = self.candidates.iter().map(|path| path.display().to_string());
        let environment = self.environment.is_none().then(|| "KUBECONFIG".to_owned());
        let pod = self.in_cluster.then(|| "service account of a pod".to_owned());
        environment.into_iter().chain(candidates).chain(pod).collect::<Vec<_>>().join(", ")
    }
}

impl Origin {
    /// Loads the kubeconfig. Every problem is an [`ApiFailure::Unreachable`]. Reads files, so it blocks.
    pub(crate) fn load(&self, overrides: &Overrides, trust: Trust) -> Result<Description, ApiFailure> {
        let mut seen = Fingerprint::default();
        let mut config = match (self, overrides.named().next()) {
            (Self::Files(paths), _) => from_files(paths, overrides, trust, &mut seen)?,
            (Self::InCluster, Some((what, name))) => {
                return Err(broken(self, &format!("it has no {what}s, so no `{name}`")));
            }
            (Self::InCluster, None) => {
                Config::incluster().map_err(|error| ApiFailure::unreachable(format!("{self}: {error}")))?
            }
        };
        overrides.act_as(&mut config.auth_info);
        self.describe(config, trust, seen)
    }

    /// Checks what was read, takes the source of its tokens out, and notes the certificate file of a pod.
    fn describe(
        &self,
        mut config: Config,
        trust: Trust,
        mut seen: Fingerprint,
    ) -> Result<Description, ApiFailure> {
        config.root_cert_file.iter().for_each(|path| seen.take(path));
        self.check(&config)?;
        let trust = if *self == Self::InCluster { Trust::Anybody } else { trust };
        let tokens = take_tokens(&mut config.auth_info, trust, &mut seen);
        Ok(Description { config, tokens, seen })
    }

    /// Checks conditions without which kube would panic.
    fn check(&self, config: &Config) -> Result<(), ApiFailure> {
        let url = &config.cluster_url;
        if !matches!(url.scheme_str(), Some("http" | "https")) || url.host().is_none_or(str::is_empty) {
            return Err(broken(self, "its cluster's server is not a URL such as https://127.0.0.1:6443"));
        }
        if config.root_cert.as_ref().is_some_and(Vec::is_empty) {
            return Err(broken(self, "its certificate-authority holds no certificate"));
        }
        // Tokens and keys are in types of another crate that reveal them only when they are serialized.
        let user = serde_json::to_value(&config.auth_info)
            .map_err(|error| broken(self, &format!("its user cannot be checked: {error}")))?;
        if !are_headers(&user) {
            return Err(broken(self, "its token, or a name to act as, holds characters that HTTP forbids"));
        }
        if user.get("as").is_none() && ["as-uid", "as-groups"].iter().any(|key| user.get(key).is_some()) {
            return Err(broken(self, "a group or UID to act with is given, and no user to act as (--as)"));
        }
        if has_encrypted_key(&user) {
            return Err(broken(
                self,
                "its client key is encrypted: decrypt it (openssl pkey -in OLD -out NEW) and give the new file",
            ));
        }
        let provider = config.auth_info.auth_provider.as_ref();
        if provider.is_some_and(|provider| provider.config.contains_key("cmd-path")) {
            return Err(broken(
                self,
                "its auth-provider runs a command, which Kubernetes gave up in 1.26: use an exec plugin",
            ));
        }
        Ok(())
    }
}

impl Overrides {
    /// What is chosen among the names of a kubeconfig.
    fn named(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [("context", &self.context), ("cluster", &self.cluster), ("user", &self.user)];
        all.into_iter().filter_map(|(what, name)| Some((what, given(name.as_deref())?)))
    }

    /// Sets whom this user acts as.
    fn act_as(&self, user: &mut AuthInfo) {
        let taken = |chosen: &Option<String>, own: &mut Option<String>| {
            *own = given(chosen.as_deref()).map(str::to_owned).or_else(|| own.take());
        };
        taken(&self.impersonate, &mut user.impersonate);
        taken(&self.uid, &mut user.impersonate_uid);
        if !self.groups.is_empty() {
            user.impersonate_groups = Some(self.groups.clone());
        }
    }
}

/// The text, if there is one that is not empty.
fn given(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

/// True if there is no such file. A file that cannot be inspected does not count as missing.
fn is_missing(path: &Path) -> bool {
    fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.ino(), metadata.len(), metadata.modified().ok()))
}

fn from_files(
    paths: &[PathBuf],
    overrides: &Overrides,
    trust: Trust,
    seen: &mut Fingerprint,
) -> Result<Config, ApiFailure> {
    let origin = Origin::Files(paths.to_vec());
    let mut merged = Kubeconfig::default();
    for path in paths {
        seen.take(path);
        let next = read_kubeconfig(path, trust)?;
        merged = merged.merge(next).map_err(|error| broken(&origin, &kubeconfig_text(&error)))?;
    }
    choose(&mut merged, overrides).map_err(|why| broken(&origin, &why))?;
    // Only a proxy in the kubeconfig itself would be needed, and proxies are not supported.
    let cluster = current(&mut merged).and_then(|(cluster, _)| cluster);
    if cluster.is_some_and(|cluster| cluster.proxy_url.as_ref().is_some_and(|url| !url.is_empty())) {
        return Err(broken(
            &origin,
            "the cluster of its context asks for a proxy (proxy-url), which is not supported: use a context that \
             reaches the API server directly, or a tunnel (ssh -L) and its address as `server`",
        ));
    }
    take_files_in(&mut merged, trust, seen).map_err(|why| broken(&origin, &why))?;
    // If the kubeconfig names no proxy, kube reads HTTPS_PROXY, and fails if that is not a URL. The cluster is reached
    // directly, so a proxy is set here that is never used.
    if let Some((Some(cluster), _)) = current(&mut merged) {
        cluster.proxy_url = Some(UNUSED_PROXY.to_owned());
    }
    let mut config = Config::try_from(merged)
        .map_err(|error: KubeconfigError| broken(&origin, &kubeconfig_text(&error)))?;
    config.proxy_url = None;
    if let Some(told) = config.auth_info.exec.as_mut().and_then(|exec| exec.cluster.as_mut()) {
        told.proxy_url = None;
    }
    Ok(config)
}

/// Reads one file. Relative paths in it start at its folder, as for kubectl; a plugin without a `/` is searched in PATH.
fn read_kubeconfig(path: &Path, trust: Trust) -> Result<Kubeconfig, ApiFailure> {
    let bytes = trust.read(path).map_err(|error| broken_file(path, &error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| broken_file(path, "it is not UTF-8"))?;
    let mut read =
        Kubeconfig::from_yaml(&text).map_err(|error| broken_file(path, &kubeconfig_text(&error)))?;
    unset_empty(&mut read).ok_or_else(|| broken_file(path, "it is not the YAML of a kubeconfig"))?;
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    let below = |named: &mut Option<String>| {
        if let Some(absolute) =
            named.as_ref().and_then(|named| folder.join(named).to_str().map(str::to_owned))
        {
            *named = Some(absolute);
        }
    };
    for cluster in read.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        below(&mut cluster.certificate_authority);
    }
    for user in read.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
        for named in [&mut user.client_certificate, &mut user.client_key, &mut user.token_file] {
            below(named);
        }
        if let Some(exec) =
            user.exec.as_mut().filter(|exec| exec.command.iter().any(|path| path.contains('/')))
        {
            below(&mut exec.command);
        }
    }
    Ok(read)
}

/// Removes all optional texts that are empty. For client-go they are not set, and generators write them.
fn unset_empty(kubeconfig: &mut Kubeconfig) -> Option<()> {
    let unset = |text: &mut Option<String>| *text = text.take().filter(|text| !text.is_empty());
    unset(&mut kubeconfig.current_context);
    for context in kubeconfig.contexts.iter_mut().filter_map(|named| named.context.as_mut()) {
        unset(&mut context.user);
        unset(&mut context.namespace);
    }
    for cluster in kubeconfig.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        *cluster = without_empty(cluster)?;
    }
    for user in kubeconfig.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
        *user = without_empty(user)?;
    }
    Some(())
}

/// A copy without empty texts; all texts of this type are optional.
fn without_empty<T: Serialize + DeserializeOwned>(part: &T) -> Option<T> {
    let mut part = serde_json::to_value(part).ok()?;
    part.as_object_mut()?.retain(|_, value| value.as_str() != Some(""));
    serde_json::from_value(part).ok()
}

/// Reads the files that the current context names, and puts their content in place of the names.
fn take_files_in(kubeconfig: &mut Kubeconfig, trust: Trust, seen: &mut Fingerprint) -> Result<(), String> {
    let Some((cluster, user)) = current(kubeconfig) else { return Ok(()) };
    let mut take =
        |what: &str, path: &mut Option<String>, is_given: bool| -> Result<Option<String>, String> {
            let Some(path) = path.take().filter(|_| !is_given) else { return Ok(None) };
            seen.take(Path::new(&path));
            let bytes = trust.read(Path::new(&path));
            let bytes = bytes.map_err(|error| format!("its {what} file `{path}` cannot be read: {error}"))?;
            Ok(Some(STANDARD.encode(bytes)))
        };
    if let Some(cluster) = cluster {
        let is_given = cluster.certificate_authority_data.is_some();
        let read = take("certificate-authority", &mut cluster.certificate_authority, is_given)?;
        cluster.certificate_authority_data = cluster.certificate_authority_data.take().or(read);
    }
    if let Some(user) = user {
        let is_given = user.client_certificate_data.is_some();
        let read = take("client-certificate", &mut user.client_certificate, is_given)?;
        user.client_certificate_data = user.client_certificate_data.take().or(read);
        let is_given = user.client_key_data.is_some();
        let read = take("client-key", &mut user.client_key, is_given)?;
        user.client_key_data = user.client_key_data.take().or_else(|| read.map(Into::into));
    }
    Ok(())
}

/// The cluster and the user of the current context.
fn current(kubeconfig: &mut Kubeconfig) -> Option<(Option<&mut Cluster>, Option<&mut AuthInfo>)> {
    let name = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig.contexts.iter().find(|named| named.name == *name)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter_mut().find(|named| named.name == context.cluster);
    let user = kubeconfig.auth_infos.iter_mut().find(|named| Some(&named.name) == context.user.as_ref());
    Some((cluster.and_then(|named| named.cluster.as_mut()), user.and_then(|named| named.auth_info.as_mut())))
}

/// Takes out token files and plugins, which kube would read or run itself again and again. The order is that of
/// client-go: a token file comes before a token in the kubeconfig itself, which counts while the file gives none, and
/// both before a plugin. kube puts the token in the kubeconfig first, so a token that ends would hide its successor.
fn take_tokens(user: &mut AuthInfo, trust: Trust, seen: &mut Fingerprint) -> credentials::Origin {
    if user.username.is_some() || user.password.is_some() {
        // kube uses them only together.
        user.username.get_or_insert_default();
        user.password.get_or_insert_with(|| String::new().into());
    }
    let (file, plugin) = (user.token_file.take().map(PathBuf::from), user.exec.take());
    let is_fixed = user.auth_provider.is_some() || user.username.is_some();
    if let Some(file) = file.filter(|_| !is_fixed) {
        if user.token.is_none() || trust.read(&file).is_ok_and(|token| !token.trim_ascii().is_empty()) {
            user.token = None;
            return credentials::Origin::File(file, trust);
        }
        // A file that comes later is noticed.
        seen.take(&file);
    }
    match plugin {
        Some(plugin) if !is_fixed && user.token.is_none() => {
            credentials::Origin::Plugin(Box::new(plugin), trust)
        }
        Some(_) | None => credentials::Origin::Fixed,
    }
}

/// Makes what is chosen the current context. With a cluster that is chosen no context is needed.
fn choose(kubeconfig: &mut Kubeconfig, overrides: &Overrides) -> Result<(), String> {
    for (what, name) in overrides.named() {
        let there: Vec<&str> = match what {
            "context" => kubeconfig.contexts.iter().map(|named| named.name.as_str()).collect(),
            "cluster" => kubeconfig.clusters.iter().map(|named| named.name.as_str()).collect(),
            _ => kubeconfig.auth_infos.iter().map(|named| named.name.as_str()).collect(),
        };
        if !there.contains(&name) {
            return Err(format!("it has no {what} `{name}`; there are: {}", there.join(", ")));
        }
    }
    if let Some(context) = given(overrides.context.as_deref()) {
        kubeconfig.current_context = Some(context.to_owned());
    }
    let (cluster, user) = (given(overrides.cluster.as_deref()), given(overrides.user.as_deref()));
    if cluster.is_some() && kubeconfig.current_context.is_none() {
        kubeconfig.current_context = Some(String::new());
        kubeconfig
            .contexts
            .push(NamedContext { context: Some(Context::default()), ..NamedContext::default() });
    }
    let current = kubeconfig.current_context.as_ref();
    let context = kubeconfig.contexts.iter_mut().find(|named| Some(&named.name) == current);
    if let Some(context) = context.and_then(|named| named.context.as_mut()) {
        context.cluster = cluster.unwrap_or(&context.cluster).to_owned();
        context.user = user.map(str::to_owned).or_else(|| context.user.take());
    }
    Ok(())
}

/// True if the texts of this user that become headers are valid in one.
fn are_headers(user: &Value) -> bool {
    let plugin = user.pointer("/auth-provider/config").and_then(Value::as_object);
    let groups = user.get("as-groups").and_then(Value::as_array).into_iter().flatten();
    let own = ["token", "as", "as-uid"].into_iter().filter_map(|key| user.get(key)).chain(groups);
    let texts = plugin.into_iter().flat_map(serde_json::Map::values).chain(own);
    texts.filter_map(Value::as_str).all(|text| HeaderValue::from_str(text).is_ok())
}

/// True if the client key of this user is encrypted: PKCS#8's label, or the header that OpenSSL wrote before it.
fn has_encrypted_key(user: &Value) -> bool {
    let key = user.get("client-key-data").and_then(Value::as_str).and_then(|data| STANDARD.decode(data).ok());
    let key = key.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
    key.contains("ENCRYPTED PRIVATE KEY") || key.contains("4,ENCRYPTED")
}

fn broken_file(path: &Path, what: &str) -> ApiFailure {
    ApiFailure::unreachable(format!("cannot use kubeconfig `{}`: {}", path.display(), words(what)))
}

fn broken(origin: &Origin, what: &str) -> ApiFailure {
    ApiFailure::unreachable(format!("cannot use {origin}: {}", words(what)))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use drain::Moment;

    use super::*;
    use crate::credentials::Tokens;

    thread_local! {
        static NOW: Cell<Moment> = const { Cell::new(Moment(0)) };
    }

    /// The kubelet replaces both files of a pod's service account while the pod runs. This is what kube says of a pod;
    /// `Config::incluster` itself reads fixed paths, which a test does not have.
    #[tokio::test]
    async fn a_service_account_that_is_rotated_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let (token, certificate) = (folder.path().join("token"), folder.path().join("ca.crt"));
        #[expect(clippy::disallowed_methods, reason = "a test's file need not survive a power cut")]
        let write = |path: &Path, text: &str| fs::write(path, text).unwrap();
        write(&token, "first");
        write(&certificate, "one");
        let mut config = Config::new("https://10.0.0.1".parse().unwrap());
        config.root_cert_file = Some(certificate.clone());
        config.auth_info.token_file = Some(token.display().to_string());
        let found = Origin::InCluster.describe(config, Trust::RootOrSelf, Fingerprint::default()).unwrap();
        assert_eq!(found.config.auth_info.token_file, None, "kube does not read it by the wall clock");

        let tokens = Tokens::of(found.tokens, || NOW.get()).unwrap();
        let header = async || tokens.header().await.unwrap().unwrap().to_str().unwrap().to_owned();
        assert_eq!(header().await, "Bearer first");
        write(&token, "second");
        NOW.set(Moment(0) + Duration::from_secs(10));
        assert_eq!(header().await, "Bearer second");

        assert!(!found.seen.has_changed(), "the token needs no new connection");
        write(&certificate, "another");
        assert!(found.seen.has_changed());
    }
}
