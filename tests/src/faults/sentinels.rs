//! Faults of a master that sentinels watch.

use std::time::Duration;

use lockage::Store;

use super::{blocking, during};
use crate::load::{Told, limiter, used};
use crate::server::Sentinels;

const ID: &str = "id";

/// The master is killed, and the sentinels make a replica master. Writes that the old one had answered for and not
/// yet replicated are lost; that much can be admitted once more.
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

/// The sentinels name another master on request. The old one goes on as one until a sentinel demotes it, and its
/// writes until then are lost: no client can know.
pub async fn failed_over_by_hand<S: Store + Clone + 'static>(
    name: &str,
    sentinels: &mut Sentinels,
    store: S,
) {
    lost_by_hand(name, sentinels, store).await;
}

/// The same where a server takes writes only while a replica follows it: the old master stops soon
/// after its replicas have left it, says so, and the client asks for the new master.
pub async fn failed_over_by_hand_with_min_replicas<S: Store + Clone + 'static>(
    name: &str,
    sentinels: &mut Sentinels,
    store: S,
) {
    for server in sentinels.nodes() {
        for (option, value) in [("min-replicas-max-lag", 1), ("min-replicas-to-write", 1)] {
            let mut command = redis::cmd("CONFIG");
            command.arg("SET").arg(option).arg(value);
            command.exec(&mut server.connection()).expect("it has this option");
        }
    }
    let lost = lost_by_hand(name, sentinels, store).await;
    assert!(lost < LOST_FOR_AT_MOST, "{name}: what was admitted in {lost:?} is lost");
}

/// A replica counts as one for a second after its last sign, and for another until it is looked at.
const LOST_FOR_AT_MOST: Duration = Duration::from_secs(2);

/// Returns the time for which admissions were lost by a failover on request.
async fn lost_by_hand<S: Store + Clone + 'static>(
    name: &str,
    sentinels: &mut Sentinels,
    store: S,
) -> Duration {
    let limiter = limiter(store);
    let old = blocking(|| sentinels.master());
    let tally = during(name, &limiter, ID, async || {
        blocking(|| sentinels.fail_over());
        // Until then this client may be right, as far as it can know.
        blocking(|| sentinels.wait_until_replica(old));
        u64::MAX / 2
    })
    .await;
    let admitted = tally.count(Told::Admitted);
    let lost = admitted.saturating_sub(used(&limiter, ID).await);
    let calls = &tally.calls;
    let took = calls[calls.len() - 1].ended - calls[0].began - tally.longest_gap();
    let lost_for = took.mul_f64(lost as f64 / admitted as f64);
    println!("{name}: {lost} admissions lost, of about {} ms", lost_for.as_millis());
    lost_for
}
