//! For tests: builders that are valid by default, and the contract every store must pass.

pub mod build;
#[cfg(all(feature = "service", feature = "custom-sql"))]
pub mod contract;
#[cfg(feature = "custom-sql")]
pub mod custom_sql;
pub mod world;
