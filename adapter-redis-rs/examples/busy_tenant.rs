//! One tenant with 60 tasks that reserve and commit on one key, along with idle tenants: the latencies of calls on its
//! key and on others, and the answers to a hundred tasks with five reservations each. `cargo run --release --example
//! busy_tenant -p lockage-redis-rs` with `REDIS_URL` naming a server, whose keys of this prefix are dropped.

#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lockage_redis_rs::limiter::Settlement;
use lockage_redis_rs::runtime::Tokio;
use lockage_redis_rs::{Limiter, RedisStore, RetryStore, Store};
use tokio::task::JoinSet;

const HOLD: Duration = Duration::from_secs(600);
const SPAN: Duration = Duration::from_secs(5);

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1/".to_owned());
    let store = RedisStore::open(&url)?;
    let store = RetryStore::new(store, Tokio, Duration::from_secs(5));
    let limit = "token-bucket 1000000/day burst 1000000000".parse()?;
    let limiter = Arc::new(Limiter::new(store, limit).with_prefix("busy")?);
    for tasks in [1, 60] {
        for open in [0, 64, 10_000] {
            limiter.reset("tenant").await?;
            let mut errors = 0;
            for _ in 0..open {
                errors += u64::from(limiter.reserve("tenant", 1, HOLD).await.is_err());
            }
            let [own, others] = latencies(&limiter, tasks).await?;
            println!(
                "{tasks} tasks, {open} open ({errors} errors): {own}; others' try_acquire {others}"
            );
        }
    }
    limiter.reset("tenant").await?;
    let mut all = JoinSet::new();
    for _ in 0..100 {
        let limiter = Arc::clone(&limiter);
        all.spawn(async move {
            let mut errors = 0;
            for _ in 0..5 {
                errors += u64::from(limiter.reserve("tenant", 1, HOLD).await.is_err());
            }
            errors
        });
    }
    println!(
        "{} errors of 500 reservations by 100 tasks",
        all.join_all().await.iter().sum::<u64>()
    );
    Ok(())
}

/// Returns latencies with this many tasks on one key: those of its calls, and those of a request to another key each
/// millisecond.
async fn latencies<S: Store + 'static>(
    limiter: &Arc<Limiter<RetryStore<S, Tokio>>>,
    tasks: usize,
) -> Result<[String; 2], Failure> {
    let is_over = Arc::new(AtomicBool::new(false));
    let mut busy = JoinSet::new();
    for _ in 0..tasks {
        let (limiter, is_over) = (Arc::clone(limiter), Arc::clone(&is_over));
        busy.spawn(async move {
            let mut taken = [Vec::new(), Vec::new(), Vec::new()];
            while !is_over.load(Ordering::Relaxed) {
                let start = Instant::now();
                let Ok(reserved) = limiter.reserve("tenant", 10, HOLD).await else { continue };
                taken[0].push(start.elapsed());
                let start = Instant::now();
                if let Some(reservation) = reserved.reservation {
                    let settled = limiter.commit("tenant", &reservation, 3).await?;
                    assert!(matches!(settled, Settlement::Settled { .. }), "{settled:?}");
                }
                taken[1].push(start.elapsed());
                let start = Instant::now();
                _ = limiter.try_acquire("tenant", 1).await?;
                taken[2].push(start.elapsed());
            }
            Ok::<_, Failure>(taken)
        });
    }
    let (start, mut others) = (Instant::now(), Vec::new());
    for number in 0_u64.. {
        if start.elapsed() > SPAN {
            break;
        }
        let asked = Instant::now();
        _ = limiter.try_acquire(&format!("other {}", number % 100), 1).await?;
        others.push(asked.elapsed());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    is_over.store(true, Ordering::Relaxed);
    let mut own = [Vec::new(), Vec::new(), Vec::new()];
    for taken in busy.join_all().await {
        own.iter_mut().zip(taken?).for_each(|(all, some)| all.extend(some));
    }
    let [reserve, commit, acquire] = own.map(percentiles);
    let own = format!("reserve {reserve}, commit {commit}, try_acquire {acquire}");
    Ok([own, percentiles(others)])
}

/// The median and the 99th percentile, in milliseconds.
fn percentiles(mut taken: Vec<Duration>) -> String {
    taken.sort_unstable();
    let at = |share: usize| taken.get(taken.len() * share / 100).copied().unwrap_or_default();
    format!("{:.2} / {:.2} ms", at(50).as_secs_f64() * 1e3, at(99).as_secs_f64() * 1e3)
}
