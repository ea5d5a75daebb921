//! x
use crate::Machine;
pub(crate) struct Inner<M: Machine>(std::marker::PhantomData<M>);
