//! The time axis in HTML: rows whose bars have places in percent, below one axis, with marks through all of them.

use super::chart::{Bar, Chart, Kind, Mark, Row};
use super::html::Html;
use super::scale::{Quiet, Scale, Share, span};

/// Most rows of pods, and of volumes.
const MOST_PODS: usize = 1000;
const MOST_VOLUMES: usize = 100;

/// Most marks.
const MOST_MARKS: usize = 100;

/// Most causes below a row.
const MOST_CAUSES: usize = 3;

/// Most characters of a name, and of a cause.
const MOST_OF_NAME: usize = 120;
const MOST_OF_CAUSE: usize = 300;

/// Width of a letter of a mark's name on a narrow screen, in thousandths of a percent.
const LETTER: u32 = 2_500;

/// Lines above the axis for the names of marks: those that would cover each other are on different ones. Each has
/// its class, and the class of a chart with no further one.
const LANES: [(&str, &str); 3] = [("k0", "m1"), ("k1", "m2"), ("k2", "m3")];

/// The kinds in the order of the legend, each with its class in the style, and what it means.
const LOOKS: [(Kind, &str, &str); 14] = [
    (Kind::Waiting, "wait", "waits"),
    (Kind::Works, "work", "node is being emptied"),
    (Kind::Drained, "done", "drained"),
    (Kind::Undrained, "bad", "failed, or not drained"),
    (Kind::Back, "back", "way back"),
    (Kind::Away, "away", "API server does not answer"),
    (Kind::Blocked, "block", "blocked: may not leave"),
    (Kind::NotEvicted, "left", "not evicted"),
    (Kind::Terminating, "term", "terminating"),
    (Kind::EndsAlone, "alone", "ends by itself"),
    (Kind::Detaching, "vol", "volume is being detached"),
    (Kind::Late, "late", "volume was not detached in time"),
    (Kind::Gone, "gone", "gone, or detached"),
    (Kind::Stays, "stay", "stays"),
];

/// Draws the chart; nothing if it has no time.
pub(super) fn draw(html: &mut Html, chart: &Chart, took: &str) {
    if chart.phases.bars.is_empty() && chart.pods.is_empty() {
        return;
    }
    let scale = Scale::new(chart.end, &chart.quiet);
    html.raw("<section>\n<h2>Timeline</h2>\n");
    legend(html, chart, &scale);
    let names = names(&chart.marks, &scale);
    let lanes = names.iter().map(|name| name.lane).max().unwrap_or(0);
    html.raw("<div class=\"chart ").raw(LANES.get(lanes).map_or("", |(_, chart)| chart)).raw("\">\n");
    axis(html, chart, &scale, &names);
    html.raw("<ol class=\"rows\">\n");
    row(html, &scale, &chart.phases, "Drain", &format!("took {took}"));
    if !chart.api.bars.is_empty() {
        let away = span(chart.api.millis(|kind| kind == Kind::Away));
        row(html, &scale, &chart.api, "API server", &format!("did not answer for {away}"));
    }
    for volume in chart.volumes.iter().take(MOST_VOLUMES) {
        row(html, &scale, volume, volume.name, &end_of_volume(volume));
    }
    left_out(html, chart.volumes.len(), MOST_VOLUMES, " volumes are not shown</li>\n");
    for pod in chart.pods.iter().take(MOST_PODS) {
        row(html, &scale, pod, pod.name, &end_of_pod(pod));
    }
    left_out(
        html,
        chart.pods.len(),
        MOST_PODS,
        " pods are not shown; those that were held longest are</li>\n",
    );
    html.raw("</ol>\n</div>\n</section>\n");
}

fn left_out(html: &mut Html, number: usize, most: usize, words: &'static str) {
    if let Some(more) = number.checked_sub(most).filter(|more| *more > 0) {
        html.raw("<li class=\"more\">").number(more).raw(words);
    }
}

/// What the bars mean that are there.
fn legend(html: &mut Html, chart: &Chart, scale: &Scale) {
    let rows = || chart.pods.iter().chain(&chart.volumes).chain([&chart.phases, &chart.api]);
    html.raw("<ul class=\"legend\">\n");
    for (kind, class, words) in LOOKS {
        if rows().any(|row| row.bars.iter().any(|bar| bar.kind == kind)) {
            html.raw("<li><i class=\"").raw(class).raw("\"></i>").raw(words).raw("</li>\n");
        }
    }
    if !scale.gaps.is_empty() {
        html.raw(
            "<li><i class=\"gap\"></i>a long quiet time is cut short; behind it the axis counts anew</li>\n",
        );
    }
    html.raw("</ul>\n");
}

/// The ticks and marks: their names above the rows, and their lines through all of them.
fn axis(html: &mut Html, chart: &Chart, scale: &Scale, names: &[Name]) {
    let ticks = scale.ticks();
    html.raw("<div class=\"top\"><div class=\"marks\">");
    for name in names {
        html.raw("<span class=\"").raw(LANES.get(name.lane).map_or("", |(lane, _)| lane));
        html.raw(if name.is_right { " right" } else { "" }).raw("\" style=\"left:").share(name.at);
        html.raw("\">").text(&name.words, MOST_OF_NAME).raw("</span>");
    }
    html.raw("</div><div class=\"ticks\">");
    for (place, words) in &ticks {
        html.raw("<span style=\"left:").share(*place).raw("\">").text(words, MOST_OF_NAME).raw("</span>");
    }
    html.raw("</div></div>\n<div class=\"lines\">");
    for gap in &scale.gaps {
        html.raw("<i class=\"gap\"");
        extent(html, scale, gap.from, gap.to);
        html.raw(" title=\"").title(&gap_words(gap)).raw("\"></i>");
    }
    for (place, _) in &ticks {
        html.raw("<i style=\"left:").share(*place).raw("\"></i>");
    }
    for mark in chart.marks.iter().take(MOST_MARKS) {
        html.raw("<i class=\"mark\" style=\"left:").share(scale.place(mark.at)).raw("\" title=\"");
        html.title(&mark.words).raw("\"></i>");
    }
    html.raw("</div>\n");
}

fn gap_words(gap: &Quiet) -> String {
    let what = if gap.is_down { "down" } else { "quiet" };
    format!("{what} {}", span(gap.millis()))
}

/// The name of a gap or mark, with its place.
struct Name {
    lane: usize,
    at: Share,
    /// It ends at its place, and does not begin there.
    is_right: bool,
    words: String,
}

/// The names of gaps and marks, each where it covers no other; one without a place has its title only.
fn names(marks: &[Mark], scale: &Scale) -> Vec<Name> {
    let gaps = scale.gaps.iter().map(|gap| (scale.place(gap.from), gap_words(gap)));
    let marks = marks.iter().take(MOST_MARKS).map(|mark| (scale.place(mark.at), mark.words.clone()));
    let mut all: Vec<(Share, String)> = gaps.chain(marks).collect();
    all.sort();
    let mut free = [0; LANES.len()];
    let mut names = Vec::new();
    for (at, words) in all {
        let width = u32::try_from(words.chars().count()).unwrap_or(u32::MAX).saturating_mul(LETTER);
        let is_right = at.0.saturating_add(width) > Share::WHOLE.0;
        let (from, to) = if is_right { (at.0.saturating_sub(width), at.0) } else { (at.0, at.0 + width) };
        let place = free.iter_mut().enumerate().find(|(_, until)| **until <= from);
        if let Some((lane, until)) = place {
            *until = to;
            names.push(Name { lane, at, is_right, words });
        }
    }
    names
}

/// One row: its name, how it ended, its bars, and below them what it was held by.
fn row(html: &mut Html, scale: &Scale, row: &Row, name: &str, end: &str) {
    let causes = row.causes();
    html.raw(if causes.is_empty() { "<li>" } else { "<li class=\"held\">" });
    html.raw("<span class=\"name\" title=\"").title(name);
    if !row.of.is_empty() {
        html.raw(" of ").title(row.of);
    }
    html.raw("\">").text(name, MOST_OF_NAME).raw("</span><span class=\"end\">").text(end, MOST_OF_CAUSE);
    html.raw("</span><div class=\"bars\">");
    // The phases and the outages are no pods, so their bars are named.
    row.bars.iter().for_each(|bar| self::bar(html, scale, bar, row.name.is_empty()));
    html.raw("</div>");
    for (millis, why) in causes.into_iter().take(MOST_CAUSES) {
        html.raw("<p><b>")
            .text(&span(millis), MOST_OF_NAME)
            .raw("</b> ")
            .label(why, MOST_OF_CAUSE)
            .raw("</p>");
    }
    html.raw("</li>\n");
}

/// A bar; its words are in it if `is_named`.
fn bar(html: &mut Html, scale: &Scale, bar: &Bar, is_named: bool) {
    let class = LOOKS.iter().find(|(kind, ..)| *kind == bar.kind).map_or("", |(_, class, _)| class);
    html.raw("<i class=\"").raw(class).raw("\"");
    extent(html, scale, bar.from, bar.to);
    html.raw(" title=\"").title(&format!(
        "{} for {}, from +{}",
        bar.words,
        span(bar.millis()),
        span(bar.from)
    ));
    if !bar.why.is_empty() {
        html.raw(": ").title(bar.why);
    }
    html.raw("\">").text(if is_named { bar.words } else { "" }, MOST_OF_NAME).raw("</i>");
}

/// Place and width of these times.
fn extent(html: &mut Html, scale: &Scale, from: u64, to: u64) {
    let (from, to) = (scale.place(from), scale.place(to));
    let width = Share(to.0.saturating_sub(from.0));
    html.raw(" style=\"left:").share(from).raw(";width:").share(width).raw("\"");
}

/// How the row of a pod ends, in a few words.
fn end_of_pod(row: &Row) -> String {
    let (blocked, left) =
        (row.millis(|kind| kind == Kind::Blocked), row.millis(|kind| kind == Kind::NotEvicted));
    let ending = row.millis(|kind| kind == Kind::Terminating);
    let last = row.bars.last().map_or("", |last| last.words);
    let is_there =
        if row.bars.last().is_some_and(|last| last.kind == Kind::Stays) { last } else { "not gone" };
    let end = row.gone_at().map_or_else(|| is_there.to_owned(), |at| format!("gone +{}", span(at)));
    match (blocked, left, ending) {
        (0, 0, 0) if row.gone_at().is_none() => last.to_owned(),
        (0, 0, 0) => end,
        (0, 0, ending) => format!("terminating {}, {end}", span(ending)),
        (0, left, _) => format!("not evicted {}, {end}", span(left)),
        (blocked, ..) => format!("blocked {}, {end}", span(blocked)),
    }
}

fn end_of_volume(row: &Row) -> String {
    let words = row.bars.last().map_or("", |last| last.words);
    let took = row.millis(|kind| kind != Kind::Gone);
    if row.gone_at().is_some() {
        format!("detached in {}", span(took))
    } else {
        format!("{words}, {}", span(took))
    }
}
