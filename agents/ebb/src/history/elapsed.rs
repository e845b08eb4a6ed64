//! The time between the lines of a drain.

use schemas::{DrainEvent, DrainLine, GoTime};

/// The time since the first line of a drain.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Elapsed {
    millis: u64,
    before: Option<(GoTime, u64)>,
}

impl Elapsed {
    /// Lets the time until this line pass: milliseconds since the first line. Within a boot the machine's
    /// own clock counts, which nobody sets; over a boot only the wall clock can tell, and time never goes back.
    pub(crate) fn pass(&mut self, line: &DrainLine) -> u64 {
        if let Some((at, up)) = self.before {
            let by_wall = line.at.timestamp().duration_since(at.timestamp()).as_millis();
            let is_boot = matches!(line.event, DrainEvent::Booted { .. });
            let by_clock = line.up_millis.saturating_sub(up);
            let passed = if is_boot { u64::try_from(by_wall).unwrap_or(0) } else { by_clock };
            self.millis = self.millis.saturating_add(passed);
        }
        self.before = Some((line.at, line.up_millis));
        self.millis
    }
}
