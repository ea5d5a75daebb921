//! The stages over a sector's folder; each command runs one, `seal` all of them.

use super::dir::{Record, SealDir, Sealed};
use super::source::cannot;
use super::units::Units;
use super::{Terminal, failure, pieces};
use crate::exit::{Exit, Failure, Result};
use primitives::{PieceInfo, ProverId, RegisteredSealProof, ReplicaId, Seed, Ticket};
use proofs::control::Reuse;
use proofs::files::{read_small, write_atomic};
use proofs::graph::{Graph, Origin, Parents, cache_dir};
use proofs::params::PoRepConfig;
use proofs::porep::{
    Commit1Input, Commit1Output, PreCommit1Output, SectorInput, commit1, commit1_supported, precommit1_with,
    precommit2, verify_vanilla,
};
use proofs::vanilla::verify::PublicSector;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A PC1 output has some kilobytes.
const PC1_LIMIT: u64 = 1 << 20;
/// More than the largest C1 output that was ever seen (non-interactive, 32 GiB).
const C1_LIMIT: u64 = 4 << 30;

/// A sector in its folder with its ticket, ready for the stages.
pub(super) struct Work<'a> {
    pub(super) terminal: &'a Terminal,
    pub(super) dir: &'a SealDir,
    pub(super) record: Record,
    pub(super) config: PoRepConfig,
    pub(super) units: Units,
    ticket: Ticket,
    pieces: Vec<PieceInfo>,
    replica_id: ReplicaId,
}

impl<'a> Work<'a> {
    /// Opens the manifest for the sector of the record, which must have its ticket.
    ///
    /// # Errors
    /// If it has none, or the manifest cannot be used.
    pub(super) fn new(terminal: &'a Terminal, dir: &'a SealDir, record: Record) -> Result<Self> {
        let ticket = record.ticket.ok_or_else(|| {
            Failure::failed(format!("{} has no ticket yet", record.id()))
                .next("run `sealrig tool precommit1 --ticket HEX` on the folder first")
        })?;
        let config = PoRepConfig::registered(record.seal_proof);
        let pieces = pieces::with_fillers(config.sector_size, &record.pieces);
        let (unsealed, cache) = (dir.unsealed(), dir.cache());
        let input = SectorInput {
            unsealed: &unsealed,
            cache: &cache,
            prover_id: ProverId::from_actor(record.miner_id),
            sector_number: record.sector,
            ticket,
            pieces: &pieces,
        };
        let replica_id = input.replica_id(&config).map_err(failure::of_stage)?;
        let units = Units::open(&cache, &replica_id, Arc::clone(&terminal.cancel))?;
        Ok(Self { terminal, dir, record, config, units, ticket, pieces, replica_id })
    }

    /// PC1, over data that is proven or is now recorded and read in full.
    ///
    /// # Errors
    /// If the unsealed file is missing or not the recorded one, and what [`precommit1_with`] says.
    pub(super) fn precommit1(&self) -> Result<PreCommit1Output> {
        let (unsealed, cache) = (self.dir.unsealed(), self.dir.cache());
        match self.units.data(&unsealed) {
            Reuse::Proven => {}
            Reuse::Absent => self.units.record_data(&unsealed)?,
            Reuse::Refused(reason) => {
                return Err(Failure::new(
                    Exit::Verification,
                    format!("{} is not the data that was added: {reason}", unsealed.display()),
                )
                .next("run `sealrig tool seal` with the files again, or add them in another --dir"));
            }
        }
        let control = self.terminal.control(&self.units);
        let parents =
            Parents::open(Graph::of(&self.config), &cache_dir(), &control).map_err(failure::of_proofs)?;
        match parents.origin() {
            Origin::Reused | Origin::Written { replaced: None } => {}
            Origin::Written { replaced: Some(why) } => {
                self.terminal.note(&format!("the parents cache file was made anew: {why}"));
            }
            Origin::Generated { reason } => {
                self.terminal.note(&format!("the parents are used without a cache file: {reason}"));
            }
        }
        let input = SectorInput {
            unsealed: &unsealed,
            cache: &cache,
            prover_id: ProverId::from_actor(self.record.miner_id),
            sector_number: self.record.sector,
            ticket: self.ticket,
            pieces: &self.pieces,
        };
        let output = precommit1_with(&self.config, &parents, &input, &control).map_err(failure::of_stage)?;
        let json = output.to_json(self.record.seal_proof);
        write_atomic(&self.dir.pc1(), json.as_bytes()).map_err(failure::of_file)?;
        Ok(output)
    }

    /// PC1's output of an earlier command.
    ///
    /// # Errors
    /// If PC1 was not run, or the output is not that of this sector.
    pub(super) fn load_pc1(&self) -> Result<PreCommit1Output> {
        let path = self.dir.pc1();
        let text = read_small(&path, PC1_LIMIT).map_err(|e| {
            let again = "run `sealrig tool precommit1` on the folder first";
            failure::of_file(e).replace_next(again)
        })?;
        let damaged = |why: String| {
            Failure::new(Exit::Verification, format!("{}: {why}", path.display()))
                .next("run `sealrig tool precommit1` on the folder again")
        };
        let text = String::from_utf8(text).map_err(|e| damaged(e.to_string()))?;
        let (proof, mut output) =
            PreCommit1Output::from_json(&text, self.replica_id).map_err(|e| damaged(e.to_string()))?;
        same_proof(&path, self.record.seal_proof, proof)?;
        // The folder may have been moved since.
        for config in output.labels.iter_mut().chain([&mut output.config]) {
            config.path = self.dir.cache();
        }
        Ok(output)
    }

    /// PC2. The commitments are remembered.
    ///
    /// # Errors
    /// What [`precommit2`] says.
    pub(super) fn precommit2(&mut self, pc1: &PreCommit1Output) -> Result<Sealed> {
        let control = self.terminal.control(&self.units);
        let (cache, unsealed, sealed) = (self.dir.cache(), self.dir.unsealed(), self.dir.sealed());
        let output =
            precommit2(&self.config, pc1, &cache, &unsealed, &sealed, &control).map_err(failure::of_stage)?;
        let commitments = Sealed {
            replica_id: self.replica_id,
            comm_d: output.comm_d,
            comm_r: output.comm_r,
            comm_c: output.comm_c,
            comm_r_last: output.comm_r_last,
        };
        let json = output.to_json(self.record.seal_proof);
        write_atomic(&self.dir.pc2(), json.as_bytes()).map_err(failure::of_file)?;
        self.record.sealed = Some(commitments);
        self.dir.store(&self.record)?;
        Ok(commitments)
    }

    /// What the chain would know of the sector.
    ///
    /// # Errors
    /// If PC2 was not run for it.
    pub(super) fn public(&self, seed: Seed) -> Result<PublicSector> {
        let sealed = self.record.sealed.filter(|s| s.replica_id == self.replica_id).ok_or_else(|| {
            Failure::failed(format!("{} is not sealed yet", self.record.id()))
                .next("run `sealrig tool precommit1` and `sealrig tool precommit2` on the folder first")
        })?;
        Ok(PublicSector {
            prover_id: ProverId::from_actor(self.record.miner_id),
            sector_number: self.record.sector,
            ticket: self.ticket,
            seed,
            comm_d: sealed.comm_d,
            comm_r: sealed.comm_r,
        })
    }

    /// C1 into `c1.json`. The seed is remembered.
    ///
    /// # Errors
    /// What [`commit1`] says; [`Exit::Unsupported`] for proofs whose C1 is not done yet.
    pub(super) fn commit1(&mut self, seed: Seed) -> Result<Commit1Output> {
        let public = self.public(seed)?;
        let (cache, sealed) = (self.dir.cache(), self.dir.sealed());
        let input = Commit1Input { cache: &cache, sealed: &sealed, public, pieces: &self.pieces };
        let control = self.terminal.control(&self.units);
        let output = commit1(&self.config, &input, &control).map_err(failure::of_stage)?;
        let json = output.to_json(self.record.seal_proof);
        write_atomic(&self.dir.c1(), json.as_bytes()).map_err(failure::of_file)?;
        self.record.seed = Some(seed);
        self.dir.store(&self.record)?;
        Ok(output)
    }

    /// Verifies what is in `c1.json`.
    ///
    /// # Errors
    /// The first thing that does not hold.
    pub(super) fn verify(&self, seed: Seed) -> Result {
        verify_file(&self.dir.c1(), self.record.seal_proof, &self.config, &self.public(seed)?)
    }

    /// Says what was not reused.
    pub(super) fn remark(&self) {
        for remark in self.units.account().remarks() {
            self.terminal.note(&remark);
        }
    }
}

/// Whether C1 of a proof is possible, as a failure with what can be done.
///
/// # Errors
/// [`Exit::Unsupported`].
pub(super) fn c1_possible(config: &PoRepConfig) -> Result {
    commit1_supported(config).map_err(|e| {
        Failure::new(Exit::Unsupported, e.to_string())
            .next("PC1 and PC2 can be used; for C1 take an interactive seal proof (0 to 9)")
    })
}

/// An interactive seed of zeros is what a caller passes who has none; C2 refuses it.
///
/// # Errors
/// If it is all zero.
pub(super) fn check_seed(seed: &Seed) -> Result {
    if seed.0 == [0; 32] {
        return Err(
            Failure::usage("--seed is all zero, which no proof accepts").next("give the seed of the chain")
        );
    }
    Ok(())
}

fn same_proof(path: &Path, expected: RegisteredSealProof, got: RegisteredSealProof) -> Result {
    if got == expected {
        return Ok(());
    }
    Err(Failure::new(
        Exit::Verification,
        format!(
            "{} is of {} ({}), expected {} ({})",
            path.display(),
            got.name(),
            got.number(),
            expected.name(),
            expected.number()
        ),
    )
    .next("check --seal-proof and the file"))
}

/// Verifies a C1 output in a file.
///
/// # Errors
/// If it cannot be read, and the first thing that does not hold.
pub(super) fn verify_file(
    path: &Path,
    proof: RegisteredSealProof,
    config: &PoRepConfig,
    public: &PublicSector,
) -> Result {
    let meta =
        fs::metadata(path).map_err(|e| cannot("read", path, &e).next("run `sealrig tool commit1` first"))?;
    if !meta.is_file() {
        return Err(Failure::failed(format!("{} is not a regular file", path.display())));
    }
    let refused = |why: String| Failure::new(Exit::Verification, format!("{}: {why}", path.display()));
    if meta.len() > C1_LIMIT {
        return Err(refused(format!("{} bytes are more than any C1 output has", meta.len())));
    }
    let bytes = fs::read(path).map_err(|e| cannot("read", path, &e))?;
    let text = String::from_utf8(bytes).map_err(|e| refused(format!("not a C1 output: {e}")))?;
    let (got, output) = Commit1Output::from_json(&text).map_err(|e| refused(e.to_string()))?;
    same_proof(path, proof, got)?;
    verify_vanilla(config, public, &output).map_err(|e| {
        refused(e.to_string()).next("check the public values; if they are right, the proofs are wrong")
    })
}

/// The output files of PC1 and all later stages.
pub(super) fn outputs(dir: &SealDir) -> [PathBuf; 3] {
    [dir.pc1(), dir.pc2(), dir.c1()]
}
