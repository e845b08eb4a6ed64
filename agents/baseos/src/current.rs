//! Finds out which version is running. The search runs once beside the loop, and again while it fails.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use pubsub::Root;
use runtime::regular_file::{Links, open_regular};
use runtime::settings::VersionSource;
use runtime::{clock, program};
use tokio::sync::mpsc;

use crate::facts::Running;
use crate::limits::MOST_VERSION_BYTES;

/// EVE's file with the version that is running.
const EVE_RELEASE: &str = "/run/eve-release";
/// The files of os-release(5); the first that exists counts.
const OS_RELEASE: [&str; 2] = ["/etc/os-release", "/usr/lib/os-release"];
/// Interval of the search while it fails, in milliseconds: a booting device may not know its version yet.
const ASK_AGAIN_MS: u64 = 30_000;
/// Time limit of the `baseos.current` command, which only has to print a line.
const LIMIT: Duration = Duration::from_secs(30);
/// Limit in bytes for reading the file of `baseos.current`, whose first line is short.
const MAX_BYTES: u64 = 4096;

/// The setting that a search has used, and the version or the reason why it is not known.
type Answer = (VersionSource, Result<String, String>);

/// The version that is running, as far as it is known.
#[derive(Debug)]
pub(crate) struct Current {
    sender: mpsc::Sender<Answer>,
    answers: mpsc::Receiver<Answer>,
    source: Option<VersionSource>,
    /// None before the first search.
    running: Option<Running>,
    ask_at_ms: Option<u64>,
}

impl Current {
    /// Before the first search.
    pub(crate) fn new() -> Self {
        let (sender, answers) = mpsc::channel(1);
        Self { sender, answers, source: None, running: None, ask_at_ms: None }
    }

    /// The version that is running, by the setting as it is now. Starts a search if one is due.
    pub(crate) fn running(&mut self, source: Option<&VersionSource>, root: &Root, now_ms: u64) -> Running {
        if self.running.is_none() || self.source.as_ref() != source {
            self.source = source.cloned();
            self.ask_at_ms = source.map(|_| now_ms);
            // The version that is running does not change within a boot.
            self.running = Some(match source {
                Some(_) => Running::Unknown("baseos.current has not answered yet".to_owned()),
                None => named_by_system(root),
            });
        }
        if let (Some(source), Some(at_ms)) = (source, self.ask_at_ms)
            && at_ms <= now_ms
        {
            self.ask_at_ms = None;
            ask(source.clone(), self.sender.clone());
        }
        self.running.clone().unwrap_or_else(|| Running::Unknown("no search has begun".to_owned()))
    }

    /// Waits for the answer of a search, and takes it over. An answer for an earlier setting is ignored. Can be dropped
    /// and called again.
    pub(crate) async fn changed(&mut self) {
        let Some((source, answer)) = self.answers.recv().await else { return };
        if self.source.as_ref() != Some(&source) {
            return;
        }
        self.running = Some(match answer {
            Ok(version) => {
                tracing::info!("version {version} is running");
                Running::Version(version)
            }
            Err(error) => {
                tracing::warn!("cannot tell which version is running: {error}");
                self.ask_at_ms = Some(clock::now().after(ASK_AGAIN_MS));
                Running::Unknown(error)
            }
        });
    }
}

/// The version as the system's files name it, for use without `baseos.current`: EVE's version, or IMAGE_VERSION of
/// os-release(5). VERSION_ID, the version of the system, need not be that of the image.
fn named_by_system(root: &Root) -> Running {
    if let Some(version) = text(root, EVE_RELEASE).and_then(|text| first_line(&text).ok()) {
        return Running::Version(version);
    }
    let release = OS_RELEASE.into_iter().find_map(|path| text(root, path)).unwrap_or_default();
    match value(&release, "IMAGE_VERSION") {
        Some(version) => Running::Version(version),
        None => Running::Untold { system: value(&release, "VERSION_ID").unwrap_or_default() },
    }
}

fn text(root: &Root, path: &str) -> Option<String> {
    read(&root.join(path)).ok()
}

/// A value of os-release, without its quotation marks.
fn value(release: &str, name: &str) -> Option<String> {
    let value = release.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='))?;
    first_line(value.trim_matches(['"', '\''])).ok()
}

fn ask(source: VersionSource, sender: mpsc::Sender<Answer>) {
    tokio::spawn(async move {
        let answer = match &source {
            VersionSource::Command(command) => program::run(command, &[], LIMIT).await,
            VersionSource::File(path) => read(path),
        };
        let answer = answer.and_then(|text| first_line(&text));
        if sender.send((source, answer)).await.is_err() {
            tracing::debug!("baseos stops: it does not use the version that is running");
        }
    });
}

fn read(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read =
        open_regular(path, Links::Followed).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes));
    read.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn first_line(text: &str) -> Result<String, String> {
    let line = text.lines().next().map(str::trim).filter(|line| !line.is_empty());
    let line = line.ok_or_else(|| "baseos.current names no version".to_owned())?;
    if MOST_VERSION_BYTES < line.len() || line.chars().any(char::is_control) {
        let accepted = format!("accepted: at most {MOST_VERSION_BYTES} bytes of plain text");
        return Err(format!("baseos.current names no version: {} bytes; {accepted}", line.len()));
    }
    Ok(line.to_owned())
}
