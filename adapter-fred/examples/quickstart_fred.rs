//! A first decision on Redis: `cargo run --example quickstart_fred -p lockage-fred`, with `REDIS_URL`
//! naming the server (redis://127.0.0.1:6379 where it is not set).

#![allow(clippy::print_stdout)]

use lockage_fred::{FredStore, Limiter, Verdict, limit};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned());
    let store = FredStore::open(&url)?;

    let limiter =
        Limiter::new(store, limit!("token-bucket 100/min burst 5")).with_prefix("quickstart")?;
    for request in 1..=7 {
        let decision = limiter.try_acquire("user:42", 1).await?;
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
