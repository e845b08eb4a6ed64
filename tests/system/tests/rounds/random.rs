//! Random numbers from a seed (SplitMix64).

use std::time::Duration;

/// A stream of numbers.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The stream of this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The next number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (number ^ (number >> 31)) % limit.max(1)
    }

    /// True once in `of` times.
    pub(crate) fn once_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    /// A random time between these two, in milliseconds.
    pub(crate) fn time(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }

    /// A random element.
    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        let index = usize::try_from(self.below(all.len() as u64)).ok()?;
        all.get(index).copied()
    }
}
