//! Back-off: the pause before a failed call is tried again.

use std::time::Duration;

/// A pause that doubles with each failure in a row, up to the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure.
    pub first: Duration,
    /// Longest pause, however many failures there were.
    pub longest: Duration,
}

impl Backoff {
    /// The pause after so many failures in a row; after none it is the first one as well.
    #[must_use]
    pub fn after(self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_up_to_the_longest() {
        for (first, longest, expected) in [
            (100, 10_000, [100, 100, 200, 6400, 10_000, 10_000, 10_000]),
            (1000, 30_000, [1000, 1000, 2000, 30_000, 30_000, 30_000, 30_000]),
            (0, 30_000, [0; 7]),
            (60_000, 60_000, [60_000; 7]),
        ] {
            let backoff =
                Backoff { first: Duration::from_millis(first), longest: Duration::from_millis(longest) };
            let pauses = [0, 1, 2, 7, 8, 40, u32::MAX].map(|failures| backoff.after(failures).as_millis());
            assert_eq!(pauses, expected, "{backoff:?}");
        }
    }
}
