//! Configuration: every setting is a flag and an environment variable.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::tls::TlsFiles;

/// What the program is told about itself.
#[derive(Args, Clone, Debug)]
pub struct Settings {
    /// Where to listen.
    #[arg(long, env = "BILLING_ADDR", default_value = "127.0.0.1:8080", global = true)]
    pub addr: SocketAddr,
    /// A Postgres to use instead of a private one.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, global = true)]
    pub database_url: Option<String>,
    /// Where the private Postgres and the key pepper are kept [default: a folder of the user's].
    #[arg(long, env = "BILLING_DATA_DIR", global = true)]
    data_dir: Option<PathBuf>,
    /// The key of the first organization; a random one, printed once, when missing.
    #[arg(long, env = "BILLING_BOOTSTRAP_API_KEY", hide_env_values = true, global = true)]
    pub bootstrap_api_key: Option<String>,
    /// The secret that API keys are digested with; a file in the data folder when missing.
    #[arg(long, env = "BILLING_KEY_PEPPER", hide_env_values = true, global = true)]
    pub key_pepper: Option<String>,
    /// The certificate to serve HTTPS with, in PEM, with those that vouch for it; plain HTTP when missing.
    #[arg(long, env = "BILLING_TLS_CERT", requires = "tls_key", global = true)]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM.
    #[arg(long, env = "BILLING_TLS_KEY", requires = "tls_cert", global = true)]
    tls_key: Option<PathBuf>,
    /// Requests that may use the database at the same time.
    #[arg(long, env = "BILLING_POOL_SIZE", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1_000), global = true)]
    pub pool_size: u32,
    /// Install Postgres with the system's package manager where there is none.
    #[arg(long, global = true)]
    pub install_postgres: bool,
}

impl Settings {
    /// The certificate and its key, when both are given.
    pub fn tls(&self) -> Option<TlsFiles> {
        let (certificate, key) = self.tls_cert.clone().zip(self.tls_key.clone())?;
        Some(TlsFiles { certificate, key })
    }

    /// Where the private Postgres and the key pepper are kept.
    pub fn data_dir(&self) -> PathBuf {
        self.data_dir.clone().unwrap_or_else(|| postgres_local::default_data_dir("billing"))
    }
}
