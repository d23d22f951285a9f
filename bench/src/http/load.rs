//! Servers under load by wrk, each a process of its own.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use lockage_memory::MemoryStore;
use lockage_redis_rs::RedisStore;
use lockage_tower::Fields;

use super::apps::{self, Outcome};
use crate::measure::median;
use crate::process::Server;
use crate::usage;

/// Selects the servers to load, and how long.
#[derive(Debug, clap::Args)]
pub(crate) struct LoadArgs {
    /// Seconds for each server, over all rounds.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Rounds, in turns; the table has the medians.
    #[arg(long, default_value_t = 3)]
    rounds: u64,
    /// Connections.
    #[arg(long, default_value_t = 64)]
    connections: u64,
    /// The program of the server of limits.
    #[arg(long, default_value = "redis-server")]
    program: String,
}

/// One server, which runs until its standard input ends.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    app: App,
    /// The server of limits.
    #[arg(long, default_value = "")]
    redis: String,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum App {
    Axum,
    Lockage,
    LockageOnRedis,
    TowerGovernor,
}

const APPS: [(App, &str, &str); 4] = [
    (App::Axum, "axum", "axum"),
    (App::Lockage, "lockage", "lockage in memory"),
    (App::TowerGovernor, "tower-governor", "tower_governor, headers"),
    (App::LockageOnRedis, "lockage-on-redis", "lockage on Redis"),
];

/// Threads of each server, and of wrk.
const THREADS: usize = 2;

pub(crate) fn run(args: &LoadArgs) -> Result<()> {
    let folder = tempfile::tempdir().context("a folder for the server")?;
    let redis = Server::start(Command::new(&args.program), folder, false)?;
    let servers = APPS
        .iter()
        .map(|(_, name, _)| Process::start(name, &redis.url()))
        .collect::<Result<Vec<_>>>()?;
    let seconds = (args.seconds / args.rounds).max(1);
    let mut measured = vec![Vec::new(); servers.len()];
    for _ in 0..args.rounds {
        for (server, rounds) in servers.iter().zip(&mut measured) {
            rounds.push(server.load(args.connections, seconds)?);
        }
    }
    println!(
        "{} connections, medians of {} rounds of {seconds} s; servers and wrk have {THREADS} threads each:\n",
        args.connections, args.rounds
    );
    println!("| | requests a second | 50 %, ms | 99 %, ms | processor us of the server |");
    println!("|---|---:|---:|---:|---:|");
    for ((_, _, name), rounds) in APPS.iter().zip(&measured) {
        let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure).collect());
        println!(
            "| {name} | {:.0} | {:.2} | {:.2} | {:.1} |",
            of(|round| round.per_second),
            of(|round| round.half),
            of(|round| round.most),
            of(|round| round.server_us),
        );
    }
    Ok(())
}

/// The results of wrk and the system for one round. Latencies are in milliseconds.
#[derive(Clone)]
struct Round {
    per_second: f64,
    half: f64,
    most: f64,
    server_us: f64,
}

/// A server, which ends with this.
struct Process {
    child: Child,
    url: String,
}

impl Process {
    fn start(app: &str, redis: &str) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["http-serve", app, "--redis", redis])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut url = String::new();
        BufReader::new(child.stdout.take().context("it is piped")?).read_line(&mut url)?;
        ensure!(url.starts_with("http://"), "the server of {app} has not started");
        Ok(Process { child, url: url.trim().to_owned() })
    }

    fn load(&self, connections: u64, seconds: u64) -> Result<Round> {
        let before = usage::of_process(self.child.id())?;
        let wrk = Command::new("wrk")
            .args(["--latency", "--threads", &THREADS.to_string()])
            .args(["--connections", &connections.to_string()])
            .args(["--duration", &format!("{seconds}s"), &self.url])
            .output()
            .context("wrk cannot be run; on Debian and Ubuntu, apt has it")?;
        let used = usage::of_process(self.child.id())? - before;
        let said = String::from_utf8(wrk.stdout)?;
        let fails = ["Non-2xx", "Socket errors"].iter().any(|error| said.contains(error));
        ensure!(wrk.status.success() && !fails, "wrk says:\n{said}");
        // With a space before percentiles: the line above them ends with a percentage.
        let requests: f64 = word_before(&said, "requests in")?.parse()?;
        Ok(Round {
            per_second: word_after(&said, "Requests/sec:")?.parse()?,
            half: millis(word_after(&said, " 50%")?)?,
            most: millis(word_after(&said, " 99%")?)?,
            server_us: used.as_secs_f64() * 1e6 / requests,
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn word_after<'a>(text: &'a str, before: &str) -> Result<&'a str> {
    let word = text.split_once(before).and_then(|(_, rest)| rest.split_whitespace().next());
    word.with_context(|| format!("wrk does not say `{before}`:\n{text}"))
}

fn word_before<'a>(text: &'a str, after: &str) -> Result<&'a str> {
    let word = text.split_once(after).and_then(|(begin, _)| begin.split_whitespace().last());
    word.with_context(|| format!("wrk does not say `{after}`:\n{text}"))
}

/// Reads a time such as `850.00us`, `1.20ms` or `1.01s`.
fn millis(text: &str) -> Result<f64> {
    for (unit, millis) in [("us", 0.001), ("ms", 1.0), ("s", 1000.0)] {
        if let Some(number) = text.strip_suffix(unit) {
            return Ok(number.parse::<f64>()? * millis);
        }
    }
    bail!("`{text}` is no time")
}

/// Serves one application, and prints its address.
pub(crate) fn serve(args: &ServeArgs) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
    runtime.block_on(async {
        let fields = Fields::DRAFT_11;
        let app = match args.app {
            App::Axum => apps::bare(),
            App::Lockage => {
                apps::lockage(apps::limiter(MemoryStore::new(), Outcome::Admit)?, fields)?
            }
            App::LockageOnRedis => {
                let store = RedisStore::open(&args.redis)?;
                apps::lockage(apps::limiter(store, Outcome::Admit)?, fields)?
            }
            App::TowerGovernor => apps::governor_with_headers(Outcome::Admit)?,
        };
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        println!("http://{}/", listener.local_addr()?);
        axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
        Ok(())
    })
}
