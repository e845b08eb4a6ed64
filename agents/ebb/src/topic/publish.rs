//! `ebb topic publish` and `ebb topic delete`: write and remove items in the name of an agent, which must not run: two
//! publishers of one topic would overwrite each other.

use std::io::{self, IsTerminal, Read};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use pubsub::{
    AgentLock, Holder, LockError, MAX_FILE_BYTES, Persistence, Published, Publisher, TopicKey, TopicPlace,
    TopicSocket, lock_holder,
};
use runtime::peers;
use runtime::topics::{may_exist, served_of};
use schemas::agent::shown;
use schemas::{AnyItem, check_of, parse};
use serde::Serialize;

use super::TopicChoice;
use crate::operator::{OperatorFlags, journal};
use crate::screen;

/// Value that means "read from stdin".
const STDIN: &str = "-";

/// Arguments of `ebb topic publish`.
#[derive(Args, Debug)]
pub(super) struct PublishArguments {
    #[command(flatten)]
    which: TopicChoice,
    /// Key of the item
    #[arg(value_parser = TopicKey::parse)]
    key: TopicKey,
    /// Value of the item, a JSON object; without it, or with `-`, it is read from stdin
    #[arg(value_name = "JSON")]
    value: Option<String>,
    #[command(flatten)]
    place: OperatorFlags,
}

/// JSON form of the answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Document<'a> {
    agent: &'a str,
    topic: &'a str,
    persistent: bool,
    key: &'a str,
    file: String,
    /// False if the file already had an equal value.
    changed: bool,
    by: String,
}

impl<'a> Document<'a> {
    fn new(place: &'a TopicPlace, key: &'a TopicKey, changed: bool) -> Self {
        Self {
            agent: place.agent(),
            topic: place.topic(),
            persistent: place.persistence() == Persistence::Persistent,
            key: key.as_str(),
            file: place.item(key).display().to_string(),
            changed,
            by: peers::user(),
        }
    }
}

/// Writes the item. Exit code 1 if the agent runs or the value is invalid for this topic.
pub(super) fn publish(arguments: &PublishArguments) -> anyhow::Result<ExitCode> {
    let (key, answer) = (&arguments.key, &arguments.place);
    let place = arguments.which.place(&answer.root()?)?;
    let text = match arguments.value.as_deref() {
        Some(text) if text != STDIN => text.as_bytes().to_vec(),
        Some(_) | None => from_stdin()?,
    };
    let Checked { item, left_out } = checked(place.topic(), &text).context("nothing is published")?;
    for path in left_out {
        let (path, topic) = (text::plain(&path), place.topic());
        screen::say(&format!(
            "Warning: field `{path}` is left out: {topic} has no such field, or it is empty"
        ));
    }
    let is_new = !may_exist(&place.folder());
    let has_changed = write(&place, key, &item)?;
    answer.answer(&summary(&place, key, has_changed, is_new), &Document::new(&place, key, has_changed))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the item; true if the file has changed.
fn write(place: &TopicPlace, key: &TopicKey, item: &AnyItem) -> anyhow::Result<bool> {
    let lock = speak_for(place)?;
    let has_changed = Publisher::of(place.clone(), &lock)?.publish(key, item)? == Published::Written;
    if has_changed {
        let name = text::word(key.as_str());
        journal(place.root(), &format!("{place}: item {name} published by {}", peers::user()));
    }
    Ok(has_changed)
}

fn summary(place: &TopicPlace, key: &TopicKey, has_changed: bool, is_new: bool) -> String {
    let (name, path) = (text::word(key.as_str()), text::path(&place.item(key)));
    if !has_changed {
        return format!("item {name} of {place} has this value already in {path}: nothing is written");
    }
    let new = if is_new { "; the topic is new" } else { "" };
    format!("item {name} of {place} is published in {path}{new}")
}

fn from_stdin() -> anyhow::Result<Vec<u8>> {
    if io::stdin().is_terminal() {
        screen::say("reading the value from the terminal: Ctrl-D ends it");
    }
    let mut text = Vec::new();
    let limit = MAX_FILE_BYTES.saturating_add(1);
    io::stdin().take(limit).read_to_end(&mut text).context("cannot read the value from stdin")?;
    Ok(text)
}

/// A value that may be written.
#[derive(Debug)]
struct Checked {
    /// The value; for a topic of our schemas in the form in which its agent writes it.
    item: AnyItem,
    /// Fields of the input that the value does not have.
    left_out: Vec<String>,
}

fn checked(topic: &str, text: &[u8]) -> anyhow::Result<Checked> {
    let given: AnyItem = parse(text)?;
    let Some(check) = check_of(topic) else {
        return Ok(Checked { item: given, left_out: Vec::new() });
    };
    let item: AnyItem = parse(&check(text)?)?;
    Ok(Checked { left_out: given.left_out(&item), item })
}

/// Arguments of `ebb topic delete`.
#[derive(Args, Debug)]
pub(super) struct DeleteArguments {
    #[command(flatten)]
    which: TopicChoice,
    /// Key of the item
    #[arg(value_parser = TopicKey::parse)]
    key: TopicKey,
    #[command(flatten)]
    place: OperatorFlags,
}

/// Removes the item, valid or not. Exit code 1 if the agent runs or there is no such item.
pub(super) fn delete(arguments: &DeleteArguments) -> anyhow::Result<ExitCode> {
    let (key, answer) = (&arguments.key, &arguments.place);
    let place = arguments.which.place(&answer.root()?)?;
    let (name, path) = (text::word(key.as_str()), text::path(&place.item(key)));
    if !is_there(&place, key) {
        bail!("there is nothing to delete: {place} has no item {name} ({path})");
    }
    let lock = speak_for(&place)?;
    Publisher::<AnyItem>::of(place.clone(), &lock)?.unpublish(key)?;
    drop(lock);
    journal(place.root(), &format!("{place}: item {name} deleted by {}", peers::user()));
    let line = format!("item {name} of {place} is deleted: {path} is gone");
    answer.answer(&line, &Document::new(&place, key, true))?;
    Ok(ExitCode::SUCCESS)
}

/// True if the item exists, or a backup that would restore it.
fn is_there(place: &TopicPlace, key: &TopicKey) -> bool {
    let backup = place.folder().join(format!("{}.bak", key.file_name()));
    may_exist(&place.item(key)) || place.persistence() == Persistence::Persistent && may_exist(&backup)
}

/// Takes the agent's lock, to write in its name until the lock is dropped.
///
/// # Errors
/// The agent runs: its lock is held, or one of its sockets is served (EVE's agents do not take our lock). Or the lock
/// cannot be made.
fn speak_for(place: &TopicPlace) -> anyhow::Result<AgentLock> {
    let (root, agent) = (place.root(), place.agent());
    if let Some(Holder { pid }) = lock_holder(root, agent)? {
        bail!(running(agent, pid));
    }
    if let Some((topic, TopicSocket::Served(peer))) = served_of(root, agent).into_iter().next() {
        let pid = peer.and_then(|peer| peer.pid);
        bail!("{} (it serves {})", running(agent, pid), text::path(&topic.socket()));
    }
    match AgentLock::acquire(root, agent) {
        Ok(lock) => Ok(lock),
        Err(LockError::Held { pid, .. }) => bail!(running(agent, pid)),
        Err(error @ (LockError::Reader { .. } | LockError::Store(_))) => Err(error)
            .with_context(|| format!("cannot write in the name of {} (are you root?)", shown(agent))),
    }
}

fn running(agent: &str, pid: Option<u32>) -> String {
    let process = pid.map_or_else(String::new, |pid| format!(" as process {pid}"));
    let agent = shown(agent);
    format!(
        "{agent} runs{process}, and would overwrite the change: stop it first, or ask it for what you want \
         (`ebb request`, `ebb force`, `ebb reboot`, `ebb update`)"
    )
}

#[cfg(test)]
mod tests {
    use schemas::to_bytes;

    use super::*;

    #[track_caller]
    fn check(topic: &str, text: &str, expected: Result<&str, &str>) {
        let got = checked(topic, text.as_bytes()).map_err(|error| error.to_string());
        let got = got.map(|checked| String::from_utf8(to_bytes(&checked.item)).unwrap());
        assert_eq!(got, expected.map(str::to_owned).map_err(str::to_owned), "{topic} {text}");
    }

    #[test]
    fn what_is_known_is_written_as_its_agent_does() {
        let status = r#"{"Status":5,"RequestedBy":2}"#;
        check("NodeDrainStatus", r#" {"requestedby":2, "STATUS":5, "Other":1} "#, Ok(status));
        check("NodeDrainStatus", "{}", Ok(r#"{"Status":0,"RequestedBy":0}"#));
        check("Unknown", r#"{"b": 1, "A": [ 2 ]}"#, Ok(r#"{"b":1,"A":[2]}"#));
        for (topic, expected) in [("NodeDrainStatus", &["Statsu"][..]), ("Unknown", &[])] {
            assert_eq!(checked(topic, br#"{"Statsu":5}"#).unwrap().left_out, expected);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let range = checked("NodeDrainStatus", br#"{"Status":10}"#).unwrap_err().to_string();
        assert!(range.starts_with("cannot read NodeDrainStatus: field `Status`: 10"), "{range}");
        let object = "cannot read the item: the text is a list; accepted: a JSON object";
        check("NodeDrainStatus", "[]", Err(object));
        check("Unknown", "[]", Err(object));
    }
}
