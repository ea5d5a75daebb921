//! Small square matrices over the field, for making constants; not fast.

use crate::field::Fr;

/// A square matrix by rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Matrix(pub(super) Vec<Vec<Fr>>);

impl Matrix {
    /// The Cauchy matrix `(i + j + t)^-1` (proofs.md §6.4).
    pub(super) fn cauchy(t: usize) -> Self {
        let inverses: Vec<Fr> = (t..3 * t)
            .map(|k| Fr::from_u64(k as u64).invert().expect("small positive numbers are not zero"))
            .collect();
        Self((0..t).map(|i| (0..t).map(|j| inverses[i + j]).collect()).collect())
    }

    pub(super) fn size(&self) -> usize {
        self.0.len()
    }

    /// `row * self`.
    pub(super) fn apply(&self, row: &[Fr]) -> Vec<Fr> {
        (0..self.size())
            .map(|j| row.iter().zip(&self.0).fold(Fr::ZERO, |sum, (x, m)| sum + *x * m[j]))
            .collect()
    }

    pub(super) fn multiply(&self, other: &Matrix) -> Matrix {
        Self(self.0.iter().map(|row| other.apply(row)).collect())
    }

    pub(super) fn transpose(&self) -> Matrix {
        let n = self.size();
        Self((0..n).map(|j| (0..n).map(|i| self.0[i][j]).collect()).collect())
    }

    /// Without row 0 and column 0.
    pub(super) fn minor(&self) -> Matrix {
        Self(self.0[1..].iter().map(|row| row[1..].to_vec()).collect())
    }

    /// `[1]` and `self` on the diagonal.
    pub(super) fn bordered(&self) -> Matrix {
        let n = self.size() + 1;
        let mut out = vec![vec![Fr::ZERO; n]; n];
        out[0][0] = Fr::ONE;
        for (i, row) in self.0.iter().enumerate() {
            out[i + 1][1..].copy_from_slice(row);
        }
        Self(out)
    }

    /// The columns `x` with `self * x = column`, for each of `columns`; `None` for a singular matrix.
    pub(super) fn solve(&self, columns: &[Vec<Fr>]) -> Option<Vec<Vec<Fr>>> {
        let n = self.size();
        let mut rows: Vec<Vec<Fr>> = self
            .0
            .iter()
            .enumerate()
            .map(|(i, row)| row.iter().copied().chain(columns.iter().map(|c| c[i])).collect())
            .collect();
        for i in 0..n {
            let pivot = (i..n).find(|&k| !rows[k][i].is_zero())?;
            rows.swap(i, pivot);
            let inverse = rows[i][i].invert()?;
            rows[i][i..].iter_mut().for_each(|x| *x *= inverse);
            let lead = rows[i].clone();
            for (k, row) in rows.iter_mut().enumerate() {
                if k != i && !row[i].is_zero() {
                    let factor = row[i];
                    row[i..].iter_mut().zip(&lead[i..]).for_each(|(x, l)| *x -= factor * *l);
                }
            }
        }
        Some((0..columns.len()).map(|c| rows.iter().map(|row| row[n + c]).collect()).collect())
    }

    /// The inverse; `None` for a singular matrix.
    pub(super) fn inverse(&self) -> Option<Matrix> {
        let n = self.size();
        let unit: Vec<Vec<Fr>> =
            (0..n).map(|i| (0..n).map(|j| Fr::from_u64(u64::from(i == j))).collect()).collect();
        // The solutions are the inverse's columns.
        Some(Self(self.solve(&unit)?).transpose())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverse_times_matrix_is_one() {
        let m = Matrix::cauchy(5);
        let product = m.multiply(&m.inverse().unwrap());
        for (i, row) in product.0.iter().enumerate() {
            for (j, x) in row.iter().enumerate() {
                assert_eq!(*x, Fr::from_u64(u64::from(i == j)));
            }
        }
        assert_eq!(Matrix(vec![vec![Fr::ONE; 2]; 2]).inverse(), None);
    }
}
