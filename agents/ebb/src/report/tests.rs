use std::path::Path;

use runtime::drain_history::DrainFile;
use schemas::{
    DeviceActionState, DrainEvent, DrainLine, DrainRequester, DrainStatus, GoTime, HeldBy, Operation,
    Outcome, Source,
};

use super::chart::{Chart, Kind};
use super::scale::{Quiet, Scale, Share, span};
use super::*;

const BUDGET: &str = "PodDisruptionBudget: shop/db needs 2 healthy pods and has 2";

/// A line so many seconds after the start by the wall clock, and so many after the boot.
fn line(wall: i64, up: u64, event: DrainEvent) -> DrainLine {
    let start: GoTime = "2026-11-29T02:41:07Z".parse().unwrap();
    let at = start.timestamp() + jiff::SignedDuration::from_secs(wall);
    DrainLine { at: at.into(), up_millis: up * 1000, event }
}

fn began() -> DrainEvent {
    let [drain_id, version, boot_id] = ["id-12", "0.9.0", "b1"].map(str::to_owned);
    DrainEvent::Began { schema_version: 1, drain_id, version, boot_id }
}

fn phase(phase: &str, outcome: Option<Outcome>, held_by: Option<HeldBy>, reason: &str) -> DrainEvent {
    let [phase, node, reason] = [phase, "edge-a", reason].map(str::to_owned);
    let (status, requested_by) = (DrainStatus::Cordoned, DrainRequester::None);
    DrainEvent::Phase { phase, status, requested_by, outcome, held_by, node, reason, hint: String::new() }
}

fn pod(name: &str, stage: &str, cause: &str) -> DrainEvent {
    let [pod, uid, stage, cause] = [name, name, stage, cause].map(str::to_owned);
    DrainEvent::Pod {
        pod,
        uid,
        owner: "StatefulSet/db".to_owned(),
        stage,
        tries: 1,
        detail: String::new(),
        cause,
    }
}

fn volume(stage: &str) -> DrainEvent {
    let [pv, pod, stage] = ["pvc-1", "shop/db-0", stage].map(str::to_owned);
    DrainEvent::Volume { pv, pod, stage }
}

fn attempt(number: u32) -> DrainEvent {
    DrainEvent::Attempt { number, deadline: GoTime::ZERO }
}

/// A drain with a wait, a budget that blocks, an outage, two attempts, a volume, a week without power, a way back.
fn drain() -> Vec<DrainLine> {
    let of_drain = [
        (0, began()),
        (0, phase("Waiting", None, Some(HeldBy::Slot), "edge-b has the slot")),
        (10, phase("Attempting", None, None, "2 pods have to leave")),
        (10, attempt(1)),
        (10, pod("shop/db-0", "Waiting", "")),
        (10, pod("shop/web-1", "Waiting", "")),
        (12, pod("shop/db-0", "Blocked", "")),
        (13, pod("shop/db-0", "Blocked", BUDGET)),
        (14, pod("shop/web-1", "Terminating", "")),
        (20, pod("shop/web-1", "Gone", "")),
        (30, DrainEvent::ApiAway { since: GoTime::ZERO }),
        (50, DrainEvent::ApiBack),
        (70, DrainEvent::AttemptEnded { number: 1, error: "late".to_owned() }),
        (70, attempt(2)),
        (92, pod("shop/db-0", "Terminating", "")),
        (100, pod("shop/db-0", "Gone", "")),
        (100, volume("Detaching")),
        (105, volume("Done")),
        (105, phase("Complete", Some(Outcome::Drained), None, "all pods have left")),
    ];
    let week = 7 * 86_400;
    let of_return = [
        (20, DrainEvent::Booted { boot_id: "b2".to_owned() }),
        (20, phase("Returning", None, None, "the kubelet starts")),
        (50, DrainEvent::Ended { why: "the drain is over, and the node takes pods again".to_owned() }),
    ];
    let of_drain = of_drain.map(|(at, event)| line(at, 500 + at.unsigned_abs(), event));
    let of_return = of_return.map(|(up, event)| line(week + up, up.unsigned_abs(), event));
    of_drain.into_iter().chain(of_return).collect()
}

fn page_of(lines: &[DrainLine]) -> String {
    page::of(&Told::of(&DrainFile { number: 12, drain_id: "id-12".to_owned() }, lines), lines)
}

/// What follows a text in the page up to another one.
fn between<'a>(page: &'a str, from: &str, to: &str) -> &'a str {
    let rest = page.split_once(from).unwrap_or_else(|| panic!("no {from}")).1;
    rest.split_once(to).unwrap_or_else(|| panic!("no {to}")).0
}

/// The thousandths of a percent behind each `key` of a text.
fn shares(text: &str, key: &str) -> Vec<u32> {
    let share = |rest: &str| {
        let (number, _) = rest.split_once('%').unwrap();
        let (whole, rest) = number.split_once('.').unwrap_or((number, "000"));
        whole.parse::<u32>().unwrap() * 1000 + rest.parse::<u32>().unwrap()
    };
    text.split(key).skip(1).map(share).collect()
}

#[test]
fn each_pod_is_a_row_whose_bars_are_one_behind_the_other_and_the_cause_is_there() {
    let page = page_of(&drain());
    let rows = between(&page, "<ol class=\"rows\">", "</ol>");
    let names: Vec<&str> =
        rows.split("<span class=\"name\"").skip(1).map(|row| between(row, ">", "<")).collect();
    assert_eq!(names, ["Drain", "API server", "pvc-1", "shop/db-0", "shop/web-1"]);
    for (row, bars) in rows.split("</li>").zip([3, 1, 2, 4, 3]) {
        let (left, width) = (shares(row, "left:"), shares(row, "width:"));
        assert_eq!(left.len(), bars, "{row}");
        let ends: Vec<u32> = left.iter().zip(&width).map(|(left, width)| left + width).collect();
        let is_gap = |(end, next): (&u32, &u32)| end != next;
        let gaps = ends.iter().zip(&left[1..]).filter(|pair| is_gap(*pair)).count();
        assert_eq!(
            gaps,
            usize::from(bars == 3 && row.contains("Returning")),
            "only the boot is a gap: {row}"
        );
        assert!(ends.iter().all(|end| *end <= Share::WHOLE.0), "{row}");
    }
    let row = between(rows, "shop/db-0</span>", "</li>");
    assert!(row.contains("blocked 1 min 20 s, gone +1 min 40 s"), "{row}");
    assert!(row.contains(&format!("<p><b>1 min 20 s</b> {BUDGET}</p>")), "{row}");
    let holds = between(&page, "<section class=\"holds\">", "</section>");
    assert!(holds.contains(&format!("<b>1 min 20 s</b> <strong>shop/db-0</strong>: {BUDGET}")), "{holds}");
    assert!(holds.contains("<b>10 s</b> edge-b has the slot"), "{holds}");
    let marks = between(&page, "<div class=\"marks\">", "</div>");
    for name in ["attempt 1", "attempt 2", "down 6 d 23 h", "boot"] {
        assert!(marks.contains(&format!(">{name}</span>")), "{name}: {marks}");
    }
    for (name, value) in [
        ("Began", "2026-11-29 02:41:07 UTC"),
        ("Took", "1 min 45 s"),
        ("Pods", "2 of 2 have left"),
        ("API outages", "1, of 20 s"),
        ("Way back", "30 s"),
    ] {
        assert_eq!(between(&page, &format!("<dt>{name}</dt><dd>"), "</dd>"), value);
    }
    let story = between(&page, "<tbody>", "</tbody>");
    assert_eq!(story.matches("<tr").count(), drain().len() - 1, "two pods share a line: {story}");
    assert_eq!(story.matches("<b>warning</b>").count(), 4, "{story}");
}

#[test]
fn nothing_written_down_is_a_page_too() {
    let page = page_of(&[]);
    assert!(page.contains("Nothing is written down") && !page.contains("class=\"chart"), "{page}");
    let page = page_of(&[line(0, 0, began())]);
    assert!(page.contains("0 s so far"), "{page}");
}

/// One line of each kind, with this text wherever there is one.
fn everywhere(text: &str) -> Vec<DrainLine> {
    let t = || text.to_owned();
    let (status, requested_by) = (DrainStatus::Complete, DrainRequester::None);
    let outcome = Some(Outcome::Forced);
    let events = vec![
        DrainEvent::Began { schema_version: 1, drain_id: t(), version: t(), boot_id: t() },
        DrainEvent::Asked { publisher: t(), requested_by, context: t(), kept: true },
        phase("Attempting", None, None, text),
        attempt(1),
        DrainEvent::Pod { pod: t(), uid: t(), owner: t(), stage: t(), tries: 1, detail: t(), cause: t() },
        pod(text, "Blocked", text),
        DrainEvent::Pod {
            pod: t(),
            uid: "2".to_owned(),
            owner: t(),
            stage: "Failed".to_owned(),
            tries: 1,
            detail: t(),
            cause: t(),
        },
        DrainEvent::Volume { pv: t(), pod: t(), stage: t() },
        DrainEvent::AttemptEnded { number: 1, error: t() },
        DrainEvent::Ordered { order: t(), by: t() },
        DrainEvent::Slot { held: false, holders: vec![t(), t()] },
        DrainEvent::Answered { publisher: t(), answer: status, outcome, by: t() },
        DrainEvent::Phase {
            phase: t(),
            status,
            requested_by,
            outcome,
            held_by: Some(HeldBy::Health),
            node: t(),
            reason: t(),
            hint: t(),
        },
        DrainEvent::Operation {
            operation: Some(Operation::Reboot),
            counter: 1,
            source: Source::Person,
            state: DeviceActionState::Failed,
            error: t(),
        },
        DrainEvent::Withdrawn { publisher: t() },
        DrainEvent::Booted { boot_id: t() },
        DrainEvent::Ended { why: t() },
    ];
    (0..).zip(events).map(|(at, event)| line(at, at.unsigned_abs(), event)).collect()
}

/// Each tag of the page, without its brackets, with what is in quotes left out.
fn tags(page: &str) -> Vec<String> {
    let mut tags = Vec::new();
    let mut characters = page.chars();
    while characters.by_ref().any(|character| character == '<') {
        let (mut tag, mut is_quoted) = (String::new(), false);
        for character in characters.by_ref().take_while(|character| *character != '>') {
            assert_ne!(character, '<', "a tag in a tag: {tag}");
            is_quoted ^= character == '"';
            if !is_quoted && character != '"' {
                tag.push(character);
            }
        }
        assert!(!is_quoted, "{tag}");
        tags.push(tag);
    }
    tags
}

#[test]
fn texts_of_others_are_text() {
    let evil = "</td></title></style><script>alert(1)</script><img src=x onerror=alert(1)>\" onclick=\"x\" ' & \
                \u{1b}[2J\u{9b}31m\r\n\u{202e}gnp\u{2066}\u{200b}\u{feff}";
    for text in
        [evil.to_owned(), evil.repeat(100), "<".repeat(10_000), "\"".repeat(10_000), "&".repeat(10_000)]
    {
        let lines = everywhere(&text);
        let page = page_of(&lines);
        assert!(page.chars().all(|character| character == '\n' || text::is_plain(character)));
        let page = page.split_once("</style>").unwrap().1;
        for tag in tags(page) {
            let mut words = tag.split_whitespace();
            let name = words.next().unwrap_or_default().trim_start_matches('/');
            let ours = "head body html header h1 h2 p b i span strong dl dt dd div section ol ul li \
                        table thead tbody tr th td";
            assert!(ours.split(' ').any(|our| our == name), "{tag}");
            assert!(words.all(|word| ["class=", "style=", "title="].contains(&word)), "{tag}");
        }
        assert!(
            !page.contains("<script") && !page.contains("<img") && page.len() < 400_000,
            "{}",
            page.len()
        );
        assert!(
            page.contains("&lt;") || page.contains("&quot;") || page.contains("&amp;"),
            "it is shown all the same"
        );
    }
}

#[test]
fn a_clock_that_is_set_back_does_not_turn_time_around() {
    let lines = [
        line(0, 100, began()),
        line(-3600, 105, pod("a", "Waiting", "")),
        line(9000, 110, pod("a", "Blocked", BUDGET)),
        // A line whose own clock goes back is of a boot that was not noticed.
        line(20, 40, pod("a", "Terminating", "")),
        line(-86_400, 5, DrainEvent::Booted { boot_id: "b2".to_owned() }),
        line(-86_400, 8, pod("a", "Gone", "")),
    ];
    let chart = Chart::of(&lines);
    assert_eq!(chart.end, 13_000);
    let bars: Vec<_> = chart.pods[0].bars.iter().map(|bar| (bar.kind, bar.from, bar.to)).collect();
    assert_eq!(
        bars,
        [(Kind::Waiting, 5000, 10_000), (Kind::Gone, 13_000, 13_000)],
        "it was blocked for no time that a clock has shown"
    );
    assert!(page_of(&lines).contains(BUDGET), "the story has all lines");
}

#[test]
fn a_pod_is_held_as_long_as_somebody_wants_it_to_leave() {
    let lines = [
        line(0, 0, pod("a", "Blocked", BUDGET)),
        line(10, 10, phase("Failed", Some(Outcome::DrainFailed), None, "a does not leave")),
        line(70, 70, phase("Attempting", None, None, "another try")),
        line(75, 75, phase("Complete", Some(Outcome::Forced), None, "by a person")),
        line(999, 999, phase("Returning", None, None, "")),
    ];
    let chart = Chart::of(&lines);
    assert_eq!(chart.pods[0].causes(), [(15_000, BUDGET)]);
    let page = page_of(&lines);
    assert!(page.contains("blocked 15 s, not gone") && page.contains(">NOT DRAINED</i>"), "{page}");
}

#[test]
fn the_axis_has_gaps_for_long_quiet_times_and_few_ticks() {
    let quiet = |from, to| Quiet { from, to, is_down: true };
    let names = |scale: &Scale| scale.ticks().into_iter().map(|(_, name)| name).collect::<Vec<_>>().join(" ");
    for (end, gaps, ticks) in [
        (0, vec![], "+0 s"),
        (4_000, vec![], "+0 s +1 s +2 s +3 s"),
        (95_000, vec![], "+0 s +30 s +1 min"),
        (95_000, vec![quiet(10_000, 30_000)], "+0 s +30 s +1 min"),
        (600_000, vec![quiet(100_000, 500_000)], "+0 s +1 min +0 s +1 min"),
        (u64::MAX, vec![quiet(60_000, u64::MAX - 60_000)], "+0 s +30 s +0 s +30 s"),
        (10 * 86_400_000, vec![], "+0 s +2 d +4 d +6 d +8 d"),
    ] {
        let scale = Scale::new(end, &gaps);
        assert_eq!(names(&scale), ticks, "{end}");
        assert!(scale.ticks().is_sorted_by_key(|(place, _)| *place));
        assert_eq!(scale.place(0), Share(0));
        assert_eq!(scale.place(end.max(1)), Share::WHOLE, "{end}");
    }
    assert!(Scale::new(u64::MAX, &[]).ticks().len() < 9);
    let many: Vec<Quiet> = (0..50).map(|at| quiet(at * 100_000, at * 100_000 + 90_000)).collect();
    assert_eq!(Scale::new(5_000_000, &many).place(5_000_000), Share::WHOLE);
    for (millis, words) in [
        (0, "0 s"),
        (4_210, "4.2 s"),
        (59_900, "59 s"),
        (192_000, "3 min 12 s"),
        (7_200_000, "2 h"),
        (176_400_000, "2 d 1 h"),
    ] {
        assert_eq!(span(millis), words);
    }
}

#[test]
fn the_rows_are_limited_and_those_that_were_held_come_first() {
    let seen = (0..1003).map(|number| line(0, 0, pod(&format!("a/{number}"), "Terminating", "")));
    let last = [line(5, 5, pod("z/held", "Blocked", BUDGET)), line(9, 9, DrainEvent::Unknown)];
    let page = page_of(&seen.chain(last).collect::<Vec<_>>());
    assert_eq!(page.matches("<span class=\"name\"").count(), 1 + 1000);
    assert!(page.contains("<li class=\"more\">4 pods are not shown"));
    assert!(page.find("z/held</span>") < page.find("a/0</span>"));
}

#[test]
fn the_page_is_written_to_the_file() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = drain_history::folder(&pubsub::Root::new(temporary.path()));
    let file = DrainFile { number: 12, drain_id: "id-12".to_owned() };
    let lines: Vec<u8> = drain().iter().flat_map(DrainLine::to_line).collect();
    drain_history::append(&folder, &file, &lines).unwrap();
    let to = |html: &Path| {
        let (id, root) = ("last".to_owned(), temporary.path().to_owned());
        run(&ReportArguments { id, html: html.to_owned(), root })
    };
    let html = temporary.path().join("report.html");
    to(&html).unwrap();
    to(&html).unwrap();
    assert_eq!(std::fs::read_to_string(&html).unwrap(), page_of(&drain()));
    for place in [temporary.path().to_owned(), temporary.path().join("none/report.html")] {
        let error = format!("{:#}", to(&place).unwrap_err());
        assert!(error.starts_with(&text::path(&place)) && error.contains("name a file"), "{error}");
    }
}
