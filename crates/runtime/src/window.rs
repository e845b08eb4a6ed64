//! The maintenance window (settings `window.*`), outside of which commands that are not urgent do not begin.
//!
//! `from` and `to` are times on the clock of `window.zone`. On a night on which that clock is changed, a time that does not
//! exist is the one an hour later, and of a time that comes twice the first one counts (RFC 5545, as in calendars).

use jiff::civil::{Date, Time};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, Zoned};
use pubsub::{Persistence, Root, TopicKey};
use schemas::{GoTime, NodeDrainReport, WindowState, WindowStatus, agent};
use text::one_line;

use crate::clock::Moment;
use crate::read_or_none;
use crate::settings::{Day, WindowSettings, show_duration};

/// Poll interval for what begins or ends at a time of the wall clock (the window, a freeze), in milliseconds: that clock
/// may jump.
pub const LOOK_AT_CLOCK_MS: u64 = 60_000;

/// So many days ahead an opening is searched for. The same weekday comes twice in them: one night's window may be lost
/// when clocks are put forward.
const SEARCHED_DAYS: usize = 15;

/// Limit in bytes for the window in words.
const MOST_WORDS: usize = 512;

/// Earliest time that a clock can show that was set, in seconds of Unix time: 2026-01-01. A device without a clock of its
/// own begins in 1970, or at the time at which its image was built.
const EARLIEST: i64 = 1_767_225_600;

/// True if this time can only be that of a clock that was never set.
pub fn is_unset(wall: Timestamp) -> bool {
    wall.as_second() < EARLIEST
}

/// The window at this time of the wall clock; None if none is set.
pub fn window(settings: &WindowSettings, wall: Timestamp) -> Option<WindowStatus> {
    settings.is_set().then(|| status(settings, wall))
}

/// When to look at the window again, in milliseconds of this boot's clock: when it opens or closes. One that never opens
/// may do so once the clock is set.
pub fn wake_at(window: &WindowStatus, now: Moment) -> u64 {
    if window.changes_at.is_zero() { now.after(LOOK_AT_CLOCK_MS) } else { at_wall(window.changes_at, now) }
}

/// When to look whether the wall clock shows this time, in milliseconds of this boot's clock: within a minute, because that
/// clock may jump.
pub fn at_wall(time: GoTime, now: Moment) -> u64 {
    let left = time.timestamp().duration_since(now.wall.timestamp()).as_millis();
    now.after(u64::try_from(left).unwrap_or(0).clamp(1, LOOK_AT_CLOCK_MS))
}

/// True if zedkube pauses between two attempts of a drain while the window is not open: the next one must not begin.
pub fn is_pausing_outside(root: &Root, window: Option<&WindowStatus>) -> bool {
    if window.is_none_or(|window| window.state == WindowState::Open) {
        return false;
    }
    let key = TopicKey::global();
    let report = read_or_none::<NodeDrainReport>(root, agent::ZEDKUBE, Persistence::Volatile, &key);
    report.is_some_and(|report| report.phase == "Pausing")
}

fn status(settings: &WindowSettings, wall: Timestamp) -> WindowStatus {
    let with = |state, changes_at: Option<&Zoned>, reason: String| WindowStatus {
        state,
        changes_at: changes_at.map_or(GoTime::ZERO, |at| GoTime::from(at.timestamp())),
        sources: settings.sources.clone(),
        reason: one_line(&reason, MOST_WORDS),
    };
    match look(settings, wall) {
        Ok(Look::Open { until }) => with(
            WindowState::Open,
            Some(&until),
            format!("{}: a drain may begin until {}", words(settings), hour(&until)),
        ),
        Ok(Look::Closed { closes, opens }) => {
            let (words, next) = (words(settings), hour(&opens));
            let reason = closes.map_or_else(
                || format!("outside the window ({words}): it opens at {next}"),
                |closes| {
                    let closes = hour(&closes);
                    let lead = show_duration(settings.lead);
                    format!(
                        "the window ({words}) closes at {closes}, too soon for a drain (window.lead {lead}): it opens \
                         again at {next}"
                    )
                },
            );
            with(WindowState::Closed, Some(&opens), reason)
        }
        Err(why) if settings.is_mistaken => {
            with(WindowState::Never, None, format!("the window never opens: {why}"))
        }
        Err(why) => {
            with(WindowState::Never, None, format!("the window ({}) never opens: {why}", words(settings)))
        }
    }
}

enum Look {
    Open {
        until: Zoned,
    },
    /// `closes` is the end of the window that is open, but not for long enough.
    Closed {
        closes: Option<Zoned>,
        opens: Zoned,
    },
}

fn look(settings: &WindowSettings, wall: Timestamp) -> Result<Look, String> {
    let WindowSettings { from, to, zone, days, lead, is_mistaken, .. } = settings;
    if *is_mistaken {
        return Err(
            "a setting of it is wrong, or a settings file cannot be used (`ebb config check`)".to_owned()
        );
    }
    let (Some(from), Some(to)) = (*from, *to) else {
        return Err("window.from and window.to have to be set both".to_owned());
    };
    if from == to {
        return Err("window.from and window.to are the same time".to_owned());
    }
    if is_unset(wall) {
        return Err(format!("this device's clock is not set ({wall})"));
    }
    let zone =
        zone_in(jiff::tz::db(), zone).ok_or_else(|| format!("this device knows no time zone `{zone}`"))?;
    let at = |date: Date, time| zone.to_ambiguous_zoned(date.to_datetime(time)).compatible();
    let mut closes_now = None;
    let yesterday = zone.to_datetime(wall).date().yesterday();
    let first = yesterday.map_err(|error| error.to_string())?;
    for date in first.series(jiff::Span::new().days(1)).take(SEARCHED_DAYS) {
        if !days.contains(&Day::from(date.weekday())) {
            continue;
        }
        let last = if to < from { date.tomorrow() } else { Ok(date) };
        let (Ok(opens), Ok(closes)) = (at(date, from), last.and_then(|last| at(last, to))) else { continue };
        let Ok(until) = closes.checked_sub(*lead) else { continue };
        // Where the clock is put forward past the whole window, it closes before it opens.
        if until < opens || closes.timestamp() <= wall {
            if opens.timestamp() <= wall && wall < closes.timestamp() {
                closes_now = Some(closes);
            }
            continue;
        }
        if wall < opens.timestamp() {
            return Ok(Look::Closed { closes: closes_now, opens });
        }
        if wall <= until.timestamp() {
            return Ok(Look::Open { until });
        }
        closes_now = Some(closes);
    }
    Err(if days.is_empty() {
        "window.days is empty".to_owned()
    } else {
        format!("it is shorter than window.lead ({})", show_duration(*lead))
    })
}

/// The zone of this name in the system's database; otherwise in the one that this program was built with, because a
/// system may leave out names that others still use (Debian has them in a package of their own, tzdata-legacy).
fn zone_in(system: &TimeZoneDatabase, name: &str) -> Option<TimeZone> {
    system.get(name).or_else(|_| TimeZoneDatabase::bundled().get(name)).ok()
}

/// The window in short, such as `sat, sun 02:00 to 04:00 Europe/Berlin`.
fn words(settings: &WindowSettings) -> String {
    let time =
        |time: Option<Time>| time.map_or_else(|| "?".to_owned(), |time| time.strftime("%R").to_string());
    let days: Vec<&str> = settings.days.iter().map(|day| day.name()).collect();
    let days = match days.len() {
        0 => "no day,".to_owned(),
        7 => "daily".to_owned(),
        _ => days.join(", "),
    };
    format!("{days} {} to {} {}", time(settings.from), time(settings.to), settings.zone)
}

/// A time in the window's zone, such as `Sat 2026-12-05 02:00 (01:00Z)`.
fn hour(at: &Zoned) -> String {
    let utc = at.timestamp().strftime("%FT%RZ");
    if at.offset().is_zero() {
        format!("{} UTC", at.strftime("%a %F %R"))
    } else {
        format!("{} ({utc})", at.strftime("%a %F %R"))
    }
}

#[cfg(test)]
mod tests;
