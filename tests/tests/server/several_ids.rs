//! D18 between processes: users, organisations and everybody in one decision, by processes that are killed meanwhile.

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use lockage::{BlockingLimiter, Limit};
use lockage_redis_rs::BlockingRedisStore;
use lockage_tests::server::{Cluster, Server};
use redis::cluster::ClusterClientBuilder;

const USERS: u64 = 12;
const ORGANISATIONS: u64 = 3;
const EVERYBODY: u64 = 20_000;

type Limiter = BlockingLimiter<BlockingRedisStore>;

/// The limiters of users, organisations and everybody.
fn limiters(url: &str) -> [Limiter; 3] {
    limiters_on(&BlockingRedisStore::open(url).unwrap())
}

fn limiters_on(store: &BlockingRedisStore) -> [Limiter; 3] {
    let limits =
        ["fixed-window 3000/day", "sliding-log 9000/day", "token-bucket 20000/day burst 20000"];
    ["user", "organisation", "all"].map(|prefix| {
        let at = ["user", "organisation", "all"].iter().position(|it| *it == prefix).unwrap();
        let limit: Limit = limits[at].parse().unwrap();
        let limiter = BlockingLimiter::new(store.clone(), limit, Duration::from_secs(5));
        limiter.with_prefix(prefix).unwrap()
    })
}

/// Not a test: a process that asks for random users until it is killed.
#[test]
#[ignore = "it asks until it is killed"]
fn a_process_asks() {
    let [users, organisations, everybody] = limiters(&std::env::var("SEVERAL_IDS_URL").unwrap());
    loop {
        let user = fastrand::u64(0..USERS);
        let (organisation, cost) = ((user % ORGANISATIONS).to_string(), fastrand::u64(1..4));
        let user = user.to_string();
        let requests = [
            users.request(&user, cost),
            organisations.request(&organisation, cost),
            everybody.request("all", cost),
        ];
        let _ = users.try_acquire_all(&requests).unwrap().is_allowed();
    }
}

/// A process that asks, and is killed at any moment of its calls when this is dropped.
struct Asking(Child);

impl Asking {
    fn start(url: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "--quiet", "several_ids::a_process_asks"]);
        let command = command.env("SEVERAL_IDS_URL", url).stdout(Stdio::null());
        Asking(command.spawn().unwrap())
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn processes_that_are_killed_leave_exact_counts() {
    let server = Server::start();
    let url = server.url();
    let [users, organisations, everybody] = limiters(&url);
    let used = |limiter: &Limiter, id: u64| {
        let id = if limiter.prefix() == Some("all") { "all".to_owned() } else { id.to_string() };
        let decision = limiter.peek(&id, 0).unwrap();
        decision.limit - decision.remaining
    };
    let until = |least: u64| {
        while used(&everybody, 0) < least {
            sleep(Duration::from_millis(1));
        }
    };
    let others = Asking::start(&url);
    for least in [EVERYBODY / 5, EVERYBODY / 3, EVERYBODY / 2] {
        let _killed = Asking::start(&url);
        until(least);
    }
    until(EVERYBODY - 10);
    drop(others);
    let of =
        |organisation: u64| (0..USERS).filter(move |user| user % ORGANISATIONS == organisation);
    let mut sum = 0;
    for organisation in 0..ORGANISATIONS {
        let charged = used(&organisations, organisation);
        assert_eq!(charged, of(organisation).map(|user| used(&users, user)).sum::<u64>());
        assert!(charged <= 9000 && of(organisation).all(|user| used(&users, user) <= 3000));
        sum += charged;
    }
    // The bucket fills by one in 4.3 s.
    let everybody = used(&everybody, 0);
    assert!((everybody..=everybody + 20).contains(&sum), "{sum} of {everybody}");
}

/// D18 on a cluster: threads that ask for ids on several nodes at the same time leave exact counts.
#[test]
fn ids_on_several_nodes_are_charged_for_admissions() {
    let cluster = Cluster::start();
    let builder = ClusterClientBuilder::new(cluster.urls());
    let store = BlockingRedisStore::cluster(builder).unwrap();
    let admitted = std::thread::scope(|scope| {
        let asking = |thread: u64| {
            let [users, organisations, _] = limiters_on(&store);
            move || {
                let mut admitted = 0;
                for call in 0..60 {
                    let (user, organisation) = ((call % 4).to_string(), (call % 2).to_string());
                    // One in three asks for more than the user's limit has.
                    let cost = if (call + thread).is_multiple_of(3) { 3001 } else { 40 };
                    let requests =
                        [organisations.request(&organisation, 40), users.request(&user, cost)];
                    admitted += u64::from(users.try_acquire_all(&requests).unwrap().is_allowed());
                }
                admitted
            }
        };
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(asking(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
    });
    let [users, organisations, _] = limiters_on(&store);
    let used = |limiter: &Limiter, ids: u64| {
        let of = |id: u64| limiter.peek(&id.to_string(), 0).unwrap();
        (0..ids).map(of).map(|decision| decision.limit - decision.remaining).sum::<u64>()
    };
    assert_eq!((used(&users, 4), used(&organisations, 2)), (admitted * 40, admitted * 40));
    assert!(admitted > 100, "{admitted}");
}
