//! H6: several server processes share one limit, over HTTP/1.1 and HTTP/2, on a real server: exactly as many requests
//! are admitted as the limit allows. The processes run the example.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use http_body_util::Empty;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use lockage_tests::server::Server;

use super::llm;
use super::*;

#[allow(unreachable_pub)]
#[path = "../../examples/axum_per_ip.rs"]
mod axum_per_ip;

#[allow(unreachable_pub)]
#[path = "../../examples/axum_rules.rs"]
mod axum_rules;

/// A process with a server, which ends with this.
pub(super) struct Process {
    child: Child,
    pub(super) url: http::Uri,
}

impl Process {
    fn start(redis: &str, limit: &str) -> Self {
        // None is to fail, however busy the machine is.
        let variables = [("LIMIT", limit), ("REDIS_URL", redis), ("TIMEOUT_MS", "20000")];
        Process::run("processes::the_example_serves", &variables)
    }

    pub(super) fn by_rules(redis: &str, file: &Path, more: Option<(&str, &str)>) -> Self {
        let variables = [("RULES", file.to_str().unwrap()), ("REDIS_URL", redis)];
        let variables: Vec<_> = variables.into_iter().chain(more).collect();
        Process::run("processes::the_example_with_rules_serves", &variables)
    }

    /// Starts the program of this test.
    pub(super) fn run(program: &str, variables: &[(&str, &str)]) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", program])
            .env("PORT", "0")
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.find(|line| line.as_ref().unwrap().contains("http://")).unwrap().unwrap();
        let url = &line[line.find("http://").unwrap()..line.find("/ ").unwrap() + 1];
        // The rest is read, so that it can go on.
        thread::spawn(move || lines.for_each(drop));
        Process { child, url: url.parse().unwrap() }
    }

    /// Ends it at once (SIGKILL).
    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
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

/// Not a test: the program that [`Process`] runs with rules.
#[test]
#[ignore = "it serves until it is killed"]
fn the_example_with_rules_serves() {
    axum_rules::main().unwrap();
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

/// A caller, and the path that it asks for.
#[derive(Clone, Copy)]
struct Caller {
    user: &'static str,
    organisation: &'static str,
    tier: &'static str,
    path: &'static str,
}

/// The addresses of the processes, and whether enough has happened.
struct Load {
    urls: [std::sync::Mutex<http::Uri>; 2],
    is_over: AtomicBool,
}

impl Load {
    /// Asks by turns at both processes, at least this often; returns how many requests were admitted, and how many have no
    /// answer.
    async fn ask(&self, caller: Caller, least: usize) -> (usize, usize) {
        let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
        let (mut admitted, mut answered, mut lost) = (0, 0, 0);
        for turn in 0.. {
            if answered >= least && self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let url = self.urls[turn % 2].lock().unwrap().clone();
            let request =
                Request::get(format!("http://{}{}", url.authority().unwrap(), caller.path))
                    .header("x-user", caller.user)
                    .header("x-organisation", caller.organisation)
                    .header("x-tier", caller.tier);
            match client.request(request.body(Empty::new()).unwrap()).await {
                Ok(answer) => {
                    let status = answer.status().as_u16();
                    assert!(matches!(status, 200 | 429), "{status}");
                    (admitted, answered) = (admitted + usize::from(status == 200), answered + 1);
                }
                Err(_) => lost += 1,
            }
        }
        (admitted, lost)
    }

    /// Asks for streamed answers by turns at these processes, at least this often; returns the usage of those that were
    /// admitted, and their number.
    async fn stream(&self, user: &str, processes: &[usize], least: usize) -> (u64, u64) {
        let (mut usage, mut admitted) = (0, 0);
        for turn in 0.. {
            if turn >= least && self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let url = self.urls[processes[turn % processes.len()]].lock().unwrap().clone();
            let words = turn as u64 % 7;
            let (_, answer) = llm::ask(&url, user, words, "").await;
            match answer.status().as_u16() {
                200 => (usage, admitted) = (usage + llm::read(answer, words).await, admitted + 1),
                status => assert_eq!(status, 429),
            }
        }
        (usage, admitted)
    }
}

/// An answer that does not end.
const HANGS: &str = ",\"hangs\":true";

/// H4 and H6, by rules: three tiers, three routes, users and organisations, on two processes, while the file is replaced,
/// and one process is killed and restarted. Each limit is charged exactly, and only requests in flight at the killed process
/// are charged without an answer. Streamed answers are charged by their usage, those that died by their estimate.
#[test]
fn rules_admit_exactly_the_limit_while_they_are_reloaded_and_a_process_is_restarted() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.toml");
    // The limits stay; the text for clients changes, and each fifth file has a mistake.
    let write = |version: usize| {
        let text = include_str!("../../examples/rules.toml")
            .replace("token-bucket 60/min burst 10", "fixed-window 30/day")
            .replace("token-bucket 20_000/min", "fixed-window 1_000_000/day")
            .replace("token-bucket 600/min burst 100", "fixed-window 60/day")
            .replace("1000/h", "50/day")
            .replace("100_000/h", "90/day")
            .replace("message", if version % 5 == 4 { "massage" } else { "message" })
            .replace("no more", &format!("{version}: no more"));
        let new = folder.path().join("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, &file).unwrap();
    };
    write(0);
    let start = || Process::by_rules(&server.url(), &file, Some(("HOLD", "2")));
    let mut processes = [0, 1].map(|_| start());
    let load = Arc::new(Load {
        urls: [0, 1].map(|at| std::sync::Mutex::new(processes[at].url.clone())),
        is_over: AtomicBool::new(false),
    });
    let caller = |user, organisation, tier, path| Caller { user, organisation, tier, path };
    // Callers, and the id and the limit that bind them.
    let groups = [
        (
            vec![caller("ann", "acme", "", "/search"), caller("bob", "acme", "", "/search")],
            "organisation:acme,none",
            50,
        ),
        (vec![caller("pat", "other", "pro", "/search")], "organisation:other,pro", 50),
        (vec![caller("eve", "third", "", "/exports/1")], "exports:eve", 2),
        (vec![caller("kim", "fourth", "pro", "/exports/2")], "exports:kim", 20),
        (vec![caller("lee", "fifth", "enterprise", "/exports/3")], "user:lee", 60),
    ];
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.unwrap();
    let ask = |caller, least| {
        let load = Arc::clone(&load);
        runtime.spawn(async move { load.ask(caller, least).await })
    };
    // Three streams that are open when their process is killed.
    let open = [0; 3].map(|_| runtime.block_on(llm::ask(&processes[1].url, "sam", 2, HANGS)));
    let of_dead: u64 = open.iter().map(|(estimate, _)| estimate).sum();
    assert!(open.iter().all(|(_, answer)| answer.status() == 200));
    let stream = |user, processes| {
        [0; 2].map(|_| {
            let load = Arc::clone(&load);
            runtime.spawn(async move { load.stream(user, processes, 31).await })
        })
    };
    let mut streams = vec![("sam", 3, of_dead, stream("sam", &[0]))];
    // Two tasks for each caller, of which each asks for more than all may have.
    let tasks = groups.each_ref().map(|(callers, _, limit)| {
        callers.iter().flat_map(|it| [ask(*it, limit + 1), ask(*it, limit + 1)]).collect::<Vec<_>>()
    });
    for version in 1..=40 {
        write(version);
        if version == 15 {
            processes[1].child.kill().unwrap();
            processes[1] = start();
            *load.urls[1].lock().unwrap() = processes[1].url.clone();
            streams.push(("tom", 0, 0, stream("tom", &[0, 1])));
        }
        thread::sleep(Duration::from_millis(20));
    }
    load.is_over.store(true, Ordering::Relaxed);
    let store = lockage_redis_rs::RedisStore::open(&server.url()).unwrap();
    for ((_, id, most), tasks) in groups.iter().zip(tasks) {
        let each = tasks.into_iter().map(|task| runtime.block_on(task).unwrap());
        let (admitted, lost) = each.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        assert!(
            admitted <= *most && *most <= admitted + lost,
            "{id}: {admitted} and {lost} of {most}"
        );
        let limiter = Limiter::new(&store, limit(&format!("fixed-window {most}/day")));
        assert_eq!(runtime.block_on(limiter.peek(id, 0)).unwrap().remaining, 0, "{id}");
    }
    // All or nothing: the users of an organisation are charged for as many as it is.
    let users = Limiter::new(&store, limit("fixed-window 30/day"));
    let left =
        ["user:ann", "user:bob"].map(|id| runtime.block_on(users.peek(id, 0)).unwrap().remaining);
    assert_eq!(left.iter().sum::<u64>(), 10);

    let tokens = Limiter::new(&store, limit("fixed-window 1_000_000/day"));
    for (user, died, of_dead, tasks) in streams {
        let each = tasks.map(|task| runtime.block_on(task).unwrap());
        assert_eq!(died + each[0].1 + each[1].1, 30, "{user}");
        let usage = of_dead + each[0].0 + each[1].0;
        // Settled in the background; reservations are forgotten after twice their hold.
        let is_settled = async || {
            let charged =
                1_000_000 - tokens.peek(&format!("chat:{user}"), 0).await.unwrap().remaining;
            let open = redis::cmd("KEYS").arg("*:reservation*").query(&mut server.connection());
            charged == usage && open == Ok(Vec::<String>::new())
        };
        let settled = async {
            while !is_settled().await {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let settled = async { tokio::time::timeout(Duration::from_secs(60), settled).await };
        assert!(runtime.block_on(settled).is_ok(), "{user} is not charged {usage}");
    }
}
