use std::time::Duration;

use WindowState::{Closed, Never, Open};
use jiff::civil::Weekday;
use schemas::Source;

use super::*;

fn settings(days: &[Weekday], from: &str, to: &str, zone: &str) -> WindowSettings {
    let time = |text| jiff::civil::Time::strptime("%H:%M", text).ok();
    let days = if days.is_empty() { &EVERY_DAY } else { days };
    WindowSettings {
        days: days.iter().copied().map(Day::from).collect(),
        from: time(from),
        to: time(to),
        zone: zone.to_owned(),
        sources: [Source::Host].into(),
        lead: Duration::from_mins(30),
        is_mistaken: false,
    }
}

const EVERY_DAY: [Weekday; 7] = [
    Weekday::Monday,
    Weekday::Tuesday,
    Weekday::Wednesday,
    Weekday::Thursday,
    Weekday::Friday,
    Weekday::Saturday,
    Weekday::Sunday,
];

fn looked(settings: &WindowSettings, wall: &str) -> (WindowState, String) {
    let status = window(settings, wall.parse().unwrap()).unwrap();
    (status.state, status.changes_at.set().map_or_else(String::new, |at| at.to_string()))
}

/// The times at which the window is looked at are those of UTC; the lead is 30 minutes.
#[test]
fn when_it_is_open() {
    const SUN: &[Weekday] = &[Weekday::Sunday];
    const FRI: &[Weekday] = &[Weekday::Friday];
    let (berlin, york, howe) = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe");
    for (zone, days, from, to, wall, state, changes_at) in [
        // A plain day.
        ("UTC", &[][..], "02:00", "04:00", "2026-11-29T01:59:59Z", Closed, "2026-11-29T02:00:00Z"),
        ("UTC", &[], "02:00", "04:00", "2026-11-29T02:00:00Z", Open, "2026-11-29T03:30:00Z"),
        ("UTC", &[], "02:00", "04:00", "2026-11-29T03:30:00Z", Open, "2026-11-29T03:30:00Z"),
        // It is open, and a drain does not fit any more.
        ("UTC", &[], "02:00", "04:00", "2026-11-29T03:30:01Z", Closed, "2026-11-30T02:00:00Z"),
        ("UTC", &[], "02:00", "04:00", "2026-11-29T04:00:00Z", Closed, "2026-11-30T02:00:00Z"),
        // Exactly the lead, and less.
        ("UTC", &[], "02:00", "02:30", "2026-11-29T02:00:00Z", Open, "2026-11-29T02:00:00Z"),
        ("UTC", &[], "02:00", "02:29", "2026-11-29T02:00:00Z", Never, ""),
        // Across midnight, the day is that on which it opens. 2026-11-29 is a Sunday.
        ("UTC", SUN, "22:00", "03:00", "2026-11-29T21:00:00Z", Closed, "2026-11-29T22:00:00Z"),
        ("UTC", SUN, "22:00", "03:00", "2026-11-30T02:30:00Z", Open, "2026-11-30T02:30:00Z"),
        ("UTC", SUN, "22:00", "03:00", "2026-11-29T01:00:00Z", Closed, "2026-11-29T22:00:00Z"),
        ("UTC", SUN, "22:00", "03:00", "2026-11-30T03:00:00Z", Closed, "2026-12-06T22:00:00Z"),
        ("UTC", &[], "12:00", "11:59", "2026-11-29T11:30:00Z", Closed, "2026-11-29T12:00:00Z"),
        // Over the end of a year, and 29 February, which is a Tuesday in 2028.
        ("UTC", FRI, "23:00", "01:00", "2026-12-30T00:00:00Z", Closed, "2027-01-01T23:00:00Z"),
        (
            "UTC",
            &[Weekday::Tuesday],
            "23:00",
            "01:00",
            "2028-02-28T23:30:00Z",
            Closed,
            "2028-02-29T23:00:00Z",
        ),
        ("UTC", &[Weekday::Tuesday], "23:00", "01:00", "2028-03-01T00:10:00Z", Open, "2028-03-01T00:30:00Z"),
        (york, &[Weekday::Tuesday], "23:00", "01:00", "2028-03-01T05:00:00Z", Open, "2028-03-01T05:30:00Z"),
        // 2026-03-29: Berlin goes from 02:00 to 03:00 at 01:00Z.
        (berlin, SUN, "01:00", "04:00", "2026-03-28T12:00:00Z", Closed, "2026-03-29T00:00:00Z"),
        (berlin, SUN, "01:00", "04:00", "2026-03-29T00:00:00Z", Open, "2026-03-29T01:30:00Z"),
        (berlin, SUN, "02:30", "05:00", "2026-03-29T01:29:59Z", Closed, "2026-03-29T01:30:00Z"),
        (berlin, SUN, "01:00", "02:30", "2026-03-29T00:59:00Z", Open, "2026-03-29T01:00:00Z"),
        // The whole window is in the hour that does not exist: it is an hour later.
        (berlin, SUN, "02:00", "03:00", "2026-03-29T00:30:00Z", Closed, "2026-04-05T00:00:00Z"),
        (berlin, SUN, "02:00", "02:50", "2026-03-29T00:30:00Z", Closed, "2026-03-29T01:00:00Z"),
        // It closes before it would open: none that night.
        (berlin, SUN, "02:40", "03:20", "2026-03-29T00:30:00Z", Closed, "2026-04-05T00:40:00Z"),
        (berlin, &[], "02:40", "03:20", "2026-03-29T00:30:00Z", Closed, "2026-03-30T00:40:00Z"),
        // 2026-10-25: Berlin goes from 03:00 back to 02:00 at 01:00Z; the first 02:30 counts.
        (berlin, SUN, "01:00", "04:00", "2026-10-24T23:00:00Z", Open, "2026-10-25T02:30:00Z"),
        (berlin, SUN, "02:30", "04:00", "2026-10-25T00:29:59Z", Closed, "2026-10-25T00:30:00Z"),
        (berlin, SUN, "01:00", "02:30", "2026-10-25T00:00:00Z", Open, "2026-10-25T00:00:00Z"),
        (berlin, SUN, "01:00", "02:30", "2026-10-25T01:15:00Z", Closed, "2026-11-01T00:00:00Z"),
        // 2026-03-08 and 2026-11-01: New York, at 07:00Z and 06:00Z.
        (york, SUN, "02:00", "06:00", "2026-03-08T06:59:59Z", Closed, "2026-03-08T07:00:00Z"),
        (york, SUN, "02:00", "06:00", "2026-03-08T07:00:00Z", Open, "2026-03-08T09:30:00Z"),
        (york, SUN, "01:30", "06:00", "2026-11-01T05:30:00Z", Open, "2026-11-01T10:30:00Z"),
        // 2026-10-04 and 2026-04-05: Lord Howe Island, by half an hour.
        (howe, SUN, "02:15", "05:00", "2026-10-03T15:44:59Z", Closed, "2026-10-03T15:45:00Z"),
        (howe, SUN, "01:00", "03:00", "2026-04-04T14:00:00Z", Open, "2026-04-04T16:00:00Z"),
        // Another day there than in UTC.
        ("Pacific/Kiritimati", SUN, "00:00", "06:00", "2026-11-28T11:00:00Z", Open, "2026-11-28T15:30:00Z"),
        ("Pacific/Pago_Pago", SUN, "00:00", "06:00", "2026-11-29T11:00:00Z", Open, "2026-11-29T16:30:00Z"),
        // What can never be.
        ("Europe/Atlantis", &[], "02:00", "04:00", "2026-11-29T02:00:00Z", Never, ""),
        ("UTC", &[], "02:00", "02:00", "2026-11-29T02:00:00Z", Never, ""),
        ("UTC", &[], "02:00", "-", "2026-11-29T02:00:00Z", Never, ""),
        ("UTC", &[], "-", "02:00", "2026-11-29T02:00:00Z", Never, ""),
        ("UTC", &[], "02:00", "04:00", "1970-01-01T02:00:00Z", Never, ""),
        ("UTC", &[], "02:00", "04:00", "9999-12-30T02:00:00Z", Open, "9999-12-30T03:30:00Z"),
    ] {
        let found = looked(&settings(days, from, to, zone), wall);
        assert_eq!(found, (state, changes_at.to_owned()), "{zone} {from} to {to} at {wall}");
    }
}

#[test]
fn a_zone_that_the_system_lacks_is_one_of_the_program() {
    let system = TimeZoneDatabase::none();
    for (name, is_known) in [("US/Eastern", true), ("Europe/Berlin", true), ("Europe/Atlantis", false)] {
        assert_eq!(zone_in(&system, name).is_some(), is_known, "{name}");
    }
}

/// From minute to minute it is what it says: it opens and closes at no other time.
#[test]
fn it_changes_when_it_says() {
    for (zone, from, to) in [
        ("Europe/Berlin", "02:30", "03:30"),
        ("America/New_York", "23:00", "01:45"),
        ("Australia/Lord_Howe", "01:45", "02:45"),
    ] {
        let settings = settings(&[], from, to, zone);
        for night in ["2026-03-07", "2026-03-28", "2026-04-04", "2026-10-03", "2026-10-24", "2026-10-31"] {
            let mut wall: Timestamp = format!("{night}T00:00:00Z").parse().unwrap();
            let mut before = window(&settings, wall).unwrap();
            for _ in 0..3 * 24 * 60 {
                wall = wall.checked_add(jiff::SignedDuration::from_mins(1)).unwrap();
                let now = window(&settings, wall).unwrap();
                let changed_at = before.changes_at.timestamp();
                let is_due = if before.state == Open { changed_at < wall } else { changed_at <= wall };
                assert_eq!(before.state != now.state, is_due, "{zone} {from} to {to} at {wall}: {now:?}");
                before = now;
            }
        }
    }
}

#[test]
fn what_it_says() {
    let night = settings(&[Weekday::Sunday, Weekday::Saturday], "02:00", "04:00", "Europe/Berlin");
    let never = |change: fn(&mut WindowSettings)| {
        let mut settings = night.clone();
        change(&mut settings);
        settings
    };
    for (settings, wall, said) in [
        (
            night.clone(),
            "2026-11-29T01:00:00Z",
            "sat, sun 02:00 to 04:00 Europe/Berlin: a drain may begin until Sun 2026-11-29 03:30 (2026-11-29T02:30Z)",
        ),
        (
            night.clone(),
            "2026-11-29T12:00:00Z",
            "outside the window (sat, sun 02:00 to 04:00 Europe/Berlin): it opens at Sat 2026-12-05 02:00 (2026-12-05T01:00Z)",
        ),
        (
            night.clone(),
            "2026-11-29T02:45:00Z",
            "the window (sat, sun 02:00 to 04:00 Europe/Berlin) closes at Sun 2026-11-29 04:00 (2026-11-29T03:00Z), too soon \
             for a drain (window.lead 30m): it opens again at Sat 2026-12-05 02:00 (2026-12-05T01:00Z)",
        ),
        (
            never(|settings| settings.days.clear()),
            "2026-11-29T02:45:00Z",
            "the window (no day, 02:00 to 04:00 Europe/Berlin) never opens: window.days is empty",
        ),
        (
            never(|settings| settings.lead = Duration::from_hours(3)),
            "2026-11-29T02:45:00Z",
            "the window (sat, sun 02:00 to 04:00 Europe/Berlin) never opens: it is shorter than window.lead (3h)",
        ),
        (
            never(|settings| settings.is_mistaken = true),
            "2026-11-29T02:45:00Z",
            "the window never opens: a setting of it is wrong, or a settings file cannot be used (`ebb config check`)",
        ),
        (
            never(|settings| settings.zone = "Europe/Atlantis".to_owned()),
            "2026-11-29T02:45:00Z",
            "the window (sat, sun 02:00 to 04:00 Europe/Atlantis) never opens: this device knows no time zone `Europe/Atlantis`",
        ),
        (
            night,
            "1970-01-01T00:01:00Z",
            "the window (sat, sun 02:00 to 04:00 Europe/Berlin) never opens: this device's clock is not set (1970-01-01T00:01:00Z)",
        ),
    ] {
        let window = window(&settings, wall.parse().unwrap()).unwrap();
        assert_eq!(window.reason, said);
        let is_held = window.state != Open;
        assert_eq!((window.holds(Source::Host).is_some(), window.holds(Source::Person)), (is_held, None));
    }
}
