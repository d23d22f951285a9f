//! The test kit, behind the feature `test-util`: clocks that a test moves, a store that fails on demand, and locks that
//! are lost on demand.
//!
//! Nothing sleeps, and no server is needed. The guide `docs/testing.md` has a program for each of these:
//!
//! | to test | use |
//! |---|---|
//! | a limiter, without waiting | [`ManualClock`] |
//! | waits and renewals | `TokioClock` (with the feature `tokio`), in tokio's paused time |
//! | a lost lock | [`lose`] |
//! | a store that is away | [`FailingStore`] |
//! | code that needs an asynchronous store, on a blocking one | `Blocking` (not on WebAssembly) |

mod failing_store;
#[cfg(feature = "tokio")]
mod tokio_clock;

use std::time::Duration;

use lockage_core::lock::{Answer, Lock};

#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
pub use crate::blocking::Blocking;
pub use failing_store::{FailingStore, Fate};
pub use lockage_core::ManualClock;
#[cfg(feature = "tokio")]
pub use tokio_clock::TokioClock;

use crate::key::Key;
use crate::store::Store;

/// Longer than any operation of a test takes.
const MINUTE: Duration = Duration::from_secs(60);

/// Takes the lock with this key, such as `lock:{invoices}`, from its holder and frees it, as an administrator would by
/// [`force_release`](crate::locks::LockHandle::force_release).
///
/// The holder's guard is lost with its next renewal, within a third of the lease:
/// [`Loss::Refused`](crate::locks::Loss::Refused). For permits and read-write locks, let a [`FailingStore`] fail until
/// the lease has ended: [`Loss::Expired`](crate::locks::Loss::Expired).
///
/// # Panics
/// If the lock has no holder, `key` is not of the form `prefix:{name}`, or the store fails.
pub async fn lose(store: &impl Store, key: &str) {
    let key = parse(key).unwrap_or_else(|| panic!("`{key}` is no key: expected `prefix:{{name}}`"));
    let lock = Lock::new(MINUTE, MINUTE).expect("both are in range");
    let inspected = store.execute(&key, &lock.inspect()).await;
    let inspection = inspected.unwrap_or_else(|error| panic!("`{key}`: {error}"));
    let holder = inspection.holder.unwrap_or_else(|| panic!("nobody holds the lock `{key}`"));
    match store.execute(&key, &lock.force_release(holder.hold.token)).await {
        Ok(reply) if matches!(reply.answer, Answer::Released { .. }) => {}
        other => panic!("`{key}` was not released: {other:?}"),
    }
}

fn parse(key: &str) -> Option<Key> {
    let (prefix, name) = key.strip_suffix('}')?.split_once(":{")?;
    Key::new(prefix, name).ok()
}
