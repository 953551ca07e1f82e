//! Where a request comes from, behind proxies too.

use std::net::IpAddr;
use std::str::FromStr;

use actix_web::HttpRequest;

/// Addresses that share their first bits: `10.0.0.0/8`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is neither an address nor a network such as 10.0.0.0/8");
        let (address, bits) = text.trim().split_once('/').map_or((text.trim(), None), |(a, b)| (a, Some(b)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let all = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(all), str::parse).map_err(|_| wrong())?;
        if bits > all { Err(wrong()) } else { Ok(Self { address, bits }) }
    }
}

impl Network {
    fn contains(&self, other: IpAddr) -> bool {
        let shared = |a: u128, b: u128, all: u32| self.bits == 0 || (a ^ b) >> (all - self.bits) == 0;
        match (self.address, other.to_canonical()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => shared(u128::from(a.to_bits()), u128::from(b.to_bits()), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => shared(a.to_bits(), b.to_bits(), 128),
            _ => false,
        }
    }
}

/// What is known of the way a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Who sent it.
    pub address: Option<IpAddr>,
    /// Whether it was encrypted on its way to the first of our own proxies.
    pub is_encrypted: bool,
}

/// The way of a request. Proxies are believed only when they are trusted, each about the one before it: the address is the last
/// that no trusted proxy has.
pub fn way_of(request: &HttpRequest, trusted: &[Network], serves_tls: bool) -> Way {
    let peer = request.peer_addr().map(|peer| peer.ip().to_canonical());
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    if !peer.is_some_and(is_trusted) {
        return Way { address: peer, is_encrypted: serves_tls };
    }
    let header = |name: &str| {
        let values = request.headers().get_all(name).filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).map(|part| part.trim().to_owned()).collect::<Vec<_>>()
    };
    let mut address = peer;
    for hop in header("x-forwarded-for").iter().rev() {
        let Ok(hop) = hop.parse::<IpAddr>() else { break };
        address = Some(hop.to_canonical());
        if !is_trusted(hop) {
            break;
        }
    }
    let is_https = header("x-forwarded-proto").last().is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"));
    Way { address, is_encrypted: serves_tls || is_https }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn only_trusted_proxies_are_believed() {
        let trusted: Vec<Network> = ["10.0.0.0/8", "::1"].map(|text| text.parse().expect("a network")).to_vec();
        #[rustfmt::skip]
        let cases = [
            // peer,            forwarded for,                  scheme,   address,      encrypted, why
            ("192.0.2.1:1",     "203.0.113.9",                  "https",  "192.0.2.1",   false,     "anybody can write a header"),
            ("10.1.2.3:1",      "203.0.113.9",                  "https",  "203.0.113.9", true,      "a proxy of ours says so"),
            ("10.1.2.3:1",      "198.51.100.7, 203.0.113.9",    "http",   "203.0.113.9", false,     "what came before it is hearsay"),
            ("10.1.2.3:1",      "203.0.113.9, 10.9.9.9",        "https",  "203.0.113.9", true,      "two of ours in a row"),
            ("10.1.2.3:1",      "nonsense",                     "",       "10.1.2.3",    false,     "what is no address is nobody"),
            ("10.1.2.3:1",      "",                             "",       "10.1.2.3",    false,     "nothing was said"),
            ("[::1]:1",         "2001:db8::1",                  "https",  "2001:db8::1", true,      "the newer addresses too"),
        ];
        for (peer, forwarded, scheme, address, is_encrypted, why) in cases {
            let request = TestRequest::default()
                .peer_addr(peer.parse().expect("an address"))
                .insert_header(("x-forwarded-for", forwarded))
                .insert_header(("x-forwarded-proto", scheme));
            let way = way_of(&request.to_http_request(), &trusted, false);
            assert_eq!(way, Way { address: Some(address.parse().expect("an address")), is_encrypted }, "{why}");
        }
        assert!(way_of(&TestRequest::default().to_http_request(), &[], true).is_encrypted, "TLS of our own");
    }

    #[test]
    fn networks_are_read() {
        #[rustfmt::skip]
        let cases = [
            // text,           is one, why
            ("10.0.0.0/8",     true,   "a network"),
            ("127.0.0.1",      true,   "one address"),
            ("0.0.0.0/0",      true,   "everybody"),
            ("10.0.0.0/33",    false,  "too many bits"),
            ("proxy",          false,  "a name is no address"),
            ("",               false,  "nothing"),
        ];
        for (text, is_one, why) in cases {
            assert_eq!(text.parse::<Network>().is_ok(), is_one, "{text}: {why}");
        }
    }
}
