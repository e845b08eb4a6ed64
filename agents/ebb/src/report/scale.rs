//! The time axis: which time is at which place. Long times in which nothing happens are narrow gaps.

use std::fmt;

/// The time axis has a gap for a quiet time that is longer than this part of all other time.
const PART_OF_GAP: u64 = 5;

/// Shortest time that a gap stands for, in milliseconds.
const SHORTEST_GAP: u64 = 30_000;

/// The width of a gap, and of all of them together.
const GAP: u32 = 4_000;
const ALL_GAPS: u32 = 30_000;

/// Most ticks on a whole axis.
const TICKS: u64 = 6;

/// Least distance of two ticks, and of a tick from the right end.
const TICK: u32 = 7_000;

/// Distances of ticks in seconds; behind the last, its multiples.
const STEPS: [u64; 18] =
    [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, DAY];

/// Seconds of a day.
const DAY: u64 = 86_400;

/// A part of the width of the time axis, in thousandths of a percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Share(pub(super) u32);

impl Share {
    /// The whole width.
    pub(super) const WHOLE: Self = Self(100_000);

    /// The part of the whole that `part` is of `of`.
    fn of(part: u64, of: u64, whole: u32) -> Self {
        let share = u128::from(part) * u128::from(whole) / u128::from(of.max(1));
        Self(u32::try_from(share).unwrap_or(whole).min(whole))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 1000, self.0 % 1000);
        if rest == 0 { write!(formatter, "{whole}%") } else { write!(formatter, "{whole}.{rest:03}%") }
    }
}

/// A time in which nothing happens that the axis has to show: the machine is down, or the drain waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Quiet {
    /// It begins, in milliseconds since the drain began.
    pub(super) from: u64,
    /// It ends.
    pub(super) to: u64,
    /// The machine is down.
    pub(super) is_down: bool,
}

impl Quiet {
    /// How long it is.
    pub(super) fn millis(&self) -> u64 {
        self.to.saturating_sub(self.from)
    }
}

/// A part of the axis in which all time runs as fast.
#[derive(Debug)]
struct Piece {
    from: u64,
    to: u64,
    start: u32,
    width: u32,
    is_gap: bool,
}

/// The time axis.
#[derive(Debug)]
pub(super) struct Scale {
    pieces: Vec<Piece>,
    /// The quiet times that are gaps.
    pub(super) gaps: Vec<Quiet>,
}

impl Scale {
    /// An axis from 0 to this time, with gaps for the longest of these quiet times, which are in order.
    pub(super) fn new(end: u64, quiet: &[Quiet]) -> Self {
        let all: u64 = quiet.iter().map(Quiet::millis).sum();
        let least = SHORTEST_GAP.max(end.saturating_sub(all) / PART_OF_GAP);
        let gaps: Vec<Quiet> = quiet.iter().filter(|quiet| quiet.millis() > least).cloned().collect();
        let shown = end.saturating_sub(gaps.iter().map(Quiet::millis).sum());
        let number = u32::try_from(gaps.len()).unwrap_or(u32::MAX);
        let width = GAP.min(ALL_GAPS / number.max(1));
        let rest = Share::WHOLE.0.saturating_sub(width.saturating_mul(number));
        let mut scale = Self { pieces: Vec::new(), gaps: Vec::new() };
        let mut before = 0;
        for gap in &gaps {
            scale.push(before, gap.from, Share::of(gap.from.saturating_sub(before), shown, rest).0, false);
            scale.push(gap.from, gap.to, width, true);
            before = gap.to;
        }
        let start = scale.pieces.last().map_or(0, |piece| piece.start + piece.width);
        scale.push(before, end, Share::WHOLE.0.saturating_sub(start), false);
        scale.gaps = gaps;
        scale
    }

    fn push(&mut self, from: u64, to: u64, width: u32, is_gap: bool) {
        let start = self.pieces.last().map_or(0, |piece| piece.start + piece.width);
        self.pieces.push(Piece { from, to, start, width, is_gap });
    }

    /// The place of a time.
    pub(super) fn place(&self, millis: u64) -> Share {
        let index = self.pieces.partition_point(|piece| piece.to < millis);
        let Some(piece) = self.pieces.get(index) else { return Share::WHOLE };
        let within = millis.saturating_sub(piece.from);
        Share(piece.start + Share::of(within, piece.to.saturating_sub(piece.from), piece.width).0)
    }

    /// Places and names of the ticks. Behind a gap they count anew.
    pub(super) fn ticks(&self) -> Vec<(Share, String)> {
        let step = self.step();
        let mut ticks: Vec<(Share, String)> = Vec::new();
        for piece in self.pieces.iter().filter(|piece| !piece.is_gap) {
            let length = piece.to.saturating_sub(piece.from);
            let times = (0..=TICKS).map(|number| step.saturating_mul(number));
            for after in times.take_while(|after| *after <= length) {
                let place = self.place(piece.from.saturating_add(after));
                // Behind the last tick before a gap there is room for its name.
                let end = if after == 0 { Share::WHOLE.0 } else { piece.start + piece.width };
                let is_free = ticks.last().is_none_or(|(last, _)| last.0 + TICK <= place.0);
                if is_free && (ticks.is_empty() || place.0 + TICK <= end) {
                    ticks.push((place, format!("+{}", span(after))));
                }
            }
        }
        ticks
    }

    /// Milliseconds between two ticks.
    fn step(&self) -> u64 {
        let shown: u64 = self
            .pieces
            .iter()
            .filter(|piece| !piece.is_gap)
            .map(|piece| piece.to.saturating_sub(piece.from))
            .sum();
        let least = shown.div_ceil(TICKS * 1000);
        let step = STEPS.into_iter().find(|step| least <= *step).unwrap_or_else(|| least.div_ceil(DAY) * DAY);
        step.saturating_mul(1000)
    }
}

/// How long something took, in the two largest units: `4.2 s`, `48 s`, `3 min 12 s`, `5 h 2 min`, `7 d 1 h`.
pub(super) fn span(millis: u64) -> String {
    let two = |value: u64, unit: &str, of: u64, smaller: &str| {
        let rest = if of == 0 { String::new() } else { format!(" {of} {smaller}") };
        format!("{value} {unit}{rest}")
    };
    match millis / 1000 {
        seconds @ 0..=9 if millis % 1000 < 100 => format!("{seconds} s"),
        seconds @ 0..=9 => format!("{seconds}.{} s", millis % 1000 / 100),
        seconds @ 10..=59 => format!("{seconds} s"),
        seconds @ 60..=3599 => two(seconds / 60, "min", seconds % 60, "s"),
        seconds @ 3600..=172_799 => two(seconds / 3600, "h", seconds % 3600 / 60, "min"),
        seconds => two(seconds / DAY, "d", seconds % DAY / 3600, "h"),
    }
}
