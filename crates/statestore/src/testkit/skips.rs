//! Tests that cannot do their work everywhere say so in the file that `SEALRIG_SKIPS` names, which CI prints.

/// Writes down that a test could not do its work here, and why.
///
/// # Panics
/// If the file cannot be written.
pub fn skipped(test: &str, reason: &str) {
    use std::io::Write as _;
    println!("SKIPPED: {test}: {reason}");
    if let Some(path) = std::env::var_os("SEALRIG_SKIPS") {
        let file = std::fs::File::options().create(true).append(true).open(path);
        file.and_then(|mut f| writeln!(f, "{test}: {reason}"))
            .expect("the list of skipped tests can be written");
    }
}
