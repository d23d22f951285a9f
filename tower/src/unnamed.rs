//! The event of limiters that share keys by mistake.

use std::sync::{Mutex, PoisonError};

use lockage::{Limit, Limiter};
use tracing::warn;

/// The limit of the first layer whose limiter has no prefix. Its store is not known here.
static FIRST: Mutex<Option<Limit>> = Mutex::new(None);

/// Emits an event if this limiter has no prefix, and another layer of the process has one without a prefix under another
/// limit: five page views would deny a login that has five attempts in 15 minutes.
pub(crate) fn report<S>(limiter: &Limiter<S>) {
    let (None, Some(limit)) = (limiter.prefix(), limiter.limit()) else { return };
    let first = *FIRST.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(limit);
    if first != limit {
        warn!(
            target: "lockage",
            "limiters without a prefix share their keys if they share a store, under the limits {first} and {limit}: \
             give each a prefix, as in `Limiter::new(store, limit).with_prefix(\"login\")?`"
        );
    }
}
