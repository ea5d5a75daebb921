//! The constants of one Poseidon instance, made from their definition (proofs.md §6.1, §6.3, §6.4, §6.6).

use super::grain::round_constants;
use super::matrix::Matrix;
use crate::field::Fr;

/// Full rounds; half of them before, half after the partial rounds.
pub(super) const FULL_ROUNDS: usize = 8;
pub(super) const HALF: usize = FULL_ROUNDS / 2;

/// Partial rounds of a width (proofs.md §6.1, "standard strength").
pub(super) const fn partial_rounds(width: usize) -> usize {
    match width {
        3 => 55,
        5 => 56,
        9 | 12 => 57,
        17 | 25 => 59,
        37 => 60,
        _ => panic!("no Poseidon instance of this width"),
    }
}

/// A matrix that changes all elements by the first and the first by all (proofs.md §6.6).
struct Sparse {
    c00: Fr,
    /// First column below `c00`.
    w: Vec<Fr>,
    /// First row right of `c00`.
    v: Vec<Fr>,
}

/// Some partial rounds evaluated together.
///
/// In a partial round only element 0 passes the S-box, and the others only gain multiples of it. So within a block of
/// rounds the others are left as they were, and element 0 after round `k` is one dot product of the S-box outputs
/// `x_0..=x_k` so far and the old elements 1..: the growth of the others enters through the coefficients of the x.
/// At the end of the block each other element is brought up to date by one dot product. That replaces a reduction per
/// element and round by one per element and block.
#[derive(Debug)]
pub(super) struct Block<const T: usize, C> {
    pub(super) rounds: Vec<BlockRound<T, C>>,
    /// For element `j + 1`: the coefficients of `x_0, x_1, ...`, flattened with one row per element.
    pub(super) update: Vec<C>,
}

/// One round of a [`Block`].
#[derive(Debug)]
pub(super) struct BlockRound<const T: usize, C> {
    /// Added after the S-box.
    pub(super) constant: C,
    /// Coefficients of `x_0..=x_k`.
    pub(super) of_x: Vec<C>,
    /// `[0]` is unused; coefficients of elements 1.. as they were before the block.
    pub(super) of_state: [C; T],
}

/// The constants for width `T` in the form of the optimised evaluation; `C` is how a constant is represented.
#[derive(Debug)]
pub(super) struct Instance<const T: usize, C = Fr> {
    /// Added before the first round.
    pub(super) initial: [C; T],
    /// Added after the S-boxes of full rounds 1 to 4.
    pub(super) first: [[C; T]; HALF],
    /// Added after the S-boxes of full rounds 5 to 7.
    pub(super) last: [[C; T]; HALF - 1],
    /// The MDS matrix by columns (it is symmetric).
    pub(super) mds: [[C; T]; T],
    /// The matrix of full round 4 by columns.
    pub(super) pre_sparse: [[C; T]; T],
    /// The partial rounds.
    pub(super) blocks: Vec<Block<T, C>>,
}

fn array<const T: usize>(row: &[Fr]) -> [Fr; T] {
    row.try_into().expect("rows have the instance's width")
}

fn square<const T: usize>(matrix: &Matrix) -> [[Fr; T]; T] {
    std::array::from_fn(|i| array(&matrix.0[i]))
}

impl<const T: usize> Instance<T> {
    /// How many partial rounds share a block. Longer blocks save reductions (`T - 1` per block) and cost products
    /// (`b (b - 1) / 2`).
    pub(super) const BLOCK: usize = match T {
        0..=3 => 3,
        4..=5 => 4,
        6..=9 => 5,
        10..=12 => 6,
        _ => 8,
    };

    pub(super) fn generate() -> Self {
        let partial = partial_rounds(T);
        let k = round_constants(T, FULL_ROUNDS, partial);
        let round = |i: usize| &k[i * T..(i + 1) * T];
        let mds = Matrix::cauchy(T);
        let inverse = mds.inverse().expect("a Cauchy matrix is invertible");

        let mut first = [[Fr::ZERO; T]; HALF];
        for (i, row) in first.iter_mut().take(HALF - 1).enumerate() {
            *row = array(&inverse.apply(round(i + 1)));
        }
        // Constants of partial rounds move backwards through the matrix until only element 0 keeps one.
        let mut scalars = vec![Fr::ZERO; partial];
        let mut acc = round(HALF + partial).to_vec();
        for rr in (HALF..HALF + partial).rev() {
            let mut x = inverse.apply(&acc);
            scalars[rr - HALF] = x[0];
            x[0] = Fr::ZERO;
            acc = round(rr).iter().zip(&x).map(|(a, b)| *a + *b).collect();
        }
        first[HALF - 1] = array(&inverse.apply(&acc));
        let last = std::array::from_fn(|i| array(&inverse.apply(round(HALF + partial + 1 + i))));

        let mut sparse = Vec::with_capacity(partial);
        let mut current = mds.clone();
        for _ in 0..partial {
            let c00 = current.0[0][0];
            let below: Vec<Fr> = current.0[1..].iter().map(|row| row[0]).collect();
            let v = current.0[0][1..].to_vec();
            let minor = current.minor();
            let w = minor.solve(&[below]).expect("the minors of these matrices are invertible").remove(0);
            sparse.push(Sparse { c00, w, v });
            current = mds.multiply(&minor.bordered());
        }
        sparse.reverse();

        let blocks = scalars
            .chunks(Self::BLOCK)
            .zip(sparse.chunks(Self::BLOCK))
            .map(|(scalars, sparse)| Self::block(scalars, sparse))
            .collect();
        Self {
            initial: array(round(0)),
            first,
            last,
            mds: square(&mds),
            pre_sparse: square(&current.transpose()),
            blocks,
        }
    }

    /// The same constants in another representation.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn map<D>(&self, f: impl Fn(Fr) -> D) -> Instance<T, D> {
        let row = |row: &[Fr; T]| std::array::from_fn(|i| f(row[i]));
        let all = |values: &[Fr]| values.iter().copied().map(&f).collect();
        let round = |r: &BlockRound<T, Fr>| BlockRound {
            constant: f(r.constant),
            of_x: all(&r.of_x),
            of_state: row(&r.of_state),
        };
        Instance {
            initial: row(&self.initial),
            first: self.first.each_ref().map(row),
            last: self.last.each_ref().map(row),
            mds: self.mds.each_ref().map(row),
            pre_sparse: self.pre_sparse.each_ref().map(row),
            blocks: self
                .blocks
                .iter()
                .map(|b| Block { rounds: b.rounds.iter().map(round).collect(), update: all(&b.update) })
                .collect(),
        }
    }

    fn block(scalars: &[Fr], sparse: &[Sparse]) -> Block<T, Fr> {
        let rounds = sparse
            .iter()
            .enumerate()
            .map(|(k, s)| {
                let mut of_x: Vec<Fr> = sparse[..k].iter().map(|earlier| Fr::dot(&s.w, &earlier.v)).collect();
                of_x.push(s.c00);
                let mut of_state = [Fr::ZERO; T];
                of_state[1..].copy_from_slice(&s.w);
                BlockRound { constant: scalars[k], of_x, of_state }
            })
            .collect();
        let update = (0..T - 1).flat_map(|j| sparse.iter().map(move |s| s.v[j])).collect();
        Block { rounds, update }
    }
}

/// The plain permutation by its definition (proofs.md §6.5), to test the optimised one against.
#[cfg(test)]
pub(super) fn plain_permutation(state: &mut Vec<Fr>) {
    let t = state.len();
    let partial = partial_rounds(t);
    let k = round_constants(t, FULL_ROUNDS, partial);
    let mds = Matrix::cauchy(t);
    for i in 0..FULL_ROUNDS + partial {
        state.iter_mut().zip(&k[i * t..]).for_each(|(e, c)| *e += *c);
        let boxes = if i < HALF || i >= HALF + partial { t } else { 1 };
        state[..boxes].iter_mut().for_each(|e| *e = e.pow(&[5]));
        *state = mds.apply(state);
    }
}
