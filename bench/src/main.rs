//! The costs of lockage. Each table has one command; see docs/PERFORMANCE.md. The comparisons with other crates
//! need the feature `others`.
#![allow(clippy::print_stdout, clippy::print_stderr)] // a program that prints

#[cfg(feature = "others")]
mod end_to_end;
#[cfg(feature = "others")]
mod http;
#[cfg(feature = "others")]
mod in_process;
#[cfg_attr(not(feature = "others"), allow(dead_code))]
mod measure;
mod observers;
#[cfg(feature = "others")]
mod peers;
mod process;
mod server;
mod simulator;
mod table;
#[cfg(feature = "others")]
mod usage;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Measures the costs of lockage side by side with others.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    table: Table,
}

#[derive(Debug, Subcommand)]
enum Table {
    /// Instructions of redis-server per decision, counted by callgrind.
    Server(server::Args),
    /// Decisions per second, processor time of both sides, and latencies, from a caller's task and back.
    #[cfg(feature = "others")]
    EndToEnd(end_to_end::Args),
    /// Nanoseconds per decision in process, compared with other crates, floors and clocks.
    #[cfg(feature = "others")]
    InProcess(in_process::Args),
    /// Processor time of requests to axum behind a limit, compared with tower_governor.
    #[cfg(feature = "others")]
    Http(http::Args),
    /// Servers behind a limit under load by wrk, compared with tower_governor.
    #[cfg(feature = "others")]
    HttpLoad(http::LoadArgs),
    /// One of these servers, until it is killed.
    #[cfg(feature = "others")]
    #[command(hide = true)]
    HttpServe(http::ServeArgs),
    /// Instructions, decisions per second and memory of others' published scripts, and their errors.
    #[cfg(feature = "others")]
    Peers(peers::Args),
    /// Nanoseconds that observers add to a decision.
    Observers(observers::Args),
    /// Decisions and worlds per second of the simulator, on one core.
    Simulator(simulator::Args),
}

fn main() -> Result<()> {
    let table = Cli::parse().table;
    #[cfg(feature = "others")]
    let is_table = !matches!(table, Table::HttpServe(_));
    #[cfg(not(feature = "others"))]
    let is_table = true;
    if is_table {
        println!("{}\n", head());
    }
    match table {
        Table::Server(args) => server::run(&args),
        #[cfg(feature = "others")]
        Table::EndToEnd(args) => end_to_end::run(&args),
        #[cfg(feature = "others")]
        Table::InProcess(args) => in_process::run(&args),
        #[cfg(feature = "others")]
        Table::Http(args) => http::run(&args),
        #[cfg(feature = "others")]
        Table::HttpLoad(args) => http::run_load(&args),
        #[cfg(feature = "others")]
        Table::HttpServe(args) => http::serve(&args),
        #[cfg(feature = "others")]
        Table::Peers(args) => peers::run(&args),
        Table::Observers(args) => observers::run(&args),
        Table::Simulator(args) => simulator::run(&args),
    }
}

/// Returns the head of a table: its command, time and machine.
fn head() -> String {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let features = match (cfg!(feature = "others"), cfg!(feature = "count-allocations")) {
        (true, true) => " --features others,count-allocations",
        (true, false) => " --features others",
        (false, _) => "",
    };
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let told = |what: &str| {
        let line =
            cpu.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == what));
        line.and_then(|line| line.split(':').nth(1)).map_or("unknown", str::trim)
    };
    format!(
        "`cargo run --release -p lockage-bench{features} -- {}`, {}, {} (family {}, model {}), processors: {}",
        args.join(" "),
        jiff::Timestamp::now().strftime("%Y-%m-%d"),
        told("model name"),
        told("cpu family"),
        told("model"),
        std::thread::available_parallelism().map_or(1, usize::from),
    )
}
