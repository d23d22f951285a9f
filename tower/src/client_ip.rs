//! The client's address, behind trusted proxies.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderMap, HeaderName};
use ipnet::IpNet;
use lockage::limiter::Ipv6Network;

use crate::error::SetupError;
use crate::rejection::Reason;

/// The peer address of a connection, for servers other than axum and tonic: put it into the extensions of each request.
#[derive(Clone, Copy, Debug)]
pub struct PeerAddr(pub SocketAddr);

/// The key of the client's address: see [`ip`].
#[derive(Clone)]
pub struct ClientIp {
    proxies: Option<Proxies>,
    /// The number of bits of an IPv6 address that identify a client.
    ipv6_prefix: u8,
}

#[derive(Clone)]
struct Proxies {
    trusted: Trust,
    field: HeaderName,
}

/// Which addresses are proxies, on the way from this server to the client.
#[derive(Clone)]
enum Trust {
    /// The addresses in these networks.
    Networks(Arc<[IpNet]>),
    /// This many of the nearest ones.
    Hops(usize),
}

/// Returns the key of a request's client address.
///
/// IPv6 clients have any number of addresses in one network, so their key is that of the 64-bit network: see
/// [`ClientIp::ipv6_prefix`]. `::ffff:192.0.2.1` is `192.0.2.1`.
///
/// The address is that of the connection, from axum's `ConnectInfo`, tonic's `TcpConnectInfo` or a [`PeerAddr`];
/// without any of them requests are answered 500. Behind a proxy that would be the proxy's own: see
/// [`ClientIp::behind`] and [`ClientIp::behind_hops`].
pub fn ip() -> ClientIp {
    ClientIp { proxies: None, ipv6_prefix: Ipv6Network::DEFAULT_BITS }
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
        let trusted: Arc<[IpNet]> = proxies.into_iter().map(network).collect::<Result<_, _>>()?;
        if trusted.is_empty() {
            return Err(cidr("", "name at least one network of proxies"));
        }
        self.trusting(field, Trust::Networks(trusted))
    }

    /// Trusts the `X-Forwarded-For` fields of the nearest `hops` proxies, for platforms whose proxies have no known
    /// networks. With one hop, the client is the last address in the field, with two the one before it. Where the field
    /// is shorter, or has something else in it, the client is the last address on the way there, at first that of the
    /// connection. With no hops the field is not read.
    ///
    /// This trusts every connection. It is safe only if the server cannot be reached but through all of these proxies,
    /// and each appends to the end of the field: otherwise clients choose their addresses. Where the networks are known,
    /// [`ClientIp::behind`] depends on neither. The last call of them counts.
    ///
    /// ```
    /// // Behind one router that appends the client's address.
    /// let client = lockage_tower::ip().behind_hops(1);
    /// ```
    pub fn behind_hops(self, hops: usize) -> Self {
        self.behind_hops_field("x-forwarded-for", hops).expect("it is the name of a field")
    }

    /// Trusts another header field of that form, such as `fly-client-ip`, and reads no other.
    ///
    /// # Errors
    /// [`SetupError::HeaderName`].
    pub fn behind_hops_field(self, field: &str, hops: usize) -> Result<Self, SetupError> {
        self.trusting(field, Trust::Hops(hops))
    }

    fn trusting(self, field: &str, trusted: Trust) -> Result<Self, SetupError> {
        let field =
            HeaderName::try_from(field).map_err(|_| SetupError::HeaderName(field.into()))?;
        Ok(ClientIp { proxies: Some(Proxies { trusted, field }), ..self })
    }

    /// Sets how many bits of an IPv6 address identify a client, from 1 to 128; the default is 64. Providers that give
    /// each customer a `/56` or `/48` call for fewer, and hosts that share one `/64` for 128.
    ///
    /// # Errors
    /// [`SetupError::Ipv6Prefix`].
    pub fn ipv6_prefix(self, bits: u8) -> Result<Self, SetupError> {
        match bits {
            1..=128 => Ok(ClientIp { ipv6_prefix: bits, ..self }),
            _ => Err(SetupError::Ipv6Prefix(bits)),
        }
    }

    /// Returns the client of a request.
    pub(crate) fn of(&self, parts: &Parts) -> Result<Client, Reason> {
        let peer = peer(parts).ok_or(Reason::NoPeer)?.to_canonical();
        let proxies = self.proxies.as_ref();
        let address = proxies.map_or(peer, |proxies| proxies.client(peer, &parts.headers));
        Ok(Client { address, ipv6_prefix: self.ipv6_prefix })
    }
}

impl Proxies {
    /// Returns the client of a request from `peer`.
    fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let lines = headers.get_all(&self.field).iter().rev();
        let mut entries = lines.flat_map(|line| line.as_bytes().rsplit(|&byte| byte == b','));
        let (mut client, mut hops) = (peer, 0);
        // Each entry was written by the proxy before it, so it counts only if that one is trusted.
        while self.trusted.includes(client, hops)
            && let Some(entry) = entries.next()
            && let Some(address) = std::str::from_utf8(entry).ok().and_then(address)
        {
            (client, hops) = (address, hops + 1);
        }
        client
    }
}

impl Trust {
    /// Returns whether this address, with this many hops between it and this server, is a trusted proxy's.
    fn includes(&self, address: IpAddr, hops: usize) -> bool {
        match self {
            Trust::Networks(networks) => networks.iter().any(|network| network.contains(&address)),
            Trust::Hops(trusted) => hops < *trusted,
        }
    }
}

/// An address that identifies a client.
#[derive(Debug, PartialEq)]
pub(crate) struct Client {
    address: IpAddr,
    ipv6_prefix: u8,
}

impl Client {
    #[cfg(feature = "rules")]
    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns the address, or the first one of the network of IPv6.
    pub(crate) fn first_address(&self) -> IpAddr {
        match self.address {
            IpAddr::V4(_) => self.address,
            IpAddr::V6(address) => Ipv6Network::new(address, self.ipv6_prefix).first().into(),
        }
    }

    pub(crate) fn write(&self, id: &mut String) {
        match self.address {
            // Nearly all addresses; the standard library's formatting takes three times as long.
            IpAddr::V4(address) => {
                for (index, octet) in address.octets().into_iter().enumerate() {
                    if index > 0 {
                        id.push('.');
                    }
                    id.push_str(itoa::Buffer::new().format(octet));
                }
            }
            IpAddr::V6(address) => {
                // Writing to a string never fails.
                let _ = write!(id, "{}", Ipv6Network::new(address, self.ipv6_prefix));
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
