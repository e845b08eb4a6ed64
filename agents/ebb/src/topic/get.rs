//! `ebb topic get`.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use pubsub::{
    Change, Items, MAX_FILE_BYTES, Owner, Peer, Refusal, Subscription, TopicKey, TopicPlace, TopicSocket,
    Via, read_checked, read_items_of,
};
use schemas::{AnyItem, parse, to_bytes};
use serde::Serialize;
use tokio::time::timeout;

use super::{Device, TopicChoice, compact, listing, may_exist, refuse_large_fields};
use kubectl_ebb::screen;

/// Limit for the publisher to send all its items.
const PATIENCE: Duration = Duration::from_secs(10);

/// Arguments of `ebb topic get`.
#[derive(Args, Debug)]
pub(super) struct GetArguments {
    #[command(flatten)]
    which: TopicChoice,
    /// Print only the value of this item
    #[arg(value_parser = TopicKey::parse)]
    key: Option<TopicKey>,
    /// Read from the publisher's socket, for 10 s at most, instead of from the files
    #[arg(long)]
    socket: bool,
    #[command(flatten)]
    device: Device,
}

/// One item, when all are printed.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Line<'a> {
    key: &'a str,
    value: &'a AnyItem,
}

/// Prints the items. Exit code 1 if the item does not exist, or if an item could not be read.
pub(super) fn run(arguments: &GetArguments) -> anyhow::Result<ExitCode> {
    let place = arguments.which.place(&arguments.device.root())?;
    let read = if arguments.socket {
        kubectl_ebb::in_runtime(by_socket(&place, PATIENCE))?
    } else {
        by_files(&place, arguments.key.as_ref())?
    };
    match &arguments.key {
        Some(key) => print_one(&place, key, &read),
        None => print_all(&read),
    }
}

fn print_one(place: &TopicPlace, key: &TopicKey, read: &Items<AnyItem>) -> anyhow::Result<ExitCode> {
    if let Some(value) = read.items.get(key) {
        screen::line(&value_text(value));
        return Ok(ExitCode::SUCCESS);
    }
    print_refused(&read.refused);
    let (agent, topic) = (place.agent(), place.topic());
    let key = text::word(key.as_str());
    bail!(
        "{place} has no item {key} that can be read; `ebb topic get {agent}/{topic}` prints all that it has"
    )
}

fn print_all(read: &Items<AnyItem>) -> anyhow::Result<ExitCode> {
    for (key, value) in &read.items {
        screen::line(&compact(&Line { key: key.as_str(), value })?);
    }
    print_refused(&read.refused);
    Ok(if read.refused.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_refused(refused: &[Refusal]) {
    for refusal in refused {
        screen::say(&format!("error: {refusal}"));
    }
}

/// The value as text, in the form in which its publisher writes it.
pub(super) fn value_text(value: &AnyItem) -> String {
    text::json(&String::from_utf8_lossy(&to_bytes(value)))
}

/// Reads the items from the files.
fn by_files(place: &TopicPlace, key: Option<&TopicKey>) -> anyhow::Result<Items<AnyItem>> {
    if !may_exist(&place.folder()) {
        bail!(
            "{place} is not there: there is no folder {}; `{}` lists what is there",
            text::path(&place.folder()),
            listing(place.root())
        );
    }
    let Some(key) = key else {
        return Ok(read_items_of(place));
    };
    let mut read = Items { items: BTreeMap::new(), refused: Vec::new() };
    match by_file(place, key) {
        Ok(value) => read.items.extend(value.map(|value| (key.clone(), value))),
        Err(refusal) => read.refused.push(refusal),
    }
    Ok(read)
}

/// Reads the file of one item only, because there may be many others.
fn by_file(place: &TopicPlace, key: &TopicKey) -> Result<Option<AnyItem>, Refusal> {
    let path = place.item(key);
    let Some(text) = read_checked(&path, MAX_FILE_BYTES, Owner::RootOrSelf)? else {
        return Ok(None);
    };
    let refusal = |error: schemas::ParseError| {
        Refusal::new(&path, format!("cannot read {}", error.reason()), error.accepted())
    };
    parse(&text).map(Some).map_err(refusal)
}

/// Reads the items from the publisher's socket.
async fn by_socket(place: &TopicPlace, patience: Duration) -> anyhow::Result<Items<AnyItem>> {
    refuse_large_fields(place)?;
    let peer = publisher_of(place)?;
    let mut subscription = Subscription::<AnyItem>::of(place, Via::Socket);
    let told_all = async { while subscription.next().await != Change::Synced {} };
    if timeout(patience, told_all).await.is_err() {
        let who = peer.and_then(|peer| peer.pid).map_or_else(String::new, |pid| format!(" (process {pid})"));
        bail!(
            "the publisher of {place}{who} has not sent all its items within {} s; it may hang, or serve another \
             user only; without --socket the files are read",
            patience.as_secs()
        );
    }
    Ok(Items { items: subscription.items().clone(), refused: subscription.refused() })
}

/// The process that serves the topic.
fn publisher_of(place: &TopicPlace) -> anyhow::Result<Option<Peer>> {
    let (path, hint) = (place.socket(), "without --socket the files are read");
    let shown = text::path(&path);
    match place.look_at_socket() {
        TopicSocket::Served(Some(peer)) if !peer.is_trusted() => {
            bail!("{shown} is served by user {}; accepted: root and our own user; {hint}", peer.user)
        }
        TopicSocket::Served(peer) => Ok(peer),
        TopicSocket::Absent => bail!("no process serves {place}: there is no socket {shown}; {hint}"),
        TopicSocket::Stale => {
            bail!("no process serves {place} any more: no process listens at {shown}; {hint}")
        }
        TopicSocket::Foreign => {
            bail!("no process serves {place}: {shown} is not a socket of a topic; {hint}")
        }
        TopicSocket::Unreachable(reason) => Err(anyhow::anyhow!(reason))
            .with_context(|| format!("cannot dial {shown} (are you root?); {hint}")),
    }
}

#[cfg(test)]
mod tests {
    use pubsub::{Persistence, Root};

    use super::*;

    /// A publisher that never accepts a connection, so its items never come.
    #[tokio::test]
    async fn a_silent_publisher_is_not_waited_for_for_ever() {
        use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket};
        use std::os::fd::AsRawFd;
        let folder = tempfile::tempdir().unwrap();
        let place =
            TopicPlace::named(&Root::new(folder.path()), "zedkube", "T", Persistence::Volatile).unwrap();
        std::fs::create_dir_all(place.socket().parent().unwrap()).unwrap();
        let silent = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(silent.as_raw_fd(), &UnixAddr::new(&place.socket()).unwrap()).unwrap();
        listen(&silent, Backlog::new(8).unwrap()).unwrap();
        let error = by_socket(&place, Duration::from_millis(50)).await.unwrap_err().to_string();
        let start = format!(
            "the publisher of T of zedkube (process {}) has not sent all its items",
            std::process::id()
        );
        assert!(error.starts_with(&start), "{error}");
    }
}
