//! The form of journal files. All numbers are big endian.
//!
//! Segment: magic `SRJOURNL`, format version (u16), zero (6 bytes), first sequence number (u64), then frames. Frame:
//! length of the body (u32), checksum (8 bytes: BLAKE2b-64 over length and body), body = sequence number (u64), group
//! (u64), length of the stream (u16), stream, payload. A group is what was synced together; its number lets opening
//! tell an unfinished commit from records that fell behind.

/// Bytes of a segment's header.
pub(crate) const HEADER_BYTES: usize = 24;
/// Bytes of a frame before its body.
const FRAME_HEAD: usize = 12;
/// Bytes of a body before the stream.
const BODY_HEAD: usize = 18;
const MAGIC: &[u8; 8] = b"SRJOURNL";
/// The version of this form.
pub(crate) const FORMAT: u16 = 1;

/// A frame in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) seq: u64,
    pub(crate) group: u64,
    pub(crate) stream: &'a [u8],
    pub(crate) payload: &'a [u8],
    /// The frame's length in the file.
    pub(crate) bytes: usize,
}

/// A segment's header.
pub(crate) fn header(first_seq: u64) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..10].copy_from_slice(&FORMAT.to_be_bytes());
    bytes[16..].copy_from_slice(&first_seq.to_be_bytes());
    bytes
}

/// Checks a segment's header against the number in its name.
pub(crate) fn check_header(bytes: &[u8], first_seq: u64) -> Result<(), String> {
    let found = bytes.get(..HEADER_BYTES).ok_or("it has no complete header")?;
    if found != header(first_seq) {
        return Err("its header is not that of a journal of this format and name".to_owned());
    }
    Ok(())
}

/// Appends a frame. The stream is at most 1 KiB and the payload 64 KiB, which the batch's check ensures.
pub(crate) fn write(to: &mut Vec<u8>, seq: u64, group: u64, stream: &[u8], payload: &[u8]) {
    let start = to.len();
    let body = BODY_HEAD + stream.len() + payload.len();
    to.reserve(FRAME_HEAD + body);
    to.extend((body as u32).to_be_bytes());
    to.extend([0; 8]);
    to.extend(seq.to_be_bytes());
    to.extend(group.to_be_bytes());
    to.extend((stream.len() as u16).to_be_bytes());
    to.extend(stream);
    to.extend(payload);
    let sum = checksum(&to[start..start + 4], &to[start + FRAME_HEAD..]);
    to[start + 4..start + FRAME_HEAD].copy_from_slice(&sum);
}

/// Reads the frame at the beginning of `bytes`, or says why there is none.
pub(crate) fn read(bytes: &[u8]) -> Result<Frame<'_>, String> {
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or("the frame's length is cut off")?;
    let (sum, rest) = rest.split_first_chunk::<8>().ok_or("the frame's checksum is cut off")?;
    let body_bytes = u32::from_be_bytes(*length) as usize;
    let body = rest.get(..body_bytes).ok_or("the frame is cut off")?;
    if checksum(length, body) != *sum {
        return Err("the frame's checksum is wrong".to_owned());
    }
    let malformed = || "the frame is malformed".to_owned();
    let (seq, rest) = body.split_first_chunk::<8>().ok_or_else(malformed)?;
    let (group, rest) = rest.split_first_chunk::<8>().ok_or_else(malformed)?;
    let (stream_bytes, rest) = rest.split_first_chunk::<2>().ok_or_else(malformed)?;
    let (stream, payload) =
        rest.split_at_checked(usize::from(u16::from_be_bytes(*stream_bytes))).ok_or_else(malformed)?;
    Ok(Frame {
        seq: u64::from_be_bytes(*seq),
        group: u64::from_be_bytes(*group),
        stream,
        payload,
        bytes: FRAME_HEAD + body_bytes,
    })
}

fn checksum(length: &[u8], body: &[u8]) -> [u8; 8] {
    let hash = blake2b_simd::Params::new().hash_length(8).to_state().update(length).update(body).finalize();
    let mut sum = [0; 8];
    sum.copy_from_slice(hash.as_bytes());
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn frames_come_back(
            seq: u64, group: u64,
            stream in prop::collection::vec(any::<u8>(), 0..40),
            payload in prop::collection::vec(any::<u8>(), 0..400),
            after in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let mut bytes = Vec::new();
            write(&mut bytes, seq, group, &stream, &payload);
            let length = bytes.len();
            bytes.extend(&after);
            let frame = read(&bytes).unwrap();
            prop_assert_eq!(frame, Frame { seq, group, stream: &stream, payload: &payload, bytes: length });
        }

        #[test]
        fn any_flipped_bit_is_noticed(
            payload in prop::collection::vec(any::<u8>(), 0..100), at: usize, bit in 0u8..8,
        ) {
            let mut bytes = Vec::new();
            write(&mut bytes, 7, 3, b"stream", &payload);
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            prop_assert!(read(&bytes).is_err());
        }

        #[test]
        fn foreign_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(read(&bytes).is_err());
        }
    }

    #[test]
    fn zeros_are_no_frame() {
        assert!(read(&[0; 64]).is_err());
    }

    #[test]
    fn headers_name_their_first_entry() {
        assert!(check_header(&header(9), 9).is_ok());
        assert!(check_header(&header(9), 8).is_err());
        assert!(check_header(&header(9)[..20], 9).is_err());
    }
}
