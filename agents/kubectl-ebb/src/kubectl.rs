//! Parts that the verbs which imitate kubectl's share: the choice of nodes, and flag values as kubectl reads them (Go's
//! `strconv` and `time`, and kubectl's own `--dry-run`).

pub mod nodes;

use std::time::Duration;

use trust::user;

/// Owner of a cordon that is set on the command line: `ebb:<user>`, with the user's number if the user has no name.
pub fn owner() -> String {
    format!("ebb:{}", user())
}

/// What a dry run asks the API server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DryRun {
    /// No dry run: changes are made.
    #[default]
    None,
    /// Only read requests are sent.
    Client,
    /// Write requests are sent too, marked as dry run: the API server checks them and changes nothing.
    Server,
}

impl DryRun {
    /// Text that kubectl appends to each line.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Client => " (dry run)",
            Self::Server => " (server dry run)",
        }
    }
}

/// Internal value of `--dry-run` without a value: a text that cannot be typed.
pub(crate) const BARE_DRY_RUN: &str = "\0";

/// Value of `--dry-run`, and whether the flag was given in its old form, without a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AskedDryRun {
    /// The mode.
    pub mode: DryRun,
    /// True for the old form: kubectl reads it as `client` and warns.
    pub(crate) is_bare: bool,
}

impl AskedDryRun {
    /// kubectl's warning about the old form.
    pub(crate) fn warning(self) -> Option<&'static str> {
        self.is_bare.then_some("Warning: --dry-run is deprecated and can be replaced with --dry-run=client.")
    }
}

/// Parses `--dry-run[=none|client|server]`.
pub(crate) fn dry_run(text: &str) -> Result<AskedDryRun, String> {
    let mode = match text {
        "none" => DryRun::None,
        "client" => DryRun::Client,
        "server" => DryRun::Server,
        BARE_DRY_RUN => return Ok(AskedDryRun { mode: DryRun::Client, is_bare: true }),
        other => {
            return Err(format!(
                "Invalid dry-run value ({other}). Must be \"none\", \"server\", or \"client\"."
            ));
        }
    };
    Ok(AskedDryRun { mode, is_bare: false })
}

/// Value of a boolean flag as pflag has it: absent, `--x`, `--x=true`, `--x=false`.
pub fn is_on(switch: Option<Option<bool>>) -> bool {
    switch.is_some_and(|value| value.unwrap_or(true))
}

/// Parses a boolean as Go's `strconv.ParseBool` does.
pub fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("not true or false".to_owned()),
    }
}

/// Parses a duration as Go's `time.ParseDuration` does, but refuses negative ones: `0`, `5m30s`, `300ms`, `1.5h`.
///
/// # Errors
/// It is none, or longer than 292 years.
pub fn go_duration(text: &str) -> Result<Duration, String> {
    let bare = text.strip_prefix('+').unwrap_or(text);
    if bare == "0" {
        return Ok(Duration::ZERO);
    }
    if bare.starts_with('-') {
        return Err("a duration cannot be negative".to_owned());
    }
    let mut rest = bare;
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let (part, behind) = term(rest)?;
        nanos = nanos.checked_add(part).ok_or_else(too_long)?;
        rest = behind;
    }
    if bare.is_empty() {
        return Err(malformed());
    }
    // Longest duration in Go: 292 years.
    if nanos > i64::MAX.unsigned_abs().into() {
        return Err(too_long());
    }
    u64::try_from(nanos).map(Duration::from_nanos).map_err(|_| too_long())
}

/// Parses one number with its unit. Returns nanoseconds and the rest of the text.
fn term(text: &str) -> Result<(u128, &str), String> {
    let (whole, rest) = digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => digits(rest),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(malformed());
    }
    let unit_end = rest.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_end);
    let unit = unit_nanos(unit)?;
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| too_long())? };
    let nanos = whole.checked_mul(unit).ok_or_else(too_long)?;
    Ok((nanos.checked_add(fraction_nanos(fraction, unit)).ok_or_else(too_long)?, rest))
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len()))
}

fn unit_nanos(unit: &str) -> Result<u128, String> {
    match unit {
        "ns" => Ok(1),
        "us" | "µs" | "μs" => Ok(1_000),
        "ms" => Ok(1_000_000),
        "s" => Ok(1_000_000_000),
        "m" => Ok(60_000_000_000),
        "h" => Ok(3_600_000_000_000),
        "" => Err("missing unit in duration: write 5s, 5m30s, 300ms or 0".to_owned()),
        other => Err(format!("unknown unit {other:?} in duration: ns, us, ms, s, m, h are known")),
    }
}

/// Nanoseconds of the digits after the decimal point; a part below one nanosecond is cut off.
fn fraction_nanos(digits: &str, unit: u128) -> u128 {
    let mut nanos = 0;
    let mut scale = unit;
    for digit in digits.chars().filter_map(|digit| digit.to_digit(10)) {
        scale /= 10;
        nanos += u128::from(digit) * scale;
    }
    nanos
}

fn malformed() -> String {
    "not a duration: write 5s, 5m30s, 300ms or 0".to_owned()
}

fn too_long() -> String {
    "the duration is too long".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_as_go_reads_them() {
        let millis = Duration::from_millis;
        for (text, expected) in [
            ("0", Some(Duration::ZERO)),
            ("+0", Some(Duration::ZERO)),
            ("5s", Some(millis(5_000))),
            ("5m30s", Some(millis(330_000))),
            ("300ms", Some(millis(300))),
            ("1.5h", Some(millis(5_400_000))),
            (".5s", Some(millis(500))),
            ("1.s", Some(millis(1_000))),
            ("1us", Some(Duration::from_micros(1))),
            ("1µs", Some(Duration::from_micros(1))),
            ("1h2m3s4ms5us6ns", Some(Duration::new(3_723, 4_005_006))),
            ("0.0000000001s", Some(Duration::ZERO)),
            ("2562047h47m16.854775807s", Some(Duration::from_nanos(i64::MAX.unsigned_abs()))),
            ("2562047h47m16.854775808s", None),
            ("99999999999999999999999999999999999999999h", None),
            ("340282366920938463463374607431768211455h", None),
            ("5", None),
            ("", None),
            ("+", None),
            ("-5s", None),
            ("s", None),
            (".s", None),
            ("5x", None),
            ("1e3s", None),
            ("5s3", None),
        ] {
            assert_eq!(go_duration(text).ok(), expected, "{text:?}");
        }
    }

    #[test]
    fn truth_values_as_go_reads_them() {
        for text in ["1", "t", "T", "true", "TRUE", "True"] {
            assert_eq!(go_bool(text), Ok(true), "{text}");
        }
        for text in ["0", "f", "F", "false", "FALSE", "False"] {
            assert_eq!(go_bool(text), Ok(false), "{text}");
        }
        for text in ["", "yes", "maybe", "tRUE", "2"] {
            assert!(go_bool(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_three_dry_runs_exist() {
        for (text, mode, is_bare) in [
            ("none", DryRun::None, false),
            ("client", DryRun::Client, false),
            ("server", DryRun::Server, false),
            (BARE_DRY_RUN, DryRun::Client, true),
        ] {
            assert_eq!(dry_run(text), Ok(AskedDryRun { mode, is_bare }), "{text}");
        }
        for text in ["", "unchanged", "true", "Client", "all"] {
            let error = dry_run(text).unwrap_err();
            assert!(error.contains("Must be \"none\", \"server\", or \"client\"."), "{error}");
        }
    }
}
