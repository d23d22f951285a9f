//! Load: tasks that send requests as fast as they are answered, or at a rate.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::future::BoxFuture;
use hdrhistogram::Histogram;
use tokio::task::{LocalSet, spawn_local, yield_now};

use super::candidates::Candidate;
use crate::usage;

/// After this many requests a task yields, which it would not if it is answered at once.
const TURN: u32 = 64;

/// The ids of requests, equally likely.
pub(super) struct Keys(Arc<[String]>);

impl Keys {
    pub(super) fn new(count: usize) -> Self {
        Keys((0..count).map(|number| format!("user:{number}")).collect())
    }

    fn picks(&self, seed: u64) -> impl FnMut() -> usize + use<> {
        let count = self.0.len() as u64;
        let mut state = seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        move || {
            // Xorshift.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            ((u128::from(state) * u128::from(count)) >> 64) as usize
        }
    }
}

/// A caller.
pub(super) trait Asker: Clone + Send + Sync + 'static {
    /// Sends a request for this id, and fails if the answer is not as expected.
    fn ask(&self, id: &str) -> impl Future<Output = Result<()>> + Send;
}

/// A caller without its type, so that futures are boxed per task and not per request.
pub(super) trait Load: Send + Sync {
    /// Sends requests until it is stopped, and returns their number.
    fn until(
        &self,
        stop: Arc<AtomicBool>,
        keys: &Keys,
        seed: u64,
    ) -> BoxFuture<'static, Result<u64>>;
    /// Sends two requests per id, from this id on in steps of this length.
    fn all(&self, keys: &Keys, first: usize, step: usize) -> BoxFuture<'static, Result<()>>;
    /// Sends one request.
    fn once(&self, keys: &Keys, pick: usize) -> BoxFuture<'static, Result<()>>;
}

impl<A: Asker> Load for A {
    fn until(
        &self,
        stop: Arc<AtomicBool>,
        keys: &Keys,
        seed: u64,
    ) -> BoxFuture<'static, Result<u64>> {
        let (asker, ids, mut pick) = (self.clone(), Arc::clone(&keys.0), keys.picks(seed));
        Box::pin(async move {
            let mut count = 0;
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..TURN {
                    asker.ask(&ids[pick()]).await?;
                    count += 1;
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
                yield_now().await;
            }
            Ok(count)
        })
    }

    fn all(&self, keys: &Keys, first: usize, step: usize) -> BoxFuture<'static, Result<()>> {
        let (asker, ids) = (self.clone(), Arc::clone(&keys.0));
        Box::pin(async move {
            for id in ids.iter().skip(first).step_by(step) {
                asker.ask(id).await?;
                asker.ask(id).await?;
            }
            Ok(())
        })
    }

    fn once(&self, keys: &Keys, pick: usize) -> BoxFuture<'static, Result<()>> {
        let (asker, ids) = (self.clone(), Arc::clone(&keys.0));
        Box::pin(async move { asker.ask(&ids[pick]).await })
    }
}

/// Sends two requests per id, so that denials are cached: the first may be admitted.
pub(super) async fn warm(candidate: &Candidate, keys: &Keys) -> Result<()> {
    const TASKS: usize = 256;
    let askers: Vec<_> = (0..TASKS.min(keys.0.len()))
        .map(|first| tokio::spawn(candidate.load.all(keys, first, TASKS.min(keys.0.len()))))
        .collect();
    for asker in askers {
        asker.await??;
    }
    Ok(())
}

/// The throughput of one round.
#[derive(Clone, Copy)]
pub(super) struct Throughput {
    pub(super) per_second: f64,
    /// Per request.
    pub(super) client_us: f64,
    pub(super) server_us: f64,
}

/// Runs this many tasks as fast as they are answered.
pub(super) async fn closed(
    candidate: &Candidate,
    tasks: usize,
    keys: &Keys,
    round: Duration,
    server: u32,
) -> Result<Throughput> {
    let stop = Arc::new(AtomicBool::new(false));
    let used = || {
        Ok::<_, anyhow::Error>((usage::of_process(std::process::id())?, usage::of_process(server)?))
    };
    let (begin, before) = (Instant::now(), used()?);
    let bell = Arc::clone(&stop);
    let watch = thread::spawn(move || {
        thread::sleep(round);
        bell.store(true, Ordering::Relaxed);
    });
    let askers: Vec<_> = (0..tasks)
        .map(|seed| tokio::spawn(candidate.load.until(Arc::clone(&stop), keys, seed as u64)))
        .collect();
    let mut count = 0;
    for asker in askers {
        count += asker.await??;
    }
    let (end, after) = (begin.elapsed(), used()?);
    watch.join().expect("it only sleeps");
    let each = |span: Duration| span.as_secs_f64() * 1e6 / count as f64;
    Ok(Throughput {
        per_second: count as f64 / end.as_secs_f64(),
        client_us: each(after.0 - before.0),
        server_us: each(after.1 - before.1),
    })
}

/// The latencies of one round, in microseconds.
#[derive(Clone, Copy)]
pub(super) struct Latencies {
    pub(super) half: u64,
    pub(super) most: u64,
    pub(super) nearly_all: u64,
    pub(super) longest: u64,
}

/// Sends this many requests a second. Latencies count from the intended start of each, so that
/// queueing counts.
pub(super) async fn open(
    candidate: &Candidate,
    rate: u64,
    keys: &Keys,
    round: Duration,
) -> Result<Latencies> {
    // Up to a minute, to a thousandth.
    let histogram = Histogram::<u64>::new_with_bounds(1, 60_000_000, 3)?;
    let histogram = Rc::new(RefCell::new(histogram));
    let mut pick = keys.picks(rate);
    let local = LocalSet::new();
    let sent = async {
        let count = rate * round.as_millis() as u64 / 1000;
        let begin = Instant::now();
        let mut requests = Vec::new();
        for number in 0..count {
            let start = begin + Duration::from_nanos(number * 1_000_000_000 / rate);
            // A timer is late by up to a millisecond.
            while Instant::now() < start {
                yield_now().await;
            }
            let request = candidate.load.once(keys, pick());
            let histogram = Rc::clone(&histogram);
            requests.push(spawn_local(async move {
                request.await?;
                histogram.borrow_mut().saturating_record(start.elapsed().as_micros().max(1) as u64);
                Ok::<_, anyhow::Error>(())
            }));
        }
        for request in requests {
            request.await??;
        }
        Ok::<_, anyhow::Error>(())
    };
    local.run_until(sent).await?;
    let histogram = histogram.borrow();
    let at = |quantile| histogram.value_at_quantile(quantile);
    Ok(Latencies { half: at(0.5), most: at(0.99), nearly_all: at(0.999), longest: histogram.max() })
}
