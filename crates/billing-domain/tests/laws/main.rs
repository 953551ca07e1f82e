//! Laws of the engine as a whole, over its public interface: what is given in parts adds up to the whole, neither order
//! nor steps matter, and every line can be computed again from its trace.

mod charges;
mod corrected_taxes;
mod corrections;
mod credit_notes;
mod exact;
mod invoices;
mod life;
mod meetings;
mod payments;
mod properties;
mod rebuild;
mod recompute;
mod usage;
mod values;

use proptest::test_runner::Config;

/// 10,000 cases, or as many as `PROPTEST_CASES` says.
fn laws() -> Config {
    let config = Config::default();
    // 256 is what proptest takes when nobody asks for a number.
    let cases = if config.cases == 256 { 10_000 } else { config.cases };
    Config { cases, failure_persistence: None, ..config }
}

/// 2,000 cases, or as many as `PROPTEST_CASES` says: of laws whose one case is a whole life or several.
fn fewer_laws() -> Config {
    let config = laws();
    let cases = if config.cases == 10_000 { 2_000 } else { config.cases };
    Config { cases, ..config }
}
