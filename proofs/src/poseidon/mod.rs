//! Poseidon over the BLS12-381 scalar field (proofs.md §6): trees, column hashes, commitments.
//!
//! Constants are generated from their definition at first use of an arity. The evaluation follows proofs.md §6.6, with
//! one Montgomery reduction per dot product and the partial rounds in blocks.

mod grain;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod ifma;
mod instance;
mod matrix;
mod permute;

use crate::Node;
use crate::field::Fr;
use instance::Instance;
use std::sync::OnceLock;

/// The domain tag: element 0 of the state (proofs.md §6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Domain {
    /// Trees, columns and comm_r: `2^arity - 1`.
    Merkle,
    /// Separated by a number: `id * 2^40`.
    Custom(u64),
}

impl Domain {
    /// The tag as a field element, for an arity of at most 63.
    pub fn tag(self, arity: usize) -> Fr {
        match self {
            Domain::Merkle => Fr::from_u64((1 << arity) - 1),
            Domain::Custom(id) => Fr::from_u64(id) * Fr::from_u64(1 << 40),
        }
    }
}

/// The arities an instance exists for (proofs.md §6.1).
pub const ARITIES: [usize; 7] = [2, 4, 8, 11, 16, 24, 36];

macro_rules! instances {
    ($($arity:literal $width:literal $get:ident $lanes:ident;)*) => {
        $(fn $get() -> &'static Instance<$width> {
            static INSTANCE: OnceLock<Instance<$width>> = OnceLock::new();
            INSTANCE.get_or_init(Instance::generate)
        })*

        /// The Poseidon hash of `inputs` with a domain tag; the arity is the number of inputs, one of [`ARITIES`].
        ///
        /// # Panics
        /// If there is no instance of that arity.
        pub fn hash(domain: Domain, inputs: &[Fr]) -> Fr {
            match inputs.len() {
                $($arity => {
                    let mut state = [Fr::ZERO; $width];
                    state[0] = domain.tag($arity);
                    state[1..].copy_from_slice(inputs);
                    permute::hash_state($get(), &mut state)
                })*
                arity => panic!("no Poseidon instance of arity {arity}"),
            }
        }

        fn hash_groups(arity: usize, inputs: &[Fr], out: &mut [Fr]) {
            match arity {
                $($arity => $lanes::<$width>($get(), inputs, out, {
                    #[cfg(target_arch = "x86_64")]
                    {
                        static LANES: OnceLock<ifma::LaneInstance<$width>> = OnceLock::new();
                        &LANES
                    }
                    #[cfg(not(target_arch = "x86_64"))]
                    &()
                }),)*
                arity => panic!("no Poseidon instance of arity {arity}"),
            }
        }
    };
}

instances! {
    2 3 width_3 in_lanes;
    4 5 width_5 in_lanes;
    8 9 width_9 in_lanes;
    11 12 width_12 in_lanes;
    16 17 width_17 one_by_one;
    24 25 width_25 one_by_one;
    36 37 width_37 one_by_one;
}

#[cfg(target_arch = "x86_64")]
type LaneConstants<const T: usize> = OnceLock<ifma::LaneInstance<T>>;
#[cfg(not(target_arch = "x86_64"))]
type LaneConstants<const T: usize> = ();

/// Eight hashes at once where the processor can.
fn in_lanes<const T: usize>(instance: &Instance<T>, inputs: &[Fr], out: &mut [Fr], lanes: &LaneConstants<T>) {
    #[cfg(target_arch = "x86_64")]
    if out.len() > 1
        && let Some(token) = ifma::Token::detect()
    {
        let constants = lanes.get_or_init(|| ifma::LaneInstance::new(instance));
        for (inputs, out) in inputs.chunks(ifma::LANES * (T - 1)).zip(out.chunks_mut(ifma::LANES)) {
            token.hash(constants, inputs, out);
        }
        return;
    }
    one_by_one(instance, inputs, out, lanes);
}

fn one_by_one<const T: usize>(instance: &Instance<T>, inputs: &[Fr], out: &mut [Fr], _: &LaneConstants<T>) {
    let tag = Domain::Merkle.tag(T - 1);
    for (group, out) in inputs.chunks_exact(T - 1).zip(out) {
        let mut state = [tag; T];
        state[1..].copy_from_slice(group);
        *out = permute::hash_state(instance, &mut state);
    }
}

/// Which implementation [`merkle_many`] uses on this processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// Eight hashes at once, AVX-512 IFMA.
    Avx512Ifma,
    /// One at a time, portable.
    Portable,
}

impl Backend {
    /// The best one of this processor.
    pub fn detect() -> Backend {
        #[cfg(target_arch = "x86_64")]
        if ifma::Token::detect().is_some() {
            return Backend::Avx512Ifma;
        }
        Backend::Portable
    }
}

/// The Merkle hash of 2, 4, 8, 11, 16, 24 or 36 children.
///
/// # Panics
/// If there is no instance of that arity.
pub fn merkle(inputs: &[Fr]) -> Fr {
    hash(Domain::Merkle, inputs)
}

/// Hashes each group of `arity` consecutive inputs: `out[i]` is the Merkle hash of `inputs[i * arity..][..arity]`. On the
/// calling thread; callers spread chunks over threads.
///
/// # Panics
/// If there is no instance of that arity, or `inputs` is not `arity` times as long as `out`.
pub fn merkle_many(arity: usize, inputs: &[Fr], out: &mut [Fr]) {
    assert_eq!(inputs.len(), arity * out.len(), "one hash for each group of {arity}");
    hash_groups(arity, inputs, out);
}

/// Bytes that should have been a field element are not below the modulus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("input {index} is not a field element: it is not below the modulus")]
pub struct NotCanonical {
    /// Index within the inputs.
    pub index: usize,
}

/// Like [`merkle_many`] over nodes as they are in files.
///
/// # Errors
/// [`NotCanonical`] for an input that is not a field element.
///
/// # Panics
/// As [`merkle_many`].
pub fn merkle_many_nodes(arity: usize, inputs: &[Node], out: &mut [Node]) -> Result<(), NotCanonical> {
    assert_eq!(inputs.len(), arity * out.len(), "one hash for each group of {arity}");
    const BATCH: usize = 64;
    let mut elements = vec![Fr::ZERO; arity * BATCH];
    let mut hashes = [Fr::ZERO; BATCH];
    for (batch, (inputs, out)) in inputs.chunks(arity * BATCH).zip(out.chunks_mut(BATCH)).enumerate() {
        for (i, (element, node)) in elements.iter_mut().zip(inputs).enumerate() {
            *element = Fr::from_bytes_le(node).ok_or(NotCanonical { index: batch * BATCH * arity + i })?;
        }
        hash_groups(arity, &elements[..inputs.len()], &mut hashes[..out.len()]);
        for (node, hash) in out.iter_mut().zip(&hashes) {
            *node = hash.to_bytes_le();
        }
    }
    Ok(())
}

/// `P_2(left, right)` over nodes, the hash of comm_r (proofs.md §5.4); `None` if one is not a field element.
pub fn merkle_pair(left: &Node, right: &Node) -> Option<Node> {
    Some(merkle(&[Fr::from_bytes_le(left)?, Fr::from_bytes_le(right)?]).to_bytes_le())
}

#[cfg(test)]
mod tests;
