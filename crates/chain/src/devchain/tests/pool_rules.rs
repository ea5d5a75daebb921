//! pool_rules
