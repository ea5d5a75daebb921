//! statemachine
