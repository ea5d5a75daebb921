//! Drawing randomness (`chain.md` §2).

use crate::cbor::blake2b_256;
use primitives::Epoch;

/// What randomness is drawn for; separates the draws from each other (`chain.md` §2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i64)]
pub enum Tag {
    /// Ticket production.
    TicketProduction = 1,
    /// Election.
    Election = 2,
    /// Winning PoSt.
    WinningPoSt = 3,
    /// Window PoSt challenge.
    WindowPoSt = 4,
    /// Seal randomness: the ticket.
    SealRandomness = 5,
    /// Interactive seal challenge: the seed.
    InteractiveSealChallenge = 6,
    /// Deadline assignment.
    DeadlineAssignment = 7,
    /// Market cron.
    MarketCron = 8,
    /// PoSt chain commit.
    PoStChainCommit = 9,
    /// EVM.
    Evm = 10,
}

/// The digest of a base: the VRF proof of a ticket, or the data of a beacon entry.
pub fn digest(base: &[u8]) -> [u8; 32] {
    blake2b_256(base)
}

/// Draws from a digest. `entropy` is [`crate::Address::entropy`] for what concerns a miner, else empty.
pub fn draw_from_digest(digest: &[u8; 32], tag: Tag, epoch: Epoch, entropy: &[u8]) -> [u8; 32] {
    let mut bytes = Vec::with_capacity(48 + entropy.len());
    bytes.extend_from_slice(&(tag as i64).to_be_bytes());
    bytes.extend_from_slice(digest);
    bytes.extend_from_slice(&epoch.to_be_bytes());
    bytes.extend_from_slice(entropy);
    blake2b_256(&bytes)
}

/// Draws from a base (`DrawRandomness`).
pub fn draw(base: &[u8], tag: Tag, epoch: Epoch, entropy: &[u8]) -> [u8; 32] {
    draw_from_digest(&digest(base), tag, epoch, entropy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;
    use primitives::ActorId;

    #[test]
    fn known_answers() {
        // chain-vectors.json, randomness.
        let hex32 = |text: &str| <[u8; 32]>::try_from(hex::decode(text).unwrap()).unwrap();
        let published = hex32("18ea1bc64ae14b5862140d44614299337c6cc957f2e57cb76d0d202cf9de718b");
        assert_eq!(
            draw_from_digest(&published, Tag::SealRandomness, 2_797_727, &[0x44, 0x00, 0x99, 0xcb, 0x34]),
            hex32("dcc0aa70b1ca67ea6297832a4d2f708ec77ec8fbd3b93aeaf0f9068c4a37b584")
        );
        let (vrf, beacon, miner) = ([7u8; 96], [9u8; 48], Address::entropy(ActorId(1000)));
        assert_eq!(miner, [0x43, 0x00, 0xe8, 0x07]);
        assert_eq!(digest(&vrf), hex32("51d987be24a9add43f5c353b6a14b6f5d32e525c4bc126208e94335da37b016f"));
        for (base, tag, epoch, entropy, out) in [
            (
                &vrf[..],
                Tag::SealRandomness,
                100,
                &miner[..],
                "634e8b1b001adaedf8659ee0d4c039eae325cfab4025bc19ca22b79e680f0960",
            ),
            (
                &beacon,
                Tag::InteractiveSealChallenge,
                260,
                &miner,
                "2df6caf6d1587a1cf3c32fd7eefc20082332a8cd4b9bd1a6cec68c2a33e23401",
            ),
            (
                &beacon,
                Tag::WindowPoSt,
                2940,
                &miner,
                "1c29dc5ea65aece5818aaa78803289f04725ff0937ad54fadb3eb54431e87ad3",
            ),
            (
                &vrf,
                Tag::PoStChainCommit,
                2940,
                &[],
                "d61a0a8601a1358acf13558d48463dfc7f60d63375b14f5d5252bbdfc2ed9d95",
            ),
        ] {
            assert_eq!(hex::encode(draw(base, tag, epoch, entropy)), out, "{tag:?}");
        }
    }

    #[test]
    fn negative_epochs_are_hashed_as_they_are() {
        let of = |epoch| draw(&[1], Tag::SealRandomness, epoch, &[]);
        assert_ne!(of(-1), of(1));
        assert_ne!(of(-900), of(0));
    }
}
