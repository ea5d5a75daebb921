//! Values that the specification computed itself (marked `[S]` there), confirmed against the reference.

use crate::case::porep_id;
use crate::oracle;
use crate::shared::Version;
use anyhow::Result;

/// One confirmed or refuted value.
pub struct Check {
    /// What it is.
    pub name: String,
    /// What the specification says.
    pub spec: String,
    /// What the reference says.
    pub oracle: String,
}

impl Check {
    /// Whether both say the same.
    pub fn passes(&self) -> bool {
        self.spec == self.oracle
    }
}

fn element(n: u64) -> [u8; 32] {
    let mut out = [0; 32];
    out[..8].copy_from_slice(&n.to_le_bytes());
    out
}

fn range(n: u64) -> Vec<[u8; 32]> {
    (0..n).map(element).collect()
}

/// H2 of §6.8 in its notation: four LE words, least significant first.
fn words(bytes: [u8; 32]) -> String {
    bytes
        .chunks(8)
        .map(|w| format!("{:016x}", u64::from_le_bytes(w.try_into().expect("8 bytes"))))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Every value, checked.
pub fn checks() -> Result<Vec<Check>> {
    let mut out = Vec::new();
    let mut check = |name: &str, spec: &str, oracle: String| {
        out.push(Check { name: name.to_owned(), spec: spec.to_owned(), oracle });
    };
    poseidon(&mut check)?;
    graph(&mut check)?;
    post(&mut check)?;
    Ok(out)
}

type Sink<'a> = dyn FnMut(&str, &str, String) + 'a;

fn poseidon(check: &mut Sink<'_>) -> Result<()> {
    for (arity, spec) in [
        (2, "d8d36e9d000a32a7368b75a292ac1e50244abb1d8651bd237ae13afa4b069f66"),
        (8, "f9c2f4f25441984394d48ce4e74a2bc54ad86d77dbad3c8ce05f04c4120de96c"),
        (11, "e4bc89d06b09dee67db73a0f8ef106d5e00289f3c5bf997304b548e676956c1f"),
    ] {
        check(&format!("6.3 k[0], arity {arity}"), spec, hex::encode(oracle::first_round_constant(arity)?));
    }
    let (zero, one) = (element(0), element(1));
    let h10 = oracle::poseidon(&[one, zero])?;
    let h01 = oracle::poseidon(&[zero, one])?;
    check("6.8 H2(1,0)", "b339ff6079800b5e ec5907b3dc3094af 93c003cc74a24f26 042f94ffbe786bc3", words(h10));
    check(
        "6.8 H2(H2(1,0),H2(0,1))",
        "efbb8be3e291e671 77cc72b8cb2b5ad2 30eb6385ae6b74ae 1effebb7b26ad9eb",
        words(oracle::poseidon(&[h10, h01])?),
    );
    let mut hash = |name: &str, spec: &str, digest: [u8; 32]| check(name, spec, hex::encode(digest));
    hash(
        "6.8 H2(0,0)",
        "d413460e7f14e58b413d1defe188d36fb761afe5c6a733db6c6f1931130bfe48",
        oracle::poseidon(&[zero, zero])?,
    );
    hash("6.8 H2(0,1)", "ffe7029a363c202e9da6059d33a9fba661e1ef02d90f9e736ba5765ed7086539", h01);
    hash(
        "6.8 H4(0..3)",
        "5d076266ff149801ec2713bf05466bfb99932279653cdb008a84e5a9104ba558",
        oracle::poseidon(&range(4))?,
    );
    hash(
        "6.8 H8(0..7)",
        "e6a5386df534992ad9aec49c9d2e684b777067114200011255dea5a31d619423",
        oracle::poseidon(&range(8))?,
    );
    hash(
        "6.8 H8(0 x 8)",
        "3a9bffca31b48234d189b30de60b7c33f529c08b0836a004f98938b614e6793f",
        oracle::poseidon(&[zero; 8])?,
    );
    hash(
        "6.8 H11(0..10)",
        "6331692bc3bbe3cec18fb0ccd8dcf3097ae8eb32e237a56c287f22e5b2c10f0c",
        oracle::poseidon(&range(11))?,
    );
    hash(
        "6.8 H2 with tag 2^40, (0,1)",
        "587707bcc44ea7e5c7677339ea0b58e325fea03481c51fad4e92f0e7c4354a31",
        oracle::poseidon_custom(&[zero, one])?,
    );
    Ok(())
}

fn graph(check: &mut Sink<'_>) -> Result<()> {
    // (sector's log2 nodes, proof number, version, node, parents) of §14.1
    let rows: [(u32, u64, Version, u32, &str); 8] = [
        (6, 0, Version::V1, 2, "0 1 1 1 1 1 32 49 26 57 3 4 47 63"),
        (6, 0, Version::V1, 63, "62 61 56 62 37 62 49 37 35 41 52 50 54 5"),
        (6, 5, Version::V1_1, 2, "1 1 1 0 1 0 30 28 55 63 63 36 37 36"),
        (6, 5, Version::V1_1, 63, "62 15 42 62 61 62 0 15 30 30 28 42 49 38"),
        (
            30,
            3,
            Version::V1,
            1000,
            "992 999 685 999 851 999 56765109 142792959 55421737 123123914 7049045 479267348 532767812 301615063",
        ),
        (
            30,
            8,
            Version::V1_1,
            1000,
            "999 999 993 999 987 994 610880257 52958456 114467229 442886740 935021104 986163808 486080124 611062435",
        ),
        (
            30,
            8,
            Version::V1_1,
            (1 << 30) - 1,
            "1073741822 1073258530 440642413 663190843 1073741654 1073741786 307718517 715446084 558280128 265147410 110937796 626719228 201839602 653041812",
        ),
        (
            31,
            9,
            Version::V1_1,
            (1 << 31) - 1,
            "2147483646 2147483645 2147473607 2147483646 2147483609 1322413322 319537050 259923117 180788485 1838730986 786079656 319786570 1561782586 1183784015",
        ),
    ];
    for (log, proof, version, node, spec) in rows {
        let found = oracle::parents(1 << log, porep_id(proof), version, &[node])?[0];
        let text = found.map(|p| p.to_string()).join(" ");
        check(&format!("14.1 parents of node {node}, 2^{log} nodes, proof {proof}"), spec, text);
    }
    Ok(())
}

fn post(check: &mut Sink<'_>) -> Result<()> {
    let join = |list: Vec<u64>| list.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
    let leaves = |size, range| oracle::post_leaf_challenges(size, [3; 32], 1, range).map(join);
    check("14.6 leaves, N = 64, idx 0..9", "15 30 60 40 31 45 14 18 34 2", leaves(2 << 10, 0..10)?);
    check("14.6 leaves, N = 64, idx 10..19", "39 22 58 50 31 7 22 63 43 22", leaves(2 << 10, 10..20)?);
    check(
        "14.6 leaves, N = 2^30, idx 0..3",
        "1009488335 1019538142 665567932 939642216",
        leaves(32 << 30, 0..4)?,
    );
    let mut prover = [0; 32];
    prover[..2].copy_from_slice(&[0xe8, 0x07]);
    let winning =
        (0..3).map(|n| oracle::post_winning_sector([3; 32], n, 1000, prover)).collect::<Result<Vec<_>>>()?;
    check("14.6 winning index, n = 0..2, set size 1000", "537 847 742", join(winning));
    Ok(())
}
