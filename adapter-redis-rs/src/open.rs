//! The server, master or cluster of an address as configurations write it.

use lockage_redis::{ADDRESSES, check_scheme};
use redis::{Client, ConnectionInfo, ErrorKind, IntoConnectionInfo, RedisError, RedisResult};
use url::Url;

/// Where an address leads to.
pub(crate) enum Address {
    Server(Client),
    #[cfg(feature = "sentinel")]
    Master(redis::sentinel::SentinelClient),
    #[cfg(feature = "cluster")]
    Cluster(Vec<ConnectionInfo>),
}

const TLS: &str = "needs the feature `tokio-rustls-comp` or `smol-rustls-comp` of lockage-redis-rs";

impl Address {
    /// Reads an address. Those of sentinels and clusters are as the `fred` crate has them.
    pub(crate) fn read(address: &str) -> RedisResult<Self> {
        check_scheme(address, None).map_err(|why| refused("not an address", why))?;
        let url = Url::parse(address).map_err(|error| refused(ADDRESSES, error))?;
        Address::of(&url).map_err(|error| match error.detail() {
            // The client knows no features of this crate.
            None if error.to_string().contains("TLS") => refused(TLS, url.scheme()),
            _ => error,
        })
    }

    fn of(url: &Url) -> RedisResult<Self> {
        let (base, kind) = url.scheme().split_once('-').unwrap_or((url.scheme(), "server"));
        match (base, kind) {
            (_, "server") => match redis::parse_redis_url(url.as_str()) {
                Some(url) => Client::open(url).map(Address::Server),
                None => Err(refused(ADDRESSES, url.scheme())),
            },
            ("redis" | "rediss" | "valkey" | "valkeys", "sentinel" | "cluster") => {
                let nodes = Nodes::read(url, base)?;
                if kind == "cluster" { nodes.cluster() } else { nodes.master() }
            }
            _ => Err(refused(ADDRESSES, url.scheme())),
        }
    }
}

/// Nodes that lead to a server or to each other.
struct Nodes {
    nodes: Vec<ConnectionInfo>,
    service: Option<String>,
    /// Of the sentinels, where they have their own.
    username: Option<String>,
    password: Option<String>,
}

impl Nodes {
    fn read(url: &Url, base: &str) -> RedisResult<Self> {
        // That of one server, with the same credentials and database.
        let mut node = url.clone();
        node.set_query(None);
        node.set_scheme(base).map_err(|()| refused(ADDRESSES, url.scheme()))?;
        if node.port().is_none() && url.scheme().ends_with("-sentinel") {
            node.set_port(Some(26379)).map_err(|()| refused(ADDRESSES, "no host"))?;
        }
        let nodes = vec![node.clone().into_connection_info()?];
        let mut read = Nodes { nodes, service: None, username: None, password: None };
        for (name, value) in url.query_pairs() {
            match &*name {
                "node" => {
                    let (host, port) = lockage_redis::host_and_port(&value)
                        .ok_or_else(|| refused("a node is host:port", &value))?;
                    node.set_host(Some(host)).map_err(|error| refused("a node", error))?;
                    node.set_port(Some(port)).map_err(|()| refused("a node", &value))?;
                    read.nodes.push(node.clone().into_connection_info()?);
                }
                "sentinelServiceName" => read.service = Some(value.into_owned()),
                "sentinelUsername" => read.username = Some(value.into_owned()),
                "sentinelPassword" => read.password = Some(value.into_owned()),
                _ => return Err(refused(ADDRESSES, name)),
            }
        }
        Ok(read)
    }

    #[cfg(feature = "cluster")]
    fn cluster(self) -> RedisResult<Address> {
        Ok(Address::Cluster(self.nodes))
    }

    #[cfg(not(feature = "cluster"))]
    fn cluster(self) -> RedisResult<Address> {
        Err(refused("needs the feature `cluster` of lockage-redis-rs", "redis-cluster"))
    }

    #[cfg(feature = "sentinel")]
    fn master(self) -> RedisResult<Address> {
        use redis::sentinel::{SentinelClientBuilder, SentinelServerType};
        use redis::{ConnectionAddr, TlsMode};

        let Nodes { nodes, service, username, password } = self;
        let service = service.ok_or_else(|| refused(ADDRESSES, "no sentinelServiceName"))?;
        let tls = match nodes[0].addr() {
            ConnectionAddr::TcpTls { insecure: true, .. } => Some(TlsMode::Insecure),
            ConnectionAddr::TcpTls { insecure: false, .. } => Some(TlsMode::Secure),
            _ => None,
        };
        let settings = nodes[0].redis_settings().clone();
        let sentinels = nodes.into_iter().map(|node| node.addr().clone());
        let mut client =
            SentinelClientBuilder::new(sentinels, service, SentinelServerType::Master)?
                .set_client_to_redis_db(settings.db());
        if let Some(username) = settings.username() {
            client = client.set_client_to_redis_username(username);
        }
        if let Some(password) = settings.password() {
            client = client.set_client_to_redis_password(password);
        }
        if let Some(username) = username {
            client = client.set_client_to_sentinel_username(username);
        }
        if let Some(password) = password {
            client = client.set_client_to_sentinel_password(password);
        }
        if let Some(tls) = tls {
            client = client.set_client_to_redis_tls_mode(tls).set_client_to_sentinel_tls_mode(tls);
        }
        client.build().map(Address::Master)
    }

    #[cfg(not(feature = "sentinel"))]
    fn master(self) -> RedisResult<Address> {
        Err(refused("needs the feature `sentinel` of lockage-redis-rs", "redis-sentinel"))
    }
}

/// An address, or a part of one, that is not accepted. The address itself may have a password and is not told.
fn refused(what_is_right: &'static str, part: impl ToString) -> RedisError {
    (ErrorKind::InvalidClientConfig, what_is_right, part.to_string()).into()
}
