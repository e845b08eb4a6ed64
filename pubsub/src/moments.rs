//! Moments at which everything that is not urgent happens: an idle process is woken as seldom as possible.

use std::time::Duration;

use tokio::time::Instant;

/// tokio sorts the moments to come into slots of 4096 ms since its runtime began. Where a slot begins a moment costs one
/// wake-up, elsewhere up to three.
const SLOT: Duration = Duration::from_millis(4096);
/// The common moments are so far apart.
const COMMON: Duration = SLOT.saturating_mul(2);

thread_local! {
    /// Where the moments of this thread begin.
    static BEGAN: Instant = Instant::now();
}

/// Call it right before the runtime of an agent is made, in its thread: then a common moment costs one wake-up.
pub fn begin_common_moments() {
    BEGAN.with(|_| ());
}

/// The last common moment within so long from now: whatever is not urgent in this process happens at the same few moments,
/// so that an idle device is woken as seldom as possible. A pause shorter than 8 s ends on time.
pub fn common_moment(within: Duration) -> Instant {
    moment_within(within, COMMON)
}

/// The last moment within so long from now that is a multiple of `apart`.
pub(crate) fn moment_within(within: Duration, apart: Duration) -> Instant {
    let (began, now) = (BEGAN.with(Clone::clone), Instant::now());
    let end = now + within;
    if within < apart {
        return end;
    }
    let late = end.duration_since(began).as_nanos() % apart.as_nanos();
    end - Duration::from_nanos(u64::try_from(late).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_not_urgent_happens_at_the_same_moments() {
        let began = Instant::now();
        let millis = |within: u64| (common_moment(Duration::from_secs(within)) - began).as_millis();
        assert_eq!([30, 25, 10, 8, 2, 0].map(millis), [24_576, 24_576, 8_192, 8_000, 2_000, 0]);
        tokio::time::advance(Duration::from_millis(8_191)).await;
        assert_eq!([30, 25, 10].map(millis), [32_768, 32_768, 16_384], "not later than asked for");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!([30, 25, 10].map(millis), [32_768, 32_768, 16_384]);
    }
}
