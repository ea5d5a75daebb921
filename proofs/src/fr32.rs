//! fr32 bit padding: 254 data bits in each 32-byte element (proofs.md §1.3).

use std::io::{self, Read, Write};

/// Bytes of a quad before padding: four elements of 254 bits.
pub const QUAD_UNPADDED: usize = 127;
/// Bytes of a quad after padding.
pub const QUAD_PADDED: usize = 128;

/// Bytes that `unpadded` bytes become, ragged ends included (proofs.md §1.3).
pub const fn to_padded(unpadded: u64) -> u64 {
    let bits = unpadded as u128 * 8;
    let padded = bits / 254 * 256 + bits % 254;
    padded.div_ceil(8) as u64
}

/// Bytes that `padded` bytes carry, ragged ends included (proofs.md §1.3).
pub const fn to_unpadded(padded: u64) -> u64 {
    let bits = padded as u128 * 8;
    let unpadded = bits / 256 * 254 + bits % 256;
    (unpadded / 8) as u64
}

/// Bytes a padder emits for `unpadded` bytes: whole elements (proofs.md §1.3).
pub const fn padded_elements(unpadded: u64) -> u64 {
    (unpadded as u128 * 8).div_ceil(254) as u64
}

/// Pads one quad.
#[inline]
pub fn pad_quad(input: &[u8; QUAD_UNPADDED], output: &mut [u8; QUAD_PADDED]) {
    // The 127 bytes as sixteen words; element k begins at bit 254 k, which is 2 k bits short of word 4 k.
    let mut whole = [0u8; QUAD_PADDED];
    whole[..QUAD_UNPADDED].copy_from_slice(input);
    let w: [u64; 16] = words(&whole);
    let (out, _) = output.as_chunks_mut::<8>();
    for k in 0..4 {
        for i in 0..4 {
            let at = 4 * k + i;
            let mut word = w[at] << (2 * k);
            if k > 0 {
                word |= w[at - 1] >> (64 - 2 * k);
            }
            if i == 3 {
                word &= u64::MAX >> 2;
            }
            out[at] = word.to_le_bytes();
        }
    }
}

/// Unpads one quad; the two top bits of each element are dropped.
#[inline]
pub fn unpad_quad(input: &[u8; QUAD_PADDED], output: &mut [u8; QUAD_UNPADDED]) {
    let mut w: [u64; 16] = words(input);
    for k in 0..4 {
        w[4 * k + 3] &= u64::MAX >> 2;
    }
    let mut whole = [0u8; QUAD_PADDED];
    let (out, _) = whole.as_chunks_mut::<8>();
    for k in 0..4 {
        for i in 0..4 {
            let at = 4 * k + i;
            let mut word = w[at] >> (2 * k);
            // Bits of the next word; across elements its first bits follow bit 253 of this one.
            if i < 3 {
                if k > 0 {
                    word |= w[at + 1] << (64 - 2 * k);
                }
            } else if k < 3 {
                word |= w[at + 1] << (62 - 2 * k);
            }
            out[at] = word.to_le_bytes();
        }
    }
    output.copy_from_slice(&whole[..QUAD_UNPADDED]);
}

#[inline]
fn words(bytes: &[u8; QUAD_PADDED]) -> [u64; 16] {
    let (chunks, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|i| u64::from_le_bytes(chunks[i]))
}

/// Pads a whole slice, which may end anywhere: appends [`padded_elements`] elements to `output`.
pub fn pad(input: &[u8], output: &mut Vec<u8>) {
    let (quads, rest) = input.as_chunks::<QUAD_UNPADDED>();
    let start = output.len();
    output.resize(start + quads.len() * QUAD_PADDED, 0);
    let (padded, _) = output[start..].as_chunks_mut::<QUAD_PADDED>();
    for (quad, out) in quads.iter().zip(padded) {
        pad_quad(quad, out);
    }
    if !rest.is_empty() {
        let mut quad = [0u8; QUAD_UNPADDED];
        quad[..rest.len()].copy_from_slice(rest);
        let mut out = [0u8; QUAD_PADDED];
        pad_quad(&quad, &mut out);
        output.extend_from_slice(&out[..padded_elements(rest.len() as u64) as usize * 32]);
    }
}

/// Pads whole quads: `output` is 128/127 as long as `input`.
///
/// # Panics
/// If the lengths are not whole quads or do not belong together.
pub fn pad_quads(input: &[u8], output: &mut [u8]) {
    let ((quads, rest), (padded, over)) = (input.as_chunks(), output.as_chunks_mut());
    assert!(rest.is_empty() && over.is_empty() && quads.len() == padded.len(), "whole quads on both sides");
    for (quad, out) in quads.iter().zip(padded) {
        pad_quad(quad, out);
    }
}

/// Unpads whole quads: `output` is 127/128 as long as `input`.
///
/// # Panics
/// If the lengths are not whole quads or do not belong together.
pub fn unpad_quads(input: &[u8], output: &mut [u8]) {
    let ((padded, rest), (quads, over)) = (input.as_chunks(), output.as_chunks_mut());
    assert!(rest.is_empty() && over.is_empty() && quads.len() == padded.len(), "whole quads on both sides");
    for (quad, out) in padded.iter().zip(quads) {
        unpad_quad(quad, out);
    }
}

/// Unpads a slice that begins at an element and may end anywhere: appends [`to_unpadded`] bytes to `output`.
pub fn unpad(input: &[u8], output: &mut Vec<u8>) {
    let (quads, rest) = input.as_chunks::<QUAD_PADDED>();
    for quad in quads {
        let mut out = [0u8; QUAD_UNPADDED];
        unpad_quad(quad, &mut out);
        output.extend_from_slice(&out);
    }
    if !rest.is_empty() {
        let mut quad = [0u8; QUAD_PADDED];
        quad[..rest.len()].copy_from_slice(rest);
        let mut out = [0u8; QUAD_UNPADDED];
        unpad_quad(&quad, &mut out);
        output.extend_from_slice(&out[..to_unpadded(rest.len() as u64) as usize]);
    }
}

const BUFFER_QUADS: usize = 512;

/// A reader of padded bytes over a reader of unpadded ones; reads of any size. At the end of the source the last element
/// is filled with zeros: `n` bytes become [`padded_elements`]`(n)` elements.
pub struct PadReader<R> {
    source: R,
    unpadded: Vec<u8>,
    padded: Vec<u8>,
    at: usize,
    ended: bool,
}

impl<R: Read> PadReader<R> {
    /// Pads what `source` delivers.
    pub fn new(source: R) -> Self {
        Self { source, unpadded: Vec::new(), padded: Vec::new(), at: 0, ended: false }
    }
}

impl<R: Read> Read for PadReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.padded.len() && !self.ended && !out.is_empty() {
            self.unpadded.clear();
            let limit = (BUFFER_QUADS * QUAD_UNPADDED) as u64;
            self.source.by_ref().take(limit).read_to_end(&mut self.unpadded)?;
            self.ended = (self.unpadded.len() as u64) < limit;
            self.padded.clear();
            self.at = 0;
            pad(&self.unpadded, &mut self.padded);
        }
        let count = out.len().min(self.padded.len() - self.at);
        out[..count].copy_from_slice(&self.padded[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// A writer of padded bytes over a writer of unpadded ones; writes of any size, beginning at a quad. [`UnpadWriter::finish`]
/// writes the ragged end.
pub struct UnpadWriter<W: Write> {
    target: W,
    pending: Vec<u8>,
    unpadded: Vec<u8>,
}

impl<W: Write> UnpadWriter<W> {
    /// Unpads into `target`.
    pub fn new(target: W) -> Self {
        Self { target, pending: Vec::new(), unpadded: Vec::new() }
    }

    /// Writes what is left and returns the target; `n` padded bytes in all became [`to_unpadded`]`(n)` bytes.
    ///
    /// # Errors
    /// Those of the target.
    pub fn finish(mut self) -> io::Result<W> {
        self.unpadded.clear();
        unpad(&self.pending, &mut self.unpadded);
        self.target.write_all(&self.unpadded)?;
        self.target.flush()?;
        Ok(self.target)
    }
}

impl<W: Write> Write for UnpadWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(BUFFER_QUADS * QUAD_PADDED);
        self.pending.extend_from_slice(&bytes[..taken]);
        let whole = self.pending.len() / QUAD_PADDED * QUAD_PADDED;
        self.unpadded.clear();
        unpad(&self.pending[..whole], &mut self.unpadded);
        self.target.write_all(&self.unpadded)?;
        self.pending.drain(..whole);
        Ok(taken)
    }

    /// Flushes the target; an incomplete quad stays until [`UnpadWriter::finish`].
    fn flush(&mut self) -> io::Result<()> {
        self.target.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bit by bit, straight from the definition.
    fn slow_pad(input: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for bit in 0..input.len() * 8 {
            let at = bit / 254 * 256 + bit % 254;
            if at / 256 * 32 >= out.len() {
                out.resize(out.len() + 32, 0);
            }
            out[at / 8] |= (input[bit / 8] >> (bit % 8) & 1) << (at % 8);
        }
        out
    }

    fn slow_unpad(input: &[u8]) -> Vec<u8> {
        let mut bits = Vec::new();
        for bit in 0..input.len() * 8 {
            if bit % 256 < 254 {
                bits.push(input[bit / 8] >> (bit % 8) & 1);
            }
        }
        bits.chunks_exact(8).map(|c| c.iter().rev().fold(0, |byte, bit| byte << 1 | bit)).collect()
    }

    #[test]
    fn a_quad_of_ones() {
        let mut out = [0u8; 128];
        pad_quad(&[0xff; 127], &mut out);
        for element in out.chunks(32) {
            assert_eq!(element[..31], [0xff; 31]);
            assert_eq!(element[31], 0x3f);
        }
    }

    #[test]
    fn size_maps() {
        for k in [1u64, 2, 64, 1 << 40] {
            assert_eq!(to_padded(127 * k), 128 * k);
            assert_eq!(to_unpadded(128 * k), 127 * k);
        }
        assert_eq!((to_padded(0), to_padded(1), to_padded(31), to_padded(32)), (0, 1, 31, 33));
        assert_eq!(to_unpadded(32), 31);
        assert_eq!((padded_elements(0), padded_elements(31), padded_elements(32)), (0, 1, 2));
    }

    proptest! {
        #[test]
        fn pads_like_the_definition(input in proptest::collection::vec(any::<u8>(), 0..600)) {
            let mut out = Vec::new();
            pad(&input, &mut out);
            prop_assert_eq!(&out, &slow_pad(&input));
            prop_assert_eq!(out.len() as u64, padded_elements(input.len() as u64) * 32);
            let mut back = Vec::new();
            unpad(&out[..to_padded(input.len() as u64) as usize], &mut back);
            prop_assert_eq!(back, input);
        }

        #[test]
        fn unpads_like_the_definition(input in proptest::collection::vec(any::<u8>(), 0..600)) {
            let mut out = Vec::new();
            unpad(&input, &mut out);
            prop_assert_eq!(&out, &slow_unpad(&input));
            prop_assert_eq!(out.len() as u64, to_unpadded(input.len() as u64));
        }

        #[test]
        fn sizes_round_trip(n in 0u64..1 << 45) {
            prop_assert_eq!(to_unpadded(to_padded(n)), n);
        }

        #[test]
        fn streams_cut_anywhere_agree(
            input in proptest::collection::vec(any::<u8>(), 0..200_000),
            cuts in proptest::collection::vec(1usize..70_000, 1..5),
        ) {
            let mut expected = Vec::new();
            pad(&input, &mut expected);
            let mut reader = PadReader::new(&input[..]);
            let mut padded = Vec::new();
            let mut writer = UnpadWriter::new(Vec::new());
            for cut in cuts.iter().cycle() {
                let mut piece = vec![0u8; *cut];
                let got = reader.read(&mut piece).unwrap();
                if got == 0 {
                    break;
                }
                writer.write_all(&piece[..got]).unwrap();
                padded.extend_from_slice(&piece[..got]);
            }
            prop_assert_eq!(&padded, &expected);
            let back = writer.finish().unwrap();
            prop_assert_eq!(&back[..input.len()], &input[..]);
            prop_assert!(back[input.len()..].iter().all(|&b| b == 0));
        }
    }
}
