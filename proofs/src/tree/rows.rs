//! Where the nodes of a tree are in its file (proofs.md §5.6).

use super::TreeHash;

/// The rows of a complete tree, numbered from the leaves (0) up, of which a file keeps the upper ones in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    arity: u64,
    count: usize,
    first_kept: usize,
}

impl Rows {
    /// A tree over `leaves` leaves, all rows kept.
    ///
    /// # Panics
    /// If `leaves` is not a power of the arity.
    pub fn full(hash: &impl TreeHash, leaves: u64) -> Self {
        Self::of(hash.arity() as u64, leaves)
    }

    fn of(arity: u64, leaves: u64) -> Self {
        let mut count = 1;
        let mut width = leaves;
        while width > 1 {
            assert!(width.is_multiple_of(arity), "{leaves} leaves are no power of {arity}");
            width /= arity;
            count += 1;
        }
        assert_eq!(width, 1, "a tree has leaves");
        Self { arity, count, first_kept: 0 }
    }

    /// The same tree without its leaves and `discard` rows above them (tree-R-last, proofs.md §2.4).
    pub fn discarding(self, discard: usize) -> Self {
        Self { first_kept: discard + 1, ..self }
    }

    /// The same tree with nothing kept: only the root is wanted.
    pub fn none_kept(self) -> Self {
        Self { first_kept: self.count, ..self }
    }

    /// Children of a node.
    pub fn arity(&self) -> usize {
        self.arity as usize
    }

    /// Number of rows, leaves and root included.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The lowest row that is in the file.
    pub fn first_kept(&self) -> usize {
        self.first_kept
    }

    /// Nodes in a row.
    pub fn len(&self, row: usize) -> u64 {
        self.arity.pow((self.count - 1 - row) as u32)
    }

    /// Number of leaves.
    pub fn leaves(&self) -> u64 {
        self.len(0)
    }

    /// Index in the file of a row's first node.
    ///
    /// # Panics
    /// If the row is not kept.
    pub fn start(&self, row: usize) -> u64 {
        assert!(row >= self.first_kept && row <= self.count, "row {row} is not in the file");
        (self.first_kept..row).map(|r| self.len(r)).sum()
    }

    /// Nodes in the file.
    pub fn kept(&self) -> u64 {
        if self.first_kept > self.count { 0 } else { self.start(self.count) }
    }

    /// Bytes of the file.
    pub fn file_len(&self) -> u64 {
        32 * self.kept()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::SectorShape;
    use crate::tree::{PoseidonTree, Sha256Tree};
    use primitives::SectorSize;

    #[test]
    fn files_have_the_lengths_of_the_shapes() {
        for &size in SectorSize::ALL {
            let shape = SectorShape::of(size);
            let tree_d = Rows::full(&Sha256Tree, shape.nodes);
            assert_eq!(tree_d.kept(), shape.tree_d_nodes(), "{size}");
            let base = Rows::full(&PoseidonTree(8), shape.leaves_per_base_tree());
            assert_eq!((base.kept(), base.count()), (shape.base_tree_nodes(), shape.rows()), "{size}");
            let kept = base.discarding(shape.rows_to_discard());
            assert_eq!(kept.kept(), shape.kept_tree_nodes(), "{size}");
            assert_eq!(base.none_kept().kept(), 0);
        }
    }

    #[test]
    fn rows_follow_each_other() {
        let rows = Rows::of(8, 512);
        assert_eq!((rows.start(0), rows.start(1), rows.start(2), rows.start(3)), (0, 512, 576, 584));
        let rows = rows.discarding(1);
        assert_eq!((rows.start(2), rows.start(3), rows.kept()), (0, 8, 9));
    }
}
