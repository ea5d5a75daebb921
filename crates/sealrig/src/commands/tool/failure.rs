//! Errors of the proofs as exit codes with a next step.

use crate::exit::{Exit, Failure};
use proofs::control::Cancelled;
use proofs::files::FileError;
use proofs::manifest::ManifestError;
use proofs::porep::PoRepError;
use proofs::tree::open::TreeError;
use proofs::unseal::UnsealError;
use std::io;

/// What helps against an error of the operating system, if it is one of the usual ones.
pub(super) fn remedy(why: &io::Error) -> Option<&'static str> {
    match why.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Some("make room on that disk and run the same command again; finished work is kept")
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            Some("check the rights on the file and its folder, or use another folder")
        }
        _ => None,
    }
}

fn with_remedy(message: String, why: &io::Error) -> Failure {
    let failure = Failure::failed(message);
    match (remedy(why), why.kind()) {
        (Some(remedy), _) => failure.next(remedy),
        (None, io::ErrorKind::NotFound) => {
            failure.next("run the earlier stage that makes this file, or check the name of the folder")
        }
        _ => failure,
    }
}

const DAMAGED: &str =
    "run the stage that makes this file again: it keeps what is good and makes the rest anew";

/// An error of a primitive of the proofs.
pub(super) fn of_proofs(error: proofs::Error) -> Failure {
    use proofs::Error;
    let message = error.to_string();
    match error {
        Error::Cancelled(cancelled) => of_cancelled(cancelled),
        Error::File { source, .. } | Error::Stream { source, .. } => with_remedy(message, &source),
        Error::FileLength { .. } => Failure::new(Exit::Verification, message).next(DAMAGED),
        Error::Memory { .. } => {
            Failure::failed(message).next("close other programs or use a larger computer")
        }
        Error::ImpossibleParents { .. } => Failure::new(Exit::Verification, message)
            .next("remove the file from FIL_PROOFS_PARENT_CACHE and run the same command again"),
        Error::PieceTooLong { .. } | Error::PieceTooShort { .. } => {
            Failure::failed(message).next("wait until nothing writes to the file, and run the command again")
        }
        Error::Unit(_) | Error::Config(_) | Error::WrongGraph { .. } => Failure::failed(message),
        Error::Pieces(_) | Error::NotCanonical { .. } => Failure::new(Exit::Verification, message),
    }
}

/// The end by a signal.
pub(super) fn of_cancelled(_: Cancelled) -> Failure {
    Failure::new(Exit::Interrupted, "interrupted").next("run the same command again: finished work is kept")
}

/// A file of the proofs.
pub(super) fn of_file(error: FileError) -> Failure {
    of_proofs(error.into())
}

/// An error of a stage.
pub(super) fn of_stage(error: PoRepError) -> Failure {
    let message = error.to_string();
    match error {
        PoRepError::Proofs(e) => of_proofs(e),
        PoRepError::Tree(TreeError::File(e)) => of_file(e),
        PoRepError::Unsupported(_) => Failure::new(Exit::Unsupported, message),
        PoRepError::Refused { unit, .. } => Failure::new(Exit::Verification, message).next(format!(
            "run `sealrig tool {}` again: it keeps what is good and makes the rest anew",
            unit.stage
        )),
        PoRepError::Tree(_) | PoRepError::Mismatch { .. } | PoRepError::Aux(_) => {
            Failure::new(Exit::Verification, message).next(DAMAGED)
        }
        PoRepError::SelfCheck { .. } => Failure::new(Exit::Verification, message)
            .next("run `sealrig tool precommit1` and `sealrig tool precommit2` again: they find and replace what is damaged"),
        PoRepError::InPlace(_) => Failure::failed(message).next("give the sector a folder of its own"),
        PoRepError::Public(_) => Failure::new(Exit::Verification, message).next("check the values given"),
    }
}

/// A manifest that cannot be used.
pub(super) fn of_manifest(error: ManifestError) -> Failure {
    let message = error.to_string();
    match error {
        ManifestError::File(e) => of_file(e),
        ManifestError::NewerSchema { .. } => {
            Failure::failed(message).next("use the newer sealrig that made this folder, or another folder")
        }
    }
}

/// An error of unsealing.
pub(super) fn of_unseal(error: UnsealError) -> Failure {
    let message = error.to_string();
    match error {
        UnsealError::Proofs(e) => of_proofs(e),
        UnsealError::Range { .. } => Failure::usage(message).next("ask for fewer bytes"),
        UnsealError::CommD(_) | UnsealError::NotCanonical { .. } | UnsealError::NotTheData { .. } => {
            Failure::new(Exit::Verification, message).next(
                "check ticket, sector and CommD; if they are right, the sealed file is damaged: seal again",
            )
        }
    }
}
