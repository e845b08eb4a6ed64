//! `ebb topic delete`.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use pubsub::{Persistence, Publisher, TopicKey, TopicPlace};

use super::any::AnyItem;
use super::publish::Document;
use super::speaking::speak_for;
use super::{Which, may_exist, shown};
use crate::place::Place;
use crate::{journal, peers};

/// What `ebb topic delete` takes.
#[derive(Args, Debug)]
pub(super) struct DeleteArguments {
    #[command(flatten)]
    which: Which,
    /// The item
    #[arg(value_parser = TopicKey::parse)]
    key: TopicKey,
    #[command(flatten)]
    place: Place,
}

/// Removes the item, good or not. Exit code 1 if the agent runs or there is no such item.
pub(super) fn run(arguments: &DeleteArguments) -> anyhow::Result<ExitCode> {
    let (key, answer) = (&arguments.key, &arguments.place);
    let place = arguments.which.place(&answer.root()?)?;
    let (name, path) = (shown::key(key.as_str()), shown::path(&place.item(key)));
    if !is_there(&place, key) {
        bail!("there is nothing to delete: {place} has no item {name} ({path})");
    }
    let lock = speak_for(&place)?;
    Publisher::<AnyItem>::of(place.clone(), &lock)?.unpublish(key)?;
    drop(lock);
    journal::record(place.root(), &format!("{place}: item {name} deleted by {}", peers::user()));
    let line = format!("item {name} of {place} is deleted: {path} is gone");
    answer.answer(&line, &Document::new(&place, key, true))?;
    Ok(ExitCode::SUCCESS)
}

/// The item, or the backup that would bring it back.
fn is_there(place: &TopicPlace, key: &TopicKey) -> bool {
    let backup = place.folder().join(format!("{}.bak", key.file_name()));
    may_exist(&place.item(key)) || place.persistence() == Persistence::Persistent && may_exist(&backup)
}
