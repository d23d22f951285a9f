//! Whose request it is: the client's address, behind proxies that are trusted.

use std::fmt::Write;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderMap, HeaderName};
use ipnet::IpNet;

use crate::error::SetupError;
use crate::key::Key;
use crate::rejection::Reason;

/// The address that a connection comes from, for servers that are neither axum nor tonic: put it into the extensions of
/// each request.
#[derive(Clone, Copy, Debug)]
pub struct PeerAddr(pub SocketAddr);

/// The key of the client's address: see [`ip`].
#[derive(Clone)]
pub struct ClientIp {
    proxies: Option<Proxies>,
}

#[derive(Clone)]
struct Proxies {
    trusted: Arc<[IpNet]>,
    field: HeaderName,
}

/// Returns the key of the address that a request comes from.
///
/// IPv6 clients have as many addresses as they like of one network, so their key is that of the network of 64 bits.
/// `::ffff:192.0.2.1` is `192.0.2.1`.
///
/// The address is that of the connection, from axum's `ConnectInfo`, tonic's `TcpConnectInfo` or a [`PeerAddr`]; without
/// any of them requests are answered 500. Behind a proxy that would be the proxy's own: see [`ClientIp::behind`].
pub fn ip() -> ClientIp {
    ClientIp { proxies: None }
}

impl ClientIp {
    /// Trusts what the proxies of these networks (as in `10.0.0.0/8`, or single addresses) say in `X-Forwarded-For`.
    ///
    /// The lines of the field are joined and read from right to left, as proxies append to it: the client is the first
    /// address that is no trusted proxy's. What stands to the left of that is the client's own claim, and not looked
    /// at. Where an entry is no address, the client is the proxy that wrote it. A connection that comes from elsewhere
    /// than a trusted proxy is the client itself, whatever it says.
    ///
    /// # Errors
    /// [`SetupError::Cidr`]: also for a network of all addresses, and for IPv4 networks that are written as IPv6.
    pub fn behind<'a>(
        self,
        proxies: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, SetupError> {
        self.behind_field("x-forwarded-for", proxies)
    }

    /// Does the same by another header field of that form. Only this one is read.
    ///
    /// # Errors
    /// As [`ClientIp::behind`]; [`SetupError::HeaderName`].
    pub fn behind_field<'a>(
        self,
        field: &str,
        proxies: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, SetupError> {
        let field =
            HeaderName::try_from(field).map_err(|_| SetupError::HeaderName(field.into()))?;
        let trusted: Arc<[IpNet]> = proxies.into_iter().map(network).collect::<Result<_, _>>()?;
        if trusted.is_empty() {
            return Err(cidr("", "name at least one network of proxies"));
        }
        Ok(ClientIp { proxies: Some(Proxies { trusted, field }) })
    }

    /// Returns the key of this and another one: a limit for each pair.
    pub fn and(self, other: impl Into<Key>) -> Key {
        Key::from(self).and(other)
    }

    /// Returns the client of a request.
    pub(crate) fn of(&self, parts: &Parts) -> Result<Client, Reason> {
        let peer = peer(parts).ok_or(Reason::NoPeer)?.to_canonical();
        Ok(Client(match &self.proxies {
            Some(proxies) if proxies.trust(peer) => proxies.client(peer, &parts.headers),
            _ => peer,
        }))
    }
}

impl Proxies {
    fn trust(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(&address))
    }

    /// Returns the client that `proxy`, which is trusted, has a request from.
    fn client(&self, proxy: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = proxy;
        for line in headers.get_all(&self.field).iter().rev() {
            for entry in line.as_bytes().rsplit(|&byte| byte == b',') {
                let Some(address) = std::str::from_utf8(entry).ok().and_then(address) else {
                    return client;
                };
                client = address;
                if !self.trust(client) {
                    return client;
                }
            }
        }
        client
    }
}

/// An address as limits tell clients apart.
#[derive(Debug, PartialEq)]
pub(crate) struct Client(IpAddr);

impl Client {
    pub(crate) fn write(&self, id: &mut String) {
        match self.0 {
            // Nearly all addresses; the standard library's way takes three times as long.
            IpAddr::V4(address) => {
                for (index, octet) in address.octets().into_iter().enumerate() {
                    if index > 0 {
                        id.push('.');
                    }
                    id.push_str(itoa::Buffer::new().format(octet));
                }
            }
            IpAddr::V6(address) => {
                let network = Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX));
                // To a string, which takes anything.
                let _ = write!(id, "{network}/64");
            }
        }
    }
}

/// Returns where a connection comes from.
fn peer(parts: &Parts) -> Option<IpAddr> {
    let extensions = &parts.extensions;
    if let Some(PeerAddr(peer)) = extensions.get() {
        return Some(peer.ip());
    }
    #[cfg(feature = "axum")]
    if let Some(axum::extract::ConnectInfo(peer)) =
        extensions.get::<axum::extract::ConnectInfo<SocketAddr>>()
    {
        return Some(peer.ip());
    }
    #[cfg(feature = "tonic")]
    if let Some(info) = extensions.get::<tonic::transport::server::TcpConnectInfo>() {
        return info.remote_addr().map(|peer| peer.ip());
    }
    None
}

/// Reads `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]` and `[2001:db8::1]:80`.
fn address(entry: &str) -> Option<IpAddr> {
    let entry = entry.trim_matches([' ', '\t']);
    let plain = entry.strip_prefix('[').and_then(|entry| entry.strip_suffix(']')).unwrap_or(entry);
    let address = plain.parse().or_else(|_| entry.parse().map(|socket: SocketAddr| socket.ip()));
    address.ok().map(|address: IpAddr| address.to_canonical())
}

/// Reads a network of proxies.
fn network(text: &str) -> Result<IpNet, SetupError> {
    let network: IpNet = text
        .parse()
        .or_else(|_| text.parse().map(|address: IpAddr| address.into()))
        .map_err(|_| cidr(text, "write an address, or a network such as 10.0.0.0/8"))?;
    if network.prefix_len() == 0 {
        return Err(cidr(text, "it trusts every client, and then clients choose their addresses"));
    }
    match network {
        IpNet::V6(v6) if v6.addr().to_ipv4_mapped().is_some() => {
            Err(cidr(text, "write networks of IPv4 as such, as in 10.0.0.0/8"))
        }
        _ => Ok(network.trunc()),
    }
}

fn cidr(text: &str, why: &'static str) -> SetupError {
    SetupError::Cidr { text: text.into(), why }
}
