//! The cost of a walk over a large cluster to its servers: a measurement, which asserts no time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lockage::{Limit, Limiter};
use lockage_redis_rs::RedisStore;
use lockage_tests::server::Cluster;
use redis::Connection;

use crate::topologies::address;
use crate::{HOUR, key, run, text};

/// The number of keys, over all masters.
const KEYS: usize = 100_000;

/// Prints how long the servers' calls took while the program walked over all keys, and how long callers waited.
///
/// ```sh
/// cargo test -p lockage-cli --test cli cost:: -- --ignored --nocapture
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement of a minute"]
#[allow(clippy::print_stdout, reason = "it is a report")]
async fn of_a_walk_over_a_cluster_under_load() {
    let cluster = Cluster::start();
    let address = address("redis-cluster", &cluster.urls(), "");
    write_keys(&cluster);
    println!("| command | seconds | `SCAN`, us | reads, us | other callers, p50 and p99.9, us |");
    println!("|---|---:|---:|---:|---:|");
    for args in [
        &["--version"][..],
        &["ls", "--max", "1000000", "--json"],
        &["ls", "--max", "1000000", "--json", "--pace", "0ms"],
        &["who"],
        &["top", "--looks", "3", "--every", "1s"],
        &["show", "lock:{50}"],
    ] {
        for master in 0..3 {
            reset(&mut cluster.connection(master));
        }
        let load = Load::start(&address).await;
        let began = Instant::now();
        let (own, address) = (args.to_vec(), address.clone());
        let own: Vec<String> = own.into_iter().map(str::to_owned).collect();
        let ran = tokio::task::spawn_blocking(move || {
            run(&address, &own.iter().map(String::as_str).collect::<Vec<_>>())
        });
        let output = ran.await.unwrap();
        let seconds = began.elapsed().as_secs_f64();
        if seconds < 3.0 {
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
        let waits = load.end().await;
        let failed = text(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{failed}");
        assert!(!text(&output.stdout).contains("unreadable"), "the records that were written");
        let (scans, reads) = (cost(&cluster, &["scan"]), cost(&cluster, &["getrange", "lindex"]));
        let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize].as_micros();
        let command = args.join(" ");
        let (median, late) = (at(0.5), at(0.999));
        println!("| `{command}` | {seconds:.1} | {scans} | {reads} | {median} and {late} |");
    }
}

/// Writes the records on each master: nine of ten are of limiters, a tenth of which are logs, and one of a lock.
fn write_keys(cluster: &Cluster) {
    let mut pipes: Vec<redis::Pipeline> = (0..3).map(|_| redis::pipe()).collect();
    let until = 1_000_000 * (HOUR.as_secs() + now_seconds());
    let slots = Slots::of(cluster);
    for number in 0..KEYS {
        let name = match number % 10 {
            0 => format!("lock:{{{number}}}"),
            1 => format!("log:{{{number}}}"),
            _ => format!("login:{{{number}}}"),
        };
        let pipe = &mut pipes[slots.master_of(&name)];
        match number % 10 {
            0 => {
                let text =
                    format!("K2 {number:032x} {until} {number} {until} 0 0 0|{number:032x} 0");
                pipe.cmd("SET").arg(&name).arg(text).ignore();
            }
            1 => {
                pipe.cmd("RPUSH").arg(&name).arg("L1 10 3600000000 0 0;0;").ignore();
            }
            _ => {
                let text = format!("F1 20 3600000000 {} 5", until - 1_800_000_000);
                pipe.cmd("SET").arg(&name).arg(text).ignore();
            }
        }
    }
    for (master, pipe) in pipes.iter().enumerate() {
        pipe.exec(&mut cluster.connection(master)).unwrap();
    }
}

fn now_seconds() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap().as_secs()
}

/// The masters of slots, asked once.
struct Slots(Vec<usize>);

impl Slots {
    fn of(cluster: &Cluster) -> Self {
        let mut all = vec![0; 16_384];
        for master in 0..3 {
            let mut connection = cluster.connection(master);
            let id: String = redis::cmd("CLUSTER").arg("MYID").query(&mut connection).unwrap();
            let nodes: String = redis::cmd("CLUSTER").arg("NODES").query(&mut connection).unwrap();
            let line = nodes.lines().find(|line| line.starts_with(&id)).unwrap();
            for range in line.split_whitespace().skip(8) {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
                all[first..=last].fill(master);
            }
        }
        Slots(all)
    }

    fn master_of(&self, name: &str) -> usize {
        let own = key(name);
        let tag = own.as_str().split_once('{').unwrap().1.split_once('}').unwrap().0;
        let step = |crc: u16, byte: u8| {
            (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| match crc & 0x8000 {
                0 => crc << 1,
                _ => crc << 1 ^ 0x1021,
            })
        };
        self.0[usize::from(tag.bytes().fold(0, step)) % 16_384]
    }
}

/// Lets a server note all calls of 50 us or more, from now on.
fn reset(connection: &mut Connection) {
    for (name, value) in [("slowlog-log-slower-than", "50"), ("slowlog-max-len", "1000000")] {
        redis::cmd("CONFIG").arg("SET").arg(name).arg(value).exec(connection).unwrap();
    }
    redis::cmd("SLOWLOG").arg("RESET").exec(connection).unwrap();
    redis::cmd("CONFIG").arg("RESETSTAT").exec(connection).unwrap();
}

/// Returns the mean time of these commands on all masters, the share above a millisecond, and the longest time.
fn cost(cluster: &Cluster, names: &[&str]) -> String {
    type Entry = (u64, i64, u64, Vec<Vec<u8>>, String, String);
    let (mut calls, mut total, mut longest, mut long) = (0_u64, 0_u64, 0, 0_u64);
    for master in 0..3 {
        let mut connection = cluster.connection(master);
        let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut connection).unwrap();
        for name in names {
            let line =
                stats.lines().find_map(|it| it.strip_prefix(&format!("cmdstat_{name}:calls=")));
            let Some((count, rest)) = line.and_then(|it| it.split_once(",usec=")) else { continue };
            calls += count.parse::<u64>().unwrap();
            total += rest.split(',').next().unwrap().parse::<u64>().unwrap();
        }
        let slow: Vec<Entry> =
            redis::cmd("SLOWLOG").arg("GET").arg(-1).query(&mut connection).unwrap();
        for entry in slow {
            if names.iter().any(|name| entry.3[0].eq_ignore_ascii_case(name.as_bytes())) {
                longest = longest.max(entry.2);
                long += u64::from(entry.2 > 1_000);
            }
        }
    }
    match calls {
        0 => "-".to_owned(),
        _ => format!("{calls} of {}, {long} above 1000, longest {longest}", total / calls),
    }
}

/// Callers of limiters of all masters, that note how long each call took.
struct Load {
    stop: Arc<AtomicBool>,
    callers: Vec<tokio::task::JoinHandle<Vec<Duration>>>,
}

impl Load {
    async fn start(address: &str) -> Self {
        let limit: Limit = "token-bucket 100/s burst 100".parse().unwrap();
        let store = RedisStore::open(address).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let caller = |caller: usize| {
            let limiter = Limiter::new(store.clone(), limit).with_prefix("load").unwrap();
            let stop = Arc::clone(&stop);
            tokio::spawn(async move {
                let mut waits = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    let id = format!("{caller}-{}", waits.len() % 1000);
                    _ = limiter.try_acquire(&id, 1).await.unwrap();
                    waits.push(began.elapsed());
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                waits
            })
        };
        Load { callers: (0..4).map(caller).collect(), stop: Arc::clone(&stop) }
    }

    async fn end(self) -> Vec<Duration> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Vec::new();
        for caller in self.callers {
            all.extend(caller.await.unwrap());
        }
        all.sort_unstable();
        all
    }
}
