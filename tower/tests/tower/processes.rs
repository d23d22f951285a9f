//! H6: several server processes share one limit, over HTTP/1.1 and HTTP/2, on a real server: exactly as many requests
//! are admitted as the limit allows. The processes run the example.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;

use http_body_util::Empty;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use lockage_tests::server::Server;

use super::*;

#[allow(unreachable_pub)]
#[path = "../../examples/axum_per_ip.rs"]
mod axum_per_ip;

/// A process with a server, which ends with this.
struct Process {
    child: Child,
    url: http::Uri,
}

impl Process {
    fn start(redis: &str, limit: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "processes::the_example_serves"])
            .envs([("PORT", "0"), ("LIMIT", limit), ("REDIS_URL", redis)])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.find(|line| line.as_ref().unwrap().contains("http://")).unwrap().unwrap();
        let url = &line[line.find("http://").unwrap()..line.find(" under").unwrap()];
        Process { child, url: url.parse().unwrap() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a test: the program that [`Process`] runs.
#[test]
#[ignore = "it serves until it is killed"]
fn the_example_serves() {
    axum_per_ip::main().unwrap();
}

/// Sends requests from this many threads to both processes; returns how many were admitted, and how many denied.
fn load(processes: &[Process], threads: usize, requests: usize, http2: bool) -> (usize, usize) {
    let ask = |thread: usize| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let url = processes[thread % processes.len()].url.clone();
        runtime.block_on(async move {
            let client = Client::builder(TokioExecutor::new())
                .http2_only(http2)
                .build_http::<Empty<Bytes>>();
            let mut counts = (0, 0);
            for _ in 0..requests {
                let answer = client.get(url.clone()).await.unwrap();
                match answer.status().as_u16() {
                    200 => counts.0 += 1,
                    429 => counts.1 += 1,
                    other => panic!("{other}"),
                }
                assert!(answer.headers().contains_key("ratelimit"));
                answer.into_body().collect().await.unwrap();
            }
            counts
        })
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || ask(thread))).collect();
        let counts = threads.into_iter().map(|thread| thread.join().unwrap());
        counts.fold((0, 0), |sum, counts| (sum.0 + counts.0, sum.1 + counts.1))
    })
}

#[test]
fn exactly_the_limit_is_admitted_by_many_threads_and_two_processes() {
    let server = Server::start();
    for (threads, limit, admitted, http2) in [
        (20, "fixed-window 37/h", 37, false),
        (100, "token-bucket 100/day burst 123", 123, false),
        (100, "sliding-log 90/h + fixed-window 150/day", 90, true),
    ] {
        redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
        let processes = [0, 1].map(|_| Process::start(&server.url(), limit));
        let asked = threads * 4;
        let counts = load(&processes, threads, 4, http2);
        assert_eq!(counts, (admitted, asked - admitted), "{limit}");
    }
}
