//! Processor time and allocations of requests that are answered without a network.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use futures_util::future::join_all;
use lockage::runtime::Tokio;
use lockage::{Limiter, RetryStore, Store};
use lockage_memory::MemoryStore;
use lockage_redis_rs::RedisStore;
use lockage_tower::Fields;
use tower::ServiceExt;

use super::Args;
use super::apps::{self, Outcome};
use crate::measure::{Candidate, Run, Seen, side_by_side};
use crate::process::Server;

/// The number of clients.
const CLIENTS: u32 = 100_000;
/// The length of their order, which is drawn at random once and then repeated.
const ORDER: usize = 1 << 18;
/// The number of requests in flight at once, on Redis.
const AT_ONCE: usize = 64;

const BOTH: Fields = Fields::DRAFT_11.and_x_ratelimit();

pub(super) fn run(args: &Args) -> Result<()> {
    let clients = Clients::new();
    if args.wants("memory") {
        in_memory(args, &clients)?;
    }
    if args.wants("redis") {
        on_redis(args, &clients)?;
    }
    Ok(())
}

/// Rules wait for the store: for as long as its timeout says.
fn retrying<S: Store>(store: S) -> RetryStore<S, Tokio> {
    RetryStore::new(store, Tokio, Duration::from_secs(1))
}

fn in_memory(args: &Args, clients: &Clients) -> Result<()> {
    let ours = |outcome, fields| apps::lockage(apps::limiter(MemoryStore::new(), outcome)?, fields);
    let apps = [
        ("axum", apps::bare()),
        ("a layer that does nothing", apps::with_idle_layer()),
        ("lockage in process, no fields", apps::in_process(Outcome::Admit, Fields::NONE)?),
        ("lockage in process", apps::in_process(Outcome::Admit, Fields::DRAFT_11)?),
        ("lockage in process, denied", apps::in_process(Outcome::Deny, Fields::DRAFT_11)?),
        ("lockage, no fields", ours(Outcome::Admit, Fields::NONE)?),
        ("lockage", ours(Outcome::Admit, Fields::DRAFT_11)?),
        ("lockage, `X-RateLimit` too", ours(Outcome::Admit, BOTH)?),
        ("lockage by a rule", apps::by_rules(retrying(MemoryStore::new()), 0)?),
        ("lockage by 1 of 1,000 rules", apps::by_rules(retrying(MemoryStore::new()), 999)?),
        ("lockage, denied", ours(Outcome::Deny, Fields::DRAFT_11)?),
        ("tower_governor", apps::governor(Outcome::Admit)?),
        ("tower_governor, headers", apps::governor_with_headers(Outcome::Admit)?),
        ("tower_governor, denied", apps::governor(Outcome::Deny)?),
        ("tower_governor, headers, denied", apps::governor_with_headers(Outcome::Deny)?),
    ];
    let candidate = |(name, app): &(&'static str, Router)| {
        let (is_denied, app) = (name.ends_with("denied"), app.clone());
        let candidate = Candidate::new(name, move |number| {
            let response = pollster::block_on(app.clone().oneshot(clients.request(number)));
            response.is_ok_and(|response| response.status() == if is_denied { 429 } else { 200 })
        });
        // Makes all clients known, and uses up their first allowance.
        candidate.run(ORDER);
        candidate
    };
    let candidates: Vec<_> = apps.iter().map(candidate).collect();
    println!("In process, {CLIENTS} clients:\n\n| | ns | above axum | allocations | above axum |");
    println!("|---|---:|---:|---:|---:|");
    let mut floor = None;
    for (seen, candidate) in side_by_side(&args.rounds, 1, &candidates).iter().zip(&candidates) {
        assert!(seen.admitted > 0.99, "{}: not as expected", seen.name);
        let count = allocations(candidate);
        let (nanos, least) = *floor.get_or_insert((seen.nanos, count));
        let cells = match count.zip(least) {
            Some((count, least)) => format!("{count:.1} | {:.1}", count - least),
            None => "- | -".to_owned(),
        };
        println!("| {} | {:.0} | {:.0} | {cells} |", seen.name, seen.nanos, seen.nanos - nanos);
    }
    Ok(())
}

/// Returns how often a request allocates memory, the request itself included.
#[cfg(feature = "count-allocations")]
fn allocations(candidate: &Candidate<'_>) -> Option<f64> {
    const REQUESTS: usize = 1000;
    let seen = allocation_counter::measure(|| candidate.run(REQUESTS));
    Some(seen.count_total as f64 / REQUESTS as f64)
}

#[cfg(not(feature = "count-allocations"))]
fn allocations(_: &Candidate<'_>) -> Option<f64> {
    None
}

fn on_redis(args: &Args, clients: &Clients) -> Result<()> {
    let folder = tempfile::tempdir().context("a folder for the server")?;
    let server = Server::start(Command::new(&args.program), folder, false)?;
    let runtime = &tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let limiter = runtime
        .block_on(async { apps::limiter(RedisStore::open(&server.url())?, Outcome::Admit) })?;
    let by_rules = retrying(runtime.block_on(async { RedisStore::open(&server.url()) })?);
    let request = |app: Router| {
        many(runtime, move |number| {
            let answer = app.clone().oneshot(clients.request(number));
            async { answer.await.is_ok_and(|response| response.status() == 200) }
        })
    };
    let alone = {
        let limiter: &Limiter<_> = &limiter;
        many(runtime, move |number| async move {
            let asked = limiter.try_acquire(clients.id(number), 1).await;
            asked.is_ok_and(|decision| decision.is_allowed())
        })
    };
    let candidates = [
        Candidate { name: "axum", decide: Box::new(request(apps::bare())) },
        Candidate { name: "`try_acquire`", decide: Box::new(alone) },
        Candidate {
            name: "lockage, no fields",
            decide: Box::new(request(apps::lockage(limiter.clone(), Fields::NONE)?)),
        },
        Candidate {
            name: "lockage",
            decide: Box::new(request(apps::lockage(limiter.clone(), Fields::DRAFT_11)?)),
        },
        Candidate {
            name: "lockage by 1 of 1,000 rules",
            decide: Box::new(request(apps::by_rules(by_rules, 999)?)),
        },
    ];
    println!("\nOn Redis, {AT_ONCE} requests at once:\n\n| | ns | above axum and `try_acquire` |");
    println!("|---|---:|---:|");
    let seen = side_by_side(&args.rounds, 1, &candidates);
    for Seen { name, nanos, admitted, .. } in &seen {
        assert!(*admitted > 0.99, "{name}: not all were admitted");
        let above = nanos - seen[0].nanos - seen[1].nanos;
        let above = if name.starts_with("lockage") { format!("{above:.0}") } else { "-".into() };
        println!("| {name} | {nanos:.0} | {above} |");
    }
    Ok(())
}

/// Makes requests by groups, all of a group at once.
fn many<'a, F: Future<Output = bool>>(
    runtime: &'a tokio::runtime::Runtime,
    ask: impl Fn(usize) -> F + Send + Sync + 'a,
) -> impl Fn(&mut Run) + Send + Sync + 'a {
    move |run| {
        let end = run.first + run.count;
        for first in (run.first..end).step_by(AT_ONCE) {
            let group = (first..end.min(first + AT_ONCE)).map(&ask);
            let answers = runtime.block_on(join_all(group));
            run.admitted += answers.into_iter().filter(|&is_admitted| is_admitted).count();
        }
    }
}

/// The addresses of clients, and the ids that they have in limiters.
struct Clients {
    order: Vec<Ipv4Addr>,
    ids: Vec<String>,
}

impl Clients {
    fn new() -> Self {
        let mut random = fastrand::Rng::with_seed(7);
        let address = |_| Ipv4Addr::from_bits(0x0a00_0000 + random.u32(..CLIENTS));
        let order: Vec<_> = (0..ORDER).map(address).collect();
        let ids = order.iter().map(|address| format!("ip:{address}")).collect();
        Clients { order, ids }
    }

    fn request(&self, number: usize) -> Request {
        let address = self.order[number % ORDER];
        let mut request = Request::new(Body::empty());
        let peer = SocketAddr::new(address.into(), 4711);
        request.extensions_mut().insert(ConnectInfo(peer));
        request
    }

    fn id(&self, number: usize) -> &str {
        &self.ids[number % ORDER]
    }
}
