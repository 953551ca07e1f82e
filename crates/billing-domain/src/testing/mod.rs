//! For tests: builders that are valid by default, and the contract every store must pass.

pub mod build;
pub mod contract;
pub mod custom_sql;
pub mod world;
