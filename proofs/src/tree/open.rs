//! Inclusion proofs from the tree files of a sector (proofs.md §5.6).

use super::path::{MerkleProof, PathElement, PathShape, climb, element_of};
use super::rows::Rows;
use super::{PoseidonTree, Sha256Tree, root_of_base_roots};
use crate::Node;
use crate::field::Fr;
use crate::files::{FileError, InFile, TREE_C, TREE_D, TREE_R_LAST, base_tree_id, store_path};
use crate::params::SectorShape;
use std::path::{Path, PathBuf};

/// A tree file, or what belongs to it, is not what it must be.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// It cannot be read, or has the wrong length.
    #[error(transparent)]
    File(#[from] FileError),
    /// A node is not a field element.
    #[error("{}: node {node} is {got}, expected a field element", path.display())]
    NotCanonical {
        /// The file.
        path: PathBuf,
        /// Index of the node in the file.
        node: u64,
        /// Its bytes in hexadecimal.
        got: String,
    },
    /// Tree-R-last is not over this replica.
    #[error(
        "{} holds {got} over nodes {first} to {last} of {}, expected {expected}: one of the two is damaged or of \
         another sector", tree.display(), sealed.display()
    )]
    NotOver {
        /// The tree file.
        tree: PathBuf,
        /// The sealed sector file.
        sealed: PathBuf,
        /// First node of the sealed sector under the tree's node.
        first: u64,
        /// Last node under it.
        last: u64,
        /// What the sealed nodes hash to, in hexadecimal.
        expected: String,
        /// What the tree holds, in hexadecimal.
        got: String,
    },
}

impl TreeError {
    pub(crate) fn not_canonical(path: &Path, index: u64, node: &Node) -> Self {
        TreeError::NotCanonical { path: path.to_owned(), node: index, got: hex::encode(node) }
    }

    /// The file it is about.
    pub fn path(&self) -> &Path {
        match self {
            TreeError::File(e) => e.path(),
            TreeError::NotCanonical { path, .. } => path,
            TreeError::NotOver { tree, .. } => tree,
        }
    }
}

/// A base tree of which only the root is kept is hashed again to look for a fault if it has at most this many leaves.
const PROBED_LEAVES: u64 = 1 << 12;

/// Reads node `index` of a file as a field element.
fn element(file: &InFile, index: u64) -> Result<Fr, TreeError> {
    let node = file.node(index)?;
    Fr::from_bytes_le(&node).ok_or_else(|| TreeError::not_canonical(file.path(), index, &node))
}

/// Reads `count` nodes from `first` on.
fn nodes(file: &InFile, first: u64, count: usize) -> Result<Vec<Node>, FileError> {
    let mut nodes = vec![[0; 32]; count];
    file.read_at(nodes.as_flattened_mut(), 32 * first)?;
    Ok(nodes)
}

/// The levels from node `index` of row `row` to the root, all of those rows being in the file.
fn read_levels(
    file: &InFile,
    rows: &Rows,
    row: usize,
    mut index: u64,
    levels: &mut Vec<PathElement>,
) -> Result<(), FileError> {
    let arity = rows.arity();
    for row in row..rows.count() - 1 {
        let place = index % arity as u64;
        let group = nodes(file, rows.start(row) + index - place, arity)?;
        levels.push(element_of(&group, place as usize));
        index /= arity as u64;
    }
    Ok(())
}

/// Tree-D in its file.
#[derive(Debug)]
pub struct TreeD {
    file: InFile,
    rows: Rows,
    root: Node,
}

impl TreeD {
    /// Opens tree-D of a sector with `nodes` nodes in `cache`.
    ///
    /// # Errors
    /// If the file is missing or has another length.
    pub fn open(cache: &Path, nodes: u64) -> Result<Self, FileError> {
        let rows = Rows::full(&Sha256Tree, nodes);
        let file = InFile::open_exact(&store_path(cache, TREE_D), rows.file_len())?;
        let root = file.node(rows.kept() - 1)?;
        Ok(Self { file, rows, root })
    }

    /// The root in the file: CommD, if the file is good.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// The proof of data node `index`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn prove(&self, index: u64) -> Result<MerkleProof, FileError> {
        let mut levels = Vec::with_capacity(self.rows.count() - 1);
        read_levels(&self.file, &self.rows, 0, index, &mut levels)?;
        let shape = PathShape::tree_d(self.rows.leaves());
        Ok(MerkleProof::assemble(&shape, self.file.node(index)?, self.root, levels))
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }
}

/// Tree-C or tree-R-last in the files of its base trees.
#[derive(Debug)]
pub struct OctalTree {
    shape: SectorShape,
    rows: Rows,
    files: Vec<InFile>,
    base_roots: Vec<Fr>,
    root: Node,
    /// Of tree-R-last: the leaves.
    replica: Option<InFile>,
}

impl OctalTree {
    /// Opens tree-C in `cache`.
    ///
    /// # Errors
    /// If a file is missing, has another length, or a root is not a field element.
    pub fn open_tree_c(cache: &Path, shape: &SectorShape) -> Result<Self, TreeError> {
        Self::open(cache, TREE_C, shape, Rows::full(&PoseidonTree(8), shape.leaves_per_base_tree()), None)
    }

    /// Opens tree-R-last in `cache` over the replica in `sealed`. `discard` is the number of rows above the leaves that
    /// are not in the files.
    ///
    /// # Errors
    /// If a file is missing, has another length, or a root is not a field element.
    pub fn open_tree_r_last(
        cache: &Path,
        sealed: &Path,
        shape: &SectorShape,
        discard: usize,
    ) -> Result<Self, TreeError> {
        let rows = Rows::full(&PoseidonTree(8), shape.leaves_per_base_tree()).discarding(discard);
        let replica = InFile::open_exact(sealed, 32 * shape.nodes)?;
        Self::open(cache, TREE_R_LAST, shape, rows, Some(replica))
    }

    fn open(
        cache: &Path,
        stem: &str,
        shape: &SectorShape,
        rows: Rows,
        replica: Option<InFile>,
    ) -> Result<Self, TreeError> {
        let count = shape.base_trees();
        let mut files = Vec::with_capacity(count);
        let mut base_roots = Vec::with_capacity(count);
        for i in 0..count {
            let path = store_path(cache, &base_tree_id(stem, i, count));
            let file = InFile::open_exact(&path, rows.file_len())?;
            base_roots.push(element(&file, rows.kept() - 1)?);
            files.push(file);
        }
        let root = root_of_base_roots(shape, &base_roots).to_bytes_le();
        Ok(Self { shape: *shape, rows, files, base_roots, root, replica })
    }

    /// The root over the base roots in the files.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// The first base tree whose root in the file is not the hash of the row below it: its file, what the row hashes to
    /// and what the file holds. `None` if the roots do not tell which tree is wrong. Reads a few nodes of each file, or a
    /// small part of the replica where only the root is kept.
    ///
    /// # Errors
    /// If a file cannot be read; an error that names the base tree if it holds a node that is no field element or is not
    /// over the replica.
    pub(crate) fn wrong_base_root(&self) -> Result<Option<(&Path, Node, Node)>, TreeError> {
        let top = self.rows.count() - 1;
        for (base, (file, root)) in self.files.iter().zip(&self.base_roots).enumerate() {
            if self.rows.first_kept() < top {
                let first = self.rows.start(top - 1);
                let children = (first..first + self.rows.len(top - 1)).map(|i| element(file, i));
                let expected = crate::poseidon::merkle(&children.collect::<Result<Vec<_>, _>>()?);
                if expected != *root {
                    return Ok(Some((file.path(), expected.to_bytes_le(), root.to_bytes_le())));
                }
            } else if let Some(replica) = &self.replica
                && self.rows.leaves() <= PROBED_LEAVES
            {
                self.climb_from_replica(replica, base, 0, &mut Vec::new())?;
            }
        }
        Ok(None)
    }

    /// The files of the base trees, in order.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(InFile::path)
    }

    /// The proof of leaf `index`.
    ///
    /// # Errors
    /// If a file cannot be read; of tree-R-last also if it is not over the replica.
    pub fn prove(&self, index: u64) -> Result<MerkleProof, TreeError> {
        let per_base = self.rows.leaves();
        let (base, within) = ((index / per_base) as usize, index % per_base);
        let mut levels = Vec::new();
        let leaf = match &self.replica {
            None => {
                read_levels(&self.files[base], &self.rows, 0, within, &mut levels)?;
                self.files[base].node(within)?
            }
            Some(replica) => self.climb_from_replica(replica, base, within, &mut levels)?,
        };
        let mut roots = self.base_roots.clone();
        let mut place = base;
        let upper = [self.shape.sub_arity, self.shape.top_arity];
        for arity in upper.into_iter().filter(|&arity| arity > 0) {
            let group: Vec<Node> =
                roots[place / arity * arity..][..arity].iter().map(|e| e.to_bytes_le()).collect();
            levels.push(element_of(&group, place % arity));
            place /= arity;
            roots = roots.chunks(arity).map(crate::poseidon::merkle).collect();
        }
        Ok(MerkleProof::assemble(&PathShape::octal(&self.shape), leaf, self.root, levels))
    }

    /// The levels within base tree `base`, of which the lower rows are made from the replica. Returns the leaf.
    fn climb_from_replica(
        &self,
        replica: &InFile,
        base: usize,
        within: u64,
        levels: &mut Vec<PathElement>,
    ) -> Result<Node, TreeError> {
        let kept = self.rows.first_kept();
        let block = self.rows.leaves() / self.rows.len(kept);
        let ancestor = within / block;
        let first = base as u64 * self.rows.leaves() + ancestor * block;
        let bytes = nodes(replica, first, block as usize)?;
        let mut leaves = Vec::with_capacity(bytes.len());
        for (i, node) in bytes.iter().enumerate() {
            let bad = || TreeError::not_canonical(replica.path(), first + i as u64, node);
            leaves.push(Fr::from_bytes_le(node).ok_or_else(bad)?);
        }
        let at = (within % block) as usize;
        let (lower, top) = climb(&PoseidonTree(8), leaves, at);
        let file = &self.files[base];
        let (stored, top) = (file.node(self.rows.start(kept) + ancestor)?, top.to_bytes_le());
        if stored != top {
            return Err(TreeError::NotOver {
                tree: file.path().to_owned(),
                sealed: replica.path().to_owned(),
                first,
                last: first + block - 1,
                expected: hex::encode(top),
                got: hex::encode(stored),
            });
        }
        levels.extend(lower);
        read_levels(file, &self.rows, kept, ancestor, levels)?;
        Ok(bytes[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Control;
    use crate::files::StagedFile;
    use crate::tree::build::build;
    use crate::tree::path::PathFault;
    use primitives::SectorSize;
    use std::fs;

    fn octal(cache: &Path, stem: &str, shape: &SectorShape, discard: Option<usize>, leaves: &[Fr]) {
        let full = Rows::full(&PoseidonTree(8), shape.leaves_per_base_tree());
        let rows = discard.map_or(full, |d| full.discarding(d));
        let n = shape.leaves_per_base_tree() as usize;
        for i in 0..shape.base_trees() {
            let path = store_path(cache, &base_tree_id(stem, i, shape.base_trees()));
            let staged = StagedFile::create(&path).unwrap();
            let built =
                build(&PoseidonTree(8), &rows, Some(&staged), &Control::none(), |start, chunk: &mut [Fr]| {
                    chunk.copy_from_slice(&leaves[i * n + start as usize..][..chunk.len()]);
                    Ok::<_, crate::Error>(())
                });
            staged.publish(built.unwrap().len).unwrap();
        }
    }

    #[test]
    fn full_and_partial_trees_give_equal_valid_proofs() {
        for size in [SectorSize::KiB2, SectorSize::KiB4, SectorSize::KiB16, SectorSize::KiB32] {
            let shape = SectorShape::of(size);
            let dir = tempfile::tempdir().unwrap();
            let (cache, sealed) = (dir.path(), dir.path().join("sealed"));
            let leaves: Vec<Fr> = (0..shape.nodes).map(|i| Fr::from_u64(i * i + 5)).collect();
            let bytes: Vec<Node> = leaves.iter().map(|e| e.to_bytes_le()).collect();
            fs::write(&sealed, bytes.concat()).unwrap();
            octal(cache, TREE_C, &shape, None, &leaves);
            let full = OctalTree::open_tree_c(cache, &shape).unwrap();
            for discard in 0..shape.rows() - 1 {
                octal(cache, TREE_R_LAST, &shape, Some(discard), &leaves);
                let partial = OctalTree::open_tree_r_last(cache, &sealed, &shape, discard).unwrap();
                for index in 0..shape.nodes {
                    let proof = full.prove(index).unwrap();
                    assert_eq!(partial.prove(index).unwrap(), proof, "{size}, leaf {index}");
                    assert_eq!(proof.leaf(), &bytes[index as usize]);
                    assert_eq!(proof.root(), full.root());
                    proof.check(&PathShape::octal(&shape), index).unwrap();
                    let other = (index + 1) % shape.nodes;
                    let fault = proof.check(&PathShape::octal(&shape), other).unwrap_err();
                    assert!(matches!(fault, PathFault::Position { .. }), "{fault}");
                }
            }
            // A replica that is not the tree's.
            let mut foreign = bytes.clone();
            foreign[3][0] ^= 1;
            fs::write(&sealed, foreign.concat()).unwrap();
            let discard = shape.rows_to_discard();
            octal(cache, TREE_R_LAST, &shape, Some(discard), &leaves);
            let partial = OctalTree::open_tree_r_last(cache, &sealed, &shape, discard).unwrap();
            assert!(matches!(partial.prove(0), Err(TreeError::NotOver { first: 0, .. })));
            foreign[3] = [0xff; 32];
            fs::write(&sealed, foreign.concat()).unwrap();
            assert!(matches!(partial.prove(0), Err(TreeError::NotCanonical { node: 3, .. })));
        }
    }

    #[test]
    fn tree_d_proofs_hold() {
        let dir = tempfile::tempdir().unwrap();
        let leaves: Vec<Node> = (0..64u8).map(|i| [i; 32]).collect();
        let rows = Rows::full(&Sha256Tree, 64);
        let staged = StagedFile::create(&store_path(dir.path(), TREE_D)).unwrap();
        let built =
            build(&Sha256Tree, &rows, Some(&staged), &Control::none(), |start, chunk: &mut [Node]| {
                chunk.copy_from_slice(&leaves[start as usize..][..chunk.len()]);
                Ok::<_, crate::Error>(())
            })
            .unwrap();
        staged.publish(built.len).unwrap();
        let tree = TreeD::open(dir.path(), 64).unwrap();
        assert_eq!(tree.root(), &built.root);
        for index in 0..64 {
            let proof = tree.prove(index).unwrap();
            proof.check(&PathShape::tree_d(64), index).unwrap();
            assert_eq!(proof.leaf(), &leaves[index as usize]);
        }
        assert!(matches!(
            TreeD::open(dir.path(), 128),
            Err(FileError::Length { expected: 8160, got: 4064, .. })
        ));
    }
}
