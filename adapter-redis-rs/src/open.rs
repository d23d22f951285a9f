//! The server, master or cluster of an address in a configuration.

use redis::sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType};
use redis::{
    Client, ConnectionAddr, ErrorKind, IntoConnectionInfo, RedisError, RedisResult, TlsMode,
};

/// The target of an address.
pub(crate) enum Address {
    Server(Client),
    Master(SentinelClient),
    Cluster(Vec<String>),
}

impl Address {
    pub(crate) fn read(address: &str) -> RedisResult<Self> {
        // The application may have turned on another TLS of the client than those of this crate's features.
        let has_tls = "rediss://host".into_connection_info().is_ok();
        let tls_by = (!has_tls).then_some("the feature `tokio-rustls-comp` or `smol-rustls-comp`");
        match lockage_redis::Address::read(address, tls_by).map_err(refused)? {
            lockage_redis::Address::Server(address) => Client::open(address).map(Address::Server),
            lockage_redis::Address::Master { sentinels, service, like } => {
                let like = like.into_connection_info()?;
                let mut master = SentinelNodeConnectionInfo::default()
                    .set_redis_connection_info(like.redis_settings().clone());
                if let ConnectionAddr::TcpTls { insecure, .. } = like.addr() {
                    let mode = if *insecure { TlsMode::Insecure } else { TlsMode::Secure };
                    master = master.set_tls_mode(mode);
                }
                let kind = SentinelServerType::Master;
                SentinelClient::build(sentinels, service, Some(master), kind).map(Address::Master)
            }
            lockage_redis::Address::Cluster(nodes) => Ok(Address::Cluster(nodes)),
        }
    }
}

/// An invalid address.
fn refused(what_is_right: String) -> RedisError {
    (ErrorKind::InvalidClientConfig, "not an address", what_is_right).into()
}
