//! Errors of the proofs as exit codes with a next step.

use crate::exit::{Exit, Failure};
use proofs::control::Cancelled;
use proofs::files::FileError;
use proofs::files::config::AuxError;
use proofs::manifest::ManifestError;
use proofs::porep::PoRepError;
use proofs::tree::open::TreeError;
use proofs::unseal::UnsealError;
use std::io;
use std::path::Path;

/// What helps against an error of the operating system, if it is one of the usual ones.
pub(super) fn remedy(why: &io::Error) -> Option<&'static str> {
    match why.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Some("make room on that disk and run the same command again; finished work is kept")
        }
        io::ErrorKind::FileTooLarge => {
            Some("use a disk, or raise the limit (`ulimit -f`), that allows files of this size")
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            Some("check the rights on the file and its folder, or use another folder")
        }
        _ => None,
    }
}

fn with_remedy(message: String, why: &io::Error, path: Option<&Path>) -> Failure {
    let failure = Failure::failed(message);
    match (remedy(why), why.kind()) {
        (Some(remedy), _) => failure.next(remedy),
        (None, io::ErrorKind::NotFound) => failure.next(match path.and_then(stage_of) {
            Some(stage) => format!("run `sealrig tool {stage}` on the folder first, or check its name"),
            None => "check the name of the folder".to_owned(),
        }),
        _ => failure,
    }
}

/// The stage that makes a file of a sector.
fn stage_of(path: &Path) -> Option<&'static str> {
    const MAKERS: [(&str, &str); 8] = [
        ("unsealed", "add-piece"),
        ("tree-d", "precommit1"),
        ("layer-", "precommit1"),
        ("tree-c", "precommit2"),
        ("tree-r-last", "precommit2"),
        ("p_aux", "precommit2"),
        ("t_aux", "precommit2"),
        ("sealed", "precommit2"),
    ];
    let name = path.file_name()?.to_str()?;
    let id = name.strip_prefix("sc-02-data-").unwrap_or(name);
    MAKERS.iter().find(|(stem, _)| id.starts_with(stem)).map(|(_, stage)| *stage)
}

/// A file is damaged or of another sector.
fn damaged(message: String, path: &Path) -> Failure {
    Failure::new(Exit::Verification, message).next(match stage_of(path) {
        Some("add-piece") | None => {
            "run `sealrig tool seal` with the files again, or begin anew in another --dir".to_owned()
        }
        Some(stage) => {
            format!("run `sealrig tool {stage}` again: it keeps what is good and makes the rest anew")
        }
    })
}

/// An error of a primitive of the proofs.
pub(super) fn of_proofs(error: proofs::Error) -> Failure {
    use proofs::Error;
    let message = error.to_string();
    match error {
        Error::Cancelled(cancelled) => of_cancelled(cancelled),
        Error::File(FileError::Io { source, path, .. }) => with_remedy(message, &source, Some(&path)),
        Error::Stream { source, .. } => with_remedy(message, &source, None),
        Error::File(FileError::Length { path, .. }) => damaged(message, &path),
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
        PoRepError::Tree(e) => damaged(message, e.path()),
        PoRepError::Mismatch { file, .. } => damaged(message, &file),
        PoRepError::Aux(AuxError::Content { path, .. }) => damaged(message, &path),
        PoRepError::Aux(AuxError::File(e)) => of_file(e),
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

#[cfg(test)]
mod tests {
    use super::*;
    use proofs::files::{TREE_D, layer_id, store_path};

    #[test]
    fn every_file_has_the_stage_that_makes_it() {
        let of = |path: &str| stage_of(Path::new(path));
        assert_eq!(stage_of(&store_path(Path::new("d/cache"), &layer_id(11))), Some("precommit1"));
        assert_eq!(stage_of(&store_path(Path::new("d/cache"), TREE_D)), Some("precommit1"));
        assert_eq!(of("d/cache/sc-02-data-tree-c-3.dat"), Some("precommit2"));
        assert_eq!(of("d/cache/p_aux"), Some("precommit2"));
        assert_eq!((of("d/sealed"), of("d/unsealed")), (Some("precommit2"), Some("add-piece")));
        assert_eq!((of("sealed/data.bin"), of("/")), (None, None));
    }
}
