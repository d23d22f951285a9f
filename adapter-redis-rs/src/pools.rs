//! Pools of other crates.

use futures_util::FutureExt;
use lockage_redis::{Link, LinkError, Reply, Request};

use crate::{Shared, query};

#[cfg(feature = "deadpool")]
impl Link for Shared<deadpool_redis::Pool> {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        // In boxes, or futures around these are too deep for the compiler.
        let connection = self.0.get().boxed().await.map_err(LinkError::not_sent)?;
        query(request, connection).boxed().await
    }
}

#[cfg(feature = "bb8")]
impl Link for Shared<bb8::Pool<redis::Client>> {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        // Multiplexed: what is left of a call that is dropped does not reach the next one.
        let connection = self.0.get().boxed().await.map_err(LinkError::not_sent)?.clone();
        query(request, connection).boxed().await
    }
}
