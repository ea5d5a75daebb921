//! Typed collections over any store: keys that sort, values through the codec.

use crate::codec;
use crate::error::printable;
use crate::{Batch, Expect, Store, StoreError};
use serde::{Serialize, de::DeserializeOwned};
use std::marker::PhantomData;
use std::sync::Arc;

/// A key whose bytes sort like the key itself.
pub trait KeyCodec: Sized {
    /// Appends the bytes.
    fn write_key(&self, to: &mut Vec<u8>);
    /// Reads the key from all of `bytes`; `None` when they are no such key.
    fn read_key(bytes: &[u8]) -> Option<Self>;
}

/// A key of constant length, which may stand before another one in a pair.
pub trait FixedKey: KeyCodec {
    /// The length in bytes.
    const BYTES: usize;
}

macro_rules! integer_keys {
    ($($int:ty),*) => {$(
        impl KeyCodec for $int {
            fn write_key(&self, to: &mut Vec<u8>) {
                to.extend(self.to_be_bytes());
            }
            fn read_key(bytes: &[u8]) -> Option<Self> {
                Some(Self::from_be_bytes(bytes.try_into().ok()?))
            }
        }
        impl FixedKey for $int {
            const BYTES: usize = size_of::<$int>();
        }
    )*};
}
integer_keys!(u8, u16, u32, u64);

impl<const N: usize> KeyCodec for [u8; N] {
    fn write_key(&self, to: &mut Vec<u8>) {
        to.extend(self);
    }
    fn read_key(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok()
    }
}
impl<const N: usize> FixedKey for [u8; N] {
    const BYTES: usize = N;
}

impl KeyCodec for String {
    fn write_key(&self, to: &mut Vec<u8>) {
        to.extend(self.as_bytes());
    }
    fn read_key(bytes: &[u8]) -> Option<Self> {
        Some(std::str::from_utf8(bytes).ok()?.to_owned())
    }
}

impl KeyCodec for Vec<u8> {
    fn write_key(&self, to: &mut Vec<u8>) {
        to.extend(self);
    }
    fn read_key(bytes: &[u8]) -> Option<Self> {
        Some(bytes.to_vec())
    }
}

impl<A: FixedKey, B: KeyCodec> KeyCodec for (A, B) {
    fn write_key(&self, to: &mut Vec<u8>) {
        self.0.write_key(to);
        self.1.write_key(to);
    }
    fn read_key(bytes: &[u8]) -> Option<Self> {
        let (first, second) = bytes.split_at_checked(A::BYTES)?;
        Some((A::read_key(first)?, B::read_key(second)?))
    }
}
impl<A: FixedKey, B: FixedKey> FixedKey for (A, B) {
    const BYTES: usize = A::BYTES + B::BYTES;
}

/// The values of one type under one prefix. Stored keys are `prefix`, `/`, the key's bytes.
///
/// Changes go into a [`Batch`], so that several collections change in one commit.
pub struct Collection<K, V> {
    store: Arc<dyn Store>,
    prefix: Vec<u8>,
    schema: u16,
    types: PhantomData<fn(K) -> V>,
}

impl<K, V> Clone for Collection<K, V> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            prefix: self.prefix.clone(),
            schema: self.schema,
            types: PhantomData,
        }
    }
}

impl<K, V> std::fmt::Debug for Collection<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collection")
            .field("prefix", &printable(&self.prefix))
            .field("schema", &self.schema)
            .finish()
    }
}

/// A listed key with its value, or why its bytes are no value.
pub type Listed<K, V> = (K, Result<V, StoreError>);

impl<K: KeyCodec, V: Serialize + DeserializeOwned> Collection<K, V> {
    /// The collection under `prefix` (it should contain no `/`, so that no collection lies within another), whose
    /// values are written with the given schema version and read up to it.
    pub fn new(store: Arc<dyn Store>, prefix: &str, schema: u16) -> Self {
        let mut prefix = prefix.as_bytes().to_vec();
        prefix.push(b'/');
        Self { store, prefix, schema, types: PhantomData }
    }

    /// The stored form of a key.
    pub fn key(&self, key: &K) -> Vec<u8> {
        let mut bytes = self.prefix.clone();
        key.write_key(&mut bytes);
        bytes
    }

    /// The key in a stored key; `None` when it belongs to another collection or is malformed.
    pub fn parse_key(&self, stored: &[u8]) -> Option<K> {
        K::read_key(stored.strip_prefix(self.prefix.as_slice())?)
    }

    /// The stored form of a value.
    ///
    /// # Errors
    /// [`StoreError::Codec`] when it has none.
    pub fn encode(&self, key: &K, value: &V) -> Result<Vec<u8>, StoreError> {
        codec::encode(self.schema, value).map_err(|e| StoreError::codec(printable(&self.key(key)), e))
    }

    /// The value, or `None` when the key is not there.
    ///
    /// # Errors
    /// [`StoreError::Codec`] when the bytes are no such value; what the store says.
    pub async fn get(&self, key: &K) -> Result<Option<V>, StoreError> {
        Ok(self.get_with_bytes(key).await?.map(|(value, _)| value))
    }

    /// The value with its stored bytes, for a condition on exactly what was read ([`Expect::Is`]).
    ///
    /// # Errors
    /// As [`Collection::get`].
    pub async fn get_with_bytes(&self, key: &K) -> Result<Option<(V, Vec<u8>)>, StoreError> {
        let stored_key = self.key(key);
        match self.store.get(&stored_key).await? {
            Some(bytes) => Ok(Some((self.decode(&stored_key, &bytes)?, bytes))),
            None => Ok(None),
        }
    }

    /// Adds to the batch: set the key.
    ///
    /// # Errors
    /// [`StoreError::Codec`] when the value has no stored form.
    pub fn put_into(&self, batch: &mut Batch, key: &K, value: &V) -> Result<(), StoreError> {
        batch.put(self.key(key), self.encode(key, value)?);
        Ok(())
    }

    /// Adds to the batch: set the key, which must not be there.
    ///
    /// # Errors
    /// [`StoreError::Codec`] when the value has no stored form.
    pub fn insert_into(&self, batch: &mut Batch, key: &K, value: &V) -> Result<(), StoreError> {
        batch.expect(self.key(key), Expect::Absent);
        self.put_into(batch, key, value)
    }

    /// Adds to the batch: replace what was read as `old` bytes ([`Collection::get_with_bytes`]).
    ///
    /// # Errors
    /// [`StoreError::Codec`] when the value has no stored form.
    pub fn replace_into(
        &self,
        batch: &mut Batch,
        key: &K,
        old: Vec<u8>,
        value: &V,
    ) -> Result<(), StoreError> {
        batch.expect(self.key(key), Expect::Is(old));
        self.put_into(batch, key, value)
    }

    /// Adds to the batch: remove the key.
    pub fn delete_into(&self, batch: &mut Batch, key: &K) {
        batch.delete(self.key(key));
    }

    /// At most `limit` values in the order of their keys, beginning after `after`. One bad value fails the call; see
    /// [`Collection::list_each`].
    ///
    /// # Errors
    /// [`StoreError::Codec`] naming the first key whose bytes are no value; what the store says.
    pub async fn list(&self, after: Option<&K>, limit: usize) -> Result<Vec<(K, V)>, StoreError> {
        self.list_each(after, limit).await?.into_iter().map(|(key, value)| Ok((key, value?))).collect()
    }

    /// Like [`Collection::list`], with the error in place of each value that cannot be read.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] when a key under the prefix is no key of this type; what the store says.
    pub async fn list_each(&self, after: Option<&K>, limit: usize) -> Result<Vec<Listed<K, V>>, StoreError> {
        let after = after.map(|key| self.key(key));
        let pairs = self.store.scan(&self.prefix, after.as_deref(), limit).await?;
        pairs
            .into_iter()
            .map(|(stored_key, bytes)| {
                let key = self.parse_key(&stored_key).ok_or_else(|| StoreError::Damaged {
                    what: format!("the key {:?} is not of its collection's form", printable(&stored_key)),
                    way_out: "Another program wrote it; remove the key or restore a backup.".to_owned(),
                })?;
                Ok((key, self.decode(&stored_key, &bytes)))
            })
            .collect()
    }

    fn decode(&self, stored_key: &[u8], bytes: &[u8]) -> Result<V, StoreError> {
        codec::decode(self.schema, bytes).map_err(|e| StoreError::codec(printable(stored_key), e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CodecError, MemoryStore};
    use proptest::prelude::*;
    use serde::Deserialize;

    fn bytes<K: KeyCodec>(key: &K) -> Vec<u8> {
        let mut bytes = Vec::new();
        key.write_key(&mut bytes);
        bytes
    }

    fn sorts_and_returns<K: KeyCodec + Ord + std::fmt::Debug>(a: &K, b: &K) {
        assert_eq!(bytes(a).cmp(&bytes(b)), a.cmp(b), "{a:?} {b:?}");
        assert_eq!(K::read_key(&bytes(a)).as_ref(), Some(a));
    }

    proptest! {
        #[test]
        fn keys_sort_like_their_bytes(
            a: (u64, u32, u16, u8), b: (u64, u32, u16, u8), s in ".{0,6}", t in ".{0,6}", x: [u8; 5], y: [u8; 5],
        ) {
            sorts_and_returns(&a.0, &b.0);
            sorts_and_returns(&a.1, &b.1);
            sorts_and_returns(&a.2, &b.2);
            sorts_and_returns(&a.3, &b.3);
            sorts_and_returns(&x, &y);
            sorts_and_returns(&x.to_vec(), &y.to_vec());
            sorts_and_returns(&s, &t);
            sorts_and_returns(&((a.0, x), s.clone()), &((b.0, y), t.clone()));
            sorts_and_returns(&(a.3, s), &(b.3, t));
        }

        #[test]
        fn foreign_keys_are_no_keys(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            prop_assert_eq!(u64::read_key(&bytes).is_some(), bytes.len() == 8);
            prop_assert_eq!(<(u32, u16)>::read_key(&bytes).is_some(), bytes.len() == 6);
            prop_assert_eq!(<(u32, Vec<u8>)>::read_key(&bytes).is_some(), bytes.len() >= 4);
            prop_assert_eq!(String::read_key(&bytes).is_some(), std::str::from_utf8(&bytes).is_ok());
        }
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Sheep {
        name: String,
        legs: u8,
    }

    fn sheep(name: &str) -> Sheep {
        Sheep { name: name.to_owned(), legs: 4 }
    }

    #[tokio::test]
    async fn a_collection_holds_its_own_and_nothing_else() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let flock: Collection<u64, Sheep> = Collection::new(store.clone(), "sheep", 1);
        let other: Collection<u64, u32> = Collection::new(store.clone(), "sheep2", 1);
        let mut batch = Batch::new();
        for n in [256, 1, 255] {
            flock.insert_into(&mut batch, &n, &sheep(&n.to_string())).unwrap();
            other.put_into(&mut batch, &n, &7).unwrap();
        }
        store.commit(batch.clone()).await.unwrap();
        assert!(store.commit(batch).await.unwrap_err().is_conflict(), "inserting needs a free key");
        let numbers = |listed: Vec<(u64, Sheep)>| listed.into_iter().map(|(n, _)| n).collect::<Vec<_>>();
        assert_eq!(numbers(flock.list(None, 9).await.unwrap()), [1, 255, 256]);
        assert_eq!(numbers(flock.list(Some(&1), 1).await.unwrap()), [255]);
        assert_eq!(flock.get(&255).await.unwrap(), Some(sheep("255")));
        assert_eq!(flock.get(&2).await.unwrap(), None);

        let (mut dolly, old) = flock.get_with_bytes(&1).await.unwrap().unwrap();
        dolly.legs = 5;
        let mut batch = Batch::new();
        flock.replace_into(&mut batch, &1, old, &dolly).unwrap();
        flock.delete_into(&mut batch, &256);
        store.commit(batch.clone()).await.unwrap();
        assert!(store.commit(batch).await.unwrap_err().is_conflict(), "what was read has changed");
        assert_eq!(flock.list(None, 9).await.unwrap(), [(1, dolly), (255, sheep("255"))]);
        assert_eq!(flock.parse_key(&flock.key(&9)), Some(9));
        assert_eq!(flock.parse_key(&other.key(&9)), None);
    }

    #[tokio::test]
    async fn a_bad_value_is_named_and_the_others_are_read() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let flock: Collection<String, Sheep> = Collection::new(store.clone(), "sheep", 3);
        let newer: Collection<String, Sheep> = Collection::new(store.clone(), "sheep", 4);
        let mut batch = Batch::new();
        flock.put_into(&mut batch, &"a".to_owned(), &sheep("a")).unwrap();
        newer.put_into(&mut batch, &"b".to_owned(), &sheep("b")).unwrap();
        batch.put("sheep/c", "wool");
        store.commit(batch).await.unwrap();
        let listed = flock.list_each(None, 9).await.unwrap();
        assert_eq!(listed[0], ("a".to_owned(), Ok(sheep("a"))));
        let newer = CodecError::Newer { found: 4, supported: 3 };
        assert_eq!(listed[1].1, Err(StoreError::codec("sheep/b", newer.clone())));
        assert!(matches!(&listed[2].1, Err(StoreError::Codec { what, .. }) if what == "sheep/c"));
        assert_eq!(flock.list(None, 9).await, Err(StoreError::codec("sheep/b", newer)));
        assert_eq!(flock.list(None, 1).await.unwrap().len(), 1);

        let by_number: Collection<u64, Sheep> = Collection::new(store, "sheep", 3);
        assert!(matches!(by_number.list_each(None, 9).await, Err(StoreError::Damaged { .. })));
    }
}
