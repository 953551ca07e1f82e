//! Asks a running service whether it is fit to serve: what a container's health check runs, where there is no other client.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustls::crypto::aws_lc_rs;
use ureq::Agent;
use ureq::http::Uri;
use ureq::tls::TlsConfig;

use crate::settings::Settings;

/// Less than those who ask wait.
const PATIENCE: Duration = Duration::from_secs(3);

/// Asks at `url`, otherwise where the settings say that the service listens.
///
/// # Errors
/// Why it is not fit, or that nobody answers.
pub fn ask(settings: &Settings, url: Option<&str>) -> anyhow::Result<()> {
    let (base, uri) = address(settings.addr, settings.tls().is_some(), url)?;
    // It is this machine, and the certificate is for the name that others know it by.
    let tls = TlsConfig::builder()
        .disable_verification(true)
        .unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider()))
        .build();
    let config = Agent::config_builder().tls_config(tls).timeout_global(Some(PATIENCE)).http_status_as_error(false);
    let agent: Agent = config.proxy(None).build().into();
    let mut answer = agent.get(uri).call().with_context(|| format!("nobody answers at {base}"))?;
    let text = answer.body_mut().read_to_string().unwrap_or_default();
    ensure!(answer.status().is_success(), "not ready, status {}: {}", answer.status().as_u16(), text.trim());
    Ok(())
}

/// The service at `url`, otherwise where the settings say that it listens.
///
/// # Errors
/// When it is no URL, or another machine's over HTTPS.
pub fn base(settings: &Settings, url: Option<&str>) -> anyhow::Result<String> {
    Ok(address(settings.addr, settings.tls().is_some(), url)?.0)
}

/// Whom to ask. An address that the service listens on is this machine's; one that was named has to be, over HTTPS.
fn address(addr: SocketAddr, has_tls: bool, url: Option<&str>) -> anyhow::Result<(String, Uri)> {
    let base = url.map_or_else(|| own_base(addr, has_tls), |url| url.trim_end_matches('/').to_owned());
    let uri: Uri = format!("{base}/readyz").parse().with_context(|| format!("{base} is no URL"))?;
    if url.is_some() && uri.scheme_str() == Some("https") && !is_this_machine(uri.host().unwrap_or_default()) {
        bail!("over HTTPS only this machine is asked, whose certificate nobody has to vouch for");
    }
    Ok((base, uri))
}

/// Where somebody on the same machine reaches who listens on `addr`.
fn own_base(addr: SocketAddr, has_tls: bool) -> String {
    let ip = match addr.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    format!("{}://{}", if has_tls { "https" } else { "http" }, SocketAddr::new(ip, addr.port()))
}

fn is_this_machine(host: &str) -> bool {
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_listens_everywhere_is_asked_here() {
        #[rustfmt::skip]
        let cases = [
            // listens on,       with TLS, is asked at
            ("0.0.0.0:8080",     false,    "http://127.0.0.1:8080"),
            ("[::]:8080",        true,     "https://[::1]:8080"),
            ("127.0.0.1:80",     false,    "http://127.0.0.1:80"),
            ("10.0.0.7:443",     true,     "https://10.0.0.7:443"),
        ];
        for (addr, has_tls, expected) in cases {
            let (base, _) = address(addr.parse().expect("an address"), has_tls, None).expect("its own");
            assert_eq!(base, expected);
        }
        for (host, is_here) in
            [("localhost", true), ("127.0.0.7", true), ("[::1]", true), ("10.0.0.7", false), ("billing", false)]
        {
            let own = "10.0.0.7:443".parse().expect("an address");
            let named = address(own, true, Some(&format!("https://{host}:8443/")));
            assert_eq!(named.is_ok(), is_here, "{host}");
        }
    }
}
