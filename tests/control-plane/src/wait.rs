//! Waits for conditions that no event reports.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};

/// Pause between two polls.
const PAUSE: Duration = Duration::from_millis(25);

/// Calls `look` until it returns `Some`, and returns that value.
///
/// Blocks the thread. An error of `look` counts as "not yet". Fails after `limit`; the error names `what` and the last
/// error. Where the API server can be watched, `kubectl wait` through [`crate::ControlPlane::run`] costs less.
#[expect(clippy::disallowed_methods, reason = "a test waits for other processes, outside of any runtime")]
pub fn until<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    loop {
        let last = match look() {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if limit <= start.elapsed() {
            let late = || format!("{what}: not within {limit:?}");
            return last.with_context(late).and_then(|()| Err(anyhow!(late())));
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn errors_and_none_mean_not_yet() {
        let mut looks = 0;
        let found = until("third poll", Duration::from_mins(1), || {
            looks += 1;
            match looks {
                1 => bail!("not there"),
                2 => Ok(None),
                look => Ok(Some(look)),
            }
        });
        assert_eq!(found.unwrap(), 3);
    }

    #[test]
    fn the_last_error_is_told() {
        let outcome: Result<()> = until("the server", Duration::ZERO, || bail!("connection refused"));
        assert_eq!(format!("{:#}", outcome.unwrap_err()), "the server: not within 0ns: connection refused");
    }
}
