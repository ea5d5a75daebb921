//! Prints how fast the primitives are on this machine: `cargo run --release -p proofs --example speed`.
//!
//! Figures are the best of several runs, so that other load disturbs them little.

use primitives::{RegisteredSealProof, ReplicaId, UnpaddedSize};
use proofs::control::Control;
use proofs::field::Fr;
use proofs::graph::{Graph, Parents};
use proofs::params::PoRepConfig;
use proofs::piece::{Fill, comm_p};
use proofs::{fr32, labels, poseidon, sha256};
use std::hint::black_box;
use std::time::Instant;

/// Best time in nanoseconds of one of `count` things that `work` does.
fn best(count: usize, mut work: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_secs_f64());
    }
    best * 1e9 / count as f64
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("SHA-256 by {:?}", sha256::Backend::detect());

    let mut x = Fr::from_u64(3);
    let y = Fr::from_u64(5).invert().unwrap_or(Fr::ONE);
    let ns = best(1_000_000, || {
        for _ in 0..1_000_000 {
            x *= y;
        }
        black_box(x);
    });
    println!("field multiplication, each waiting for the last   {ns:8.1} ns");

    for arity in [2, 8, 11] {
        let count = 1024;
        let inputs: Vec<Fr> = (0..arity * count).map(|i| Fr::from_u64(i as u64) * y).collect();
        let mut out = vec![Fr::ZERO; count];
        let start = Instant::now();
        poseidon::merkle(&inputs[..arity]);
        let constants = start.elapsed();
        let one = best(64, || {
            for group in inputs.chunks(arity).take(64) {
                black_box(poseidon::merkle(group));
            }
        });
        let many = best(count, || poseidon::merkle_many(arity, &inputs, &mut out));
        println!(
            "Poseidon arity {arity:2}: single {one:8.0} ns, in batches {many:8.0} ns (constants made in {constants:.1?})"
        );
    }

    let children = vec![[7u8; 32]; 1 << 14];
    let mut out = vec![[0u8; 32]; 1 << 13];
    let ns = best(1 << 13, || sha256::nodes(&children, &mut out));
    println!("tree-D node                                       {ns:8.1} ns");
    let blocks = vec![[7u8; 64]; 20_000];
    let ns = best(1000, || {
        let mut state = sha256::INITIAL;
        sha256::compress(&mut state, &blocks);
        black_box(state);
    });
    println!("20 bare compressions, one stream                  {ns:8.1} ns");

    let config = PoRepConfig::registered(RegisteredSealProof::new(6)?);
    let graph = Graph::of(&config);
    let nodes = config.nodes();
    let mut sum = 0u32;
    let ns = best(nodes as usize, || {
        for v in 0..nodes as u32 {
            sum = sum.wrapping_add(graph.parents(v)[13]);
        }
    });
    println!("parents of a node, 8 MiB                          {ns:8.1} ns");
    black_box(sum);
    let parents = Parents::generated(graph, &Control::none())?;
    let ns = best(2 * nodes as usize, || {
        black_box(labels::last_layer(&config, &parents, &ReplicaId([1; 32]), &Control::none()).is_ok());
    });
    println!("label, 8 MiB                                      {ns:8.1} ns");
    let large = Graph::of(&PoRepConfig::registered(RegisteredSealProof::new(8)?));
    let ns = best(1 << 16, || {
        for v in (1u32 << 28)..(1 << 28) + (1 << 16) {
            sum = sum.wrapping_add(large.parents(v)[13]);
        }
    });
    println!("parents of a node, 32 GiB                         {ns:8.1} ns");
    black_box(sum);

    let size = UnpaddedSize::new(127 << 20)?;
    let data: Vec<u8> = (0..size.bytes()).map(|i| ((i * i) >> 9) as u8).collect();
    let ns = best(1, || {
        black_box(comm_p(&data[..], size, Fill::Exact, &Control::none()).is_ok());
    });
    println!("CommP                                             {:8.0} MB/s", size.bytes() as f64 * 1e3 / ns);
    let mut padded = vec![0u8; 128 << 13];
    let ns = best(1, || fr32::pad_quads(&data[..127 << 13], &mut padded));
    println!("fr32 padding                                      {:8.0} MB/s", (127 << 13) as f64 * 1e3 / ns);
    Ok(())
}
