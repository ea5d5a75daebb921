//! How values become bytes: CBOR with named maps behind a four-byte header. The only user of serde_cbor.
//!
//! Header: magic [`MAGIC`], codec id [`CODEC_CBOR`], schema version (u16, big endian). A reader refuses a newer version
//! and reads an older one by the rules of named maps: unknown fields are ignored, missing ones need
//! `#[serde(default)]`. What more an older version needs is a migration ([`crate::Schema`]).
//!
//! The packed form of serde_cbor is never used: it moves values between fields when a struct changes. `Vec<u8>` fields
//! should be `serde_bytes`, else each byte is stored as a number.

use serde::{Serialize, de::DeserializeOwned};

/// The first byte of every encoded record.
pub const MAGIC: u8 = 0xd7;
/// The codec id of CBOR with named maps.
pub const CODEC_CBOR: u8 = 1;
/// Bytes before the CBOR value.
pub const HEADER_BYTES: usize = 4;

/// Why bytes are not the value they should be, or a value cannot be bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// Fewer bytes than a header.
    #[error("{bytes} bytes are too few for a record")]
    Short {
        /// How many there were.
        bytes: usize,
    },
    /// The first byte is not [`MAGIC`].
    #[error("the bytes are no record: they begin with {found:#04x}, expected {MAGIC:#04x}")]
    NoRecord {
        /// The first byte.
        found: u8,
    },
    /// A codec this program does not know.
    #[error("unknown codec {found}, expected {CODEC_CBOR}")]
    UnknownCodec {
        /// The codec id found.
        found: u8,
    },
    /// Written by a newer program.
    #[error("the record has schema version {found}, this program knows up to {supported}")]
    Newer {
        /// The version found.
        found: u16,
        /// The newest known.
        supported: u16,
    },
    /// The value cannot be written as CBOR (a map with mixed keys, a number over 64 bits, ...).
    #[error("cannot encode {type_name}: {reason}")]
    Encode {
        /// The Rust type.
        type_name: &'static str,
        /// What serde said.
        reason: String,
    },
    /// The bytes are not this type, or bytes are left over.
    #[error("cannot decode {type_name}: {reason}")]
    Decode {
        /// The Rust type.
        type_name: &'static str,
        /// What serde said.
        reason: String,
    },
}

/// Encodes a record of the given schema version: header and CBOR.
///
/// # Errors
/// [`CodecError::Encode`] when the value has no CBOR form.
pub fn encode<T: Serialize + ?Sized>(schema: u16, value: &T) -> Result<Vec<u8>, CodecError> {
    let mut bytes = Vec::with_capacity(128);
    bytes.extend([MAGIC, CODEC_CBOR]);
    bytes.extend(schema.to_be_bytes());
    write(&mut bytes, value)?;
    Ok(bytes)
}

/// Decodes a record; `supported` is the newest schema version the caller knows. All bytes must be used.
///
/// # Errors
/// [`CodecError::Newer`] for a newer version, the other variants for bytes that are no such record.
pub fn decode<T: DeserializeOwned>(supported: u16, bytes: &[u8]) -> Result<T, CodecError> {
    let found = schema_of(bytes)?;
    if found > supported {
        return Err(CodecError::Newer { found, supported });
    }
    decode_bare(&bytes[HEADER_BYTES..])
}

/// The schema version in a record's header.
///
/// # Errors
/// When the bytes do not begin with a header of this codec.
pub fn schema_of(bytes: &[u8]) -> Result<u16, CodecError> {
    let Some(&[magic, codec, high, low]) = bytes.first_chunk::<HEADER_BYTES>() else {
        return Err(CodecError::Short { bytes: bytes.len() });
    };
    if magic != MAGIC {
        return Err(CodecError::NoRecord { found: magic });
    }
    if codec != CODEC_CBOR {
        return Err(CodecError::UnknownCodec { found: codec });
    }
    Ok(u16::from_be_bytes([high, low]))
}

/// Encodes without a header, for values whose version is known from what surrounds them.
///
/// # Errors
/// [`CodecError::Encode`] when the value has no CBOR form.
pub fn encode_bare<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, CodecError> {
    let mut bytes = Vec::with_capacity(128);
    write(&mut bytes, value)?;
    Ok(bytes)
}

/// Decodes what [`encode_bare`] wrote. All bytes must be used.
///
/// # Errors
/// [`CodecError::Decode`] when the bytes are not exactly one such value.
pub fn decode_bare<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    // from_slice refuses trailing bytes and nesting beyond 128.
    serde_cbor::from_slice(bytes)
        .map_err(|e| CodecError::Decode { type_name: std::any::type_name::<T>(), reason: e.to_string() })
}

fn write<T: Serialize + ?Sized>(bytes: &mut Vec<u8>, value: &T) -> Result<(), CodecError> {
    serde_cbor::to_writer(bytes, &value)
        .map_err(|e| CodecError::Encode { type_name: std::any::type_name::<T>(), reason: e.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde::Deserialize;
    use std::collections::BTreeMap;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    enum Shape {
        Unit,
        Newtype(u64),
        Tuple(u8, String),
        Struct { a: Option<i64>, b: f64 },
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Record {
        number: u64,
        signed: i64,
        name: String,
        maybe: Option<u32>,
        shapes: Vec<Shape>,
        map: BTreeMap<String, u64>,
        #[serde(with = "serde_bytes_like")]
        raw: Vec<u8>,
    }

    /// `serde_bytes` for one field, without the dependency.
    mod serde_bytes_like {
        use serde::{Deserializer, Serializer, de::Visitor};
        pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
            to.serialize_bytes(bytes)
        }
        pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
            struct Bytes;
            impl Visitor<'_> for Bytes {
                type Value = Vec<u8>;
                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("bytes")
                }
                fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
                    Ok(bytes.to_vec())
                }
            }
            from.deserialize_bytes(Bytes)
        }
    }

    fn shape() -> impl Strategy<Value = Shape> {
        prop_oneof![
            Just(Shape::Unit),
            any::<u64>().prop_map(Shape::Newtype),
            (any::<u8>(), ".{0,8}").prop_map(|(a, b)| Shape::Tuple(a, b)),
            (any::<Option<i64>>(), -1e300..1e300f64).prop_map(|(a, b)| Shape::Struct { a, b }),
        ]
    }

    fn record() -> impl Strategy<Value = Record> {
        (
            any::<u64>(),
            any::<i64>(),
            ".{0,40}",
            any::<Option<u32>>(),
            prop::collection::vec(shape(), 0..5),
            prop::collection::btree_map(".{0,5}", any::<u64>(), 0..4),
            prop::collection::vec(any::<u8>(), 0..300),
        )
            .prop_map(|(number, signed, name, maybe, shapes, map, raw)| Record {
                number,
                signed,
                name,
                maybe,
                shapes,
                map,
                raw,
            })
    }

    proptest! {
        #[test]
        fn records_come_back(value in record(), schema: u16) {
            let bytes = encode(schema, &value).unwrap();
            prop_assert_eq!(schema_of(&bytes).unwrap(), schema);
            prop_assert_eq!(decode::<Record>(schema, &bytes).unwrap(), value);
        }

        /// The way out of serde_cbor: another crate writes the same bytes.
        #[test]
        fn ciborium_writes_the_same_bytes(value in record()) {
            let mut other = Vec::new();
            ciborium::into_writer(&value, &mut other).unwrap();
            prop_assert_eq!(encode_bare(&value).unwrap(), other);
        }

        #[test]
        fn foreign_bytes_are_errors_not_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode::<Record>(u16::MAX, &bytes);
            prop_assert!(decode_bare::<Record>(&bytes).is_err());
        }

        #[test]
        fn truncated_and_extended_records_are_refused(value in record(), cut in 0usize..1000, extra: u8) {
            let mut bytes = encode(1, &value).unwrap();
            let cut = cut % bytes.len();
            prop_assert!(decode::<Record>(1, &bytes[..cut]).is_err());
            bytes.push(extra);
            prop_assert!(decode::<Record>(1, &bytes).is_err());
        }
    }

    #[test]
    fn bytes_are_fixed() {
        #[derive(Serialize, Deserialize)]
        struct Two {
            b: u8,
            a: Shape,
        }
        let bytes = encode(0x0102, &Two { b: 7, a: Shape::Newtype(500) }).unwrap();
        // map(2) "b" 7 "a" map(1) "Newtype" 500: fields by name, in declaration order.
        assert_eq!(bytes, b"\xd7\x01\x01\x02\xa2\x61b\x07\x61a\xa1\x67Newtype\x19\x01\xf4");
    }

    #[test]
    fn headers_are_checked() {
        let good = encode(3, &1u8).unwrap();
        assert_eq!(decode::<u8>(2, &good), Err(CodecError::Newer { found: 3, supported: 2 }));
        assert_eq!(decode::<u8>(9, &good[..3]), Err(CodecError::Short { bytes: 3 }));
        let mut bad = good.clone();
        bad[0] = 0;
        assert_eq!(decode::<u8>(9, &bad), Err(CodecError::NoRecord { found: 0 }));
        bad = good;
        bad[1] = 9;
        assert_eq!(decode::<u8>(9, &bad), Err(CodecError::UnknownCodec { found: 9 }));
    }

    #[test]
    fn named_maps_survive_changes_of_the_struct() {
        #[derive(Serialize)]
        struct Old {
            gone: u64,
            kept: String,
        }
        #[derive(Debug, PartialEq, Deserialize)]
        struct New {
            #[serde(default)]
            added: u32,
            kept: String,
            maybe: Option<bool>,
        }
        let old = encode(1, &Old { gone: 1, kept: "x".to_owned() }).unwrap();
        assert_eq!(decode::<New>(2, &old).unwrap(), New { added: 0, kept: "x".to_owned(), maybe: None });
    }
}
