//! x
use crate::{Machine, PlannerMap};
/// x
#[derive(Debug)]
pub struct Finding;
impl std::fmt::Display for Finding { fn fmt(&self, _f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { Ok(()) } }
impl<M: Machine> PlannerMap<M> {
    /// x
    pub fn verify(&self) -> Vec<Finding> { Vec::new() }
}
