//! Clients as `lockage-tower` counts them: an address, behind trusted proxies and by its network, or a host name.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use ipnet::IpNet;
use lockage::limiter::Ipv6Network;
use serde::Deserialize;

use super::text::escape_invalid;

/// A network of trusted proxies, such as `10.0.0.0/8`, or a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Network(IpNet);

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("{text:?} is no network of proxies: {why}");
        let network: IpNet = text
            .parse()
            .or_else(|_| text.parse().map(|address: IpAddr| address.into()))
            .map_err(|_| wrong("write an address, or a network such as 10.0.0.0/8"))?;
        match network {
            network if network.prefix_len() == 0 => Err(wrong("it trusts every client")),
            IpNet::V6(v6) if v6.addr().to_ipv4_mapped().is_some() => {
                Err(wrong("write networks of IPv4 as such, as in 10.0.0.0/8"))
            }
            network => Ok(Network(network.trunc())),
        }
    }
}

impl TryFrom<String> for Network {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// The rule by which addresses are clients.
#[derive(Clone, Debug)]
pub(super) struct Clients {
    pub(super) trusted: Vec<Network>,
    pub(super) ipv6_prefix: u8,
}

impl Clients {
    /// Returns the client of addresses that proxies wrote from left to right: the first from the right that is no
    /// trusted proxy's. If an entry is no address, the client is the proxy that wrote it; `None` if that is not there.
    pub(super) fn of_list<'a>(
        &self,
        entries: impl DoubleEndedIterator<Item = &'a [u8]>,
    ) -> Option<IpAddr> {
        let mut client = None;
        for entry in entries.rev() {
            let Some(address) = address(entry) else { return client };
            client = Some(address);
            if !self.trusted.iter().any(|network| network.0.contains(&address)) {
                break;
            }
        }
        client
    }

    /// Returns the name of an address as a key: that of its network, if it is one of IPv6.
    pub(super) fn key(&self, address: IpAddr) -> String {
        match address {
            IpAddr::V6(address) => Ipv6Network::new(address, self.ipv6_prefix).to_string(),
            IpAddr::V4(address) => address.to_string(),
        }
    }

    /// Returns the key of a text that is an address, a list of them, or a host name; and whether it is a list.
    pub(super) fn of_text(&self, text: &[u8]) -> Option<(String, bool)> {
        if let Some(client) = self.of_list(text.split(|&byte| byte == b',')) {
            return Some((self.key(client), text.contains(&b',')));
        }
        host_name(text).map(|name| (name, false))
    }

    /// Returns the key of a text of any kind: addresses are clients here too, and other texts are as they are.
    pub(super) fn of_any<'a>(&self, text: &'a [u8]) -> (Cow<'a, str>, bool) {
        match self.of_list(text.split(|&byte| byte == b',')) {
            Some(client) => (self.key(client).into(), text.contains(&b',')),
            None => (escape_invalid(text), false),
        }
    }
}

/// Reads `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80` and `fe80::1%eth0`.
///
/// Only unicast addresses that are in use: `12:2001:db8::1` is a line's number in front of an address.
pub(super) fn address(entry: &[u8]) -> Option<IpAddr> {
    let entry = std::str::from_utf8(entry.trim_ascii()).ok()?;
    let plain = entry.strip_prefix('[').and_then(|entry| entry.strip_suffix(']')).unwrap_or(entry);
    let plain = plain.split_once('%').map_or(plain, |(address, _)| address);
    let address: IpAddr = match plain.parse() {
        Ok(address) => address,
        Err(_) => entry.parse::<SocketAddr>().ok()?.ip(),
    };
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [first, second, ..] = address.segments();
            let is_translated = (first, second) == (0x64, 0xff9b);
            let is_used = matches!(first, 0 | 0x2000..=0x3fff | 0xfc00..=0xfdff | 0xfe80..=0xfebf);
            (is_used || is_translated).then_some(address.into())
        }
        address => Some(address),
    }
}

/// Reads a host name of at least two labels, `localhost`, or `unix:`, which nginx writes for sockets; in small letters.
pub(super) fn host_name(text: &[u8]) -> Option<String> {
    if text == b"unix:" {
        return Some("unix:".to_owned());
    }
    let text = text.strip_suffix(b".").unwrap_or(text);
    let has_letter = |label: &[u8]| label.iter().any(u8::is_ascii_alphabetic);
    let is_qualified = text.contains(&b'.') || text.eq_ignore_ascii_case(b"localhost");
    let last = text.rsplit(|&byte| byte == b'.').next()?;
    let is_name = is_qualified && has_letter(last) && text.len() < 254;
    (is_name && text.split(|&byte| byte == b'.').all(is_label))
        .then(|| escape_invalid(text).to_ascii_lowercase())
}

/// Returns whether this is a label of a host name.
pub(super) fn is_label(label: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..64).contains(&label.len())
        && label.iter().all(is_plain)
        && !label.starts_with(b"-")
        && !label.ends_with(b"-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients(trusted: &[&str], ipv6_prefix: u8) -> Clients {
        let trusted = trusted.iter().map(|network| network.parse().unwrap()).collect();
        Clients { trusted, ipv6_prefix }
    }

    #[test]
    fn addresses_are_those_of_their_network() {
        for (text, key) in [
            ("192.0.2.1", "192.0.2.1"),
            ("192.0.2.1:5555", "192.0.2.1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("[::ffff:192.0.2.1]:80", "192.0.2.1"),
            ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
            ("[2001:DB8:1:2::1]:443", "2001:db8:1:2::/64"),
            ("fe80::1%eth0", "fe80::/64"),
            ("::1", "::/64"),
            ("Host.Example.ORG.", "host.example.org"),
        ] {
            let found = clients(&[], 64).of_text(text.as_bytes());
            assert_eq!(found, Some((key.to_owned(), false)), "{text}");
        }
        let address = b"2001:db8:1:234:5::6";
        for (prefix, key) in [
            (48, "2001:db8:1::/48"),
            (56, "2001:db8:1:200::/56"),
            (128, "2001:db8:1:234:5::6/128"),
            (1, "::/1"),
        ] {
            assert_eq!(clients(&[], prefix).of_text(address).unwrap().0, key);
        }
    }

    /// The cases of the layer's own test, the connection's address last.
    #[test]
    fn the_client_behind_proxies_is_that_of_the_layer() {
        let clients = clients(&["10.0.0.0/8", "2001:db8:aaaa::/48", "192.0.2.7"], 64);
        for (list, client) in [
            ("10.0.0.1", "10.0.0.1"),
            ("203.0.113.9,10.0.0.1", "203.0.113.9"),
            ("198.51.100.1, 203.0.113.9,10.0.0.1", "203.0.113.9"),
            ("198.51.100.1, 203.0.113.9, 10.1.2.3,10.0.0.1", "203.0.113.9"),
            ("198.51.100.1,203.0.113.9,10.1.2.3 , 192.0.2.7,10.0.0.1", "203.0.113.9"),
            ("10.0.0.3, 10.0.0.2,10.0.0.1", "10.0.0.3"),
            ("198.51.100.1,203.0.113.9", "203.0.113.9"),
            ("203.0.113.9:4711,10.0.0.1", "203.0.113.9"),
            ("[2001:db8:1:2::5]:443,10.0.0.1", "2001:db8:1:2::/64"),
            ("[2001:db8:1:2::5],10.0.0.1", "2001:db8:1:2::/64"),
            ("\t 2001:db8:1:2::5 \t,10.0.0.1", "2001:db8:1:2::/64"),
            ("203.0.113.9,2001:db8:aaaa::1", "203.0.113.9"),
            ("::ffff:203.0.113.9,::ffff:10.0.0.1", "203.0.113.9"),
            ("203.0.113.9, unknown,10.0.0.1", "10.0.0.1"),
            ("unknown, 10.0.0.2,10.0.0.1", "10.0.0.2"),
            ("203.0.113.9,,10.0.0.1", "10.0.0.1"),
            ("203.0.113.9, _hidden,10.0.0.1", "10.0.0.1"),
            ("1.2.3.4.5,10.0.0.1", "10.0.0.1"),
            ("203.0.113.9:99999,10.0.0.1", "10.0.0.1"),
        ] {
            assert_eq!(clients.of_text(list.as_bytes()).unwrap().0, client, "{list}");
        }
        assert_eq!(clients.of_text(b"203.0.113.9, unknown"), None, "nobody wrote that");
    }

    #[test]
    fn other_texts_are_no_clients() {
        for text in [
            "",
            "-",
            "Mar",
            "09:00:00",
            "192.0.2.1,",
            "12:2001:db8::1",
            "a:2001:db8::1",
            "256.0.0.1",
            "1.2",
            "nginx:",
            "a..example",
            "-a.example",
            "a b.example",
            "2026-03-12T09:00:00Z",
            "web1",
            "ff02::1",
        ] {
            assert_eq!(clients(&[], 64).of_text(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn networks_are_refused_as_by_the_layer() {
        for text in ["10.0.0.0/33", "proxy", "0.0.0.0/0", "::/0", "::ffff:10.0.0.0/104", ""] {
            assert!(text.parse::<Network>().unwrap_err().contains("no network of proxies"));
        }
        assert_eq!("10.1.2.3/8".parse::<Network>(), "10.0.0.0/8".parse());
    }
}
