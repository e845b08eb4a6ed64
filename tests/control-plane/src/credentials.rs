//! Tokens, kubeconfigs and the files that hold them.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use anyhow::{Context, Result};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::json;

/// A random bearer token.
pub(crate) fn token() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

/// How a user authenticates.
pub(crate) enum User {
    Token(String),
    /// Certificate and key, both as PEM.
    Certificate {
        certificate: String,
        key: String,
    },
}

/// A kubeconfig that contains all its data, so it can be copied away from the control plane's folder.
pub(crate) fn kubeconfig(server: &str, certificate: &Path, user: &User) -> Result<String> {
    let certificate = fs::read(certificate)
        .with_context(|| format!("cannot read certificate `{}`", certificate.display()))?;
    let user = match user {
        User::Token(token) => json!({"token": token}),
        User::Certificate { certificate, key } => json!({
            "client-certificate-data": BASE64_STANDARD.encode(certificate),
            "client-key-data": BASE64_STANDARD.encode(key),
        }),
    };
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "plane", "cluster": {
            "server": server,
            "certificate-authority-data": BASE64_STANDARD.encode(certificate),
        }}],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "plane", "context": {"cluster": "plane", "user": "user", "namespace": "default"}}],
        "current-context": "plane",
    });
    // JSON is valid YAML.
    Ok(serde_json::to_string_pretty(&config)?)
}

/// Writes a file that only its owner may read. The file is not synced, because the control plane does not survive a
/// power cut either.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> Result<()> {
    let write = || {
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?.write_all(content)
    };
    write().with_context(|| format!("cannot write `{}`", path.display()))
}
