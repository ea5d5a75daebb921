//! Exit codes of executed messages (`chain.md` §3.4, §5.4).

use serde::{Deserialize, Serialize};
use std::fmt;

/// The exit code of an executed message. **Zero does not prove that a sector is active** (`chain.md` §3.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ExitCode(pub u32);

/// What an exit code allows (`chain.md` §5.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExitClass {
    /// The message was executed without error.
    Ok,
    /// Failed without breaking a rule of the actor (6, 7, 19 and the other system codes): resubmit after correction.
    Failed,
    /// A rule was broken (16, 17, 18, 20 and the miner's own codes): check again what exists, never resubmit blindly.
    RuleBroken,
    /// The call itself is wrong (21, 22): stop and alarm.
    ProgrammingFault,
}

macro_rules! exit_codes {
    ($($name:ident $code:literal $text:literal;)*) => {
        impl ExitCode {
            $(#[doc = $text] pub const $name: ExitCode = ExitCode($code);)*

            /// The code's name in plain words.
            pub fn name(self) -> &'static str {
                match self.0 { $($code => $text,)* _ => "unknown exit code" }
            }
        }
    };
}

exit_codes! {
    OK 0 "ok";
    SENDER_INVALID 1 "sender invalid";
    SENDER_STATE_INVALID 2 "sender state invalid";
    ILLEGAL_INSTRUCTION 4 "illegal instruction";
    INVALID_RECEIVER 5 "invalid receiver";
    INSUFFICIENT_FUNDS_SYSTEM 6 "sender has insufficient funds";
    OUT_OF_GAS 7 "out of gas";
    ILLEGAL_EXIT_CODE 9 "illegal exit code";
    ASSERTION_FAILED_SYSTEM 10 "system assertion failed";
    MISSING_RETURN 11 "missing return";
    ILLEGAL_ARGUMENT 16 "illegal argument";
    NOT_FOUND 17 "not found";
    FORBIDDEN 18 "forbidden";
    INSUFFICIENT_FUNDS 19 "insufficient funds";
    ILLEGAL_STATE 20 "illegal state";
    SERIALIZATION 21 "serialization";
    UNHANDLED_MESSAGE 22 "unhandled message";
    UNSPECIFIED 23 "unspecified";
    ASSERTION_FAILED 24 "assertion failed";
    READ_ONLY 25 "read only";
    NOT_PAYABLE 26 "not payable";
    BALANCE_INVARIANTS_BROKEN 1000 "balance invariants broken";
    NOTIFICATION_SEND_FAILED 1001 "notification send failed";
    NOTIFICATION_RECEIVER_ABORTED 1002 "notification receiver aborted";
    NOTIFICATION_RESPONSE_INVALID 1003 "notification response invalid";
    NOTIFICATION_REJECTED 1004 "notification rejected";
}

impl ExitCode {
    /// Whether the message was executed without error.
    pub fn is_ok(self) -> bool {
        self == Self::OK
    }

    /// What the code allows.
    pub fn class(self) -> ExitClass {
        match self.0 {
            0 => ExitClass::Ok,
            21 | 22 => ExitClass::ProgrammingFault,
            19 => ExitClass::Failed,
            16.. => ExitClass::RuleBroken,
            _ => ExitClass::Failed,
        }
    }
}

impl fmt::Display for ExitCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0, self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_the_contract() {
        let of =
            |codes: &[u32], class| codes.iter().for_each(|c| assert_eq!(ExitCode(*c).class(), class, "{c}"));
        of(&[0], ExitClass::Ok);
        of(&[6, 7, 19], ExitClass::Failed);
        of(&[16, 17, 18, 20], ExitClass::RuleBroken);
        of(&[21, 22], ExitClass::ProgrammingFault);
    }

    #[test]
    fn the_text_names_the_code() {
        assert_eq!(ExitCode::FORBIDDEN.to_string(), "18 (forbidden)");
        assert_eq!(ExitCode(77).to_string(), "77 (unknown exit code)");
    }
}
