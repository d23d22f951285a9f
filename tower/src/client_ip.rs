//! The client's address, behind trusted proxies.

use std::fmt::Write;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderMap, HeaderName};
use ipnet::IpNet;

use crate::error::SetupError;
use crate::key::Key;
use crate::rejection::Reason;

/// The peer address of a connection, for servers other than axum and tonic: put it into the extensions of each request.
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

/// Returns the key of a request's client address.
///
/// IPv6 clients have any number of addresses in one network, so their key is that of the 64-bit network.
/// `::ffff:192.0.2.1` is `192.0.2.1`.
///
/// The address is that of the connection, from axum's `ConnectInfo`, tonic's `TcpConnectInfo` or a [`PeerAddr`];
/// without any of them requests are answered 500. Behind a proxy that would be the proxy's own: see
/// [`ClientIp::behind`].
pub fn ip() -> ClientIp {
    ClientIp { proxies: None }
}

impl ClientIp {
    /// Trusts the `X-Forwarded-For` fields of proxies in these networks (as in `10.0.0.0/8`, or single addresses).
    ///
    /// The lines of the field are joined and read from right to left, as proxies append to it: the client is the first
    /// address that is not a trusted proxy's. Entries to its left are the client's own claim, and ignored. If an entry
    /// is not an address, the client is the proxy that wrote it. A connection from elsewhere than a trusted proxy is
    /// the client itself, whatever it claims.
    ///
    /// # Errors
    /// [`SetupError::Cidr`], also for a network of all addresses, and for IPv4 networks that are written as IPv6.
    pub fn behind<'a>(
        self,
        proxies: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, SetupError> {
        self.behind_field("x-forwarded-for", proxies)
    }

    /// Trusts another header field of that form, and reads no other.
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

    /// Returns the key of both: a limit for each pair.
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

/// An address that tells clients apart.
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

/// Returns the peer address of the connection.
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
