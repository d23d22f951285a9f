//! Clients and pools of the application's own.

use fred::clients::{Client, Pool};
use fred::interfaces::ClientLike;
use futures_util::future::try_join_all;
use lockage_redis::{Link, LinkError, Reply, Request, check_before};

use crate::{address, check_by, send_by, usable};

/// A client or a pool of the application's own, and its known state: see [`FredStore::new`](crate::FredStore::new).
///
/// Like a client that the store makes, it is checked before its first use, after an idle time, and after a call without
/// an answer. It alone reconnects. Clones share it.
#[derive(Clone, Debug)]
pub struct Shared<C> {
    server: Option<String>,
    checked: lockage_redis::Reconnecting<Given<C>>,
}

/// A client or a pool of the application's own.
#[derive(Clone, Debug)]
pub struct Given<C>(C);

impl<C> Shared<C>
where
    Given<C>: Link + Clone + 'static,
{
    /// Shares a client, whose making is a check.
    pub(crate) fn new(client: C) -> Self {
        let given = Given(client);
        let (server, is_cluster) = (given.server(), given.is_cluster());
        let make = move || {
            let given = given.clone();
            async move {
                check_before(&Request::new("PING"), &given).await?;
                Ok(given)
            }
        };
        let checked = match is_cluster {
            true => lockage_redis::Reconnecting::of_cluster(make),
            false => lockage_redis::Reconnecting::new(make),
        };
        Shared { server, checked }
    }
}

impl<C> Link for Shared<C>
where
    Given<C>: Link + Clone + 'static,
{
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        self.checked.send(request).await
    }

    fn is_cluster(&self) -> bool {
        self.checked.is_cluster()
    }

    fn checked_after(self, idle: std::time::Duration) -> Self {
        Shared { checked: self.checked.checked_after(idle), ..self }
    }

    fn server(&self) -> Option<String> {
        self.server.clone()
    }
}

impl Link for Given<Client> {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        send_by(&self.0, request).await
    }

    async fn check(&self, ping: &Request<'_>) -> Result<Reply, LinkError> {
        usable(&self.0)?;
        check_by(&self.0, ping).await
    }

    fn is_cluster(&self) -> bool {
        self.0.is_clustered()
    }

    fn server(&self) -> Option<String> {
        Some(address(&self.0.client_config()))
    }
}

/// Each call goes to the next connected client.
impl Link for Given<Pool> {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        send_by(self.0.next_connected(), request).await
    }

    /// Checks all clients, since each may get the next call.
    async fn check(&self, ping: &Request<'_>) -> Result<Reply, LinkError> {
        let clients = self.0.clients();
        clients.iter().try_for_each(usable)?;
        let each = clients.iter().map(|client| check_by(client, ping));
        Ok(try_join_all(each).await?.pop().unwrap_or(Reply::Other))
    }

    // `Pool::next` would skip a client for the next call: in a pool of two, always the same one.
    fn is_cluster(&self) -> bool {
        self.0.clients()[0].is_clustered()
    }

    fn server(&self) -> Option<String> {
        Some(address(&self.0.clients()[0].client_config()))
    }
}
