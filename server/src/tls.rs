//! Certificates: the server's, and those of its clients.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::options::Tls;

/// Reads the files, and returns the other side of handshakes; `None` without a certificate.
pub(crate) fn acceptor(tls: &Tls) -> Result<Option<TlsAcceptor>> {
    let (Some(cert), Some(key)) = (&tls.cert, &tls.key) else { return Ok(None) };
    let own = certificates(cert)?;
    let key = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| anyhow!("{}: {error}", key.display()))
        .context("the private key")?;
    let provider = Arc::new(default_provider());
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let config = match &tls.client_ca {
        None => config.with_no_client_auth(),
        Some(file) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(file)? {
                roots.add(certificate).with_context(|| file.display().to_string())?;
            }
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
            config.with_client_cert_verifier(verifier)
        }
    };
    let mut config = config.with_single_cert(own, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    let read = read.map_err(|error| anyhow!("{}: {error}", file.display()))?;
    anyhow::ensure!(!read.is_empty(), "{} has no certificate", file.display());
    Ok(read)
}
