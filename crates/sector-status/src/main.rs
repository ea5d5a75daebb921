//! sector-status
fn main() {}
