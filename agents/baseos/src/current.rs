//! Which version runs: asked once, beside the loop, and again while there is no answer.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use pubsub::Root;
use runtime::program;
use runtime::regular_file::{Links, open_regular};
use runtime::settings::VersionSource;
use tokio::sync::mpsc;

use crate::facts::Running;
use crate::limits::MOST_VERSION_BYTES;
use crate::perform::Answer;

/// Where EVE says which version is running.
const EVE_RELEASE: &str = "/run/eve-release";
/// Where a system says which version it is, as os-release(5) has it: the first one that is there.
const OS_RELEASE: [&str; 2] = ["/etc/os-release", "/usr/lib/os-release"];
/// A device that boots may not be able to tell at once; ask again this often, in milliseconds.
const ASK_AGAIN_MS: u64 = 30_000;
/// The command only has to print a line.
const LIMIT: Duration = Duration::from_secs(30);
/// The first line of a file is short; so much is read.
const MAX_BYTES: u64 = 4096;

/// What is known about the version that runs.
#[derive(Debug)]
pub(crate) struct Current {
    source: Option<VersionSource>,
    /// Nothing before the first question.
    running: Option<Running>,
    ask_at_ms: Option<u64>,
}

impl Current {
    /// Nothing is known, nothing is asked.
    pub(crate) const fn new() -> Self {
        Self { source: None, running: None, ask_at_ms: None }
    }

    /// What is known, for the setting as it is now. Asks if that is due; the answer comes by `sender`.
    pub(crate) fn running(
        &mut self,
        source: Option<&VersionSource>,
        root: &Root,
        now_ms: u64,
        sender: &mpsc::Sender<Answer>,
    ) -> Running {
        if self.running.is_none() || self.source.as_ref() != source {
            self.source = source.cloned();
            self.ask_at_ms = source.map(|_| now_ms);
            // What runs does not change within a boot.
            self.running = Some(match source {
                Some(_) => Running::Unknown("baseos.current is being asked".to_owned()),
                None => told_by_system(root),
            });
        }
        if let (Some(source), Some(at_ms)) = (source, self.ask_at_ms)
            && at_ms <= now_ms
        {
            self.ask_at_ms = None;
            ask(source.clone(), sender.clone());
        }
        self.running.clone().unwrap_or_else(|| Running::Unknown("nobody was asked".to_owned()))
    }

    /// Takes an answer; one to an earlier setting means nothing.
    pub(crate) fn answered(&mut self, source: &VersionSource, answer: Result<String, String>, now_ms: u64) {
        if self.source.as_ref() != Some(source) {
            return;
        }
        self.running = Some(match answer {
            Ok(version) => {
                tracing::info!("version {version} is running");
                Running::Version(version)
            }
            Err(error) => {
                tracing::warn!("cannot tell which version is running: {error}");
                self.ask_at_ms = Some(now_ms.saturating_add(ASK_AGAIN_MS));
                Running::Unknown(error)
            }
        });
    }
}

/// What the system says by itself, where `baseos.current` is not set: EVE's version, or the version of the image of
/// os-release(5). The version of the system that stands there, too, need not be that of an image.
fn told_by_system(root: &Root) -> Running {
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

/// A value of os-release: plain, or in quotation marks.
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
        if sender.send(Answer::Version { source, answer }).await.is_err() {
            tracing::debug!("nobody wants to know which version is running any more");
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
