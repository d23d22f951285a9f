//! The commands of the book's page run as it shows them.

use lockage::{Limit, Store};
use lockage_core::lock::HoldId;
use lockage_core::{Acquire, Timestamp};
use lockage_redis_rs::RedisStore;
use lockage_tests::server::Server;

use crate::{key, lock, owner, shown};

const PAGE: &str = include_str!("../../../docs/operator.md");

/// Returns the commands of the page, each with the lines below it.
fn commands() -> Vec<(Vec<&'static str>, Vec<&'static str>)> {
    let (_, rest) = PAGE.split_once("```console\n").unwrap();
    let (block, _) = rest.split_once("```").unwrap();
    let mut all: Vec<(Vec<&str>, Vec<&str>)> = Vec::new();
    for line in block.lines() {
        match line.strip_prefix("$ lockage ") {
            Some(args) => {
                let words = args.split(' ').map(|word| word.trim_matches('\''));
                all.push((words.collect(), Vec::new()));
            }
            None => all.last_mut().unwrap().1.push(line),
        }
    }
    all
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[tokio::test]
async fn the_page_shows_commands_as_they_run() {
    let server = Server::start();
    let store = RedisStore::open(&server.url()).unwrap();
    let limit: Limit = "token-bucket 1/h burst 20".parse().unwrap();
    _ = store.execute(&key("login:{user:42}"), &Acquire::new(limit, 3).unwrap()).await.unwrap();
    let acquire = lock().acquire(owner(0xa), HoldId::from_u128(1), Timestamp::MAX);
    store.execute(&key("lock:{invoices}"), &acquire).await.unwrap();
    let commands = commands();
    assert_eq!(commands.len(), 4);
    for (args, expected) in commands {
        let shown = shown(&server.url(), &args);
        for (line, expected) in shown.lines().zip(expected) {
            assert_eq!(words(line), words(expected), "{args:?}");
        }
    }
}
