//! Back-off: the pauses before a failed call is tried again.

use std::time::Duration;

/// First pause after an answer of a busy server or a broken connection; doubles up to [`LONGEST`].
const SHORTEST: Duration = Duration::from_millis(500);

/// Longest pause between two tries while the server stays busy.
const LONGEST: Duration = Duration::from_secs(20);

/// Upper limit for a server's `Retry-After`, of any request: a wrong header must not use up the whole attempt.
const LONGEST_WISH: Duration = Duration::from_mins(1);

/// Pauses are spread by up to a quarter of this at most: enough to separate pods, and small enough not to overflow.
const LONGEST_SPREAD: Duration = Duration::from_hours(1);

/// Shortest pause for a refused pod, whatever the policy says: a policy without a pause must not cause a busy loop.
pub(crate) const SHORTEST_RETRY: Duration = Duration::from_millis(100);

/// Pause after the failure of try number `tries` in a row: the server's `Retry-After`, else doubling from 0.5 s to 20 s;
/// spread in both cases.
pub fn pause(tries: u32, after: Option<Duration>, uid: &str) -> Duration {
    let doubled = || SHORTEST.saturating_mul(1 << tries.saturating_sub(1).min(6)).min(LONGEST);
    spread_out(after.map_or_else(doubled, retry_after), tries, uid)
}

/// The server's `Retry-After`, limited. Our own settings are not limited.
pub fn retry_after(after: Duration) -> Duration {
    after.min(LONGEST_WISH)
}

/// The pause, extended by up to a quarter, so that pods which were refused together are not tried again together. The
/// extension is derived from the pod's UID, so that decisions are repeatable.
pub(crate) fn spread_out(pause: Duration, tries: u32, uid: &str) -> Duration {
    pause.saturating_add(within(pause.min(LONGEST_SPREAD) / 4, tries, uid))
}

/// A part of this span, derived from the UID and the count of tries: nodes that begin to wait together go on apart.
pub fn within(span: Duration, tries: u32, uid: &str) -> Duration {
    span.mul_f64(spread(uid, tries))
}

/// A number in 0..1, derived from the UID and the count of tries (FNV-1a).
fn spread(uid: &str, tries: u32) -> f64 {
    let hash = uid
        .bytes()
        .chain(tries.to_le_bytes())
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    f64::from(hash >> 8) / f64::from(1_u32 << 24)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit_and_spread_by_a_quarter() {
        let cases = [(0, 500), (1, 500), (2, 1000), (3, 2000), (6, 16_000), (7, 20_000), (u32::MAX, 20_000)];
        for (tries, millis) in cases {
            let base = Duration::from_millis(millis);
            let pause = pause(tries, None, "uid");
            assert!(pause >= base && pause <= base.mul_f64(1.25), "{tries}: {pause:?}");
        }
    }

    #[test]
    fn the_servers_wish_comes_first() {
        let retry_after = Duration::from_secs(10);
        let pause = pause(1, Some(retry_after), "uid");
        assert!(pause >= retry_after && pause <= retry_after.mul_f64(1.25), "{pause:?}");
        assert!(super::pause(1, Some(Duration::MAX), "uid") <= LONGEST_WISH.mul_f64(1.25));
    }

    #[test]
    fn two_pods_do_not_come_back_together() {
        assert_ne!(pause(3, None, "a"), pause(3, None, "b"));
    }
}
