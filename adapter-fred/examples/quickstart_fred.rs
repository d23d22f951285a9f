//! A first decision on Redis: `cargo run --example quickstart_fred -p lockage-fred`, with `REDIS_URL`
//! naming the server (redis://127.0.0.1:6379 where it is not set).

#![allow(clippy::print_stdout)]

use fred::types::config::Config;
use lockage::{Limiter, Verdict};
use lockage_fred::FredStore;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned());
    let config = Config::from_url(&url).map_err(|error| format!("{url}: {error}"))?;

    let limiter = Limiter::new(FredStore::connect(config), "token-bucket 100/min burst 5".parse()?)
        .with_prefix("quickstart")?;
    for request in 1..=7 {
        let decision = limiter.try_acquire("user:42", 1).await;
        let decision = decision.map_err(|error| format!("{url}: {error}"))?;
        match decision.verdict {
            Verdict::Allowed => println!("{request}: allowed, {} left", decision.remaining),
            Verdict::Denied { retry_after, .. } => {
                println!("{request}: denied, try again in {retry_after:?}");
            }
            Verdict::Never => println!("{request}: costs more than the burst"),
        }
    }
    Ok(())
}
