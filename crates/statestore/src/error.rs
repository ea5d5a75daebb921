//! What can go wrong, told so that a caller can choose between trying again, asking a person and stopping.

use crate::codec::CodecError;
use std::path::{Path, PathBuf};

/// Why a store could not do what it was asked.
///
/// Whether the batch of a failed commit was applied: never after [`Conflict`](Self::Conflict),
/// [`TooLarge`](Self::TooLarge), [`InvalidKey`](Self::InvalidKey) and [`Closed`](Self::Closed); *unknown* after
/// [`Full`](Self::Full), [`Io`](Self::Io) and [`Fatal`](Self::Fatal) — read again before trying again
/// ([`StoreError::is_uncertain`]).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A condition of a batch did not hold; nothing was applied.
    #[error("the key {key:?} does not hold what the batch expected; nothing was written")]
    Conflict {
        /// The key, as printable text.
        key: String,
    },
    /// Something is larger than a store accepts; nothing was applied. Large things are files, referenced by digest.
    #[error("the {what} of {key:?} has {bytes} bytes, the limit is {max}: move large data into a file")]
    TooLarge {
        /// `"key"`, `"value"`, `"journal stream"` or `"journal payload"`.
        what: &'static str,
        /// The key or stream, as printable text, shortened.
        key: String,
        /// Its size in bytes.
        bytes: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// A key that a batch may not write.
    #[error("the key {key:?} cannot be written: {reason}")]
    InvalidKey {
        /// The key, as printable text, shortened.
        key: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The disk (or quota) is full. The store recovers by itself once there is room.
    #[error("no space left: {action} {}", path.display())]
    Full {
        /// What was being done, such as `"append to"`.
        action: String,
        /// To which file or folder.
        path: PathBuf,
    },
    /// The operating system refused something.
    #[error("could not {action} {}: {reason}", path.display())]
    Io {
        /// What was being done, such as `"open"`.
        action: String,
        /// To which file or folder.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// Writing to the disk failed in a way after which nothing that was written since can be trusted to be there
    /// (SS-3). The handle answers nothing else from now on: report it, exit non-zero, start again.
    #[error(
        "could not {action} {}: {reason}; what the disk holds is unknown, so this process must stop: start it again, \
         it will rewrite and check the files",
        path.display()
    )]
    Fatal {
        /// What was being done.
        action: String,
        /// To which file or folder.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The store was written by a newer program.
    #[error(
        "the store has {what} version {found}, this program knows up to {supported}: use the newer program"
    )]
    NewerSchema {
        /// `"schema"` (of what is stored) or `"format"` (of the files).
        what: &'static str,
        /// The version found.
        found: u16,
        /// The newest version this program knows.
        supported: u16,
    },
    /// Another process owns the store.
    #[error("the store {} is in use by {}", path.display(), owner_text(*pid, contact.as_deref()))]
    Locked {
        /// The store's folder.
        path: PathBuf,
        /// The owner's process id, when it could be read.
        pid: Option<u32>,
        /// How to reach the owner, as it said itself (an address for example).
        contact: Option<String>,
    },
    /// Files of the store contradict themselves.
    #[error("the store is damaged: {what}. {way_out}")]
    Damaged {
        /// What is wrong, with the file's name.
        what: String,
        /// What a person can do.
        way_out: String,
    },
    /// A stored value could not be written or read as its type.
    #[error("{what}: {source}")]
    Codec {
        /// Which value: its key as printable text, or what it stands for.
        what: String,
        /// Why.
        source: CodecError,
    },
}

/// What a caller does about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// The state is not what the caller thought: read it again, decide again.
    Conflict,
    /// The caller asked for something that is never possible; trying again is no use.
    Caller,
    /// It may work later.
    Transient,
    /// A person has to do something first.
    Operator,
    /// The process must stop.
    Fatal,
}

impl StoreError {
    /// What to do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Conflict { .. } => ErrorClass::Conflict,
            Self::TooLarge { .. } | Self::InvalidKey { .. } | Self::Closed => ErrorClass::Caller,
            Self::Full { .. } | Self::Io { .. } => ErrorClass::Transient,
            Self::NewerSchema { .. } | Self::Locked { .. } | Self::Damaged { .. } | Self::Codec { .. } => {
                ErrorClass::Operator
            }
            Self::Fatal { .. } => ErrorClass::Fatal,
        }
    }

    /// Whether the same call may succeed later without anybody changing the program or the data.
    pub fn is_transient(&self) -> bool {
        self.class() == ErrorClass::Transient
    }

    /// Whether the process must report it and exit non-zero.
    pub fn is_fatal(&self) -> bool {
        self.class() == ErrorClass::Fatal
    }

    /// Whether the caller's picture of the state was out of date.
    pub fn is_conflict(&self) -> bool {
        self.class() == ErrorClass::Conflict
    }

    /// Whether the batch of a commit that failed so may nevertheless have been applied.
    pub fn is_uncertain(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::Io { .. } | Self::Fatal { .. })
    }

    /// A codec error about `what`.
    pub fn codec(what: impl Into<String>, source: CodecError) -> Self {
        Self::Codec { what: what.into(), source }
    }

    /// An operating system error while doing `action` to `path`; a full disk gets its own variant.
    pub(crate) fn io(action: &str, path: &Path, error: &std::io::Error) -> Self {
        if is_full(error) {
            Self::Full { action: action.to_owned(), path: path.to_owned() }
        } else {
            Self::Io { action: action.to_owned(), path: path.to_owned(), reason: error.to_string() }
        }
    }

    /// A failed sync, or a failure that may hide one.
    pub(crate) fn fatal(action: &str, path: &Path, reason: &impl ToString) -> Self {
        Self::Fatal { action: action.to_owned(), path: path.to_owned(), reason: reason.to_string() }
    }
}

/// Whether the error says that there is no room.
pub(crate) fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}

/// Bytes as text for a message: printable characters as they are, others escaped, cut after 80 bytes.
pub(crate) fn printable(bytes: &[u8]) -> String {
    const SHOWN: usize = 80;
    let mut text = bytes[..bytes.len().min(SHOWN)].escape_ascii().to_string();
    if bytes.len() > SHOWN {
        text.push_str("...");
    }
    text
}

fn owner_text(pid: Option<u32>, contact: Option<&str>) -> String {
    let mut text = match pid {
        Some(pid) => format!("process {pid}"),
        None => "another process (which may be looking at it offline)".to_owned(),
    };
    if let Some(contact) = contact.filter(|c| !c.is_empty()) {
        text.push_str(", reachable at ");
        text.push_str(contact);
    }
    text.push_str("; ask it, or stop it first");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_thing_and_the_way_out() {
        let locked = StoreError::Locked {
            path: "/repo/store".into(),
            pid: Some(41),
            contact: Some("http://127.0.0.1:2345".to_owned()),
        };
        assert_eq!(
            locked.to_string(),
            "the store /repo/store is in use by process 41, reachable at http://127.0.0.1:2345; \
             ask it, or stop it first"
        );
        let large =
            StoreError::TooLarge { what: "value", key: printable(b"m/\x00\x01"), bytes: 70_000, max: 65_536 };
        assert!(large.to_string().contains("m/\\\\x00\\\\x01"), "{large}");
    }

    #[test]
    fn full_disks_are_told_from_other_failures() {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let error = StoreError::io("append to", Path::new("/x"), &full);
        assert!(matches!(error, StoreError::Full { .. }) && error.is_transient() && error.is_uncertain());
        let denied = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        assert!(matches!(StoreError::io("open", Path::new("/x"), &denied), StoreError::Io { .. }));
        assert!(StoreError::fatal("sync", Path::new("/x"), &"EIO").is_fatal());
    }

    #[test]
    fn long_keys_are_shortened() {
        assert_eq!(printable(&[b'a'; 100]), format!("{}...", "a".repeat(80)));
    }
}
