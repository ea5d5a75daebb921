use super::*;
use instance::plain_permutation;
use proptest::prelude::*;

fn numbers(n: u64) -> Vec<Fr> {
    (0..n).map(Fr::from_u64).collect()
}

fn hex_of(x: Fr) -> String {
    hex::encode(x.to_bytes_le())
}

fn plain(inputs: &[Fr]) -> Fr {
    let mut state = vec![Domain::Merkle.tag(inputs.len())];
    state.extend_from_slice(inputs);
    plain_permutation(&mut state);
    state[1]
}

/// proofs.md §6.8.
#[test]
fn published_vectors() {
    let (zero, one) = (Fr::ZERO, Fr::ONE);
    let h10 = merkle(&[one, zero]);
    assert_eq!(
        h10.to_limbs(),
        [0xb339ff6079800b5e, 0xec5907b3dc3094af, 0x93c003cc74a24f26, 0x042f94ffbe786bc3]
    );
    assert_eq!(
        merkle(&[h10, merkle(&[zero, one])]).to_limbs(),
        [0xefbb8be3e291e671, 0x77cc72b8cb2b5ad2, 0x30eb6385ae6b74ae, 0x1effebb7b26ad9eb]
    );
    assert_eq!(
        hex_of(merkle(&[zero, zero])),
        "d413460e7f14e58b413d1defe188d36fb761afe5c6a733db6c6f1931130bfe48"
    );
    assert_eq!(
        hex_of(merkle(&[zero, one])),
        "ffe7029a363c202e9da6059d33a9fba661e1ef02d90f9e736ba5765ed7086539"
    );
    assert_eq!(
        hex_of(merkle(&numbers(4))),
        "5d076266ff149801ec2713bf05466bfb99932279653cdb008a84e5a9104ba558"
    );
    assert_eq!(
        hex_of(merkle(&numbers(8))),
        "e6a5386df534992ad9aec49c9d2e684b777067114200011255dea5a31d619423"
    );
    assert_eq!(
        hex_of(merkle(&[zero; 8])),
        "3a9bffca31b48234d189b30de60b7c33f529c08b0836a004f98938b614e6793f"
    );
    assert_eq!(
        hex_of(merkle(&numbers(11))),
        "6331692bc3bbe3cec18fb0ccd8dcf3097ae8eb32e237a56c287f22e5b2c10f0c"
    );
    assert_eq!(
        hex_of(hash(Domain::Custom(1), &[zero, one])),
        "587707bcc44ea7e5c7677339ea0b58e325fea03481c51fad4e92f0e7c4354a31"
    );
}

/// The md hash of proofs.md §6.7, which exercises arity 36, against the vector of §6.8.
#[test]
fn md_hash_of_71_ones() {
    let ones = [Fr::ONE; 71];
    let mut digest = ones[0];
    for block in ones[1..].chunks(35) {
        let mut inputs = [Fr::ZERO; 36];
        inputs[0] = digest;
        inputs[1..=block.len()].copy_from_slice(block);
        digest = merkle(&inputs);
    }
    assert_eq!(
        digest.to_limbs(),
        [0x351c54133b332c90, 0xc26f6d625f4e8195, 0x5fd9623643ed9622, 0x59f42220e09ff6f7]
    );
}

#[test]
fn every_arity_agrees_with_the_plain_permutation() {
    for arity in ARITIES {
        // Elements near the modulus as well as small ones.
        let inputs: Vec<Fr> = (0..arity as u64).map(|i| Fr::from_u64(i * i) - Fr::from_u64(40)).collect();
        assert_eq!(merkle(&inputs), plain(&inputs), "arity {arity}");
    }
}

#[test]
#[should_panic(expected = "no Poseidon instance of arity 3")]
fn other_arities_do_not_exist() {
    merkle(&[Fr::ONE; 3]);
}

#[test]
fn nodes_that_are_no_elements_are_refused() {
    let mut nodes = [[0u8; 32]; 16];
    let mut out = [[0u8; 32]; 2];
    merkle_many_nodes(8, &nodes, &mut out).unwrap();
    assert_eq!(hex::encode(out[1]), "3a9bffca31b48234d189b30de60b7c33f529c08b0836a004f98938b614e6793f");
    nodes[13] = [0xff; 32];
    assert_eq!(merkle_many_nodes(8, &nodes, &mut out), Err(NotCanonical { index: 13 }));
    assert_eq!(merkle_pair(&nodes[13], &nodes[0]), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Every number of hashes in a batch, whatever is done in lanes and whatever is left over.
    #[test]
    fn batches_agree_with_single_hashes(
        arity in proptest::sample::select(&ARITIES[..4]),
        seeds in proptest::collection::vec(any::<[u64; 4]>(), 1..40),
    ) {
        let inputs: Vec<Fr> = seeds
            .iter()
            .flat_map(|s| (0..arity).map(|i| Fr::from_u64(s[i % 4]) * -Fr::from_u64(s[(i + 1) % 4] | 1)))
            .collect();
        let mut out = vec![Fr::ZERO; seeds.len()];
        merkle_many(arity, &inputs, &mut out);
        for (group, hash) in inputs.chunks(arity).zip(&out) {
            prop_assert_eq!(merkle(group), *hash);
        }
        prop_assert_eq!(plain(&inputs[..arity]), out[0]);
        let nodes: Vec<_> = inputs.iter().map(|x| x.to_bytes_le()).collect();
        let mut hashed = vec![[0u8; 32]; seeds.len()];
        merkle_many_nodes(arity, &nodes, &mut hashed).unwrap();
        prop_assert!(hashed.iter().zip(&out).all(|(n, x)| *n == x.to_bytes_le()));
    }
}
