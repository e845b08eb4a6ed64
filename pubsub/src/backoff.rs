//! The pause before a failed operation is tried again.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(10);

/// The pause after this many failures in a row: 100 ms after the first, twice as long after each further one, at most
/// 10 s.
pub(crate) fn pause_after(failures: u32) -> Duration {
    let doubled = 2_u32.checked_pow(failures.saturating_sub(1));
    doubled.and_then(|factor| FIRST.checked_mul(factor)).map_or(LONGEST, |pause| pause.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_up_to_ten_seconds() {
        let pauses = [0, 1, 2, 7, 8, 40, u32::MAX].map(|failures| pause_after(failures).as_millis());
        assert_eq!(pauses, [100, 100, 200, 6400, 10_000, 10_000, 10_000]);
    }
}
