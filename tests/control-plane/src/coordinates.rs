//! The data that another process needs to use a control plane.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::{components::Component, credentials::write_private};

/// The environment variable that names the file with the coordinates of a shared plane.
pub const ENVIRONMENT: &str = "EBB_CONTROL_PLANE";

/// Address and credentials of a running control plane.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Coordinates {
    /// URL of the API server.
    pub server: String,
    /// Bearer token of a member of `system:masters`.
    pub token: String,
    /// Kubeconfig with that token, readable by its owner only.
    pub kubeconfig: PathBuf,
    /// The API server's certificates, by which a client verifies it.
    pub certificate: PathBuf,
    /// The audit log, one JSON event per line.
    pub audit_log: PathBuf,
    /// Folder of the programs, `kubectl` among them.
    pub binaries: PathBuf,
    /// The control plane's own folder; each component writes its log to `<program>.log` there.
    pub folder: PathBuf,
    /// Process ids at the start. The API server gets another id when it is restarted.
    pub pids: BTreeMap<Component, u32>,
}

impl Coordinates {
    /// Reads the file that [`Coordinates::write`] made.
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            fs::read(path).with_context(|| format!("cannot read control plane file `{}`", path.display()))?;
        serde_json::from_slice(&text)
            .with_context(|| format!("control plane file `{}` is not valid", path.display()))
    }

    /// Writes the coordinates as JSON, readable by the owner only. The file appears complete or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        let temporary = path.with_extension("incomplete");
        write_private(&temporary, &serde_json::to_vec_pretty(self)?)?;
        fs::rename(&temporary, path).with_context(|| format!("cannot write `{}`", path.display()))
    }
}
