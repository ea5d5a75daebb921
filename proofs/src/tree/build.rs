//! A tree from a stream of leaves, in bounded memory.
//!
//! Leaves come in chunks that are complete sub-trees. Each chunk is hashed up to its root in memory and the rows are
//! written where they belong; the tree over the chunk roots is small and is hashed at the end. So a chunk and the roots
//! are all the memory, and nothing is read back but for the digest.

use super::TreeHash;
use super::rows::Rows;
use crate::control::{Cancelled, Control};
use crate::files::{FileError, StagedFile, digest_state, finish};
use rayon::prelude::*;

/// What a build gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Built<E> {
    /// The root.
    pub root: E,
    /// Bytes written.
    pub len: u64,
    /// BLAKE2b-256 of the file.
    pub digest: [u8; 32],
}

/// Builds the tree over the leaves that `fill(start, chunk)` supplies, in order, and writes the kept rows to `out`.
///
/// `fill` is called for one chunk after the other, from one thread; it is where the caller reads and reports progress.
/// The cancel flag of `control` is looked at before each chunk and during the digest of the rows above the leaves.
///
/// # Errors
/// Those of `fill` and of the file; if cancelled.
pub fn build<H: TreeHash, X: From<FileError> + From<Cancelled>>(
    hash: &H,
    rows: &Rows,
    out: Option<&StagedFile>,
    control: &Control<'_>,
    mut fill: impl FnMut(u64, &mut [H::Element]) -> Result<(), X>,
) -> Result<Built<H::Element>, X> {
    let mut writer = Writer { rows, out, digest: digest_state(), bytes: Vec::new() };
    // The largest sub-tree that is no larger than a chunk may be.
    let top = (0..rows.count())
        .rev()
        .find(|&row| rows.leaves() / rows.len(row) <= hash.chunk())
        .expect("a leaf is a sub-tree");
    let width = rows.leaves() / rows.len(top);
    let mut leaves = vec![H::Element::default(); width as usize];
    let mut roots = Vec::with_capacity(rows.len(top) as usize);
    for chunk in 0..rows.len(top) {
        control.check()?;
        fill(chunk * width, &mut leaves)?;
        writer.put::<H>(0, chunk * width, &leaves)?;
        let root = hash_up(hash, leaves.clone(), top, |row, nodes| {
            writer.put::<H>(row, chunk * nodes.len() as u64, nodes)
        })?;
        roots.push(root);
    }
    let root =
        hash_up(hash, roots, rows.count() - 1 - top, |row, nodes| writer.put::<H>(top + row, 0, nodes))?;
    let (len, digest) = writer.end::<X>(control)?;
    Ok(Built { root, len, digest })
}

/// Hashes `level` up by `rows` rows to one node and hands over each row made, numbered from 1.
fn hash_up<H: TreeHash>(
    hash: &H,
    mut level: Vec<H::Element>,
    rows: usize,
    mut made: impl FnMut(usize, &[H::Element]) -> Result<(), FileError>,
) -> Result<H::Element, FileError> {
    for row in 1..=rows {
        let mut next = vec![H::Element::default(); level.len() / hash.arity()];
        hash.hash_row(&level, &mut next);
        made(row, &next)?;
        level = next;
    }
    Ok(level[0])
}

/// Puts nodes into the file and takes the digest of the leaves on the way, if they are kept.
struct Writer<'a> {
    rows: &'a Rows,
    out: Option<&'a StagedFile>,
    digest: blake2b_simd::State,
    bytes: Vec<u8>,
}

impl Writer<'_> {
    /// Writes nodes of `row` from `index` on. Leaves must come in order.
    fn put<H: TreeHash>(&mut self, row: usize, index: u64, nodes: &[H::Element]) -> Result<(), FileError> {
        let Some(out) = self.out else { return Ok(()) };
        if row < self.rows.first_kept() {
            return Ok(());
        }
        self.bytes.resize(32 * nodes.len(), 0);
        let (slots, _) = self.bytes.as_chunks_mut::<32>();
        slots.par_iter_mut().zip(nodes).with_min_len(1024).for_each(|(slot, node)| *slot = H::to_node(node));
        out.write_at(&self.bytes, 32 * (self.rows.start(row) + index))?;
        if row == 0 {
            self.digest.update(&self.bytes);
        }
        Ok(())
    }

    /// The length of the file and its digest.
    fn end<X: From<FileError> + From<Cancelled>>(
        mut self,
        control: &Control<'_>,
    ) -> Result<(u64, [u8; 32]), X> {
        let len = self.rows.file_len();
        if let Some(out) = self.out {
            let hashed = if self.rows.first_kept() == 0 { 32 * self.rows.leaves() } else { 0 };
            out.hash_range(hashed, len, &mut self.digest, || Ok::<_, X>(control.check()?))?;
        }
        Ok((len, finish(&self.digest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::CancelFlag;
    use crate::field::Fr;
    use crate::files::InFile;
    use crate::tree::{PoseidonTree, Sha256Tree};
    use crate::{Node, poseidon, sha256};

    /// Builds into a file and returns its content and what the builder said.
    fn built<H: TreeHash>(hash: &H, rows: &Rows, leaves: &[H::Element]) -> (Vec<u8>, Built<H::Element>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tree");
        let staged = StagedFile::create(&path).unwrap();
        let mut next = 0;
        let built = build(hash, rows, Some(&staged), &Control::none(), |start, chunk: &mut [H::Element]| {
            assert_eq!(start, next, "chunks come in order");
            next += chunk.len() as u64;
            chunk.copy_from_slice(&leaves[start as usize..next as usize]);
            Ok::<_, crate::Error>(())
        })
        .unwrap();
        staged.publish(built.len).unwrap();
        assert_eq!(InFile::open(&path).unwrap().digest().unwrap(), built.digest);
        (std::fs::read(&path).unwrap(), built)
    }

    /// All rows by plain recursion on single nodes.
    fn slowly<E: Copy>(arity: usize, leaves: &[E], hash: impl Fn(&[E]) -> E) -> Vec<Vec<E>> {
        let mut rows = vec![leaves.to_vec()];
        while rows[rows.len() - 1].len() > 1 {
            rows.push(rows[rows.len() - 1].chunks(arity).map(&hash).collect());
        }
        rows
    }

    #[test]
    fn sha_trees_of_one_and_of_many_chunks_equal_the_slow_ones() {
        for log in [0, 1, 5, 15, 16, 17] {
            let leaves: Vec<Node> =
                (0..1u32 << log).map(|i| std::array::from_fn(|k| (i >> (8 * (k % 3))) as u8)).collect();
            let rows = Rows::full(&Sha256Tree, leaves.len() as u64);
            let expected = slowly(2, &leaves, |pair| sha256::node(&pair[0], &pair[1]));
            let (bytes, tree) = built(&Sha256Tree, &rows, &leaves);
            assert_eq!(bytes, expected.concat().concat(), "2^{log} leaves");
            assert_eq!(tree.root, expected[log][0]);
        }
    }

    #[test]
    fn octal_trees_keep_the_rows_asked_for() {
        let leaves: Vec<Fr> = (0..8u64.pow(4)).map(Fr::from_u64).collect();
        let expected = slowly(8, &leaves, poseidon::merkle);
        let rows = Rows::full(&PoseidonTree(8), leaves.len() as u64);
        for first in 0..=5 {
            let rows = if first == 0 { rows } else { rows.discarding(first - 1) };
            let (bytes, tree) = built(&PoseidonTree(8), &rows, &leaves);
            let kept: Vec<Node> = expected[first..].concat().iter().map(|e| e.to_bytes_le()).collect();
            assert_eq!(bytes, kept.concat(), "rows {first} up");
            assert_eq!(tree.root, expected[4][0]);
        }
    }

    #[test]
    fn a_cancel_after_the_last_chunk_ends_the_digest_pass() {
        let dir = tempfile::tempdir().unwrap();
        let rows = Rows::full(&PoseidonTree(8), 64);
        let flag = CancelFlag::new();
        let control = Control { cancel: &flag, ..Control::none() };
        let staged = StagedFile::create(&dir.path().join("tree")).unwrap();
        let ended = build(&PoseidonTree(8), &rows, Some(&staged), &control, |_, chunk: &mut [Fr]| {
            assert_eq!(chunk.len(), 64, "one chunk");
            flag.cancel();
            Ok::<_, crate::Error>(())
        });
        assert!(matches!(ended, Err(crate::Error::Cancelled(_))), "{ended:?}");
    }

    #[test]
    fn thread_counts_make_no_difference() {
        let leaves: Vec<Fr> = (0..8u64.pow(3)).map(|i| Fr::from_u64(i * i)).collect();
        let rows = Rows::full(&PoseidonTree(8), leaves.len() as u64);
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| built(&PoseidonTree(8), &rows, &leaves).0)
        };
        let one = with(1);
        for threads in [2, 3, 5] {
            assert_eq!(with(threads), one, "{threads} threads");
        }
    }
}
