//! Pseudo-random numbers from a printed seed.

/// A stream of pseudo-random numbers (splitmix64).
#[derive(Debug)]
pub struct Random(u64);

/// The random numbers of a test: from `SEALRIG_SEED` if it is set, else from the clock. Prints how to repeat the run.
///
/// # Panics
/// If `SEALRIG_SEED` is no number.
pub fn seed(test: &str) -> Random {
    let seed = match std::env::var("SEALRIG_SEED") {
        Ok(text) => text.parse().expect("SEALRIG_SEED is a number"),
        Err(_) => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.map_or(0, |d| d.as_nanos() as u64)
        }
    };
    println!("to repeat: SEALRIG_SEED={seed} cargo test -p integration-tests {test}");
    Random(seed)
}

impl Random {
    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 when that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound.max(1)
    }
}
