//! Each master of an address by itself.

use std::time::Duration;

use futures_util::future::try_join_all;
use lockage::StoreError;
use lockage_redis::{Link, LinkError, Pipeline, Reply, Request, hint};
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo};

use crate::open::{Opened, open};
use crate::own::{self, Connection};
use crate::{in_runtime, master_of, not_connected};

/// A connection to one master: the server of an address, the master that sentinels name, or one of a cluster's.
///
/// It is for tools that look at all keys, as by `SCAN`, which a [`Store`](lockage::Store) does not do. It is not
/// replaced when it ends, and does not follow a failover or a slot.
///
/// ```no_run
/// use std::time::Duration;
/// use lockage_redis_rs::Master;
///
/// # async fn look() -> Result<(), Box<dyn std::error::Error>> {
/// for master in Master::all("redis-cluster://127.0.0.1:7000").await? {
///     println!("{}", master.address());
/// }
/// # Ok(()) }
/// ```
pub struct Master {
    address: String,
    connection: Connection,
}

impl Master {
    /// Connects to each master of this address: [the table](crate) has the forms of addresses. A cluster's first node
    /// that answers names them.
    ///
    /// # Errors
    /// [`StoreError`], also if one master of several cannot be reached.
    pub async fn all(address: &str) -> Result<Vec<Master>, StoreError> {
        let opened = open(address).map_err(|error| StoreError::Misconfigured(Box::new(error)))?;
        in_runtime()?;
        Ok(Master::of(opened).await.map_err(LinkError::before_sending)?)
    }

    async fn of(opened: Opened) -> Result<Vec<Master>, LinkError> {
        let clients = match opened {
            Opened::Server(client) => vec![client],
            Opened::Master(mut sentinels) => vec![master_of(&mut sentinels).await?],
            Opened::Cluster(seeds) => of_cluster(&seeds).await?,
        };
        try_join_all(clients.into_iter().map(Master::connect)).await
    }

    async fn connect(client: Client) -> Result<Master, LinkError> {
        let address = client.get_connection_info().addr().to_string();
        let made = own::connect(client, &AsyncConnectionConfig::new()).await;
        let connection = made.map_err(|error| not_connected(error).at(Some(address.clone())))?;
        Ok(Master { address, connection })
    }

    /// Returns the address, without a user or a password.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sends the requests in one piece, each at most once, and returns a reply for each, errors among them. They are
    /// given up 500 ms after `wait`.
    ///
    /// # Errors
    /// [`StoreError`], if there were no replies.
    pub async fn send(
        &self,
        requests: &[Request<'_>],
        wait: Duration,
    ) -> Result<Vec<Reply>, StoreError> {
        let sent = self.connection.send_all(requests, wait).await;
        sent.map_err(|error| error.at(Some(self.address.clone())).into())
    }
}

/// Returns clients of the masters that the first of these nodes that answers knows.
async fn of_cluster(seeds: &[ConnectionInfo]) -> Result<Vec<Client>, LinkError> {
    let mut failed = LinkError::refused("the address of a cluster names no node");
    for seed in seeds {
        match of_node(seed).await {
            Err(error) => failed = error,
            masters => return masters,
        }
    }
    Err(failed)
}

async fn of_node(seed: &ConnectionInfo) -> Result<Vec<Client>, LinkError> {
    let client = |info: ConnectionInfo| Client::open(info).map_err(not_connected);
    let node = Master::connect(client(seed.clone())?).await?;
    let slots = node.connection.send(&Request::new("CLUSTER").with("SLOTS")).await?;
    let slots = match slots {
        Reply::List(slots) => slots,
        Reply::Error(error) => {
            let hint = hint(&error.to_string());
            return Err(LinkError::not_sent(error).misconfigured(hint).at(Some(node.address)));
        }
        _ => Vec::new(),
    };
    let mut masters: Vec<ConnectionAddr> = Vec::new();
    for addr in slots.iter().filter_map(|slots| master(slots, seed.addr())) {
        if !masters.contains(&addr) {
            masters.push(addr);
        }
    }
    if masters.is_empty() {
        let why = "the node knows no master with a slot";
        return Err(LinkError::not_sent(why).at(Some(node.address)));
    }
    masters.into_iter().map(|addr| client(seed.clone().set_addr(addr))).collect()
}

/// Returns the address of the master in an entry of `CLUSTER SLOTS`: the first and the last slot, then the nodes, each
/// with its host and port. A node that knows no host of its own is where it was asked.
fn master(slots: &Reply, seed: &ConnectionAddr) -> Option<ConnectionAddr> {
    let Reply::List(entry) = slots else { return None };
    let Reply::List(node) = entry.get(2)? else { return None };
    let Reply::Integer(port) = *node.get(1)? else { return None };
    let own = match node.first()? {
        Reply::Bytes(name) if !name.is_empty() && name != b"?" => {
            Some(String::from_utf8_lossy(name).into_owned())
        }
        _ => None,
    };
    let port = u16::try_from(port).ok()?;
    match seed {
        ConnectionAddr::Tcp(host, _) => {
            Some(ConnectionAddr::Tcp(own.unwrap_or_else(|| host.clone()), port))
        }
        ConnectionAddr::TcpTls { host, insecure, tls_params, .. } => Some(ConnectionAddr::TcpTls {
            host: own.unwrap_or_else(|| host.clone()),
            port,
            insecure: *insecure,
            tls_params: tls_params.clone(),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_is_the_first_node_of_its_slots() {
        let seed = ConnectionAddr::Tcp("seed".to_owned(), 7000);
        let node = |host: &str, port| {
            Reply::List(vec![Reply::Bytes(host.into()), Reply::Integer(port), Reply::Other])
        };
        let slots = |nodes: Vec<Reply>| {
            Reply::List([vec![Reply::Integer(0), Reply::Integer(5)], nodes].concat())
        };
        let tcp = |host: &str, port| Some(ConnectionAddr::Tcp(host.to_owned(), port));
        assert_eq!(master(&slots(vec![node("a", 1), node("b", 2)]), &seed), tcp("a", 1));
        assert_eq!(master(&slots(vec![node("", 1)]), &seed), tcp("seed", 1));
        assert_eq!(master(&slots(vec![node("?", 1)]), &seed), tcp("seed", 1));
        assert_eq!(master(&slots(vec![]), &seed), None);
        assert_eq!(master(&slots(vec![node("a", 70_000)]), &seed), None);
        assert_eq!(master(&Reply::Other, &seed), None);
        let seed = ConnectionAddr::TcpTls {
            host: "seed".to_owned(),
            port: 7000,
            insecure: true,
            tls_params: None,
        };
        let found = master(&slots(vec![node("", 1)]), &seed);
        assert!(matches!(found, Some(ConnectionAddr::TcpTls { port: 1, insecure: true, .. })));
    }
}
