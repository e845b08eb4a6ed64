use jiff::Timestamp;
use proptest::prelude::*;

use super::GoTime;

/// Checks that `text` is read, and written back as `expected`.
#[track_caller]
fn check(text: &str, expected: &str) {
    let time: GoTime = text.parse().unwrap();
    assert_eq!(time.to_string(), expected);
}

#[track_caller]
fn check_refused(text: &str) {
    let error = text.parse::<GoTime>().unwrap_err().to_string();
    assert!(error.contains("accepted: RFC 3339"), "{error}");
}

#[test]
fn what_go_writes_comes_back_byte_for_byte() {
    for text in [
        "0001-01-01T00:00:00Z",
        "2026-08-22T16:10:11Z",
        "2026-08-22T16:10:11.5Z",
        "2026-08-22T16:10:11.123456789Z",
        "2026-08-22T16:10:11.000000001Z",
        "2026-08-22T16:10:11+02:00",
        "2026-08-22T16:10:11.25-11:30",
        "0000-01-01T00:00:00Z",
        "9999-12-30T21:59:59.999999999Z",
        "2024-02-29T23:59:59+23:59",
    ] {
        check(text, text);
    }
}

#[test]
fn other_spellings_become_gos() {
    check("2026-08-22T16:10:11.500Z", "2026-08-22T16:10:11.5Z");
    check("2026-08-22T16:10:11.0Z", "2026-08-22T16:10:11Z");
    check("2026-08-22T16:10:11+00:00", "2026-08-22T16:10:11Z");
    check("2026-08-22T16:10:11-00:00", "2026-08-22T16:10:11Z");
}

#[test]
fn what_go_refuses_is_refused() {
    for text in [
        "",
        "Z",
        "2026-08-22",
        "2026-08-22T16:10Z",
        "2026-08-22 16:10:11Z",
        "2026-08-22t16:10:11z",
        "2026-08-22T16:10:11",
        "2026-08-22T16:10:11,5Z",
        "2026-08-22T16:10:11.Z",
        "2026-08-22T16:10:11.1234567890Z",
        "2026-08-22T16:10:11+0200",
        "2026-08-22T16:10:11+24:00",
        "2026-08-22T16:10:11+02:60",
        "2026-08-22T16:10:11Z ",
        "2026-02-30T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-08-22T24:00:00Z",
        "2026-08-22T16:10:60Z",
        "+026-08-22T16:10:11Z",
        "2026-08-22T16:10:1éZ",
        "9999-12-31T23:59:59-23:59",
    ] {
        check_refused(text);
    }
}

#[test]
fn equality_and_order_look_at_the_instant() {
    let here: GoTime = "2026-08-22T18:10:11+02:00".parse().unwrap();
    let utc: GoTime = "2026-08-22T16:10:11Z".parse().unwrap();
    let later: GoTime = "2026-08-22T17:10:12+01:00".parse().unwrap();
    assert_eq!(here, utc);
    assert!(here < later);
    assert_eq!(Timestamp::from(here), utc.timestamp());
}

#[test]
fn the_zero_time_is_unset() {
    assert!(GoTime::default().is_zero());
    assert_eq!(GoTime::default().set(), None);
    assert_eq!(GoTime::ZERO.to_string(), "0001-01-01T00:00:00Z");
    let time = GoTime::from(Timestamp::UNIX_EPOCH);
    assert_eq!(time.set(), Some(Timestamp::UNIX_EPOCH));
}

proptest! {
    #[test]
    fn every_instant_survives(seconds in -62_167_219_200_i64..253_402_207_200, nanoseconds in 0_i32..1_000_000_000) {
        let time = GoTime::from(Timestamp::new(seconds, nanoseconds).unwrap());
        let text = time.to_string();
        prop_assert_eq!(text.parse::<GoTime>().unwrap(), time);
        prop_assert_eq!(text.parse::<GoTime>().unwrap().to_string(), text);
    }

    #[test]
    fn no_text_makes_it_panic(text in ".{0,40}") {
        drop(text.parse::<GoTime>());
    }

    #[test]
    fn no_text_like_a_time_makes_it_panic(text in "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,12})?(Z|[+-][0-9]{2}:[0-9]{2})") {
        if let Ok(time) = text.parse::<GoTime>() {
            prop_assert_eq!(time.to_string().parse::<GoTime>().unwrap(), time);
        }
    }
}
