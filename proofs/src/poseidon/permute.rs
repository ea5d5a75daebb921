//! The optimised permutation (proofs.md §6.6), one hash at a time, portable.

use super::instance::{Block, Instance};
use crate::field::{Fr, Wide};

/// `sum of x[i] * column[i]`.
#[inline(always)]
fn dot<const T: usize>(x: &[Fr; T], column: &[Fr; T]) -> Fr {
    if T < Wide::MAX_TERMS {
        let mut sum = Wide::ZERO;
        for (x, m) in x.iter().zip(column) {
            sum.mul_add(x, m);
        }
        sum.reduce()
    } else {
        Fr::dot(x, column)
    }
}

#[inline(always)]
fn full_round<const T: usize>(state: &mut [Fr; T], constants: &[Fr; T], columns: &[[Fr; T]; T]) {
    let mut boxed = *state;
    for (x, c) in boxed.iter_mut().zip(constants) {
        *x = x.pow5() + *c;
    }
    for (e, column) in state.iter_mut().zip(columns) {
        *e = dot(&boxed, column);
    }
}

#[inline(always)]
fn partial_rounds<const T: usize>(state: &mut [Fr; T], block: &Block<T, Fr>) {
    let mut xs = [Fr::ZERO; 8];
    for (k, round) in block.rounds.iter().enumerate() {
        xs[k] = state[0].pow5() + round.constant;
        if T + 8 < Wide::MAX_TERMS {
            let mut sum = Wide::ZERO;
            for (x, c) in xs.iter().zip(&round.of_x) {
                sum.mul_add(x, c);
            }
            for (e, c) in state[1..].iter().zip(&round.of_state[1..]) {
                sum.mul_add(e, c);
            }
            state[0] = sum.reduce();
        } else {
            state[0] = Fr::dot(&xs[..=k], &round.of_x) + Fr::dot(&state[1..], &round.of_state[1..]);
        }
    }
    let length = block.rounds.len();
    for (e, row) in state[1..].iter_mut().zip(block.update.chunks_exact(length)) {
        let mut sum = Wide::of(*e);
        for (x, v) in xs.iter().zip(row) {
            sum.mul_add(x, v);
        }
        *e = sum.reduce();
    }
}

/// Element 1 of the permuted state.
#[inline(always)]
pub(super) fn hash_state<const T: usize>(instance: &Instance<T>, state: &mut [Fr; T]) -> Fr {
    for (e, c) in state.iter_mut().zip(&instance.initial) {
        *e += *c;
    }
    let [first @ .., fourth] = &instance.first;
    for constants in first {
        full_round(state, constants, &instance.mds);
    }
    full_round(state, fourth, &instance.pre_sparse);
    for block in &instance.blocks {
        partial_rounds(state, block);
    }
    for constants in &instance.last {
        full_round(state, constants, &instance.mds);
    }
    for e in state.iter_mut() {
        *e = e.pow5();
    }
    dot(state, &instance.mds[1])
}
