//! Random numbers that are the same for ever: `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014).
//!
//! Written out here, so that a seed replays the same world whatever a library of random numbers does in its next version.

use std::time::Duration;

/// A sequence of random numbers.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of that seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Less than `bound`, which is not zero.
    pub const fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True once in so many times.
    pub const fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    /// True so many times in a thousand.
    pub const fn permille(&mut self, chances: u64) -> bool {
        self.below(1000) < chances
    }

    /// A place in a list of `count` things; `None` when there are none.
    pub fn place(&mut self, count: usize) -> Option<usize> {
        let bound = u64::try_from(count).ok().filter(|bound| *bound > 0)?;
        usize::try_from(self.below(bound)).ok()
    }

    /// One of `from`.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        let place = self.place(from.len())?;
        from.get(place).cloned()
    }

    /// From 1 to `most`.
    pub fn cents(&mut self, most: u64) -> i64 {
        i64::try_from(self.below(most)).unwrap_or(0) + 1
    }

    /// Up to `most`, in milliseconds.
    pub fn span(&mut self, most: Duration) -> Duration {
        let most = u64::try_from(most.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
        Duration::from_millis(self.below(most))
    }
}
