//! What both sides of `scripts/bench-vs-reference` print, and how they measure it.
//!
//! `ours-bench` and `rival` include this file; it uses nothing but `serde` and `rustix`.

use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Seconds of one stage.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Seconds {
    /// Processor time of the whole process, user and system.
    pub cpu: f64,
    /// Time that passed.
    pub wall: f64,
}

/// One round on one side.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Stages {
    /// AddPiece: padding, writing and CommP.
    pub commp_8mib: Seconds,
    /// PC1.
    pub pc1_8mib: Seconds,
    /// PC2.
    pub pc2_8mib: Seconds,
    /// C1.
    pub c1_8mib: Seconds,
    /// The sector's CommR: both sides must have done the same work.
    pub comm_r: String,
}

/// Measures from its start.
pub struct Meter {
    wall: Instant,
    cpu: f64,
}

fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

impl Meter {
    /// Starts.
    pub fn start() -> Self {
        Self { wall: Instant::now(), cpu: cpu_seconds() }
    }

    /// Time since the start.
    pub fn stop(self) -> Seconds {
        Seconds { cpu: cpu_seconds() - self.cpu, wall: self.wall.elapsed().as_secs_f64() }
    }
}

/// The sector's data: one piece that fills it, byte k = (7k + 3) mod 251.
pub fn data() -> Vec<u8> {
    (0..(8u64 << 20) / 128 * 127).map(|k| ((7 * k + 3) % 251) as u8).collect()
}
