//! Whole sectors: known answers, re-entry, damage, and every check of the verifier.

mod damage;
mod known_answers;
mod tampering;

use super::*;
use crate::files::{InFile, layer_id, store_path};
use crate::graph::{Graph, Parents};
use crate::manifest::Manifest;
use crate::vanilla::verify::PublicSector;
use crate::{Node, fr32, labels, sha256};
use primitives::{
    ActorId, ApiVersion, Commitment, PieceInfo, ProverId, SectorNumber, Seed, Ticket, UnpaddedSize,
};
use std::fs;
use tempfile::TempDir;

const SEED: Seed = Seed([2; 32]);

/// A sector in a folder of its own.
struct Sector {
    dir: TempDir,
    config: PoRepConfig,
    parents: Parents,
    ticket: Ticket,
    pieces: Vec<PieceInfo>,
}

/// The padded bytes of proofs.md §14.3: raw byte `k` is `(7k + 3) mod 256`.
fn pattern(size: SectorSize) -> Vec<u8> {
    let raw: Vec<u8> = (0..size.unpadded_bytes()).map(|k| (7 * k + 3) as u8).collect();
    let mut padded = Vec::new();
    fr32::pad(&raw, &mut padded);
    padded
}

fn root(padded: &[u8]) -> Node {
    let mut row: Vec<Node> = padded.as_chunks::<32>().0.to_vec();
    while row.len() > 1 {
        row = row.as_chunks::<2>().0.iter().map(|[l, r]| sha256::node(l, r)).collect();
    }
    row[0]
}

impl Sector {
    /// A sector whose data is one piece.
    fn new(config: PoRepConfig, padded: &[u8]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("cache")).unwrap();
        fs::write(dir.path().join("unsealed"), padded).unwrap();
        let size = UnpaddedSize::new(config.sector_size.unpadded_bytes()).unwrap();
        let pieces = vec![PieceInfo { comm_p: Commitment(root(padded)), size }];
        let parents = Parents::generated(Graph::of(&config), &Control::none()).unwrap();
        Self { dir, config, parents, ticket: Ticket([1; 32]), pieces }
    }

    /// A sector of the V1_1 kind with the pattern.
    fn sample(size: SectorSize) -> Self {
        Self::new(config(size, 5, ApiVersion::V1_1_0), &pattern(size))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn cache(&self) -> PathBuf {
        self.path("cache")
    }

    /// A store file.
    fn store(&self, id: &str) -> PathBuf {
        store_path(&self.cache(), id)
    }

    fn prover_id() -> ProverId {
        ProverId::from_actor(ActorId(1000))
    }

    fn pc1(&self, control: &Control<'_>) -> Result<PreCommit1Output, PoRepError> {
        let (unsealed, cache) = (self.path("unsealed"), self.cache());
        let input = SectorInput {
            unsealed: &unsealed,
            cache: &cache,
            prover_id: Self::prover_id(),
            sector_number: SectorNumber(1),
            ticket: self.ticket,
            pieces: &self.pieces,
        };
        let output = precommit1_with(&self.config, &self.parents, &input, control)?;
        assert_eq!(output.replica_id, input.replica_id(&self.config).unwrap());
        Ok(output)
    }

    fn pc2(&self, pc1: &PreCommit1Output, control: &Control<'_>) -> Result<PreCommit2Output, PoRepError> {
        let (unsealed, sealed) = (self.path("unsealed"), self.path("sealed"));
        precommit2(&self.config, pc1, &self.cache(), &unsealed, &sealed, control)
    }

    fn seal(&self) -> (PreCommit1Output, PreCommit2Output) {
        let pc1 = self.pc1(&Control::none()).unwrap();
        let pc2 = self.pc2(&pc1, &Control::none()).unwrap();
        (pc1, pc2)
    }

    /// Seals with the folder's manifest as memory.
    fn seal_with_manifest(&self) -> Result<PreCommit2Output, PoRepError> {
        let manifest = self.manifest();
        let control = Control { units: &manifest, ..Control::none() };
        let pc1 = self.pc1(&control)?;
        self.pc2(&pc1, &control)
    }

    fn manifest(&self) -> Manifest {
        let comm_d = crate::piece::comm_d(self.config.sector_size, &self.pieces).unwrap();
        let (number, id) = (SectorNumber(1), &self.config.porep_id);
        let replica_id = labels::replica_id(&Self::prover_id(), number, &self.ticket, &comm_d, id);
        Manifest::open(&self.cache(), &replica_id).unwrap()
    }

    fn public(&self, pc2: &PreCommit2Output) -> PublicSector {
        PublicSector {
            prover_id: Self::prover_id(),
            sector_number: SectorNumber(1),
            ticket: self.ticket,
            seed: SEED,
            comm_d: pc2.comm_d,
            comm_r: pc2.comm_r,
        }
    }

    fn c1(&self, public: PublicSector, control: &Control<'_>) -> Result<Commit1Output, PoRepError> {
        let (cache, sealed) = (self.cache(), self.path("sealed"));
        let input = Commit1Input { cache: &cache, sealed: &sealed, public, pieces: &self.pieces };
        commit1(&self.config, &input, control)
    }
}

/// A configuration of any size under the id of proof `number`.
fn config(size: SectorSize, number: u8, version: ApiVersion) -> PoRepConfig {
    let mut porep_id = [0; 32];
    porep_id[0] = number;
    PoRepConfig::custom(size, porep_id, version, ProofFeature::Interactive).unwrap()
}

/// Units started, and those whose file was refused with the reason, in order.
#[derive(Default)]
struct Started<'a> {
    names: std::sync::Mutex<Vec<String>>,
    refused: std::sync::Mutex<Vec<(String, String)>>,
    inner: Option<&'a Manifest>,
}

impl crate::control::UnitSink for Started<'_> {
    fn reuse(&self, unit: &Unit, file: &Path) -> Reuse {
        let answer = self.inner.map_or(Reuse::Absent, |m| m.reuse(unit, file));
        if let Reuse::Refused(reason) = &answer {
            self.refused.lock().unwrap().push((unit.to_string(), reason.clone()));
        }
        answer
    }

    fn started(&self, unit: &Unit) -> Result<(), UnitError> {
        self.names.lock().unwrap().push(unit.to_string());
        Ok(())
    }

    fn finished(&self, unit: &Unit, file: &Path, len: u64, digest: &[u8; 32]) -> Result<(), UnitError> {
        let opened = InFile::open(file).unwrap();
        assert_eq!((opened.len(), opened.digest().unwrap()), (len, *digest), "{unit}");
        self.inner.map_or(Ok(()), |m| m.finished(unit, file, len, digest))
    }
}
