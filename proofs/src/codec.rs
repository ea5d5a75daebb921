//! The byte form of bincode 1 with fixed-width little-endian integers, as far as the proofs use it (proofs.md §5.7,
//! §8.1): integers, 32-byte nodes without a length, lists and texts after a 64-bit count, enum variants as 32 bits.
//!
//! Input is hostile: nothing is allocated for a count that the remaining bytes could not hold.

use crate::Node;

/// Bytes that are not the form they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at byte {at}, in {field}: {what}")]
pub struct CodecError {
    /// Where reading stopped.
    pub at: usize,
    /// The field being read.
    pub field: &'static str,
    /// What is wrong.
    pub what: String,
}

/// Collects the byte form.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// Nothing written yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The bytes written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// One byte.
    pub fn u8(&mut self, v: u8) {
        self.0.push(v);
    }

    /// Four bytes.
    pub fn u32(&mut self, v: u32) {
        self.0.extend(v.to_le_bytes());
    }

    /// Eight bytes.
    pub fn u64(&mut self, v: u64) {
        self.0.extend(v.to_le_bytes());
    }

    /// 32 bytes.
    pub fn node(&mut self, v: &Node) {
        self.0.extend(v);
    }

    /// A count and that many bytes of UTF-8.
    pub fn text(&mut self, v: &str) {
        self.u64(v.len() as u64);
        self.0.extend(v.as_bytes());
    }

    /// A count and that many values.
    pub fn list<T>(&mut self, values: &[T], mut each: impl FnMut(&mut Self, &T)) {
        self.u64(values.len() as u64);
        for value in values {
            each(self, value);
        }
    }
}

/// Takes the byte form apart.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// An error at the present position.
    pub fn bad(&self, field: &'static str, what: String) -> CodecError {
        CodecError { at: self.at, field, what }
    }

    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn take(&mut self, field: &'static str, n: usize) -> Result<&'a [u8], CodecError> {
        if n > self.left() {
            return Err(self.bad(field, format!("expected {n} more bytes, got {}", self.left())));
        }
        let taken = &self.bytes[self.at..self.at + n];
        self.at += n;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], CodecError> {
        Ok(self.take(field, N)?.try_into().expect("as many bytes as asked for"))
    }

    /// One byte.
    pub fn u8(&mut self, field: &'static str) -> Result<u8, CodecError> {
        Ok(self.array::<1>(field)?[0])
    }

    /// Four bytes.
    pub fn u32(&mut self, field: &'static str) -> Result<u32, CodecError> {
        Ok(u32::from_le_bytes(self.array(field)?))
    }

    /// Eight bytes.
    pub fn u64(&mut self, field: &'static str) -> Result<u64, CodecError> {
        Ok(u64::from_le_bytes(self.array(field)?))
    }

    /// 32 bytes.
    pub fn node(&mut self, field: &'static str) -> Result<Node, CodecError> {
        self.array(field)
    }

    /// A count that the rest of the input can hold, every counted thing being a byte at least.
    fn count(&mut self, field: &'static str) -> Result<usize, CodecError> {
        let count = self.u64(field)?;
        match usize::try_from(count) {
            Ok(n) if n <= self.left() => Ok(n),
            _ => Err(self.bad(field, format!("a count of {count} with {} bytes left", self.left()))),
        }
    }

    /// A count and that many bytes of UTF-8.
    pub fn text(&mut self, field: &'static str) -> Result<&'a str, CodecError> {
        let n = self.count(field)?;
        let bytes = self.take(field, n)?;
        std::str::from_utf8(bytes).map_err(|e| self.bad(field, format!("not UTF-8: {e}")))
    }

    /// A count and that many values.
    pub fn list<T>(
        &mut self,
        field: &'static str,
        mut each: impl FnMut(&mut Self) -> Result<T, CodecError>,
    ) -> Result<Vec<T>, CodecError> {
        let n = self.count(field)?;
        // Grown as values arrive: a value in memory may be larger than its bytes.
        let mut values = Vec::new();
        for _ in 0..n {
            values.push(each(self)?);
        }
        Ok(values)
    }

    /// All bytes must be used.
    pub fn end(&self) -> Result<(), CodecError> {
        match self.left() {
            0 => Ok(()),
            n => Err(self.bad("end", format!("{n} bytes too many"))),
        }
    }
}
