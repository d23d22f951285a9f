//! Faults of a master that sentinels watch.

use lockage::Store;

use super::{blocking, during};
use crate::load::{Told, limiter};
use crate::server::Sentinels;

const ID: &str = "id";

/// The master is killed, and the sentinels make a replica master. What the old one had answered for
/// and not yet told its replicas is lost; that much can be admitted once more.
pub async fn master_killed<S: Store + Clone + 'static>(
    name: &str,
    sentinels: &mut Sentinels,
    store: S,
) {
    let limiter = limiter(store);
    let master = blocking(|| sentinels.master());
    let tally = during(name, &limiter, ID, async || {
        blocking(|| {
            sentinels.kill(master);
            sentinels.wait_for_failover();
        });
        LOST_AT_MOST
    })
    .await;
    assert!(tally.count(Told::NotDone) + tally.count(Told::Unknown) > 0, "callers were told");
    blocking(|| sentinels.restart(master));
}

/// Replication is asynchronous, and on one machine takes less than this many calls.
const LOST_AT_MOST: u64 = 50;

/// The sentinels name another master on request. The old one goes on as one until it is told, and
/// what it answers for until then is lost: no client can know.
pub async fn failed_over_by_hand<S: Store + Clone + 'static>(
    name: &str,
    sentinels: &mut Sentinels,
    store: S,
) {
    let limiter = limiter(store);
    let old = blocking(|| sentinels.master());
    during(name, &limiter, ID, async || {
        blocking(|| sentinels.fail_over());
        // Until then this client may be right, as far as it can know.
        blocking(|| sentinels.wait_until_replica(old));
        u64::MAX / 2
    })
    .await;
}
