//! Certificates for those who end TLS here and not at a proxy.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Where a certificate and its key are.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate and those that vouch for it, in PEM.
    pub certificate: PathBuf,
    /// The private key, in PEM.
    pub key: PathBuf,
}

impl TlsFiles {
    /// What the server needs: TLS 1.2 and 1.3, with the ciphers that rustls has by default.
    ///
    /// # Errors
    /// When a file cannot be read, holds nothing of its kind, or the two do not belong together.
    pub fn load(&self) -> anyhow::Result<Arc<ServerConfig>> {
        let chain = certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .with_context(|| format!("no private key in {}", self.key.display()))?;
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .context("the certificate and the private key do not fit together")?;
        Ok(Arc::new(config))
    }
}

fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let read = || CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>();
    let chain = read().with_context(|| format!("no certificate in {}", path.display()))?;
    ensure!(!chain.is_empty(), "no certificate in {}", path.display());
    Ok(chain)
}
