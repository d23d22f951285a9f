//! Reserve, then commit or cancel, as for the tokens of a language model's answers: `cargo run --example
//! reserve -p lockage-redis-rs`, in this process, or with `REDIS_URL` naming a server.

#![allow(clippy::print_stdout)]

use std::time::Duration;

use lockage_memory::MemoryStore;
use lockage_redis_rs::limiter::Settlement;
use lockage_redis_rs::runtime::Tokio;
use lockage_redis_rs::{AnyStore, Limiter, RedisStore, RetryStore, Verdict};

/// The most tokens of an answer, which is also the estimate.
const MOST_TOKENS: u64 = 4_000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = match std::env::var("REDIS_URL") {
        Ok(url) => AnyStore::new(RedisStore::open(&url)?),
        Err(_) => AnyStore::new(MemoryStore::new()),
    };
    run(store).await
}

async fn run(store: AnyStore) -> Result<(), Box<dyn std::error::Error>> {
    let store = RetryStore::new(store, Tokio, Duration::from_millis(250));
    let limiter =
        Limiter::new(store, "token-bucket 12000/min burst 12000".parse()?).with_prefix("tokens")?;
    limiter.reset("team:7").await?;

    for prompt in ["hello", "a poem", "", "a novel", "a saga"] {
        let reserved = limiter.reserve("team:7", MOST_TOKENS, Duration::from_secs(120)).await?;
        let Some(reservation) = reserved.reservation else {
            if let Verdict::Denied { retry_after, .. } = reserved.decision.verdict {
                println!("{prompt:?}: {MOST_TOKENS} tokens are free in {retry_after:?}");
            }
            continue;
        };
        let tokens = answer(prompt).await;
        let settlement = match tokens {
            Some(tokens) => limiter.commit("team:7", &reservation, tokens).await?,
            None => limiter.cancel("team:7", &reservation).await?,
        };
        match settlement {
            Settlement::Settled { after, .. } => {
                println!(
                    "{prompt:?}: {} tokens used, {} left",
                    tokens.unwrap_or(0),
                    after.remaining
                );
            }
            late => println!("{prompt:?}: stays charged as estimated, {late:?}"),
        }
    }
    Ok(())
}

/// Returns the number of tokens in the answer; `None` if the model fails.
async fn answer(prompt: &str) -> Option<u64> {
    tokio::time::sleep(Duration::from_millis(20)).await;
    (!prompt.is_empty()).then(|| prompt.len() as u64 * 600)
}
