//! A first decision, with no server: `cargo run --example quickstart -p lockage-memory`

#![allow(clippy::print_stdout)]

use lockage::{Limiter, Verdict};
use lockage_memory::MemoryStore;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    pollster::block_on(async {
        let limiter = Limiter::new(MemoryStore::new(), "token-bucket 100/min burst 5".parse()?)
            .with_prefix("quickstart")?;
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
    })
}
