//! Addresses as written in configurations.
//!
//! A malformed address may have a password in any place. So an error contains no part of the address, except for the
//! name of an unknown parameter, and that only if it is a word that no `@` follows.

mod parameters;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::Ipv6Addr;

use parameters::Parameters;

/// The forms of addresses, for errors.
const FORMS: &str = "an address is redis://user:password@host:6379/0, rediss:// (TLS), redis+unix:///path, \
                     redis-sentinel://host:26379?sentinelServiceName=name or redis-cluster://host:6379, and \
                     the latter two take more nodes, as in ?node=host:port";

/// The characters that end a part of an address, for errors.
const ESCAPES: &str = "in a user, a password or a parameter, write % as %25, @ as %40, : as %3A, / as %2F, ? as %3F, \
                       # as %23, & as %26, + as %2B, and a space as %20";

/// A server, a master or a cluster, and the way to log in there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The target of the address.
    pub target: Target,
    /// Whether connections are encrypted, to all nodes.
    pub tls: Tls,
    /// The credentials for servers, not for sentinels.
    pub login: Login,
    /// The database of servers; sentinels have none.
    pub database: u32,
    /// The version of the protocol, if the address has one.
    pub protocol: Option<Protocol>,
}

/// The target of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// One server.
    Server(Node),
    /// One server by a Unix socket with this path.
    Socket(String),
    /// The master that sentinels name.
    Master {
        /// The sentinels.
        sentinels: Vec<Node>,
        /// The name of the service.
        service: String,
        /// The credentials for sentinels.
        login: Login,
    },
    /// The initial nodes of a cluster.
    Cluster(Vec<Node>),
}

/// One server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The host. An IPv6 address has no brackets here.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// Whether connections are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls {
    /// Plain text.
    Off,
    /// TLS, with a certificate for the host.
    Verified,
    /// TLS, with any certificate (`#insecure`).
    Insecure,
}

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2.
    Resp2,
    /// RESP3.
    Resp3,
}

/// Credentials. A user without a password has an empty one.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Login {
    /// The user, if not the default one.
    pub user: Option<String>,
    /// The password.
    pub password: Option<String>,
}

/// Shows no credentials.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").finish_non_exhaustive()
    }
}

/// The kind of a target.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Server,
    Socket,
    Sentinel,
    Cluster,
}

impl Address {
    /// Reads an address. Whether the client has TLS is its adapter's to check.
    ///
    /// # Errors
    /// The problem and its remedy, without credentials, also if the address is malformed.
    pub fn read(address: &str) -> Result<Self, String> {
        let (scheme, rest) = address.trim().split_once("://").unwrap_or_default();
        let (kind, is_tls) =
            read_scheme(scheme).ok_or_else(|| with_forms("it has no known scheme"))?;
        if rest.contains(char::is_control) {
            return Err(with_escapes("it contains a control character"));
        }
        let (authority, rest) = split_before(rest, &['/', '?', '#']);
        let (rest, fragment) = split_before(rest, &['#']);
        let (path, query) = split_before(rest, &['?']);
        // Where a password has a `/`, its `@` is in the path. A socket's path may have one of its own if no login is before it.
        let is_misplaced = |part: &str| part.contains('@');
        if is_misplaced(query)
            || is_misplaced(fragment)
            || (kind != Kind::Socket || is_misplaced(authority)) && is_misplaced(path)
        {
            return Err(with_escapes("an @ follows the host"));
        }
        let (user_info, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        let mut login = read_login(user_info)?;
        let mut parameters = Parameters::read(query.strip_prefix('?').unwrap_or_default(), kind)?;
        let tls = match (is_tls, fragment) {
            (false, "") => Tls::Off,
            (true, "") => Tls::Verified,
            (true, "#insecure") => Tls::Insecure,
            _ => {
                return Err(with_escapes(
                    "it contains a #, which is only for rediss://host#insecure",
                ));
            }
        };
        let protocol = parameters.protocol()?;
        let database = match kind {
            Kind::Socket => parameters.database()?,
            _ => read_database(path)?,
        };
        let target = match kind {
            Kind::Server => Target::Server(read_host(host, 6379)?),
            Kind::Socket => {
                login = parameters.login("user", "pass").unwrap_or(login);
                Target::Socket(read_socket(host, path)?)
            }
            Kind::Sentinel => Target::Master {
                sentinels: parameters.nodes(read_host(host, 26379)?)?,
                service: parameters
                    .take("sentinelServiceName")
                    .filter(|name| !name.is_empty())
                    .ok_or_else(|| with_forms("it has no sentinelServiceName"))?,
                login: parameters.login("sentinelUsername", "sentinelPassword").unwrap_or_default(),
            },
            Kind::Cluster if database != 0 => {
                return Err("a cluster has only the database 0".into());
            }
            Kind::Cluster => Target::Cluster(parameters.nodes(read_host(host, 6379)?)?),
        };
        Ok(Address { target, tls, login, database, protocol })
    }
}

/// Returns the kind of target, and whether connections are encrypted.
fn read_scheme(scheme: &str) -> Option<(Kind, bool)> {
    let scheme = scheme.to_ascii_lowercase();
    let (base, kind) = scheme.split_once(['-', '+']).unwrap_or((&scheme, ""));
    let is_tls = match base {
        "redis" | "valkey" => false,
        "rediss" | "valkeys" => true,
        "unix" => return kind.is_empty().then_some((Kind::Socket, false)),
        _ => return None,
    };
    match kind {
        "" => Some((Kind::Server, is_tls)),
        "unix" if !is_tls => Some((Kind::Socket, false)),
        "sentinel" => Some((Kind::Sentinel, is_tls)),
        "cluster" => Some((Kind::Cluster, is_tls)),
        _ => None,
    }
}

/// Splits before the first of these characters.
fn split_before<'t>(text: &'t str, at: &[char]) -> (&'t str, &'t str) {
    text.split_at(text.find(at).unwrap_or(text.len()))
}

fn read_login(user_info: &str) -> Result<Login, String> {
    if user_info.is_empty() {
        return Ok(Login::default());
    }
    // Some clients read it as a password, some as a user, and some ignore it.
    let (user, password) = user_info.split_once(':').ok_or(
        "one word stands before the @: a password alone is redis://:password@host, and a user without a password \
         redis://user:@host",
    )?;
    let user = Some(decode(user)?).filter(|user| !user.is_empty());
    let password =
        Some(decode(password)?).filter(|password| user.is_some() || !password.is_empty());
    Ok(Login { user, password })
}

fn read_database(path: &str) -> Result<u32, String> {
    match path.trim_matches('/') {
        "" => Ok(0),
        number => database(number),
    }
}

fn database(number: &str) -> Result<u32, String> {
    let why = "the database is a number, as in redis://host:6379/3 and redis+unix:///path?db=3";
    number.parse().map_err(|_| with_escapes(why))
}

fn read_host(host: &str, default_port: u16) -> Result<Node, String> {
    let (name, port) = match host.rfind(']') {
        Some(end) => host.split_at(end + 1),
        None => split_before(host, &[':']),
    };
    let port = match port {
        "" => Some(default_port),
        port => port.strip_prefix(':').and_then(|port| port.parse().ok()).filter(|port| *port != 0),
    };
    let node = read_name(name).zip(port).map(|(host, port)| Node { host, port });
    node.ok_or_else(|| {
        let why = "the host is a name, an IPv4 address or an IPv6 address in brackets, and its port is from 1 to 65535";
        with_escapes(why)
    })
}

/// Returns the host in this text, an IPv6 address without its brackets.
fn read_name(text: &str) -> Option<String> {
    if let Some(address) = text.strip_prefix('[') {
        let address: Ipv6Addr = address.strip_suffix(']')?.parse().ok()?;
        return (!address.is_unspecified()).then(|| address.to_string());
    }
    let is_valid = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    // Servers listen on this address, but clients cannot connect to it.
    (!text.is_empty() && text != "0.0.0.0" && text.chars().all(is_valid)).then(|| text.to_owned())
}

/// Returns the host and the port of a node, as `MOVED` and `ASK` name it.
pub fn host_and_port(node: &str) -> Option<(&str, u16)> {
    let (host, port) = node.rsplit_once(':')?;
    Some((host, port.parse().ok()?))
}

fn read_socket(host: &str, path: &str) -> Result<String, String> {
    if !matches!(host, "" | "localhost") || path.is_empty() {
        return Err("a socket has no host but a path that begins with a third slash, as in redis+unix:///path".into());
    }
    decode(path)
}

/// Decodes `%40` and the like.
fn decode(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, others)) = rest.split_first() {
        rest = others;
        bytes.push(match first {
            b'%' => {
                let digit = |at: usize| char::from(*others.get(at)?).to_digit(16);
                let (high, low) = digit(0)
                    .zip(digit(1))
                    .ok_or_else(|| with_escapes("two hexadecimal digits follow each %"))?;
                rest = &others[2..];
                (high * 16 + low) as u8
            }
            other => other,
        });
    }
    String::from_utf8(bytes).map_err(|_| with_escapes("a part of it is not UTF-8"))
}

fn with_forms(why: &str) -> String {
    format!("{why}: {FORMS}")
}

fn with_escapes(why: &str) -> String {
    format!("{why}: {ESCAPES}")
}
