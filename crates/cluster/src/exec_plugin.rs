//! Runs credential plugins: the `exec` of a kubeconfig's user.
//!
//! This crate runs them instead of kube, which waits for a plugin without end and starts the next one beside it. Here
//! one runs at a time, in its own process group, and is killed with all its children when its time is over or its
//! answer is not needed any more.

use std::io::{IsTerminal, stderr};
use std::process::Stdio;
use std::time::Duration;

use jiff::Timestamp;
use kube::config::{ExecConfig, ExecInteractiveMode};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::sync::Semaphore;
use trust::Trust;

/// Time limit for a plugin's answer, including the wait for another plugin. It is below a call's own deadline, so that
/// the error names the plugin and not the API server.
pub(crate) const LIMIT: Duration = Duration::from_secs(8);

/// Longest answer: a token, or a certificate chain with its key.
const LONGEST_ANSWER: u64 = 1024 * 1024;

/// Lets one plugin run at a time in this process.
static TURN: Semaphore = Semaphore::const_new(1);

/// The answer of a plugin.
#[derive(Default)]
pub(crate) struct Credential {
    /// For header `Authorization: Bearer`.
    pub(crate) token: Option<String>,
    /// PEM texts of a client certificate and its key.
    pub(crate) certificate: Option<(String, String)>,
    /// How long it is valid from now on; `None` if no end is known.
    pub(crate) lifetime: Option<Duration>,
}

/// `ExecCredential` of client.authentication.k8s.io, the fields that are needed.
#[derive(Deserialize)]
struct Answer {
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    expiration_timestamp: Option<String>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

/// Runs the plugin to its end, within `limit`. The error names the program, and never quotes its output, which may be
/// the credentials.
pub(crate) async fn run(exec: &ExecConfig, trust: Trust, limit: Duration) -> Result<Credential, String> {
    let program = exec.command.as_deref().ok_or("its credential plugin has no command")?;
    let named = |what: &str| format!("its credential plugin {what} (`{program}`)");
    if exec.interactive_mode == Some(ExecInteractiveMode::Always) {
        return Err(named("wants to ask a person (interactiveMode: Always), but there is no terminal"));
    }
    let turn_and_run = async {
        let _turn = TURN.acquire().await.map_err(|_| named("cannot be started"))?;
        trust.check_program(program).map_err(|error| named(&format!("is not run: {error}")))?;
        answer(exec, program).await.map_err(|what| named(&what))
    };
    let late = |_| named(&format!("did not answer within {} s and was killed", limit.as_secs()));
    let answer = tokio::time::timeout(limit, turn_and_run).await.map_err(late)??;
    read(&answer).map_err(|what| named(&what))
}

async fn answer(exec: &ExecConfig, program: &str) -> Result<Vec<u8>, String> {
    let words = if stderr().is_terminal() { Stdio::inherit() } else { Stdio::null() };
    let mut child = Command::new(program)
        .args(exec.args.iter().flatten())
        .envs(environment(exec))
        .env("KUBERNETES_EXEC_INFO", information(exec)?)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(words)
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("cannot be started: {error}"))?;
    let mut group = Group(child.id());
    let mut answer = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        let mut stdout = stdout.take(LONGEST_ANSWER + 1);
        stdout.read_to_end(&mut answer).await.map_err(|error| format!("cannot be read: {error}"))?;
    }
    if u64::try_from(answer.len()).is_ok_and(|length| length > LONGEST_ANSWER) {
        return Err("answers more than 1 MiB".to_owned());
    }
    let ended = child.wait().await.map_err(|error| format!("failed: {error}"))?;
    group.0 = None;
    if ended.success() { Ok(answer) } else { Err(format!("failed: {ended}")) }
}

fn environment(exec: &ExecConfig) -> impl Iterator<Item = (&String, &String)> {
    let variables = exec.env.iter().flatten();
    variables.filter_map(|variable| Some((variable.get("name")?, variable.get("value")?)))
}

/// The input of the plugin: an `ExecCredential` without a status.
fn information(exec: &ExecConfig) -> Result<String, String> {
    let mut spec = json!({"interactive": false});
    if exec.provide_cluster_info {
        let cluster = exec.cluster.as_ref().ok_or("wants to know the cluster, which is not described")?;
        let cluster =
            serde_json::to_value(cluster).map_err(|_| "cannot get the description of the cluster")?;
        if let Some(spec) = spec.as_object_mut() {
            spec.insert("cluster".to_owned(), cluster);
        }
    }
    let version = exec.api_version.as_deref().unwrap_or("client.authentication.k8s.io/v1");
    Ok(json!({"kind": "ExecCredential", "apiVersion": version, "spec": spec}).to_string())
}

fn read(answer: &[u8]) -> Result<Credential, String> {
    // client-go takes YAML as well, and some plugins answer so.
    let status = serde_saphyr::from_slice::<Answer>(answer).ok().and_then(|answer| answer.status);
    let status = status.ok_or("did not answer with an ExecCredential that has a status")?;
    let certificate = status.client_certificate_data.zip(status.client_key_data);
    if status.token.is_none() && certificate.is_none() {
        return Err("answered without a token and without a certificate".to_owned());
    }
    let expires = status.expiration_timestamp.map(|text| text.parse::<Timestamp>()).transpose();
    let expires = expires.map_err(|_| "answered with an expirationTimestamp that is not a time")?;
    Ok(Credential { token: status.token, certificate, lifetime: expires.map(until) })
}

#[expect(clippy::disallowed_methods, reason = "the plugin has made its time by this machine's wall clock")]
fn until(expires: Timestamp) -> Duration {
    let now = Timestamp::try_from(std::time::SystemTime::now()).unwrap_or(Timestamp::UNIX_EPOCH);
    Duration::try_from(expires.duration_since(now)).unwrap_or_default()
}

/// The process group of a running plugin; killed when dropped.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0.and_then(|id| i32::try_from(id).ok())
            && let Err(error) = killpg(Pid::from_raw(leader), Signal::SIGKILL)
        {
            tracing::debug!("cannot kill the credential plugin's process group {leader}: {error}");
        }
    }
}

#[cfg(test)]
mod tests;
