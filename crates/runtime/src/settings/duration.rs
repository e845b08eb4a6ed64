//! Durations in the notation of people: `500ms`, `90s`, `5m`, `2h`, `1d`, `10y`.

use std::time::Duration;

/// The units in milliseconds, largest first. A year is 365 days, because it only limits waiting times.
const UNITS: [(&str, u64); 6] =
    [("y", 365 * DAY), ("d", DAY), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
const DAY: u64 = 24 * 3_600_000;

/// Parses a duration: one whole number and one unit.
///
/// `None` for anything else, also for a bare number (its unit would be a guess) and for more than 2^64 ms.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at_checked(digits)?;
    let (_, milliseconds) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let number: u64 = number.parse().ok()?;
    number.checked_mul(*milliseconds).map(Duration::from_millis)
}

/// The text of `duration` with the largest unit that divides it: 300 s is `5m`, 90 s is `90s`, zero is `0s`.
///
/// Fractions of a millisecond are left out.
pub(crate) fn show(duration: Duration) -> String {
    let milliseconds = duration.as_millis();
    if milliseconds == 0 {
        return "0s".to_owned();
    }
    UNITS
        .iter()
        .find(|(_, unit)| milliseconds.is_multiple_of(u128::from(*unit)))
        .map(|(name, unit)| format!("{}{name}", milliseconds / u128::from(*unit)))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_one_number_and_one_unit() {
        let cases: &[(&str, Option<u64>)] = &[
            ("0s", Some(0)),
            ("500ms", Some(500)),
            ("90s", Some(90_000)),
            ("5m", Some(300_000)),
            ("2h", Some(7_200_000)),
            ("1d", Some(86_400_000)),
            ("10y", Some(315_360_000_000)),
            ("007s", Some(7_000)),
            ("18446744073709551615ms", Some(u64::MAX)),
            ("18446744073709551616ms", None),
            ("18446744073709551615s", None),
            ("584942418y", None),
            ("", None),
            ("s", None),
            ("90", None),
            ("0", None),
            ("-1s", None),
            ("+1s", None),
            ("1.5h", None),
            ("1h30m", None),
            ("1 s", None),
            (" 1s", None),
            ("1S", None),
            ("1sec", None),
            ("٣s", None),
            ("é", None),
        ];
        for (text, milliseconds) in cases {
            assert_eq!(parse(text), milliseconds.map(Duration::from_millis), "{text:?}");
        }
    }

    #[test]
    fn shows_what_reads_back_as_the_same() {
        for (milliseconds, text) in [
            (0, "0s"),
            (500, "500ms"),
            (1_500, "1500ms"),
            (90_000, "90s"),
            (300_000, "5m"),
            (86_400_000, "1d"),
            (365 * 86_400_000, "1y"),
            (u64::MAX, "18446744073709551615ms"),
        ] {
            let duration = Duration::from_millis(milliseconds);
            assert_eq!(show(duration), text);
            assert_eq!(parse(text), Some(duration));
        }
    }
}
