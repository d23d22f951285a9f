//! The server, master or cluster of an address in a configuration.

use redis::{Client, ErrorKind, RedisError, RedisResult};

/// The target of an address.
pub(crate) enum Address {
    Server(Client),
    #[cfg(feature = "sentinel")]
    Master(redis::sentinel::SentinelClient),
    #[cfg(feature = "cluster")]
    Cluster(Vec<redis::ConnectionInfo>),
}

const TLS: &str = "needs the feature `tokio-rustls-comp` or `smol-rustls-comp` of lockage-redis-rs";

impl Address {
    pub(crate) fn read(address: &str) -> RedisResult<Self> {
        let read = lockage_redis::Address::read(address).map_err(refused)?;
        Address::of(read).map_err(|error| match error.detail() {
            // The client knows no features of this crate.
            None if error.to_string().contains("TLS") => refused(TLS),
            _ => error,
        })
    }

    fn of(address: lockage_redis::Address) -> RedisResult<Self> {
        match address {
            lockage_redis::Address::Server(address) => Client::open(address).map(Address::Server),
            #[cfg(feature = "sentinel")]
            lockage_redis::Address::Master { sentinels, service, like } => {
                use redis::sentinel::{SentinelClient, SentinelNodeConnectionInfo};
                use redis::{ConnectionAddr, IntoConnectionInfo, TlsMode, sentinel};

                let like = like.into_connection_info()?;
                let mut master = SentinelNodeConnectionInfo::default()
                    .set_redis_connection_info(like.redis_settings().clone());
                if let ConnectionAddr::TcpTls { insecure, .. } = like.addr() {
                    let mode = if *insecure { TlsMode::Insecure } else { TlsMode::Secure };
                    master = master.set_tls_mode(mode);
                }
                let kind = sentinel::SentinelServerType::Master;
                SentinelClient::build(sentinels, service, Some(master), kind).map(Address::Master)
            }
            #[cfg(feature = "cluster")]
            lockage_redis::Address::Cluster(nodes) => {
                let nodes = nodes.into_iter().map(redis::IntoConnectionInfo::into_connection_info);
                nodes.collect::<RedisResult<_>>().map(Address::Cluster)
            }
            _ => Err(refused("it needs the feature `sentinel`, or `cluster`, of lockage-redis-rs")),
        }
    }
}

/// An address, or a part of one, that is invalid.
fn refused(what_is_right: impl ToString) -> RedisError {
    (ErrorKind::InvalidClientConfig, "not an address", what_is_right.to_string()).into()
}
