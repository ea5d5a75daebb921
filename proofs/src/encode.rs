//! Encoding of data into a replica and back (proofs.md §5.2): the key is the last layer's label of the same node.

use crate::Node;
use crate::field::Fr;
use rayon::prelude::*;

/// Nodes that one task handles.
const GRAIN: usize = 1024;

/// Which input is no field element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotCanonical {
    /// Index of the node within the slice.
    pub index: usize,
    /// Whether it is the key, not the data or replica.
    pub in_key: bool,
}

/// `nodes[i] += keys[i]`: data becomes replica. On all threads of the pool.
///
/// # Errors
/// The first node or key that is not a field element; `nodes` is then unusable.
///
/// # Panics
/// If the slices differ in length.
pub fn encode(nodes: &mut [Node], keys: &[Node]) -> Result<(), NotCanonical> {
    combine(nodes, keys, |node, key| node + key)
}

/// `nodes[i] -= keys[i]`: replica becomes data. As [`encode`].
///
/// # Errors
/// As [`encode`].
pub fn decode(nodes: &mut [Node], keys: &[Node]) -> Result<(), NotCanonical> {
    combine(nodes, keys, |node, key| node - key)
}

fn combine(nodes: &mut [Node], keys: &[Node], of: impl Fn(Fr, Fr) -> Fr + Sync) -> Result<(), NotCanonical> {
    assert_eq!(nodes.len(), keys.len(), "one key for each node");
    let faults = nodes.par_chunks_mut(GRAIN).zip(keys.par_chunks(GRAIN)).enumerate().filter_map(
        |(chunk, (nodes, keys))| {
            for (i, (node, key)) in nodes.iter_mut().zip(keys).enumerate() {
                let at = |in_key| Some(NotCanonical { index: chunk * GRAIN + i, in_key });
                let Some(value) = Fr::from_bytes_le(node) else { return at(false) };
                let Some(key) = Fr::from_bytes_le(key) else { return at(true) };
                *node = of(value, key).to_bytes_le();
            }
            None
        },
    );
    faults.min_by_key(|fault| fault.index).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_undoes_encoding_and_wraps_at_the_modulus() {
        let minus_one = (Fr::ZERO - Fr::ONE).to_bytes_le();
        let data: Vec<Node> = (0..3000u64).map(|i| Fr::from_u64(i).to_bytes_le()).collect();
        let keys = vec![minus_one; data.len()];
        let mut nodes = data.clone();
        encode(&mut nodes, &keys).unwrap();
        assert_eq!(nodes[0], minus_one);
        assert_eq!(nodes[1..], data[..2999]);
        decode(&mut nodes, &keys).unwrap();
        assert_eq!(nodes, data);
    }

    #[test]
    fn the_first_bad_input_is_named() {
        let mut nodes = vec![[0; 32]; 3000];
        let mut keys = nodes.clone();
        nodes[2999] = [0xff; 32];
        keys[2000] = [0xff; 32];
        assert_eq!(encode(&mut nodes, &keys), Err(NotCanonical { index: 2000, in_key: true }));
        keys[2000] = [0; 32];
        assert_eq!(decode(&mut nodes, &keys), Err(NotCanonical { index: 2999, in_key: false }));
    }
}
