//! pre_commit_rules
