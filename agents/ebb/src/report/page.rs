//! The page: how the drain ended and what held it up, the time axis, and the story.

use jiff::tz::TimeZone;
use kubectl_ebb::screen::Tone;
use schemas::{DrainEvent, DrainLine, GoTime};

use super::chart::{Chart, Kind};
use super::html::Html;
use super::scale::span;
use super::timeline;
use crate::history::Told;
use crate::history::words::{self, Happened};
use crate::status::times::Clock;

/// Most characters of a text of others that are shown in the head, and in a line of the story.
const MOST_OF_FIELD: usize = 400;
const MOST_OF_LINE: usize = 700;

/// Most requests that the head names.
const MOST_ASKED: usize = 8;

/// Most causes that the head names.
const MOST_HOLDS: usize = 5;

/// The page about a drain.
pub(super) fn of(told: &Told, lines: &[DrainLine]) -> String {
    let chart = Chart::of(lines);
    let mut html = Html::default();
    html.raw("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    html.raw("<meta http-equiv=\"Content-Security-Policy\" ");
    html.raw("content=\"default-src 'none'; style-src 'unsafe-inline'\">\n");
    html.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    html.raw("<meta name=\"color-scheme\" content=\"light dark\">\n<title>Drain ");
    html.text(&told.which(), MOST_OF_FIELD).raw("</title>\n<style>\n").raw(include_str!("page.css"));
    html.raw("</style>\n</head>\n<body>\n");
    head(&mut html, told, lines, &chart);
    holds(&mut html, &chart);
    timeline::draw(&mut html, &chart, &took(told, &chart));
    story(&mut html, told, lines);
    html.raw("</body>\n</html>\n");
    html.into_text()
}

/// How it ended, and the facts.
fn head(html: &mut Html, told: &Told, lines: &[DrainLine], chart: &Chart) {
    html.raw("<header>\n<h1>Drain ").text(&told.which(), MOST_OF_FIELD).raw("</h1>\n<p class=\"");
    html.raw(if told.outcome.tone() == Tone::Usual { "end\">" } else { "end alarm\"><b>!</b> " });
    html.label(&told.ending(), MOST_OF_FIELD).raw("</p>\n<dl>\n");
    field(html, "Began", &began(told.began_at));
    html.raw("<dt>For</dt><dd>");
    for asked in told.asked.iter().take(MOST_ASKED) {
        html.raw("<div>").label(asked, MOST_OF_FIELD).raw("</div>");
    }
    if let Some(more) = told.asked.len().checked_sub(MOST_ASKED).filter(|more| *more > 0) {
        html.raw("<div>and ").number(more).raw(" more</div>");
    }
    html.raw(if told.asked.is_empty() { "nobody is known who asked</dd>\n" } else { "</dd>\n" });
    field(html, "Took", &took(told, chart));
    field(html, "Attempts", &told.attempts.to_string());
    field(html, "Pods", &format!("{} of {} have left", told.pods_gone, told.pods));
    field(html, "API outages", &outages(chart));
    let none = if told.is_over { "none" } else { "not back in service yet" };
    field(html, "Way back", &told.back_millis.map_or_else(|| none.to_owned(), span));
    if let Some(DrainEvent::Began { drain_id, version, .. }) = lines.first().map(|line| &line.event) {
        field(html, "Drain ID", drain_id);
        field(html, "ebb", version);
    }
    html.raw("</dl>\n</header>\n");
}

fn field(html: &mut Html, name: &'static str, value: &str) {
    html.raw("<dt>").raw(name).raw("</dt><dd>").label(value, MOST_OF_FIELD).raw("</dd>\n");
}

/// How long it took until it was drained, had failed, or was over otherwise.
fn took(told: &Told, chart: &Chart) -> String {
    let all = if told.is_over { "in all" } else { "so far" };
    told.took_millis.map_or_else(|| format!("{} {all}", span(chart.end)), span)
}

fn began(at: GoTime) -> String {
    at.set().map_or_else(|| "not known".to_owned(), |at| at.strftime("%F %T UTC").to_string())
}

/// How often the API server did not answer, and for how long.
fn outages(chart: &Chart) -> String {
    let millis = chart.api.millis(|kind| kind == Kind::Away);
    match chart.api.bars.len() {
        0 => "none".to_owned(),
        1 => format!("1, of {}", span(millis)),
        number => format!("{number}, together {}", span(millis)),
    }
}

/// What held the drain up, longest first.
fn holds(html: &mut Html, chart: &Chart) {
    if chart.holds.is_empty() {
        return;
    }
    html.raw("<section class=\"holds\">\n<h2>What held it up</h2>\n<ol>\n");
    for hold in chart.holds.iter().take(MOST_HOLDS) {
        html.raw("<li><b>").text(&span(hold.millis), MOST_OF_FIELD).raw("</b> ");
        if !hold.pod.is_empty() {
            html.raw("<strong>").label(hold.pod, MOST_OF_FIELD).raw("</strong>");
            match hold.others {
                0 => html.raw(": "),
                1 => html.raw(" and 1 other pod: "),
                others => html.raw(" and ").number(others).raw(" other pods: "),
            };
        }
        html.label(hold.why, MOST_OF_FIELD).raw("</li>\n");
    }
    html.raw("</ol>\n");
    if let Some(more) = chart.holds.len().checked_sub(MOST_HOLDS).filter(|more| *more > 0) {
        html.raw("<p>and ").number(more).raw(" more: see the rows below</p>\n");
    }
    html.raw("</section>\n");
}

/// What happened, each with its time.
fn story(html: &mut Html, told: &Told, lines: &[DrainLine]) {
    html.raw("<section class=\"story\">\n<h2>What happened</h2>\n");
    if lines.is_empty() {
        html.raw(
            "<p>Nothing is written down: the file is empty, or what it says was spoilt.</p>\n</section>\n",
        );
        return;
    }
    html.raw("<table>\n<thead><tr><th>Time (UTC)</th><th>After</th><th>What</th></tr></thead>\n<tbody>\n");
    // Times of the day on which it began have no date.
    let clock = Clock::new(told.began_at.timestamp(), TimeZone::UTC);
    for Happened { at, after, tone, text } in words::story(lines, &clock) {
        let at = at.set().map_or_else(|| "-".to_owned(), |at| clock.shown(at));
        let (begin, tag) = match tone {
            Tone::Usual => ("<tr><td>", "</td><td>"),
            Tone::Warning => ("<tr class=\"w\"><td>", "</td><td><b>warning</b> "),
            Tone::Alarm => ("<tr class=\"a\"><td>", "</td><td><b>alarm</b> "),
        };
        html.raw(begin).text(&at, MOST_OF_LINE).raw("</td><td>+").text(&span(after), MOST_OF_LINE);
        html.raw(tag).label(&text, MOST_OF_LINE).raw("</td></tr>\n");
    }
    html.raw("</tbody>\n</table>\n</section>\n");
}
