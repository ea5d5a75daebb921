//! The reference implementation behind functions of plain bytes.

mod parts;
mod seal;

pub use parts::{
    challenges, comm_d, comm_p, first_round_constant, fr32, parents, poseidon, poseidon_custom,
    post_leaf_challenges, post_winning_sector, replica_id,
};
pub use seal::{accepts, clear_parents_cache, config, seal, with_layers};
