//! Credentials that are replaced, expire, are revoked or hang in the middle of a drain: how long it takes until that is
//! noticed, and until good credentials are used.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use control_plane::{ControlPlane, Pool, objects, unique};
use schemas::{DrainStatus, Operation, Outcome};
use serde_json::{Value, json};
use system::{Device, ZedkubeUser};
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
        let pool = plane.create_pool(&unique("credentials"), &["a", "b"])?;
        let namespace = pool.name.as_str();
        plane.run(&["cordon", &pool.nodes[1]])?;
        plane.apply(&[
            objects::deployment(namespace, "web", 2),
            objects::disruption_budget(namespace, "web", ("minAvailable", 2)),
        ])?;
        plane.run(&["rollout", "status", "deployment/web", "--namespace", namespace, "--timeout=5m"])?;
        plane.run(&["uncordon", &pool.nodes[1]])?;
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

    /// Waits until good credentials, which are in place now, are used. Returns how long that takes.
    fn recovers(&self) -> Result<Duration> {
        let mark = self.plane.audit_mark()?;
        let user = format!("system:node:{}", self.pool.nodes[0]);
        replace(&self.kubeconfig, &fs::read(self.plane.node_kubeconfig(&self.pool.nodes[0])?)?)?;
        let began = now();
        self.device.until("the new credentials are used", || {
            let asked = self.plane.audit_since(mark)?.of_user(&user);
            Ok(asked.iter().any(|request| request.code == Some(429)).then_some(()))
        })?;
        Ok(began.elapsed())
    }

    /// Waits until the report says so. Returns how long that takes.
    fn tells(&self, what: &str) -> Result<Duration> {
        let began = now();
        self.device.until(&format!("the report says: {what}"), || {
            let report = self.device.report().unwrap_or_default();
            let text = format!("{} {} {:?}", report.reason, report.hint, report.blocked);
            Ok(text.contains(what).then_some(()))
        })?;
        Ok(began.elapsed())
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

#[expect(clippy::disallowed_methods, reason = "what is measured is real time")]
fn now() -> Instant {
    Instant::now()
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

fn say(what: &str, noticed: Option<Duration>, recovered: Duration) {
    let noticed =
        noticed.map_or(String::new(), |noticed| format!("reported after {:.1} s, ", noticed.as_secs_f32()));
    let line = format!("{what}: {noticed}good ones used after {:.1} s\n", recovered.as_secs_f32());
    // `cargo nextest run --no-capture` shows this line; no check depends on it.
    std::io::stderr().write_all(line.as_bytes()).unwrap_or_default();
}

#[test]
fn exchanged_in_mid_drain() -> Result<()> {
    let site = Site::new()?;
    say("exchanged", None, site.recovers()?);
    site.ends()
}

#[test]
fn revoked_in_mid_drain() -> Result<()> {
    let site = Site::new()?;
    let at = format!("--namespace={}", site.pool.name);
    site.plane.run(&["delete", "serviceaccount", "ebb-node", &at])?;
    let noticed = site.tells("does not accept our credentials")?;
    say("revoked", Some(noticed), site.recovers()?);
    site.ends()
}

#[test]
fn expired_in_mid_drain() -> Result<()> {
    let site = Site::new()?;
    let ending = site.plane.node_kubeconfig_for(&site.pool.nodes[0], Some(SHORT))?;
    replace(&site.kubeconfig, &fs::read(ending)?)?;
    let noticed = site.tells("does not accept our credentials")?.saturating_sub(SHORT);
    say("expired", Some(noticed), site.recovers()?);
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
    let noticed = site.tells("credential plugin")?;
    say("hanging", Some(noticed), site.recovers()?);
    site.ends()
}
