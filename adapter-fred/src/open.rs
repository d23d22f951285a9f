//! The client's configuration for an address.

use fred::error::{Error, ErrorKind};
use fred::types::RespVersion;
#[cfg(feature = "rustls-ring")]
use fred::types::config::TlsConnector;
use fred::types::config::{ClusterDiscoveryPolicy, Config, Server, ServerConfig};
use lockage_redis::{Address, Node, Protocol, Target, Tls};

/// Reads an address, as the adapter for the `redis` crate does. The client by itself takes any parameter.
pub(crate) fn config(address: &str) -> Result<Config, Error> {
    let Address { target, tls, login, database, protocol } =
        Address::read(address).map_err(refused)?;
    let servers = |nodes: Vec<Node>| nodes.into_iter().map(server).collect();
    let server = match target {
        Target::Server(node) => ServerConfig::Centralized { server: server(node) },
        #[cfg(feature = "unix-sockets")]
        Target::Socket(path) => ServerConfig::Unix { path: path.into() },
        #[cfg(not(feature = "unix-sockets"))]
        Target::Socket(_) => return Err(refused("a socket needs the feature `unix-sockets`")),
        Target::Master { sentinels, service: service_name, login } => ServerConfig::Sentinel {
            hosts: servers(sentinels),
            service_name,
            username: login.user,
            password: login.password,
        },
        Target::Cluster(nodes) => ServerConfig::Clustered {
            hosts: servers(nodes),
            policy: ClusterDiscoveryPolicy::default(),
        },
    };
    let database = match u8::try_from(database) {
        Ok(0) => None,
        Ok(database) => Some(database),
        Err(_) => return Err(refused("the client knows databases up to 255")),
    };
    let version = match protocol {
        None | Some(Protocol::Resp2) => RespVersion::RESP2,
        Some(Protocol::Resp3) => RespVersion::RESP3,
    };
    let config = Config {
        server,
        username: login.user,
        password: login.password,
        database,
        version,
        ..Config::default()
    };
    match tls {
        Tls::Off => Ok(config),
        Tls::Insecure => Err(refused("the client has no #insecure")),
        #[cfg(feature = "rustls-ring")]
        Tls::Verified => Ok(Config { tls: Some(TlsConnector::default_rustls()?.into()), ..config }),
        #[cfg(not(feature = "rustls-ring"))]
        Tls::Verified => Err(refused("TLS needs the feature `rustls-ring`")),
    }
}

/// Returns the client's form of a node, with the brackets that it needs.
fn server(Node { host, port }: Node) -> Server {
    Server::new(if host.contains(':') { format!("[{host}]") } else { host }, port)
}

fn refused(why: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Config, why)
}
