//! For those who write adapters: what stands between a client of a server and a
//! [`Store`](crate::Store).

#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
mod exclusive;
mod idle;
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
mod lines;
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
mod renewed;

use std::error::Error;

#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
pub use exclusive::{Acknowledgement, Exclusive};
pub use idle::Idle;
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
pub use lines::Line;
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
pub use renewed::Renewed;

use crate::error::StoreError;
pub use crate::notifications::{Channels, Feed, Feeds, SubscribeError, Subscriber, Subscribing};

/// What a call says of the connection that it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It carried an answer.
    Good,
    /// It carried none in time, or one by which another server may have taken over. So do all calls
    /// that are dropped before their end.
    Doubtful,
    /// It is of no more use to anybody.
    Lost,
}

/// Why a call got no reply.
#[derive(Debug)]
pub enum LinkError<E> {
    /// There was no connection to send on.
    NotSent(E),
    /// What the client reports; the call may have been sent.
    Failed(E),
}

impl<E: Error + Send + Sync + 'static> LinkError<E> {
    /// The client's error.
    pub fn cause(&self) -> &E {
        match self {
            LinkError::NotSent(cause) | LinkError::Failed(cause) => cause,
        }
    }

    /// What it says about the state. `was_not_done` tells of the client's error whether it is one by
    /// which nothing can have been done.
    pub fn into_store_error(self, was_not_done: impl FnOnce(&E) -> bool) -> StoreError {
        match self {
            LinkError::NotSent(cause) => StoreError::NotDone(Box::new(cause)),
            LinkError::Failed(cause) if was_not_done(&cause) => {
                StoreError::NotDone(Box::new(cause))
            }
            LinkError::Failed(cause) => StoreError::Unknown(Box::new(cause)),
        }
    }
}
