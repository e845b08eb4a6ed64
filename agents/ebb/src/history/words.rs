//! The lines of a drain in plain words.

use drain::diagnosis::without_numbers;
use kubectl_ebb::screen::Tone;
use schemas::agent::shown_asker;
use schemas::{
    DeviceActionState, DrainEvent, DrainLine, DrainStatus, GoTime, HeldBy, NOT_DRAINED, Operation, Outcome,
};

use super::Elapsed;
use crate::status::times::Clock;

/// Pods that are named of those to which the same happens at the same time.
const MOST_NAMED: usize = 5;

/// What happened, for a person, and how it looks; `None` for what says nothing.
pub(super) fn of(event: &DrainEvent, clock: &Clock) -> Option<(Tone, String)> {
    let usual = |text: String| Some((Tone::Usual, text));
    match event {
        DrainEvent::Began { version, .. } => usual(format!("zedkube accepts a drain (ebb {version})")),
        DrainEvent::Booted { .. } => usual("the machine has booted".to_owned()),
        DrainEvent::Restarted => Some((Tone::Warning, "zedkube was restarted, and goes on".to_owned())),
        DrainEvent::Asked { publisher, context, kept, .. } => {
            let kept = if *kept { " (kept over boots)" } else { "" };
            usual(format!("{} asks: {context}{kept}", shown_asker(publisher)))
        }
        DrainEvent::Withdrawn { publisher } => usual(format!("{} asks no more", shown_asker(publisher))),
        DrainEvent::Answered { publisher, answer, outcome, by } => {
            Some(answered(shown_asker(publisher), *answer, *outcome, by))
        }
        DrainEvent::Phase { .. } => phase(event),
        DrainEvent::Attempt { number, deadline } => {
            let until = deadline.set().map(|at| format!(", until {}", clock.shown(at))).unwrap_or_default();
            usual(format!("attempt {number} begins{until}"))
        }
        DrainEvent::AttemptEnded { number, error } if error.is_empty() => {
            usual(format!("attempt {number} ends"))
        }
        DrainEvent::AttemptEnded { number, error } => {
            Some((Tone::Warning, format!("attempt {number} has failed: {error}")))
        }
        DrainEvent::Pod { .. } => pods(&[event]).pop(),
        DrainEvent::Volume { pv, pod, stage } => {
            let of = if pod.is_empty() { String::new() } else { format!(" of pod {pod}") };
            usual(format!("volume {pv}{of}: {}", volume_words(stage)))
        }
        DrainEvent::ApiAway { since } => {
            let since = since.set().map(|at| format!(" since {}", clock.shown(at))).unwrap_or_default();
            Some((Tone::Warning, format!("the API server does not answer{since}")))
        }
        DrainEvent::ApiBack => usual("the API server answers again".to_owned()),
        DrainEvent::Ordered { order, by } => {
            Some((Tone::Warning, format!("an operator orders: {order}: {by}")))
        }
        DrainEvent::Operation { .. } => operation(event),
        DrainEvent::Node { ready, cordoned } => {
            let ready = if *ready { "Ready" } else { "not Ready" };
            let cordoned = if *cordoned { "cordoned" } else { "not cordoned" };
            usual(format!("the Node is {ready} and {cordoned}"))
        }
        DrainEvent::Slot { held: true, .. } => usual("this node has a slot".to_owned()),
        DrainEvent::Slot { held: false, holders } if holders.is_empty() => {
            usual("this node has no slot".to_owned())
        }
        DrainEvent::Slot { held: false, holders } => {
            usual(format!("this node waits for a slot, held by {}", holders.join(", ")))
        }
        DrainEvent::Ended { why } => usual(why.clone()),
        DrainEvent::LeftOut => Some((
            Tone::Warning,
            "the file of this drain is full, or the disk took no more: lines are left out from here on"
                .to_owned(),
        )),
        DrainEvent::Unknown => None,
    }
}

/// What an answer means to the one who asked.
fn answered(who: &str, answer: DrainStatus, outcome: Option<Outcome>, by: &str) -> (Tone, String) {
    match (answer, outcome) {
        (DrainStatus::Complete, Some(Outcome::Drained)) => {
            (Tone::Usual, format!("{who} may go on: the node is drained"))
        }
        (DrainStatus::Complete, outcome) => {
            let why = outcome.map(|outcome| format!(" ({outcome:?})")).unwrap_or_default();
            let by = if by.is_empty() { String::new() } else { format!(", by {by}") };
            (Tone::Alarm, format!("{who} may go on, {NOT_DRAINED}{why}{by}"))
        }
        (DrainStatus::Unknown, _) => (Tone::Warning, format!("{who} may not go on any more")),
        (failed, _) => (Tone::Alarm, format!("{who} is told that the drain has failed ({failed})")),
    }
}

fn phase(event: &DrainEvent) -> Option<(Tone, String)> {
    let DrainEvent::Phase { phase, outcome, held_by, reason, hint, .. } = event else { return None };
    let is_undrained = phase == "Complete" && outcome.is_some_and(|outcome| outcome != Outcome::Drained);
    let tone = match held_by {
        _ if is_undrained || phase == "Failed" => Tone::Alarm,
        Some(HeldBy::Slot) | None => Tone::Usual,
        Some(_) => Tone::Warning,
    };
    let what = if is_undrained { format!("{phase}: {NOT_DRAINED}") } else { phase.clone() };
    let hint = if tone == Tone::Usual || hint.is_empty() { String::new() } else { format!("; {hint}") };
    Some((tone, format!("{what}: {reason}{hint}")))
}

/// A line for a person.
#[derive(Debug)]
pub(crate) struct Happened {
    /// When, by the wall clock.
    pub(crate) at: GoTime,
    /// Milliseconds since the drain began.
    pub(crate) after: u64,
    /// How it looks.
    pub(crate) tone: Tone,
    /// What happened.
    pub(crate) text: String,
}

/// The lines of a drain for a person, each with its time. Pods to which the same happens at the same time share a line.
pub(crate) fn story(lines: &[DrainLine], clock: &Clock) -> Vec<Happened> {
    let mut story = Vec::new();
    let mut passing = Elapsed::default();
    let mut rest = lines;
    while let Some(first) = rest.first() {
        let is_of_look = |line: &&DrainLine| {
            matches!(line.event, DrainEvent::Pod { .. }) && line.up_millis == first.up_millis
        };
        let together = rest.iter().take_while(is_of_look).count();
        let (now, later) = rest.split_at_checked(together.max(1)).unwrap_or((rest, &[]));
        rest = later;
        let after = now.iter().fold(0, |_, line| passing.pass(line));
        let happened = |(tone, text)| Happened { at: first.at, after, tone, text };
        if together == 0 {
            story.extend(of(&first.event, clock).map(happened));
        } else {
            let events: Vec<&DrainEvent> = now.iter().map(|line| &line.event).collect();
            story.extend(pods(&events).into_iter().map(happened));
        }
    }
    story
}

/// What happens to pods at one time: a text for each stage and reason.
fn pods(events: &[&DrainEvent]) -> Vec<(Tone, String)> {
    let mut groups: Vec<(&str, String, Vec<&DrainEvent>)> = Vec::new();
    for event in events {
        let DrainEvent::Pod { stage, cause, .. } = event else { continue };
        let sign = without_numbers(cause);
        match groups.iter_mut().find(|(known, of, _)| *known == stage && *of == sign) {
            Some((.., group)) => group.push(event),
            None => groups.push((stage, sign, vec![event])),
        }
    }
    let text = |(stage, _, group): (&str, String, Vec<&DrainEvent>)| {
        let tone =
            if matches!(stage, "Blocked" | "Failed" | "LeftBehind") { Tone::Warning } else { Tone::Usual };
        (tone, pod_text(stage, &group))
    };
    groups.into_iter().map(text).collect()
}

/// `5 pods blocked: a, b, c and 2 more: budget shop/db: 3 of 3 healthy, needs 3`.
fn pod_text(stage: &str, group: &[&DrainEvent]) -> String {
    let named: Vec<&str> = group.iter().filter_map(|event| pod_name(event)).take(MOST_NAMED).collect();
    let more = group.len() - named.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let number = if let [_] = group { "pod".to_owned() } else { format!("{} pods", group.len()) };
    let (tries, why) = match group {
        [DrainEvent::Pod { tries, detail, cause, .. }] => {
            let tries = if *tries > 1 { format!(" ({tries} tries)") } else { String::new() };
            let detail = detail.strip_prefix("still terminating, ").unwrap_or(detail);
            (tries, if cause.is_empty() { detail } else { cause.as_str() })
        }
        // Tries and answers of one pod are not those of the others.
        [DrainEvent::Pod { cause, .. }, ..] => (String::new(), cause.as_str()),
        _ => (String::new(), ""),
    };
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    format!("{number} {}: {}{more}{tries}{why}", pod_words(stage), named.join(", "))
}

fn pod_name(event: &DrainEvent) -> Option<&str> {
    let DrainEvent::Pod { pod, .. } = event else { return None };
    Some(pod)
}

/// What a stage of pods means.
pub(crate) fn pod_words(stage: &str) -> &str {
    match stage {
        "Waiting" => "to leave",
        "Evicting" => "asked to leave",
        "Blocked" => "blocked",
        "Paused" => "to be tried again later",
        "Accepted" | "Terminating" => "terminating",
        "Awaiting" => "to end by itself",
        "Refused" => "not evicted, by the policy",
        "Failed" => "that cannot be evicted",
        "LeftBehind" => "left behind",
        "Gone" => "gone",
        "Stays" => "not to leave any more",
        other => other,
    }
}

/// What a stage of a volume means.
pub(crate) fn volume_words(stage: &str) -> &str {
    match stage {
        "Detaching" => "is being detached",
        "DetachTimedOut" => "was not detached in time",
        "Attaching" => "is being attached to another node",
        "NotAttachedElsewhere" => "is not attached to another node yet",
        "Done" => "is detached",
        other => other,
    }
}

fn operation(event: &DrainEvent) -> Option<(Tone, String)> {
    let DrainEvent::Operation { operation, counter, source, state, error } = event else { return None };
    let what = match operation {
        Some(operation) => format!("{operation} {counter} of {source}"),
        None => "the reboot into the new image".to_owned(),
    };
    Some(match state {
        DeviceActionState::Idle => return None,
        DeviceActionState::Taken => (Tone::Usual, format!("nodeagent takes {what}")),
        DeviceActionState::Acting => {
            let down = match operation {
                Some(Operation::Shutdown) => "stops the applications",
                Some(Operation::Reboot | Operation::Poweroff) | None => "takes the machine down",
            };
            (Tone::Usual, format!("nodeagent {down}: {what}"))
        }
        DeviceActionState::Done => (Tone::Usual, format!("{what} is done")),
        DeviceActionState::Failed => (Tone::Alarm, format!("{what} has failed: {error}")),
    })
}
