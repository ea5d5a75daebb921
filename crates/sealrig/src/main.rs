//! sealrig
fn main() {}
