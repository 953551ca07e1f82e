#![forbid(unsafe_code)]
//! The server's program.

use billing_http::cli::{Cli, run};
use clap::Parser;

fn main() -> anyhow::Result<()> {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    run(Cli::parse())
}
