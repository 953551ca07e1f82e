//! Which addresses are anybody's, and which only this machine's or its neighbours'.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What is not the public internet in IPv4, by its first address and length of prefix.
#[rustfmt::skip]
const REFUSED_V4: [([u8; 4], u32, &str); 17] = [
    ([0, 0, 0, 0],       8,  "unspecified"),
    ([10, 0, 0, 0],      8,  "private"),
    ([100, 64, 0, 0],    10, "shared by customers of a provider"),
    ([127, 0, 0, 0],     8,  "loopback"),
    ([168, 63, 129, 16], 32, "a cloud's platform"),
    ([169, 254, 0, 0],   16, "link-local, where clouds keep their metadata"),
    ([172, 16, 0, 0],    12, "private"),
    ([192, 0, 0, 0],     24, "for protocols"),
    ([192, 0, 2, 0],     24, "for documentation"),
    ([192, 88, 99, 0],   24, "a relay of 6to4"),
    ([192, 168, 0, 0],   16, "private"),
    ([198, 18, 0, 0],    15, "for benchmarks"),
    ([198, 51, 100, 0],  24, "for documentation"),
    ([203, 0, 113, 0],   24, "for documentation"),
    ([224, 0, 0, 0],     4,  "multicast"),
    ([255, 255, 255, 255], 32, "broadcast"),
    ([240, 0, 0, 0],     4,  "reserved"),
];

/// What is not the public internet in IPv6 although it lies in 2000::/3, in which all of that lies; and, for a better word, what lies
/// outside. The first that fits counts.
#[rustfmt::skip]
const REFUSED_V6: [([u16; 8], u32, &str); 18] = [
    ([0; 8],                            128, "unspecified"),
    ([0, 0, 0, 0, 0, 0, 0, 1],          128, "loopback"),
    ([0, 0, 0, 0, 0, 0xffff, 0, 0],     96,  "an IPv4 address in disguise"),
    ([0; 8],                            96,  "an IPv4 address in disguise"),
    ([0x64, 0xff9b, 0, 0, 0, 0, 0, 0],  96,  "translated to IPv4 by NAT64"),
    ([0x64, 0xff9b, 1, 0, 0, 0, 0, 0],  48,  "translated to IPv4 by NAT64"),
    ([0x100, 0, 0, 0, 0, 0, 0, 0],      64,  "discarded"),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0],     32,  "tunnelled to IPv4 by Teredo"),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32,  "for documentation"),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0],     23,  "for protocols"),
    ([0x2002, 0, 0, 0, 0, 0, 0, 0],     16,  "tunnelled to IPv4 by 6to4"),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0],     20,  "for documentation"),
    ([0x5f00, 0, 0, 0, 0, 0, 0, 0],     16,  "for segment routing"),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0],     7,   "unique-local"),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0],     10,  "link-local"),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0],     10,  "site-local"),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0],     8,   "multicast"),
    ([0x4000, 0, 0, 0, 0, 0, 0, 0],     2,   "reserved"),
];

/// The first half of all addresses of IPv6 that anybody may be reached at.
const PUBLIC_V6: (u128, u32) = (0x2000 << 112, 3);

/// Why an address is not to be connected to by whoever only may reach the public internet, in a word; `None`: it is public.
///
/// An address of IPv6 that stands for one of IPv4 is refused whatever it stands for: nobody who means a public one writes it so.
pub fn refusal_of(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => {
            let bits = u128::from(u32::from(address)) << 96;
            let refused = REFUSED_V4.iter().find(|(network, length, _)| {
                is_within(bits, u128::from(u32::from(Ipv4Addr::from(*network))) << 96, *length)
            });
            refused.map(|(_, _, why)| *why)
        }
        IpAddr::V6(address) => {
            let bits = u128::from(address);
            let refused = REFUSED_V6
                .iter()
                .find(|(network, length, _)| is_within(bits, u128::from(Ipv6Addr::from(*network)), *length));
            match refused {
                Some((_, _, why)) => Some(why),
                None if !is_within(bits, PUBLIC_V6.0, PUBLIC_V6.1) => Some("reserved"),
                None => None,
            }
        }
    }
}

/// Whether the first `length` bits are the network's.
fn is_within(address: u128, network: u128, length: u32) -> bool {
    (address ^ network).leading_zeros() >= length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_public_is_let_through() {
        #[rustfmt::skip]
        let cases = [
            // address,                              public, why
            ("1.1.1.1",                              true,   "anybody's"),
            ("9.255.255.255",                        true,   "the last before 10/8"),
            ("11.0.0.0",                             true,   "the first behind it"),
            ("100.63.255.255",                       true,   "the last before 100.64/10"),
            ("100.128.0.0",                          true,   "the first behind it"),
            ("172.15.255.255",                       true,   "the last before 172.16/12"),
            ("172.32.0.0",                           true,   "the first behind it"),
            ("192.169.0.1",                          true,   "beside 192.168/16"),
            ("198.20.0.0",                           true,   "behind the benchmarks"),
            ("223.255.255.255",                      true,   "the last before multicast"),
            ("0.0.0.0",                              false,  "means this machine"),
            ("0.1.2.3",                              false,  "this network"),
            ("10.0.0.1",                             false,  "private"),
            ("100.64.0.1",                           false,  "carrier-grade NAT"),
            ("100.100.100.200",                      false,  "a cloud's metadata"),
            ("127.0.0.1",                            false,  "loopback"),
            ("127.255.255.254",                      false,  "loopback too"),
            ("168.63.129.16",                        false,  "a cloud's platform at a public address"),
            ("169.254.169.254",                      false,  "the metadata of most clouds"),
            ("172.16.0.1",                           false,  "private"),
            ("172.31.255.255",                       false,  "private, the last"),
            ("192.0.0.192",                          false,  "another cloud's metadata"),
            ("192.0.2.1",                            false,  "documentation"),
            ("192.88.99.1",                          false,  "6to4's relay"),
            ("192.168.1.1",                          false,  "private"),
            ("198.18.0.1",                           false,  "benchmarks"),
            ("198.51.100.7",                         false,  "documentation"),
            ("203.0.113.7",                          false,  "documentation"),
            ("224.0.0.1",                            false,  "multicast"),
            ("240.0.0.1",                            false,  "reserved"),
            ("255.255.255.255",                      false,  "broadcast"),
            ("2606:4700:4700::1111",                 true,   "anybody's"),
            ("2a00:1450:4001::200e",                 true,   "anybody's"),
            ("2001:4860:4860::8888",                 true,   "public although it begins with 2001"),
            ("::",                                   false,  "unspecified"),
            ("::1",                                  false,  "loopback"),
            ("::127.0.0.1",                          false,  "compatible with IPv4, long out of use"),
            ("::ffff:127.0.0.1",                     false,  "loopback, mapped"),
            ("::ffff:8.8.8.8",                       false,  "mapped, whatever it is mapped to"),
            ("64:ff9b::7f00:1",                      false,  "loopback through NAT64"),
            ("64:ff9b:1::a00:1",                     false,  "NAT64 of a network's own"),
            ("100::1",                               false,  "discarded"),
            ("2001::1",                              false,  "Teredo"),
            ("2001:10::1",                           false,  "for protocols"),
            ("2001:db8::1",                          false,  "documentation"),
            ("2002:7f00:1::1",                       false,  "loopback through 6to4"),
            ("3fff::1",                              false,  "documentation"),
            ("4000::1",                              false,  "given to nobody"),
            ("5f00::1",                              false,  "segment routing"),
            ("fc00::1",                              false,  "unique-local"),
            ("fd00:ec2::254",                        false,  "a cloud's metadata"),
            ("fe80::1",                              false,  "link-local"),
            ("fec0::1",                              false,  "site-local"),
            ("ff02::1",                              false,  "multicast"),
        ];
        for (address, public, why) in cases {
            let refused = refusal_of(address.parse().expect("an address"));
            assert_eq!(refused.is_none(), public, "{address}: {why} ({refused:?})");
        }
    }
}
