//! Credentials that are replaced, expire, are revoked or hang in the middle of a drain: that is reported, and good ones
//! are used as soon as they are there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use control_plane::{ControlPlane, Pool};
use schemas::{DrainStatus, Operation, Outcome};
use serde_json::{Value, json};
use system::{Device, ZedkubeUser, create_blocked_pool};
use tempfile::TempDir;

use crate::PROGRAM;

/// Lifetime of a certificate that expires while it is used.
const SHORT: Duration = Duration::from_secs(10);

/// A device whose drain a budget holds, with a kubeconfig that can be replaced.
struct Site {
    plane: ControlPlane,
    pool: Pool,
    device: Device,
    kubeconfig: PathBuf,
    _folder: TempDir,
}

impl Site {
    fn new() -> Result<Self> {
        let plane = ControlPlane::shared()?;
        let pool = create_blocked_pool(&plane, "credentials")?;
        let namespace = pool.name.as_str();
        let folder = tempfile::tempdir()?;
        let kubeconfig = folder.path().join("kubeconfig");
        replace(&kubeconfig, &fs::read(of_token(&plane, &pool)?)?)?;
        let mut device = Device::new(PROGRAM, &kubeconfig, &pool.nodes[0])?;
        device.set(&format!("slots.namespace={namespace}"));
        device.set("slots.group=default");
        device.set("evict.retry=1s");
        device.start_all()?;
        device.command(Operation::Reboot, 1)?;
        device.until("the budget refuses", || {
            Ok(device.report().filter(|report| !report.blocked.is_empty()))
        })?;
        Ok(Self { plane, pool, device, kubeconfig, _folder: folder })
    }

    /// Puts good credentials in place, and waits until they are used.
    fn recovers(&self) -> Result<()> {
        let mark = self.plane.audit_mark()?;
        let user = format!("system:node:{}", self.pool.nodes[0]);
        replace(&self.kubeconfig, &fs::read(self.plane.node_kubeconfig(&self.pool.nodes[0])?)?)?;
        self.device.until("the new credentials are used", || {
            let asked = self.plane.audit_since(mark)?.of_user(&user);
            Ok(asked.iter().any(|request| request.code == Some(429)).then_some(()))
        })
    }

    /// Waits until the report says so.
    fn tells(&self, what: &str) -> Result<()> {
        self.device.until(&format!("the report says: {what}"), || {
            let report = self.device.report().unwrap_or_default();
            let text = format!("{} {} {:?}", report.reason, report.hint, report.blocked);
            Ok(text.contains(what).then_some(()))
        })
    }

    /// Checks that nothing was lost: without the budget the same attempt ends.
    fn ends(&self) -> Result<()> {
        assert_eq!(self.device.status(), DrainStatus::Cordoned);
        let at = format!("--namespace={}", self.pool.name);
        self.plane.run(&["delete", "pdb", "web", &at])?;
        self.device.until("the reboot is recorded", || Ok(self.device.actions()?.into_iter().next()))?;
        let report = self.device.report().context("a report")?;
        assert_eq!(
            (report.outcome, report.attempts.len()),
            (Some(Outcome::Drained), 0),
            "no attempt has failed"
        );
        Ok(())
    }
}

/// Replaces a file as a whole, as all programs do that write a kubeconfig.
fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let new = path.with_extension("new");
    #[expect(clippy::disallowed_methods, reason = "a test's file need not survive a power cut")]
    fs::write(&new, bytes)?;
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600))?;
    Ok(fs::rename(&new, path)?)
}

fn of_token(plane: &ControlPlane, pool: &Pool) -> Result<PathBuf> {
    // Creates the rights for both kinds of credentials.
    ZedkubeUser::of_node(plane, &pool.name, &pool.nodes[0])?;
    Ok(ZedkubeUser::of_token(plane, &pool.name, &pool.nodes[0])?.kubeconfig)
}

#[test]
fn revoked_in_mid_drain() -> Result<()> {
    let site = Site::new()?;
    let at = format!("--namespace={}", site.pool.name);
    site.plane.run(&["delete", "serviceaccount", "ebb-node", &at])?;
    site.tells("does not accept our credentials")?;
    site.recovers()?;
    site.ends()
}

#[test]
fn expired_in_mid_drain() -> Result<()> {
    let site = Site::new()?;
    let ending = site.plane.node_kubeconfig_for(&site.pool.nodes[0], Some(SHORT))?;
    replace(&site.kubeconfig, &fs::read(ending)?)?;
    site.tells("does not accept our credentials")?;
    site.recovers()?;
    site.ends()
}

#[test]
fn hanging_in_mid_drain() -> Result<()> {
    let site = Site::new()?;
    let mut config: Value = serde_json::from_slice(&fs::read(&site.kubeconfig)?)?;
    config["users"][0]["user"] = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sleep", "args": ["600"],
        "interactiveMode": "Never",
    }});
    replace(&site.kubeconfig, &serde_json::to_vec(&config)?)?;
    site.tells("credential plugin")?;
    site.recovers()?;
    site.ends()
}
