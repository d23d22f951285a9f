//! Faults of one server, a cluster and a service with sentinels, and the answers of callers meanwhile: each
//! written once, for any client's store.

// The documents quote the accounts.
#![allow(clippy::print_stdout)]

pub mod cluster;
pub mod sentinels;
pub mod single;
pub mod states;

use std::time::{Duration, Instant};

use lockage::Store;

use crate::load::{Load, Shared, TIMEOUT, Tally, Told, call, used};

/// The longest that any client may take to admit again, by itself, after a fault has ended.
pub const RECOVERY: Duration = Duration::from_secs(5);

/// Runs `fault` while callers go on for `id`, waits until they are admitted again, and checks the
/// account: every admission was charged once, except for `lost` that the store may have forgotten.
///
/// # Panics
/// Where the account does not add up, or the client does not recover.
async fn during<S>(
    name: &str,
    limiter: &Shared<S>,
    id: &'static str,
    fault: impl AsyncFnOnce() -> u64,
) -> Tally
where
    S: Store + Clone + 'static,
{
    during_within(TIMEOUT, name, limiter, id, fault).await
}

/// Does the same with calls that have another timeout.
async fn during_within<S>(
    timeout: Duration,
    name: &str,
    limiter: &Shared<S>,
    id: &'static str,
    fault: impl AsyncFnOnce() -> u64,
) -> Tally
where
    S: Store + Clone + 'static,
{
    let load = Load::start(limiter, id);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let lost = fault().await;
    let ended = Instant::now();
    let mut own = Vec::new();
    while own.last().is_none_or(|last: &crate::load::Call| last.told != Told::Admitted) {
        assert!(ended.elapsed() < RECOVERY, "{name}: no recovery within {RECOVERY:?}: {own:?}");
        own.push(call(limiter, id).await);
    }
    let recovered = ended.elapsed();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut tally = load.stop().await;
    tally.calls.extend(own);
    tally.calls.sort_by_key(|call| call.ended);
    let used = used(limiter, id).await;
    println!("{name}: {tally}; {used} charged; admits {} ms after", recovered.as_millis());
    tally.check(used, lost, timeout);
    tally
}

/// Runs blocking code, such as the harness, without stopping the callers.
fn blocking<T>(run: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(run)
}
