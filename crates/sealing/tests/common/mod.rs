//! A whole pipeline in a folder: the real prover at 2 KiB, the real chain on demand, a store in memory, and knobs.

use async_trait::async_trait;
use chain::devchain::{
    DevChain, DevChainConfig, OnDemandClock, PoRepStatement, ProofVerifier, VerifierUnavailable,
};
use primitives::{
    ActorId, Commitment, PieceInfo, ProverId, RegisteredSealProof, SectorId, SectorNumber, SectorSize, Seed,
};
use proofs::params::PoRepConfig;
use proofs::porep::{Commit1Output, verify_vanilla};
use proofs::vanilla::verify::PublicSector;
use sealing::prover::{Labelled, PieceJob, Pools, ProverError, SealJob, Watch};
use sealing::{
    LocalProver, LocalStorage, Pipeline, PipelineConfig, Prover, SectorInstance, SectorStorage, State,
    tokio_env,
};
use statemachine::{Cancel, Class, LineKind};
use statestore::MemoryStore;
use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub(crate) const MINER: ActorId = ActorId(1000);

pub(crate) fn proof() -> RegisteredSealProof {
    RegisteredSealProof::v1_1(SectorSize::KiB2).unwrap()
}

struct Verifier;

impl ProofVerifier for Verifier {
    fn system(&self) -> &str {
        "vanilla"
    }

    fn verify_porep(&self, s: &PoRepStatement, proof: &[u8]) -> Result<bool, VerifierUnavailable> {
        let public = PublicSector {
            prover_id: ProverId::from_actor(s.miner),
            sector_number: s.number,
            ticket: s.ticket,
            seed: s.seed,
            comm_d: s.comm_d,
            comm_r: s.comm_r,
        };
        let output = std::str::from_utf8(proof).ok().and_then(|text| Commit1Output::from_json(text).ok());
        let config = PoRepConfig::registered(s.proof_type);
        Ok(output.is_some_and(|(proof, out)| {
            proof == s.proof_type && verify_vanilla(&config, &public, &out).is_ok()
        }))
    }
}

/// The local prover, with faults to come, by stage.
pub(crate) struct FaultyProver {
    inner: LocalProver,
    script: Mutex<HashMap<&'static str, VecDeque<Fault>>>,
}

pub(crate) enum Fault {
    /// Fails with a class (and, for corrupt input, the state that made it).
    Fails(Class, Option<&'static str>),
    /// Hangs until it is cancelled.
    Hangs,
}

impl FaultyProver {
    pub(crate) fn fail(&self, stage: &'static str, class: Class, made_by: Option<&'static str>) {
        self.script.lock().unwrap().entry(stage).or_default().push_back(Fault::Fails(class, made_by));
    }

    pub(crate) fn hang(&self, stage: &'static str) {
        self.script.lock().unwrap().entry(stage).or_default().push_back(Fault::Hangs);
    }

    async fn fault(&self, stage: &'static str, watch: &Watch) -> Result<(), ProverError> {
        let next = self.script.lock().unwrap().get_mut(stage).and_then(VecDeque::pop_front);
        match next {
            None => Ok(()),
            Some(Fault::Fails(class, made_by)) => {
                Err(ProverError { class, message: format!("scripted {class} in {stage}"), made_by })
            }
            Some(Fault::Hangs) => {
                watch.cancel.cancelled().await;
                Err(ProverError::new(Class::Cancelled, "cancelled while hanging"))
            }
        }
    }
}

#[async_trait]
impl Prover for FaultyProver {
    fn system(&self) -> &'static str {
        self.inner.system()
    }

    async fn add_piece(&self, job: PieceJob, watch: Watch) -> Result<PieceInfo, ProverError> {
        self.fault("add-piece", &watch).await?;
        self.inner.add_piece(job, watch).await
    }

    async fn precommit1(&self, job: SealJob, watch: Watch) -> Result<Labelled, ProverError> {
        self.fault("precommit1", &watch).await?;
        self.inner.precommit1(job, watch).await
    }

    async fn precommit2(&self, job: SealJob, watch: Watch) -> Result<Commitment, ProverError> {
        self.fault("precommit2", &watch).await?;
        self.inner.precommit2(job, watch).await
    }

    async fn commit(
        &self,
        job: SealJob,
        comm_d: Commitment,
        comm_r: Commitment,
        seed: Seed,
        watch: Watch,
    ) -> Result<Vec<u8>, ProverError> {
        self.fault("commit", &watch).await?;
        self.inner.commit(job, comm_d, comm_r, seed, watch).await
    }

    async fn check_kept(
        &self,
        job: SealJob,
        comm_d: Commitment,
        comm_r: Commitment,
        watch: Watch,
    ) -> Result<(), ProverError> {
        self.fault("check-kept", &watch).await?;
        self.inner.check_kept(job, comm_d, comm_r, watch).await
    }

    async fn unseal(
        &self,
        job: SealJob,
        comm_d: Commitment,
        offset: u64,
        bytes: u64,
        out: Box<dyn std::io::Write + Send>,
        cancel: Cancel,
    ) -> Result<u64, ProverError> {
        self.inner.unseal(job, comm_d, offset, bytes, out, cancel).await
    }

    async fn idle(&self, sector: SectorId) {
        self.inner.idle(sector).await;
    }
}

pub(crate) struct Rig {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) store: MemoryStore,
    pub(crate) chain: Arc<DevChain>,
    pub(crate) prover: Arc<FaultyProver>,
    pub(crate) storage: Arc<dyn SectorStorage>,
    pub(crate) pipeline: Arc<Pipeline>,
}

async fn pipeline(
    store: &MemoryStore,
    chain: &Arc<DevChain>,
    prover: &Arc<FaultyProver>,
    storage: &Arc<dyn SectorStorage>,
) -> Arc<Pipeline> {
    let config = PipelineConfig {
        miner: MINER,
        proof: proof(),
        sender: chain.worker(),
        confidence: 0,
        submit_margin: 10,
        wait_deals: None,
        parallel: Default::default(),
        poll_interval: Duration::from_millis(20),
    };
    Pipeline::open(
        Arc::new(store.clone()),
        tokio_env(),
        Arc::clone(chain) as _,
        Arc::clone(prover) as _,
        Arc::clone(storage),
        config,
    )
    .await
    .unwrap()
}

impl Rig {
    pub(crate) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = DevChainConfig::new([7; 32], MINER, SectorSize::KiB2, Arc::new(OnDemandClock));
        let chain = DevChain::open(dir.path().join("chain"), config, Arc::new(Verifier)).await.unwrap();
        let chain = Arc::new(chain);
        let inner = LocalProver::new(Pools::new(1).unwrap());
        let prover = Arc::new(FaultyProver { inner, script: Mutex::default() });
        let storage: Arc<dyn SectorStorage> =
            Arc::new(LocalStorage::open(dir.path().join("storage")).unwrap());
        let store = MemoryStore::new();
        let pipeline = pipeline(&store, &chain, &prover, &storage).await;
        Self { dir, store, chain, prover, storage, pipeline }
    }

    /// Stops the pipeline and opens it again over the same store, chain and files.
    pub(crate) async fn restart(&mut self) {
        self.pipeline.stop(Duration::from_secs(10)).await;
        self.pipeline = pipeline(&self.store, &self.chain, &self.prover, &self.storage).await;
    }

    pub(crate) fn folder(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) async fn add(&self, name: &str, data: &[u8]) -> Vec<sealing::Placed> {
        let parts = sealing::stage(&self.storage, name, &mut &data[..], SectorSize::KiB2).unwrap();
        self.pipeline.add_parts(parts).await.unwrap()
    }

    pub(crate) async fn sector(&self, n: u64) -> SectorInstance {
        self.pipeline.sector(SectorNumber(n)).await.unwrap().expect("the sector is known")
    }

    /// Waits until a sector is in a state. Says where it is when that takes too long.
    pub(crate) async fn until(&self, n: u64, state: State) -> SectorInstance {
        let begun = Instant::now();
        loop {
            let sector = self.sector(n).await;
            if sector.state == state {
                return sector;
            }
            if begun.elapsed() > Duration::from_secs(60) {
                let explanation = self.pipeline.explain(SectorNumber(n)).await.unwrap();
                panic!("sector {n} is {:?}, not {state:?}: {explanation:#?}", sector.state);
            }
            self.pipeline.nudge();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until a sector is parked for a person.
    pub(crate) async fn until_parked(&self, n: u64) -> SectorInstance {
        let begun = Instant::now();
        loop {
            let sector = self.sector(n).await;
            if sector.parked.is_some() {
                return sector;
            }
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "sector {n} is not parked in {:?}",
                sector.state
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The states a sector went through, in order.
    pub(crate) async fn path(&self, n: u64) -> Vec<String> {
        let lines = self.pipeline.journal(SectorNumber(n), 0, 10_000).await.unwrap();
        let mut path: Vec<String> = Vec::new();
        for line in lines {
            if line.kind != LineKind::Created && line.from == line.to {
                continue;
            }
            if let Some(to) =
                line.to.filter(|_| line.ruling == Some("moved") || line.kind == LineKind::Created)
            {
                path.push(to);
            }
        }
        path
    }

    /// The whole content of a sector, unsealed.
    pub(crate) async fn unseal(&self, n: u64, offset: u64, bytes: u64) -> Vec<u8> {
        #[derive(Clone, Default)]
        struct Sink(Arc<Mutex<Vec<u8>>>);
        impl std::io::Write for Sink {
            fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
                self.0.lock().unwrap().extend_from_slice(data);
                Ok(data.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let sink = Sink::default();
        let written = self
            .pipeline
            .unseal(SectorNumber(n), offset, bytes, Box::new(sink.clone()), Cancel::new())
            .await
            .unwrap();
        assert_eq!(written, bytes);
        std::mem::take(&mut sink.0.lock().unwrap())
    }
}
