//! The server, master or cluster of an address in a configuration.

use lockage_redis::{Address, Login, Node, Protocol, Target, Tls};
use redis::sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType};
use redis::{
    Client, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo, ProtocolVersion,
    RedisConnectionInfo, RedisResult, TlsMode,
};

/// The target of an address.
pub(crate) enum Opened {
    Server(Client),
    Master(SentinelClient),
    Cluster(Vec<ConnectionInfo>),
}

/// Reads an address.
pub(crate) fn open(address: &str) -> RedisResult<Opened> {
    let refused = |why| (ErrorKind::InvalidClientConfig, "not an address", why);
    let address = Address::read(address).map_err(refused)?;
    // The application may have turned on another TLS of the client than those of this crate's features.
    if address.tls != Tls::Off && "rediss://host".into_connection_info().is_err() {
        let why = "TLS needs the feature `tokio-rustls-comp` or `smol-rustls-comp`".to_owned();
        return Err(refused(why).into());
    }
    let settings = settings(&address.login, address.protocol).set_db(address.database.into());
    let all = |nodes: Vec<Node>, settings: &RedisConnectionInfo| {
        let each = nodes.into_iter().map(|node| info(tcp(node, address.tls), settings));
        each.collect::<RedisResult<Vec<_>>>()
    };
    match address.target {
        Target::Server(node) => {
            Client::open(info(tcp(node, address.tls), &settings)?).map(Opened::Server)
        }
        Target::Socket(path) => {
            Client::open(info(ConnectionAddr::Unix(path.into()), &settings)?).map(Opened::Server)
        }
        Target::Master { sentinels, service, login } => {
            let mut master =
                SentinelNodeConnectionInfo::default().set_redis_connection_info(settings);
            if let Some(mode) = tls_mode(address.tls) {
                master = master.set_tls_mode(mode);
            }
            let sentinels = all(sentinels, &self::settings(&login, address.protocol))?;
            let kind = SentinelServerType::Master;
            SentinelClient::build(sentinels, service, Some(master), kind).map(Opened::Master)
        }
        Target::Cluster(nodes) => all(nodes, &settings).map(Opened::Cluster),
    }
}

fn settings(login: &Login, protocol: Option<Protocol>) -> RedisConnectionInfo {
    let mut settings = RedisConnectionInfo::default();
    if let Some(user) = &login.user {
        settings = settings.set_username(user);
    }
    if let Some(password) = &login.password {
        settings = settings.set_password(password);
    }
    match protocol {
        None => settings,
        Some(Protocol::Resp2) => settings.set_protocol(ProtocolVersion::RESP2),
        Some(Protocol::Resp3) => settings.set_protocol(ProtocolVersion::RESP3),
    }
}

fn tcp(Node { host, port }: Node, tls: Tls) -> ConnectionAddr {
    match tls_mode(tls) {
        None => ConnectionAddr::Tcp(host, port),
        Some(mode) => {
            let insecure = matches!(mode, TlsMode::Insecure);
            ConnectionAddr::TcpTls { host, port, insecure, tls_params: None }
        }
    }
}

fn tls_mode(tls: Tls) -> Option<TlsMode> {
    match tls {
        Tls::Off => None,
        Tls::Verified => Some(TlsMode::Secure),
        Tls::Insecure => Some(TlsMode::Insecure),
    }
}

fn info(address: ConnectionAddr, settings: &RedisConnectionInfo) -> RedisResult<ConnectionInfo> {
    Ok(address.into_connection_info()?.set_redis_settings(settings.clone()))
}
