use std::fs;

use schemas::{
    Attempt, DeviceActionState, DrainStatus, Operation, Outcome, PodLine, RequestLine, VolumeLine, agent,
};
use tempfile::TempDir;

use super::*;

/// What a zedkube knows in a drain of node `edge-a`, some seconds after the start.
struct Story {
    look: Look,
}

impl Story {
    fn new(drain_id: &str) -> Self {
        let report = NodeDrainReport {
            drain_id: drain_id.to_owned(),
            boot_id: "boot-1".to_owned(),
            node: "edge-a".to_owned(),
            ..NodeDrainReport::default()
        };
        Self { look: Look { report, is_ready: Some(true), ..Look::default() } }
    }

    fn phase(&mut self, phase: &str, status: DrainStatus, reason: &str) {
        (self.look.report.phase, self.look.report.reason) = (phase.to_owned(), reason.to_owned());
        self.look.status.status = status;
    }

    fn pod(&mut self, name: &str, stage: &str, tries: u32, trouble: &str) {
        let line = PodLine {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            uid: format!("uid-{name}"),
            verdict: "Evict".to_owned(),
            stage: stage.to_owned(),
            tries,
            ..PodLine::default()
        };
        self.look.report.pods.retain(|pod| pod.name != name);
        self.look.report.pods.push(line);
        self.look.troubles.remove(&format!("uid-{name}"));
        if !trouble.is_empty() {
            self.look.troubles.insert(format!("uid-{name}"), trouble.to_owned());
        }
    }

    fn gone(&mut self, name: &str) {
        self.look.report.pods.retain(|pod| pod.name != name);
    }

    fn request(&mut self) -> &mut RequestLine {
        let requests = &mut self.look.report.requests;
        if requests.is_empty() {
            let publisher = agent::ZEDAGENT.to_owned();
            requests.push(RequestLine { publisher, context: "reboot".to_owned(), ..RequestLine::default() });
        }
        &mut requests[0]
    }
}

/// An event in a few words.
fn word(event: &DrainEvent) -> String {
    match event {
        DrainEvent::Pod { pod, stage, cause, .. } => format!("{pod} {stage} {cause}").trim_end().to_owned(),
        DrainEvent::Volume { pv, stage, .. } => format!("{pv} {stage}"),
        DrainEvent::Phase { phase, reason, .. } => format!("{phase}: {reason}"),
        DrainEvent::Answered { answer, by, .. } => format!("answered {answer} {by}").trim_end().to_owned(),
        DrainEvent::Node { ready, cordoned } => format!("node {ready} {cordoned}"),
        DrainEvent::Slot { held, holders } => format!("slot {held} {holders:?}"),
        DrainEvent::Attempt { number, .. } => format!("attempt {number}"),
        DrainEvent::AttemptEnded { number, error } => format!("attempt {number} ended {error}"),
        DrainEvent::Operation { state, .. } => format!("operation {state:?}"),
        DrainEvent::Ordered { order, by } => format!("ordered {order} by {by}"),
        DrainEvent::Ended { why } => format!("ended: {why}"),
        other @ (DrainEvent::Began { .. }
        | DrainEvent::Booted { .. }
        | DrainEvent::Restarted
        | DrainEvent::Asked { .. }
        | DrainEvent::Withdrawn { .. }
        | DrainEvent::ApiAway { .. }
        | DrainEvent::ApiBack
        | DrainEvent::LeftOut
        | DrainEvent::Unknown) => format!("{other:?}").split([' ', '{']).next().unwrap().to_owned(),
    }
}

/// All that is recorded of these looks by one process.
fn recorded(recording: &mut Recording, looks: &[Look]) -> Vec<String> {
    let mut words = Vec::new();
    for look in looks {
        recording.look(look);
        let waiting = std::mem::take(&mut recording.waiting);
        let bytes = waiting.iter().flat_map(|waiting| waiting.lines.split(|byte| *byte == b'\n'));
        words.extend(bytes.filter_map(DrainLine::read).map(|line| word(&line.event)));
    }
    words
}

type Change = fn(&mut Story);

/// At this second this changes, and this is written down.
type Step = (u64, Change, Vec<&'static str>);

/// Waits for a slot, and begins.
fn begins() -> Vec<Step> {
    vec![
        (
            0,
            |story| {
                story.request();
                story.phase("Waiting", DrainStatus::Requested, "1 slot is taken");
                story.look.report.slot.waiting_since = GoTime::from(clock::wall());
                story.look.report.slot.holders = vec!["edge-b".to_owned()];
            },
            vec!["Began", "Asked", "node true false", "slot false [\"edge-b\"]", "Waiting: 1 slot is taken"],
        ),
        // Other numbers are no news, other words are after 10 s.
        (1, |story| story.phase("Waiting", DrainStatus::Requested, "2 slots is taken"), vec![]),
        (2, |story| story.phase("Waiting", DrainStatus::Requested, "health fails"), vec![]),
        (12, |_| {}, vec!["Waiting: health fails"]),
        (
            61,
            |story| {
                story.look.report.slot = schemas::Slot { held: true, ..schemas::Slot::default() };
                story.look.report.cordoned = true;
                story.phase("Attempting", DrainStatus::DrainRetrying, "0 of 2");
                story.look.report.drain_attempt = 1;
                story.pod("web-1", "Evicting", 1, "");
                story.pod("web-2", "Waiting", 0, "");
                story.look.has_listed = true;
            },
            vec![
                "node true true",
                "slot true []",
                "attempt 1",
                "shop/web-1 Evicting",
                "shop/web-2 Waiting",
                "Attempting: 0 of 2",
            ],
        ),
    ]
}

/// Pods are refused, and the API server is away.
fn is_held_up() -> Vec<Step> {
    vec![
        (
            62,
            |story| story.pod("web-1", "Blocked", 1, "budget web: 2 of 2"),
            vec!["shop/web-1 Blocked budget web: 2 of 2"],
        ),
        // It is tried again and refused again, and the budget's numbers change.
        (63, |story| story.pod("web-1", "Evicting", 2, ""), vec![]),
        (64, |story| story.pod("web-1", "Blocked", 2, "budget web: 1 of 2"), vec![]),
        (65, |story| story.pod("web-1", "Blocked", 2, "a webhook"), vec![]),
        (122, |_| {}, vec!["shop/web-1 Blocked a webhook"]),
        (
            123,
            |story| {
                story.gone("web-2");
                story.look.report.api_away_since = GoTime::from(clock::wall());
                story.look.report.volumes = vec![VolumeLine {
                    pv: "pv-1".to_owned(),
                    stage: "Detaching".to_owned(),
                    ..VolumeLine::default()
                }];
            },
            vec!["ApiAway", "shop/web-2 Gone", "pv-1 Detaching"],
        ),
        (
            124,
            |story| {
                story.look.report.api_away_since = GoTime::ZERO;
                story.look.report.volumes.clear();
                story.look.report.attempts =
                    vec![Attempt { number: 1, error: "too slow".to_owned(), ..Attempt::default() }];
                story.phase("Pausing", DrainStatus::DrainRetrying, "1 left");
                // Another list is on its way.
                story.look.has_listed = false;
                story.look.report.pods.clear();
            },
            vec!["ApiBack", "attempt 1 ended too slow", "pv-1 Done", "Pausing: 1 left"],
        ),
    ]
}

/// An operator forces it, and the machine boots.
fn goes_down_and_comes_back() -> Vec<Step> {
    vec![
        (
            130,
            |story| {
                story.look.orders = vec![("go".to_owned(), "alice".to_owned())];
                story.phase("Complete", DrainStatus::Complete, "forced");
                story.look.report.outcome = Some(Outcome::Forced);
                let request = story.request();
                (request.answer, request.outcome) = (DrainStatus::Complete, Some(Outcome::Forced));
                request.by = "alice".to_owned();
            },
            vec!["ordered go by alice", "Complete: forced", "answered Complete alice"],
        ),
        (
            131,
            |story| {
                story.look.orders.clear();
                story.look.action = Some(DeviceAction {
                    command: Some(Operation::Reboot),
                    state: DeviceActionState::Acting,
                    ..DeviceAction::default()
                });
            },
            vec!["operation Acting"],
        ),
        (
            5,
            |story| {
                story.look.report = NodeDrainReport {
                    boot_id: "boot-2".to_owned(),
                    cordoned: true,
                    slot: story.look.report.slot.clone(),
                    ..NodeDrainReport::default()
                };
                (story.look.action, story.look.is_ready) = (None, None);
                story.phase("Returning", DrainStatus::NotRequested, "the API server has not answered yet");
            },
            vec!["Booted", "Withdrawn", "Returning: the API server has not answered yet"],
        ),
        (30, |story| story.look.is_ready = Some(false), vec!["node false true"]),
        (
            40,
            |story| {
                (story.look.is_ready, story.look.report.cordoned) = (Some(true), false);
                story.look.report.slot = schemas::Slot::default();
                (story.look.is_over, story.look.report.phase) = (true, "Idle".to_owned());
            },
            vec![
                "node true false",
                "slot false []",
                "ended: the drain is over, and the node takes pods again",
            ],
        ),
        (41, |_| {}, vec![]),
        (42, |story| story.look.report.refused.clear(), vec![]),
    ]
}

/// The looks of the drain, and what is written down at each.
fn looks() -> Vec<(Look, Vec<&'static str>)> {
    let mut story = Story::new("first");
    let steps = begins().into_iter().chain(is_held_up()).chain(goes_down_and_comes_back());
    let looks = steps.map(|(second, change, expected)| {
        change(&mut story);
        story.look.up = Moment(1000 * second);
        (story.look.clone(), expected)
    });
    looks.collect()
}

#[test]
fn what_happens_is_written_down_once() {
    let mut recording = Recording::default();
    for (look, expected) in looks() {
        assert_eq!(recorded(&mut recording, std::slice::from_ref(&look)), expected, "at {:?}", look.up);
    }
    // The same drain, by a process that does not know yet that it is over; another drain; one that takes its place.
    for (id, expected, number) in
        [("first", "", 1), ("second", "Began", 2), ("third", "ended: another drain has begun", 3)]
    {
        let words = recorded(&mut recording, &[Story::new(id).look]);
        let last = recording.last.as_ref().map(|file| file.number);
        assert_eq!((words.first().map_or("", |word| word), last), (expected, Some(number)));
    }
}

/// Wherever zedkube is killed, or a line is torn, the next process goes on with the same file, and what is on disk is not
/// written again.
#[test]
fn a_restarted_zedkube_goes_on_where_the_file_ends() {
    let looks: Vec<Look> = looks().into_iter().map(|(look, _)| look).collect();
    let last_of_boot = looks.iter().rposition(|look| look.report.boot_id == "boot-1").unwrap();
    let (done, rest) = looks.split_at(last_of_boot + 1);
    let place = TempDir::new().unwrap();
    let root = Root::new(place.path());
    let file = DrainFile { number: 1, drain_id: "first".to_owned() };
    let mut before = Recording::default();
    for look in done {
        before.look(look);
    }
    let lines = before.waiting.pop_front().unwrap().lines;
    for cut in 0..=lines.len() {
        fs::remove_dir_all(place.path()).unwrap();
        let left = &lines[..cut];
        drain_history::append(&drain_history::folder(&root), &file, left).unwrap();
        // It was killed after it had counted the outcome, or before that.
        if cut % 2 == 0 {
            write_persistent(&root, agent::ZEDKUBE, &before.totals).unwrap();
        }
        let mut after = Recording::found(&root);
        let words = recorded(&mut after, &done[last_of_boot..]);
        let has_line = left.contains(&b'\n') || DrainLine::read(left).is_some();
        assert_eq!(words[0], if has_line { "Restarted" } else { "Began" }, "{cut}");
        assert!(cut < lines.len() || words.len() == 1, "all is written already: {words:?}");
        let words = recorded(&mut after, rest);
        assert_eq!(words.last().unwrap(), "ended: the drain is over, and the node takes pods again");
        assert_eq!(after.last, Some(file.clone()), "one file");
        assert_eq!(after.totals.drains, BTreeMap::from([("Forced".to_owned(), 1)]), "counted once: {cut}");
    }
}

#[test]
fn a_file_has_room_for_the_end_whatever_the_pods_do() {
    let mut recording = Recording::default();
    let mut story = Story::new("endless");
    story.look.has_listed = true;
    let mut bytes = 0;
    let mut words = Vec::new();
    for round in 0..40_000_u64 {
        story.look.up = Moment(round * 1000);
        let stage = if round % 2 == 0 { "Blocked" } else { "Terminating" };
        story.pod(&"w".repeat(200), stage, 0, "");
        if round == 39_999 {
            story.phase("Complete", DrainStatus::Complete, "drained");
        }
        recording.look(&story.look);
        for waiting in std::mem::take(&mut recording.waiting) {
            bytes += size(&waiting.lines);
            let lines = waiting.lines.split(|byte| *byte == b'\n');
            words.extend(lines.filter_map(DrainLine::read).map(|line| word(&line.event)));
        }
    }
    assert!((MOST_BYTES_OF_ONE - 2 * ROOM_FOR_STATUS..MOST_BYTES_OF_ONE).contains(&bytes), "{bytes}");
    assert_eq!(words[words.len() - 2..], ["LeftOut", "Complete: drained"]);
}

/// As long as the disk takes nothing, little is kept; then what was kept is written.
#[tokio::test(start_paused = true)]
async fn a_disk_that_takes_nothing_loses_history_only() {
    let place = TempDir::new().unwrap();
    let root = Root::new(place.path());
    let folder = drain_history::folder(&root);
    // A file where the folder should be.
    fs::create_dir_all(folder.parent().unwrap()).unwrap();
    fs::File::create(&folder).unwrap();
    let mut recording = Recording::default();
    let mut story = Story::new("first");
    story.look.has_listed = true;
    for round in 0..5_000_u64 {
        story.look.up = Moment(round * 1000);
        story.pod(&"w".repeat(100), if round % 2 == 0 { "Blocked" } else { "Terminating" }, 0, "");
        recording.look(&story.look);
        if round % 1000 == 0 {
            recording.write(&root).await;
            assert!(recording.write_at.unwrap() > Instant::now(), "it is tried again later");
        }
    }
    let waits: usize = recording.waiting.iter().map(|waiting| waiting.lines.len()).sum();
    assert!(waits < MOST_WAITING + 2 * 1024, "{waits}");
    fs::remove_file(&folder).unwrap();
    recording.write(&root).await;
    assert!(recording.waiting.is_empty() && recording.write_at.is_none());
    let files = drain_history::list(&folder).unwrap();
    let lines = drain_history::read(&folder, &files[0]).unwrap();
    assert_eq!(word(&lines[0].event), "Began");
    assert_eq!(word(&lines.last().unwrap().event), "LeftOut");
}

/// The whole way, through the task: lines of pods wait for company, a phase is on disk at once, and the end of the process
/// leaves nothing unwritten.
#[tokio::test(start_paused = true)]
async fn lines_are_written_together_and_a_phase_at_once() {
    let place = TempDir::new().unwrap();
    let root = Root::new(place.path());
    let folder = drain_history::folder(&root);
    let written = || {
        let files = drain_history::list(&folder).unwrap();
        files.first().map_or(0, |file| drain_history::read(&folder, file).unwrap().len())
    };
    let recorder = Recorder::start(&root);
    let mut story = Story::new("first");
    story.look.has_listed = true;
    story.phase("Attempting", DrainStatus::DrainRetrying, "0 of 1");
    let send = |look: &Look| {
        let (looks, look) = (recorder.looks.clone(), Box::new(look.clone()));
        async move { looks.send(look).await.unwrap() }
    };
    send(&story.look).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(written(), 3, "Began, node, phase");
    story.pod("web-1", "Evicting", 1, "");
    send(&story.look).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(written(), 3, "it waits for company");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(written(), 4);
    story.gone("web-1");
    story.phase("Complete", DrainStatus::Complete, "drained");
    (story.look.report.outcome, story.look.up) = (Some(Outcome::Drained), Moment(40_000));
    send(&story.look).await;
    recorder.finish().await;
    assert_eq!(written(), 6);
    let totals = read_or_none(&root, agent::ZEDKUBE, Persistence::Persistent, &TopicKey::global());
    let DrainTotals { drains, took, took_millis, .. } = totals.unwrap();
    assert_eq!(drains, BTreeMap::from([("Drained".to_owned(), 1)]));
    assert_eq!((took[2], took_millis), (1, 40_000), "from the first line on");
}
