//! An operator's limits: how long the agents wait for what may not come. Most histories have short ones, so that all
//! that depends on them happens within minutes.

use crate::kernel;
use crate::world::{MINUTE, SECOND, chance, pick};

/// `volumes.detach-timeout`.
const DETACHES: u64 = 30 * SECOND;
const DAY: u64 = 24 * 60 * MINUTE;
/// Whatever waits for an agent gives up before that.
pub(crate) const GIVEN_UP: u64 = 15 * MINUTE;

/// Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// `slots.limit`; 0 is no limit.
    pub(crate) slots: u64,
    /// `api.unreachable-timeout`: after so long an outage lets a device go down undrained.
    pub(crate) unreachable: u64,
    /// `slots.down-max`: beside a node that is down an outage has to last so long.
    pub(crate) down_max: u64,
    /// `drain.start.timeout`: a zedkube that was away for so long in this boot is not waited for.
    pub(crate) start: u64,
    /// `device-op.retry` and `baseos.retry`.
    pub(crate) retry: u64,
    /// `drain.retry-pause`.
    pause: u64,
    /// `baseos.timeout`.
    activation: u64,
    /// `drain.settle`: the time between two lists of a drain in which pods came.
    pub(crate) settle: u64,
    /// `evict.retry`.
    pub(crate) evict_retry: u64,
    /// `evict.max-retries`: a pod that was refused for so many times `evict.retry` is deleted. None is never.
    pub(crate) evictions: Option<u64>,
    /// `drain.attempt-timeout`; None is longer than a history.
    pub(crate) attempt: Option<u64>,
    /// No setting: the storage needs so long to detach a volume.
    pub(crate) detach: u64,
    /// What a person calls long: the power stays off, or a fault is not mended, for so long.
    pub(crate) long: u64,
    /// When commands of the host and the cluster may begin.
    pub(crate) window: Option<Window>,
    /// `hold.timeout`, where `ebb-hold.service` keeps a shutdown back that goes round ebb.
    pub(crate) hold: Option<u64>,
}

/// The maintenance window, in minutes of a day; on the next day, if it ends before it begins. A history begins at 16:00.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    from: u64,
    to: u64,
}

/// `window.lead`, in minutes.
const LEAD: u64 = 1;

impl Window {
    /// True if a drain may begin at this time of the wall clock, in nanoseconds, or might have a moment before.
    pub(crate) const fn is_open(self, wall: u64, moment: u64) -> bool {
        let Self { from, to } = self;
        let at = wall % DAY;
        let until = (to - LEAD) * MINUTE + moment;
        let from = from * MINUTE;
        if from < until { from <= at && at <= until } else { from <= at || at <= until }
    }
}

impl Limits {
    /// One of sixteen histories has the defaults.
    pub(crate) fn draw() -> Self {
        let slots = pick(&[1, 1, 1, 2, 0]);
        let settle = if chance(8) { 10 * SECOND } else { 2 * SECOND };
        let evict_retry = pick(&[20, 20, 5, 120]) * SECOND;
        let evictions = pick(&[None, None, Some(1), Some(2)]);
        let attempt =
            pick(&[None, None, None, None, Some(62 * SECOND), Some(62 * SECOND), Some(303 * SECOND)]);
        let detach = pick(&[2, 2, 2, 2, 10, 45]) * SECOND;
        if chance(16) {
            return Self {
                slots,
                evict_retry,
                evictions,
                attempt,
                detach,
                unreachable: 5 * MINUTE,
                down_max: 30 * MINUTE,
                start: 10 * MINUTE,
                retry: 30 * MINUTE,
                pause: 5 * MINUTE,
                activation: 10 * MINUTE,
                settle,
                long: 20 * MINUTE,
                window: None,
                hold: None,
            };
        }
        Self {
            slots,
            evict_retry,
            evictions,
            attempt,
            detach,
            unreachable: 90 * SECOND,
            down_max: 4 * MINUTE,
            start: 2 * MINUTE,
            retry: MINUTE,
            pause: pick(&[0, 10, 30]) * SECOND,
            activation: 2 * MINUTE,
            settle,
            long: 4 * MINUTE,
            window: None,
            hold: None,
        }
    }

    /// Draws a window that opens in four minutes, or closes in three and opens in an hour.
    pub(crate) fn draw_window(&mut self) {
        let [from, to] = pick(&[[16 * 60 + 4, 24 * 60 - 1], [17 * 60, 16 * 60 + 3]]);
        self.window = chance(3).then_some(Window { from, to });
    }

    /// Draws whether shutdowns that go round ebb are kept back, and how long.
    pub(crate) fn draw_hold(&mut self) {
        self.hold = chance(5).then(|| pick(&[MINUTE, 3 * MINUTE, 10 * MINUTE]));
    }

    /// As lines of TOML.
    pub(crate) fn settings(&self) -> String {
        let Self { slots, .. } = self;
        let times = [
            ("api.unreachable-timeout", self.unreachable),
            ("slots.down-max", self.down_max),
            ("drain.start.timeout", self.start),
            ("device-op.retry", self.retry),
            ("baseos.retry", self.retry),
            ("drain.retry-pause", self.pause),
            ("baseos.timeout", self.activation),
            ("drain.settle", self.settle),
            ("evict.retry", self.evict_retry),
            ("volumes.detach-timeout", DETACHES),
        ];
        let times = times.into_iter().chain(self.attempt.map(|attempt| ("drain.attempt-timeout", attempt)));
        let times = times.map(|(key, nanos)| format!("{key} = \"{}s\"\n", nanos / SECOND));
        let evictions = self.evictions.map(|times| format!("evict.max-retries = {times}\n"));
        let hour = |minutes: u64| format!("{:02}:{:02}", minutes / 60, minutes % 60);
        let window = self.window.map(|Window { from, to }| {
            let (from, to) = (hour(from), hour(to));
            format!("window.from = \"{from}\"\nwindow.to = \"{to}\"\nwindow.lead = \"{LEAD}m\"\n")
        });
        let hold = self.hold.map(|nanos| format!("hold.timeout = \"{}s\"\n", nanos / SECOND));
        // EVE's way: otherwise a device would wait for the end of every outage.
        let ways = "api-unreachable = \"complete\"\nno-peer = \"complete\"\n";
        let others: String = [evictions, window, hold].into_iter().flatten().collect();
        format!("{ways}slots.limit = {slots}\n{others}{}", times.collect::<String>())
    }

    /// An outage of this time lets a device go down undrained.
    pub(crate) const fn undrained(&self) -> u64 {
        self.unreachable * 4 / 3
    }

    /// Drains may fail for want of time.
    pub(crate) fn are_tight(&self) -> bool {
        self.detaches_slowly() || self.attempt.is_some()
    }

    /// The volumes of an attempt are not detached in time.
    pub(crate) const fn detaches_slowly(&self) -> bool {
        self.detach >= DETACHES
    }

    /// In an outage of this time two devices go down undrained, one after the other.
    pub(crate) const fn one_after_another(&self) -> u64 {
        self.unreachable + self.down_max * 4 / 3
    }

    /// The longest time of an outage.
    pub(crate) fn draw_outage(&self) -> u64 {
        pick(&[5 * SECOND, MINUTE, self.undrained(), self.one_after_another()])
    }

    /// Time until an agent that has ended is started again.
    pub(crate) fn draw_pause(&self) -> u64 {
        match kernel::below(40) {
            0 => GIVEN_UP,
            1..=4 => self.start * 6 / 5,
            _ => pick(&[SECOND / 10, SECOND, 5 * SECOND, 30 * SECOND]),
        }
    }
}
