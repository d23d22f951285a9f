//! Faults of a cluster.

use std::time::Duration;

use lockage::{Key, Store};

use super::{blocking, during};
use crate::load::{Told, limiter};
use crate::server::Cluster;

const ID: &str = "id";

fn key() -> String {
    Key::new("lockage", ID).expect("a plain id").to_string()
}

/// The master of the key is killed, and a replica takes its place. What it had answered for and not
/// yet told its replica is lost; that much can be admitted once more.
pub async fn master_killed<S: Store + Clone + 'static>(
    name: &str,
    cluster: &mut Cluster,
    store: S,
) {
    let limiter = limiter(store);
    let master = blocking(|| cluster.master_of(&key()));
    let tally = during(name, &limiter, ID, async || {
        blocking(|| {
            cluster.kill(master);
            cluster.wait_for_failover_of(master);
        });
        LOST_AT_MOST
    })
    .await;
    assert!(tally.count(Told::NotDone) + tally.count(Told::Unknown) > 0, "callers were told");
    blocking(|| cluster.restart(master));
}

/// Replication is asynchronous, and on one machine takes less than this many calls.
const LOST_AT_MOST: u64 = 50;

/// A replica takes over on request: nothing is lost.
pub async fn failed_over_by_hand<S: Store + Clone + 'static>(
    name: &str,
    cluster: &Cluster,
    store: S,
) {
    let limiter = limiter(store);
    during(name, &limiter, ID, async || {
        blocking(|| cluster.fail_over(&key()));
        0
    })
    .await;
}

/// The slot moves to another master while callers go on: nothing is lost and nothing is done twice.
pub async fn slot_moved<S: Store + Clone + 'static>(name: &str, cluster: &Cluster, store: S) {
    let limiter = limiter(store);
    let tally = during(name, &limiter, ID, async || {
        let from = blocking(|| cluster.master_of(&key()));
        let to = blocking(|| cluster.master_of("another")); // of another slot
        assert_ne!(from, to, "the two keys lie on two nodes");
        blocking(|| cluster.begin_migration(&key(), to));
        tokio::time::sleep(Duration::from_millis(150)).await;
        assert_eq!(blocking(|| cluster.move_keys(&key())), 1);
        // The key is there, and everybody is sent after it by ASK.
        tokio::time::sleep(Duration::from_millis(150)).await;
        blocking(|| cluster.end_migration(&key()));
        0
    })
    .await;
    let admitted = tally.count(Told::Admitted);
    assert_eq!(admitted, tally.calls.len() as u64, "nobody notices: {tally}");
}

/// A master stops answering without a word, and a replica takes its place.
pub async fn master_frozen<S: Store + Clone + 'static>(
    name: &str,
    cluster: &mut Cluster,
    store: S,
) {
    let limiter = limiter(store);
    let master = blocking(|| cluster.master_of(&key()));
    during(name, &limiter, ID, async || {
        blocking(|| {
            cluster.freeze(master);
            cluster.wait_for_failover_of(master);
        });
        LOST_AT_MOST
    })
    .await;
    cluster.thaw(master);
}
