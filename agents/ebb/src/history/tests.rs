use jiff::Timestamp;
use schemas::{
    DeviceActionState, DrainEvent, DrainRequester, DrainStatus, GoTime, HeldBy, Operation, Outcome, Source,
};

use super::told::Ending;
use super::*;

/// A line so many seconds after noon and after the boot.
fn line(wall: i64, up: u64, event: DrainEvent) -> DrainLine {
    let noon: Timestamp = "2026-11-29T12:00:00Z".parse().unwrap();
    let at = noon.checked_add(jiff::SignedDuration::from_secs(wall)).unwrap();
    DrainLine { at: GoTime::from(at), up_millis: up * 1000, event }
}

fn asked(context: &str) -> DrainEvent {
    DrainEvent::Asked {
        publisher: "zedagent".to_owned(),
        requested_by: DrainRequester::DeviceOp,
        context: context.to_owned(),
        kept: false,
    }
}

fn phase(phase: &str, outcome: Option<Outcome>, held_by: Option<HeldBy>, reason: &str) -> DrainEvent {
    DrainEvent::Phase {
        phase: phase.to_owned(),
        status: DrainStatus::Cordoned,
        requested_by: DrainRequester::DeviceOp,
        outcome,
        held_by,
        node: "edge-a".to_owned(),
        reason: reason.to_owned(),
        hint: "do this".to_owned(),
    }
}

fn pod(name: &str, stage: &str, cause: &str) -> DrainEvent {
    DrainEvent::Pod {
        pod: format!("shop/{name}"),
        uid: name.to_owned(),
        owner: String::new(),
        stage: stage.to_owned(),
        tries: 2,
        detail: if stage == "Terminating" {
            "still terminating, 29 s of its grace are left".to_owned()
        } else {
            String::new()
        },
        cause: cause.to_owned(),
    }
}

fn answered(outcome: Outcome, by: &str) -> DrainEvent {
    let publisher = "zedagent".to_owned();
    DrainEvent::Answered {
        publisher,
        answer: DrainStatus::Complete,
        outcome: Some(outcome),
        by: by.to_owned(),
    }
}

fn ended() -> DrainEvent {
    DrainEvent::Ended { why: "the drain is over, and the node takes pods again".to_owned() }
}

fn drain(lines: Vec<DrainLine>) -> Drain {
    let file = DrainFile { number: 12, drain_id: "an-id".to_owned() };
    Drain { told: Told::of(&file, &lines), lines }
}

/// A drain with a budget, an outage and a boot. The wall clock is set back by an hour in between.
fn whole() -> Drain {
    let booted = DrainEvent::Booted { boot_id: "boot-2".to_owned() };
    let operation = DrainEvent::Operation {
        operation: Some(Operation::Reboot),
        counter: 7,
        source: Source::Person,
        state: DeviceActionState::Acting,
        error: String::new(),
    };
    let why = "budget shop/web: 2 of 2 healthy, needs 2";
    drain(vec![
        line(0, 500, asked("reboot")),
        line(1, 501, phase("Cordoning", None, None, "cordoning the node")),
        line(2, 502, DrainEvent::Attempt { number: 1, deadline: GoTime::ZERO }),
        line(2, 502, pod("web-1", "Waiting", "")),
        line(2, 502, pod("web-2", "Waiting", "")),
        line(2, 502, pod("agent", "Waiting", "")),
        line(3, 503, pod("web-1", "Terminating", "")),
        line(3, 503, pod("web-2", "Blocked", why)),
        line(3, 503, phase("Attempting", None, Some(HeldBy::Pods), "attempt 1: 1 blocked")),
        line(-3590, 510, DrainEvent::ApiAway { since: GoTime::ZERO }),
        line(-3580, 520, DrainEvent::ApiBack),
        line(-3570, 530, pod("web-1", "Gone", "")),
        line(-3570, 530, pod("web-2", "Gone", "")),
        line(-3570, 530, pod("agent", "Stays", "")),
        line(-3570, 530, phase("Complete", Some(Outcome::Drained), None, "all have left")),
        line(-3570, 530, answered(Outcome::Drained, "")),
        line(-3569, 531, operation),
        line(100, 20, booted),
        line(100, 20, phase("Returning", None, None, "taking our cordon back")),
        line(140, 60, ended()),
    ])
}

fn clock() -> Clock {
    Clock::new("2026-11-29T13:00:00Z".parse().unwrap(), TimeZone::UTC)
}

#[test]
fn the_story_of_a_drain_is_told_in_plain_words() {
    let drain = whole();
    let story = story(&drain, &clock(), Page::new(None, 80)).lines("").join("\n");
    let expected = "\
Drain 12 of node edge-a: drained after 30 s, 2/2 pods gone; back in service 40 s
  later
  for:   device-op: reboot
12:00:00  device-op asks: reboot
12:00:01  Cordoning: cordoning the node
12:00:02  attempt 1 begins
12:00:02  3 pods to leave: shop/web-1, shop/web-2, shop/agent
12:00:03  pod terminating: shop/web-1 (2 tries): 29 s of its grace are left
12:00:03  pod blocked: shop/web-2 (2 tries): budget shop/web: 2 of 2 healthy,
  needs 2
12:00:03  Attempting: attempt 1: 1 blocked; do this
11:00:10  the API server does not answer
11:00:20  the API server answers again
11:00:30  2 pods gone: shop/web-1, shop/web-2
11:00:30  pod not to leave any more: shop/agent (2 tries)
11:00:30  Complete: all have left
11:00:30  device-op may go on: the node is drained
11:00:31  nodeagent takes the machine down: reboot 7 of person
12:01:40  the machine has booted
12:01:40  Returning: taking our cordon back
12:02:20  the drain is over, and the node takes pods again";
    assert_eq!(story, expected);
}

#[test]
fn the_table_says_how_each_drain_ended() {
    let complete = |outcome| phase("Complete", Some(outcome), None, "why");
    let begun = || line(0, 0, asked("a reason that is longer than the terminal has room for"));
    let forced = |up| line(0, up, answered(Outcome::Forced, "alice: closed"));
    let all: Vec<Told> = [
        (vec![], Ending::GoesOn),
        (vec![begun(), line(1, 1, phase("Waiting", None, None, "why"))], Ending::GoesOn),
        (vec![begun(), line(9, 9, complete(Outcome::Drained))], Ending::Drained),
        (
            vec![begun(), forced(8), line(9, 9, complete(Outcome::Forced))],
            Ending::NotDrained { outcome: Outcome::Forced, by: "alice: closed".to_owned() },
        ),
        (
            vec![begun(), line(9, 9, complete(Outcome::ApiUnreachable))],
            Ending::NotDrained { outcome: Outcome::ApiUnreachable, by: String::new() },
        ),
        // Only one of two was let go, and the other has withdrawn.
        (
            vec![begun(), forced(8), line(9, 9, ended())],
            Ending::NotDrained { outcome: Outcome::Forced, by: "alice: closed".to_owned() },
        ),
        (
            vec![begun(), line(9, 200, phase("Failed", None, None, "time is over"))],
            Ending::Failed { why: "time is over".to_owned() },
        ),
        (vec![begun(), line(9, 9, phase("Idle", None, None, "")), line(9, 10, ended())], Ending::Withdrawn),
        // What was true was taken back.
        (
            vec![
                begun(),
                line(1, 1, complete(Outcome::Drained)),
                line(9, 9, phase("Waiting", None, None, "")),
            ],
            Ending::GoesOn,
        ),
    ]
    .into_iter()
    .map(|(lines, expected)| {
        let told = drain(lines).told;
        assert_eq!(told.outcome, expected);
        told
    })
    .chain([whole().told])
    .collect();
    let expected = "\
ID  BEGAN     OUTCOME      TOOK   PODS  BACK  FOR
12  -         goes on      -      0/0   -
12  12:00:00  goes on      -      0/0   -     device-op: a reason that is longe…
12  12:00:00  drained      9 s    0/0   -     device-op: a reason that is longe…
12  12:00:00  NOT DRAINED  9 s    0/0   -     device-op: a reason that is longe…
12  12:00:00  NOT DRAINED  9 s    0/0   -     device-op: a reason that is longe…
12  12:00:00  NOT DRAINED  -      0/0   -     device-op: a reason that is longe…
12  12:00:00  failed       3 min  0/0   -     device-op: a reason that is longe…
12  12:00:00  withdrawn    -      0/0   1 s   device-op: a reason that is longe…
12  12:00:00  goes on      -      0/0   -     device-op: a reason that is longe…
12  12:00:00  drained      30 s   2/2   40 s  device-op: reboot";
    assert_eq!(table(&all, &clock(), 80).join("\n"), expected);
}

#[test]
fn a_drain_is_named_by_its_number_its_id_or_as_the_last() {
    let file = |number: u32, id: &str| DrainFile { number, drain_id: id.to_owned() };
    let files = [file(11, "a-1"), file(12, "b-2")];
    for (id, expected) in [("last", Some(12)), ("11", Some(11)), ("b-2", Some(12)), ("b", None), ("", None)] {
        assert_eq!(chosen(&files, id).ok().map(|file| file.number), expected, "{id}");
    }
    let text = format!("{:#}", chosen(&[], "last").unwrap_err());
    assert_eq!(text, "no drain has been recorded on this device yet");
}
