//! Faults of one server, and of the way to it.

use std::time::{Duration, Instant};

use lockage::Store;

use super::{blocking, during, during_within};
use crate::load::{LONG_TIMEOUT, Load, TIMEOUT, Told, limiter, limiter_of, patient_limiter};
use crate::server::{Proxy, Server};

const ID: &str = "id";

/// Killed without a word, and back later with nothing.
pub async fn killed_and_back<S: Store + Clone + 'static>(
    name: &str,
    server: &mut Server,
    store: S,
) {
    let limiter = limiter(store);
    let tally = during(name, &limiter, ID, async || {
        blocking(|| server.kill());
        tokio::time::sleep(Duration::from_secs(1)).await;
        blocking(|| server.restart());
        u64::MAX / 2
    })
    .await;
    assert!(tally.count(Told::NotDone) + tally.count(Told::Unknown) > 0, "callers were told");
}

/// Restarted with its keys: nothing is lost, and the scripts are sent again.
pub async fn restarted_with_its_keys<S: Store + Clone + 'static>(
    name: &str,
    server: &mut Server,
    store: S,
) {
    let limiter = limiter(store);
    during(name, &limiter, ID, async || {
        blocking(|| server.restart_with_keys());
        0
    })
    .await;
}

/// Frozen for longer than callers wait: their calls are done later, and their answer was "unknown".
pub async fn frozen<S: Store + Clone + 'static>(name: &str, server: &Server, store: S) {
    let limiter = limiter(store);
    let tally = during(name, &limiter, ID, async || {
        server.freeze();
        tokio::time::sleep(TIMEOUT * 3).await;
        server.thaw();
        0
    })
    .await;
    assert!(tally.count(Told::Unknown) > 0, "{tally}");
}

/// `SCRIPT FLUSH`, again and again: no caller notices.
pub async fn scripts_flushed<S: Store + Clone + 'static>(name: &str, server: &Server, store: S) {
    let limiter = patient_limiter(store);
    let tally = during_within(LONG_TIMEOUT, name, &limiter, ID, async || {
        for _ in 0..50 {
            blocking(|| command(server, &["SCRIPT", "FLUSH"]));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        0
    })
    .await;
    assert_eq!(tally.count(Told::Admitted), tally.calls.len() as u64, "{tally}");
}

/// Full, by `maxmemory` with `noeviction`: nothing is done, and callers learn that.
pub async fn out_of_memory<S: Store + Clone + 'static>(name: &str, server: &Server, store: S) {
    let limiter = limiter(store);
    let tally = during(name, &limiter, ID, async || {
        blocking(|| command(server, &["CONFIG", "SET", "maxmemory", "1"]));
        tokio::time::sleep(TIMEOUT * 2).await;
        blocking(|| command(server, &["CONFIG", "SET", "maxmemory", "0"]));
        0
    })
    .await;
    assert!(tally.count(Told::NotDone) > 0 && tally.unknown_early(TIMEOUT) == 0, "{tally}");
}

/// Busy with an endless script of another client, until it is killed: nothing is done.
pub async fn busy<S: Store + Clone + 'static>(name: &str, server: &Server, store: S) {
    blocking(|| command(server, &["CONFIG", "SET", "lua-time-limit", "50"]));
    let limiter = limiter(store);
    let tally = during(name, &limiter, ID, async || {
        let mut endless = blocking(|| server.connection());
        let endless = std::thread::spawn(move || {
            // It ends by an error, as intended.
            let _ = redis::cmd("EVAL").arg("while true do end").arg(0).exec(&mut endless);
        });
        tokio::time::sleep(TIMEOUT * 3).await;
        blocking(|| {
            command(server, &["SCRIPT", "KILL"]);
            endless.join().expect("it ends by an error, not a panic");
        });
        0
    })
    .await;
    assert!(tally.count(Told::NotDone) > 0, "{tally}");
}

/// `CLIENT PAUSE`: sent calls are done after it, and their callers got "unknown".
pub async fn paused<S: Store + Clone + 'static>(name: &str, server: &Server, store: S) {
    let limiter = limiter(store);
    let tally = during(name, &limiter, ID, async || {
        blocking(|| command(server, &["CLIENT", "PAUSE", "60000", "WRITE"]));
        tokio::time::sleep(TIMEOUT * 3).await;
        blocking(|| command(server, &["CLIENT", "UNPAUSE"]));
        0
    })
    .await;
    assert!(tally.count(Told::Unknown) > 0, "{tally}");
}

/// At most once, behind a proxy that loses replies, cuts connections before and after a request, is late, refuses
/// connections and swallows everything: never more executions than calls, and the answers of the callers add up.
pub async fn behind_a_faulty_proxy<S: Store + Clone + 'static>(
    name: &str,
    server: &Server,
    proxy: &Proxy,
    store: S,
) {
    let limiter = limiter(store);
    let executions = server.executions();
    let tally = during(name, &limiter, ID, async || {
        for _ in 0..3 {
            proxy.swallow_replies(5);
            tokio::time::sleep(TIMEOUT + TIMEOUT / 2).await;
            proxy.cut_after_request(5);
            tokio::time::sleep(Duration::from_millis(150)).await;
            proxy.cut_before_request(5);
            tokio::time::sleep(Duration::from_millis(150)).await;
            proxy.delay_replies(Duration::from_millis(40));
            tokio::time::sleep(Duration::from_millis(150)).await;
            proxy.delay_replies(Duration::ZERO);
            blocking(|| proxy.refuse(true));
            tokio::time::sleep(Duration::from_millis(150)).await;
            blocking(|| proxy.refuse(false));
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
        proxy.black_hole(true);
        tokio::time::sleep(TIMEOUT * 3).await;
        proxy.black_hole(false);
        0
    })
    .await;
    let (calls, executions) = (tally.calls.len() as u64, server.executions() - executions);
    let sent = proxy.commands("EVALSHA") + proxy.commands("EVAL");
    let swallowed = proxy.swallowed();
    println!(
        "{name}: {calls} calls, {sent} scripts sent, {swallowed} replies swallowed, {executions} executed"
    );
    // The final peek at the usage is one more.
    assert!(executions <= calls + 1, "{executions} executions of {calls} calls");
    assert!(tally.count(Told::Unknown) > 0 && swallowed >= 15, "the faults were there: {tally}");
}

/// E1: however a server fails, with its keys kept it never admits more than the limit.
pub async fn never_more_than_the_limit<S: Store + Clone + 'static>(
    name: &str,
    server: &mut Server,
    store: S,
) {
    let limiter = limiter_of(store, "fixed-window 300/day");
    let load = Load::start(&limiter, ID);
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(40)).await;
        blocking(|| server.restart_with_keys());
    }
    let deadline = Instant::now() + 6 * LONG_TIMEOUT;
    while !limiter.peek(ID, 1).await.is_ok_and(|decision| !decision.is_allowed()) {
        assert!(Instant::now() < deadline, "the limit is not used up");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!limiter.try_acquire(ID, 1).await.expect("the server is back").is_allowed());
    let tally = load.stop().await;
    println!("{name}: {tally}");
    let (admitted, unknown) = (tally.count(Told::Admitted), tally.count(Told::Unknown));
    assert!(admitted <= 300 && admitted + unknown >= 300, "{tally}");
}

/// Another server takes over behind the address, as behind a name or a balancer. The old one goes on
/// as its replica, keeps its connections and takes no writes.
pub async fn moved_behind_its_address<S: Store + Clone + 'static>(
    name: &str,
    [old, new]: [&Server; 2],
    proxy: &Proxy,
    store: S,
) {
    let replicate = |server: &Server, of: &Server| {
        command(server, &["REPLICAOF", "127.0.0.1", &of.port().to_string()]);
    };
    let limiter = limiter(store);
    blocking(|| {
        // Otherwise it waits five seconds for more replicas.
        command(old, &["CONFIG", "SET", "repl-diskless-sync-delay", "0"]);
        replicate(new, old);
        // After the first write it is a replica, and after the second it gets all later writes.
        for _ in 0..2 {
            let mut write = redis::pipe();
            write.cmd("SET").arg("any").arg("thing").cmd("WAIT").arg(1).arg(20_000);
            write.exec(&mut old.connection()).expect("it is up");
        }
    });
    during(name, &limiter, ID, async || {
        blocking(|| {
            command(old, &["CLIENT", "PAUSE", "60000", "WRITE"]);
            command(new, &["REPLICAOF", "NO", "ONE"]);
            proxy.lead_to(new.port());
            replicate(old, new);
            command(old, &["CLIENT", "UNPAUSE"]);
        });
        ON_THEIR_WAY
    })
    .await;
}

/// More than there can be writes that a replica has not heard of, on one machine.
const ON_THEIR_WAY: u64 = 50;

/// A master that its replicas left takes no writes, for good, and another server takes over behind the
/// address, here with nothing.
pub async fn left_by_its_replicas<S: Store + Clone + 'static>(
    name: &str,
    [old, new]: [&Server; 2],
    proxy: &Proxy,
    store: S,
) {
    let limiter = limiter(store);
    let tally = during(name, &limiter, ID, async || {
        blocking(|| command(old, &["CONFIG", "SET", "min-replicas-to-write", "1"]));
        proxy.lead_to(new.port());
        u64::MAX / 2
    })
    .await;
    assert_eq!(tally.unknown_early(TIMEOUT), 0, "{tally}");
}

fn command(server: &Server, words: &[&str]) {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]).exec(&mut server.connection()).expect("the server does as it is told");
}
