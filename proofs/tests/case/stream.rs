//! The one source of random-looking inputs: SHA-256 in counter mode.
//!
//! The stream of a label is `SHA256(label ‖ LE64(0)) ‖ SHA256(label ‖ LE64(1)) ‖ …`. Everything a case uses comes from
//! streams whose labels contain the seed and the name of the case, so a case does not depend on the cases before it.

use sha2::{Digest, Sha256};

/// The stream of one label.
pub struct Stream {
    label: String,
    counter: u64,
    block: [u8; 32],
    used: usize,
}

impl Stream {
    /// The stream of `label` from its start.
    pub fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), counter: 0, block: [0; 32], used: 32 }
    }

    /// Fills `out` with the next bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        for byte in out {
            if self.used == 32 {
                let mut hash = Sha256::new();
                hash.update(self.label.as_bytes());
                hash.update(self.counter.to_le_bytes());
                self.block = hash.finalize().into();
                self.counter += 1;
                self.used = 0;
            }
            *byte = self.block[self.used];
            self.used += 1;
        }
    }

    /// The next `n` bytes.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        let mut out = vec![0; n];
        self.fill(&mut out);
        out
    }

    /// The next 32 bytes.
    pub fn array(&mut self) -> [u8; 32] {
        let mut out = [0; 32];
        self.fill(&mut out);
        out
    }

    /// The next 32 bytes with the two top bits cleared: always a canonical field element.
    pub fn element(&mut self) -> [u8; 32] {
        let mut out = self.array();
        out[31] &= 0x3f;
        out
    }

    /// A number below `bound`, from eight bytes (the bias does not matter here).
    pub fn below(&mut self, bound: u64) -> u64 {
        let mut raw = [0; 8];
        self.fill(&mut raw);
        u64::from_le_bytes(raw) % bound
    }
}
