//! sealing
