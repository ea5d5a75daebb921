//! commit_rules
