//! A gate against scripts that have come to need more instructions than they did.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::callgrind::Counted;
use super::cases::{self, Case};
use super::{FLOOR, WARM_UP, prepare};

/// How many decisions are counted.
const COUNTED: usize = 200;

/// By how much a count may be higher: numbers have other digits in each run, and memory lies elsewhere.
const TOLERANCE: f64 = 1.08;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/instructions.json");

/// What was counted, on a server of one version: another one counts otherwise.
#[derive(Serialize, Deserialize)]
struct Baseline {
    redis_version: String,
    /// In multiples of a script that does nothing, which builds of one version have more alike than instructions.
    multiples: BTreeMap<String, f64>,
}

/// Counts all cases and compares them with the baseline, or writes it.
///
/// # Errors
/// A case that needs more than the baseline says.
pub(super) fn run(counted: &mut Counted, record: bool) -> Result<()> {
    let redis_version = counted.server.info("server", "redis_version:")?.concat();
    let mut multiples = BTreeMap::new();
    let cases = cases::all();
    let floor =
        cases.iter().find(|case| case.name == FLOOR).context("a script that does nothing")?;
    // What a server does for the first time costs more.
    count(counted, floor)?;
    let floor = count(counted, floor)?;
    for case in &cases {
        let multiple = count(counted, case)? / floor;
        multiples
            .insert(format!("{}, {}", case.name, case.outcome), (multiple * 100.0).round() / 100.0);
    }
    if record {
        let baseline = Baseline { redis_version, multiples };
        return Ok(fs::write(FILE, serde_json::to_string_pretty(&baseline)? + "\n")?);
    }
    let baseline: Baseline = serde_json::from_str(&fs::read_to_string(FILE)?)?;
    if baseline.redis_version != redis_version {
        println!(
            "SKIPPED: the counts that are committed are of redis-server {}, and this is {redis_version}",
            baseline.redis_version
        );
        return Ok(());
    }
    let mut more = Vec::new();
    for (case, now) in &multiples {
        let before = baseline
            .multiples
            .get(case)
            .with_context(|| format!("{case} is not in {FILE}: --record"))?;
        println!("{case}: {now:.2} times a script that does nothing ({before:.2})");
        if *now > before * TOLERANCE {
            more.push(format!("{case}: {now:.2} where {before:.2} is committed"));
        }
    }
    if !more.is_empty() {
        bail!("more instructions than before; if that is meant, --record:\n{}", more.join("\n"));
    }
    Ok(())
}

/// Instructions for each decision.
fn count(counted: &mut Counted, case: &Case) -> Result<f64> {
    prepare(&mut counted.server, case)?;
    Ok(counted.count(&case.commands(WARM_UP, COUNTED))? as f64 / COUNTED as f64)
}

#[cfg(test)]
mod tests {
    use super::{Counted, run};

    /// A test, so that it is built with the rest of the workspace, once.
    #[test]
    #[ignore = "needs valgrind, and a minute: cargo test --workspace --all-features --bin lockage-bench -- --ignored"]
    fn no_script_needs_more_instructions_than_is_committed() {
        let mut counted = Counted::start("redis-server").expect("valgrind runs redis-server");
        run(&mut counted, false).expect("see above, and docs/PERFORMANCE.md");
    }
}
