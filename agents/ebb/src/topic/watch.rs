//! `ebb topic watch`.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use jiff::Timestamp;
use pubsub::{Change, Refusal, Subscription, TopicKey, TopicPlace, TopicSocket, Via};
use runtime::clock;
use schemas::AnyItem;
use serde::Serialize;

use super::get::value_text;
use super::{Device, TopicChoice, compact, listing, may_exist, refuse_large_fields};
use kubectl_ebb::interrupts::{Interrupt, Interrupts};
use kubectl_ebb::screen;

/// Interval of checks for refused items: the subscription makes no event for them.
const LOOK_AT_REFUSED: Duration = Duration::from_secs(1);

/// Arguments of `ebb topic watch`.
#[derive(Args, Debug)]
pub(super) struct WatchArguments {
    #[command(flatten)]
    which: TopicChoice,
    /// Print only changes of this item
    #[arg(value_parser = TopicKey::parse)]
    key: Option<TopicKey>,
    /// Follow the socket, as EVE's agents do
    #[arg(long, conflicts_with = "files")]
    socket: bool,
    /// Follow the files (the default)
    #[arg(long)]
    files: bool,
    /// Print each change as one JSON object on a line of its own
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: Device,
}

impl WatchArguments {
    /// Source of the changes. The default is files: they also show changes that were made by hand, and reading EVE's
    /// sockets leaves files behind.
    const fn via(&self) -> Via {
        if self.socket && !self.files { Via::Socket } else { Via::Files }
    }

    fn wants(&self, change: &Change<AnyItem>) -> bool {
        match change {
            Change::Created(key, _) | Change::Modified(key, _) | Change::Deleted(key, _) => {
                self.key.as_ref().is_none_or(|wanted| wanted == key)
            }
            Change::Synced | Change::Restarted(_) => true,
        }
    }
}

/// One change, as in `--json`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Line<'a> {
    time: String,
    change: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a AnyItem>,
    /// Number of restarts of the publisher.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
}

/// Follows the topic until the process ends. Exit code 0 after Ctrl-C and when stdout is closed.
pub(super) fn run(arguments: &WatchArguments) -> anyhow::Result<ExitCode> {
    let place = arguments.which.place(&arguments.device.root())?;
    if arguments.via() == Via::Socket {
        refuse_large_fields(&place)?;
    }
    kubectl_ebb::in_runtime(follow(arguments, &place))
}

async fn follow(arguments: &WatchArguments, place: &TopicPlace) -> anyhow::Result<ExitCode> {
    let mut interrupts = Interrupts::watch().context("cannot watch signals")?;
    let mut subscription = Subscription::<AnyItem>::of(place, arguments.via());
    warn_if_absent(place, arguments.via());
    let mut printed = BTreeSet::new();
    loop {
        let change = tokio::select! {
            change = subscription.next() => Some(change),
            () = tokio::time::sleep(LOOK_AT_REFUSED) => None,
            interrupt = interrupts.next() => return Ok(end(interrupt)),
        };
        print_refused(subscription.refused(), &mut printed);
        if let Some(change) = change.filter(|change| arguments.wants(change)) {
            let line = line(&change, clock::wall(), arguments.json)?;
            if !print(&line) {
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
}

/// Exit code after a signal: 0 for Ctrl-C, which is the normal way to end the verb.
fn end(interrupt: Interrupt) -> ExitCode {
    match interrupt {
        Interrupt::Int => ExitCode::SUCCESS,
        Interrupt::Term => interrupt.exit_code(),
    }
}

/// Warns if the topic does not exist yet, because the verb then waits without printing anything.
fn warn_if_absent(place: &TopicPlace, via: Via) {
    let (folder, socket) = (place.folder(), place.socket());
    let text = if via == Via::Socket {
        let is_served = matches!(place.look_at_socket(), TopicSocket::Served(_));
        (!is_served).then(|| format!("no process serves {} yet", text::path(&socket)))
    } else {
        (!may_exist(&folder)).then(|| format!("there is no folder {} yet", text::path(&folder)))
    };
    if let Some(text) = text {
        screen::say(&format!(
            "Warning: {text}: waiting for it; `{}` lists what is there",
            listing(place.root())
        ));
    }
}

/// Prints each refusal once, and again if it comes back after it was gone.
fn print_refused(refused: Vec<Refusal>, printed: &mut BTreeSet<Refusal>) {
    let refused: BTreeSet<Refusal> = refused.into_iter().collect();
    for refusal in refused.difference(printed) {
        screen::say(&format!("error: {refusal}"));
    }
    *printed = refused;
}

fn line(change: &Change<AnyItem>, now: Timestamp, json: bool) -> anyhow::Result<String> {
    let (word, item, count) = match change {
        Change::Created(key, value) => ("created", Some((key, value)), None),
        Change::Modified(key, value) => ("modified", Some((key, value)), None),
        Change::Deleted(key, value) => ("deleted", Some((key, value)), None),
        Change::Synced => ("synced", None, None),
        Change::Restarted(count) => ("restarted", None, Some(*count)),
    };
    let time = format!("{now:.3}");
    if json {
        let key = item.map(|(key, _)| key.as_str());
        return compact(&Line { time, change: word, key, value: item.map(|(_, value)| value), count });
    }
    let rest = match (item, count) {
        (Some((key, value)), _) => format!(" {} {}", text::word(key.as_str()), value_text(value)),
        (None, Some(count)) => format!(" {count}"),
        (None, None) => String::new(),
    };
    Ok(format!("{time} {word}{rest}"))
}

/// Prints a line at once. False if stdout is closed: `ebb topic watch | head -1` has to end.
fn print(line: &str) -> bool {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_one_line() {
        let now: Timestamp = "2026-11-21T23:40:01.123456Z".parse().unwrap();
        let key = |text: &str| TopicKey::parse(text).unwrap();
        let value: AnyItem = schemas::parse(br#"{"Text":"<a>\u009b"}"#).unwrap();
        for (change, text, json) in [
            (
                Change::Created(key("global"), value.clone()),
                r#" created global {"Text":"\u003ca\u003e\u009b"}"#,
                r#","Change":"created","Key":"global","Value":{"Text":"<a>\u009b"}}"#,
            ),
            (
                Change::Modified(key("a \n"), value.clone()),
                r#" modified "a \n" {"Text":"\u003ca\u003e\u009b"}"#,
                r#","Change":"modified","Key":"a \n","Value":{"Text":"<a>\u009b"}}"#,
            ),
            (
                Change::Deleted(key("k"), value),
                r#" deleted k {"Text":"\u003ca\u003e\u009b"}"#,
                r#","Change":"deleted","Key":"k","Value":{"Text":"<a>\u009b"}}"#,
            ),
            (Change::Synced, " synced", r#","Change":"synced"}"#),
            (Change::Restarted(3), " restarted 3", r#","Change":"restarted","Count":3}"#),
        ] {
            let time = "2026-11-21T23:40:01.123Z";
            assert_eq!(line(&change, now, false).unwrap(), format!("{time}{text}"));
            assert_eq!(line(&change, now, true).unwrap(), format!("{{\"Time\":\"{time}\"{json}"));
        }
    }
}
