//! Faults of a cluster.

use std::time::Duration;

use lockage::{Key, Limiter, Store};

use super::{blocking, during, during_within};
use crate::load::{LONG_TIMEOUT, ROOMY, Shared, TIMEOUT, Told, call, limiter, patient_limiter};
use crate::server::{Cluster, Proxy};

const ID: &str = "id";

fn key() -> String {
    Key::new("lockage", ID).expect("a plain id").to_string()
}

/// The master of the key is killed, and a replica takes its place. Writes that the master had answered for and not
/// yet replicated are lost; that much can be admitted once more.
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
/// Nor does it take a retry: the other client's only call at each stage, which has no timeout, finds
/// its way by itself.
///
/// Calls have time: the client of the redis crate answers none while it asks anew which node has which slots and
/// connects to all nodes, which on a busy machine takes longer than calls have otherwise.
pub async fn slot_moved<S: Store + Clone + 'static>(
    name: &str,
    cluster: &Cluster,
    [store, other]: [S; 2],
) {
    let limiter = patient_limiter(store);
    let other = Limiter::new(other, ROOMY.parse().expect("a test's limit"));
    _ = other.peek(ID, 1).await.expect("it knows where the slot is");
    let tally = during_within(LONG_TIMEOUT, name, &limiter, ID, async || {
        let from = blocking(|| cluster.master_of(&key()));
        let to = blocking(|| cluster.master_of("another")); // of another slot
        assert_ne!(from, to, "the two keys lie on two nodes");
        blocking(|| cluster.begin_migration(&key(), to));
        tokio::time::sleep(Duration::from_millis(150)).await;
        assert_eq!(blocking(|| cluster.move_keys(&key())), 1);
        // The key is there, and everybody is sent after it.
        _ = other.peek(ID, 1).await.expect("it follows ASK");
        tokio::time::sleep(Duration::from_millis(150)).await;
        blocking(|| cluster.end_migration(&key()));
        _ = other.peek(ID, 1).await.expect("it follows MOVED");
        0
    })
    .await;
    let admitted = tally.count(Told::Admitted);
    assert_eq!(admitted, tally.calls.len() as u64, "nobody notices: {tally}");
}

/// At most once, with a proxy before each node that loses replies and cuts connections before and
/// after a request: never more executions than calls.
pub async fn behind_faulty_proxies<S: Store + Clone + 'static>(
    name: &str,
    cluster: &Cluster,
    store: S,
) {
    let limiter = limiter(store);
    let proxy = cluster.proxy(blocking(|| cluster.master_of(&key())));
    one_by_one(name, &limiter, ID, proxy, || cluster.executions()).await;
    let before = blocking(|| cluster.executions());
    let tally = during(name, &limiter, ID, async || {
        for _ in 0..3 {
            proxy.swallow_replies(5);
            tokio::time::sleep(TIMEOUT + TIMEOUT / 2).await;
            blocking(|| proxy.disconnect());
            proxy.cut_after_request(5);
            tokio::time::sleep(Duration::from_millis(300)).await;
            proxy.cut_before_request(5);
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        0
    })
    .await;
    let executions = blocking(|| cluster.executions()) - before;
    let (calls, swallowed) = (tally.calls.len() as u64, proxy.swallowed());
    let sent: u64 = (0..6)
        .map(|index| cluster.proxy(index))
        .map(|proxy| proxy.commands("EVALSHA") + proxy.commands("EVAL"))
        .sum();
    println!(
        "{name}: {calls} calls, {sent} scripts sent, {swallowed} replies swallowed, {executions} executed"
    );
    // The final peek at the usage is one more.
    assert!(executions <= calls + 1, "{executions} executions of {calls} calls");
    assert!(tally.count(Told::Unknown) > 0 && swallowed >= 15, "the faults were there: {tally}");
}

/// At most once, one call after another, so that no call's fate hides another's: each is executed,
/// and its answer lost or its connection cut in place of it. `executions` counts on the server.
async fn one_by_one<S>(
    name: &str,
    limiter: &Shared<S>,
    id: &str,
    proxy: &Proxy,
    executions: impl Fn() -> u64,
) where
    S: Store + Clone + 'static,
{
    // Not the key of the account, but of the same slot.
    let limiter = limiter.clone().with_prefix("one-by-one").expect("a plain prefix");
    assert_eq!(call(&limiter, id).await.told, Told::Admitted, "{name}");
    for lose in [Proxy::swallow_replies, Proxy::cut_after_request] {
        let mut lost = 0;
        for _ in 0..40 {
            let before = blocking(&executions);
            lose(proxy, 1);
            let told = call(&limiter, id).await.told;
            let executed = blocking(&executions) - before;
            lost += match (told, executed) {
                (Told::Unknown, 1) => 1,
                // The connection has been silent since the last answer that was lost, which a check has found.
                (Told::NotDone, 0) => 0,
                other => panic!("{name}: {other:?}"),
            };
            if lost == 4 {
                break;
            }
        }
        assert_eq!(lost, 4, "{name}");
    }
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
