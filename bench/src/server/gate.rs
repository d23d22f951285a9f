//! A gate against scripts that have come to need more instructions than they did.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::callgrind::Counted;
use super::cases::{self, Case};
use super::{FLOOR, WARM_UP, prepare, worst};

/// The number of decisions that are counted at a time.
const COUNTED: usize = 2400;

/// The server's other work, as where a busy machine hands it requests in pieces, only adds to a count. So the
/// least one is taken, once another is within this of it.
const AGREE: f64 = 1.003;

/// The number of attempts.
const MAX_ROUNDS: usize = 20;

/// The factor by which a count may be higher on the same build of the server.
const SAME_BUILD: f64 = 1.01;

/// The factor by which a count may be higher on another build of the same version.
const OTHER_BUILD: f64 = 1.03;

/// How many instructions a script takes in its worst state at most: about a millisecond, in which a server does nothing
/// else.
const MOST: f64 = 3_000_000.0;

/// The same for a limit of more than four parts.
const MOST_OF_EIGHT: f64 = 5_500_000.0;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/instructions.json");

/// The counts of a server of one version: another version counts otherwise.
#[derive(Serialize, Deserialize)]
struct Baseline {
    #[serde(flatten)]
    server: Build,
    /// In multiples of a script that does nothing, which builds of one version have more alike than instructions.
    multiples: BTreeMap<String, f64>,
}

#[derive(Serialize, Deserialize)]
struct Build {
    redis_version: String,
    redis_build_id: String,
}

impl Build {
    fn of(counted: &mut Counted) -> Result<Self> {
        let mut of = |field| anyhow::Ok(counted.server.info("server", field)?.concat());
        Ok(Build { redis_version: of("redis_version:")?, redis_build_id: of("redis_build_id:")? })
    }
}

/// Counts the cases of lockage and compares them with the baseline, or writes it.
///
/// # Errors
/// A case that needs more than the baseline, or in its worst state more than [`MOST`].
pub(super) fn run(counted: &mut Counted, record: bool) -> Result<()> {
    let server = Build::of(counted)?;
    // First, as in the test: the collector walks the garbage of the worst states in the server's Lua.
    let multiples = count_all(counted, |_| true)?;
    bound_worst(counted)?;
    if record {
        let baseline = Baseline { server, multiples };
        return Ok(fs::write(FILE, serde_json::to_string_pretty(&baseline)? + "\n")?);
    }
    compare(&server, &multiples)
}

/// Counts each script in the states in which it costs the most.
fn bound_worst(counted: &mut Counted) -> Result<()> {
    let mut more = Vec::new();
    for case in worst::worst() {
        prepare(&mut counted.server, &case)?;
        let then = case.commands(case.warm_up(), case.most);
        let each = counted.count(&then)? as f64 / case.most as f64;
        let row = format!("{}, {}: {:.0} thousand", case.name, case.outcome, each / 1000.0);
        println!("{row}");
        let most = if case.name == worst::OF_EIGHT { MOST_OF_EIGHT } else { MOST };
        if each > most {
            more.push(row);
        }
    }
    if !more.is_empty() {
        bail!(
            "more instructions for one call than {MOST}, or {MOST_OF_EIGHT} of eight parts:\n{}",
            more.join("\n")
        );
    }
    Ok(())
}

/// Counts the cases that are wanted, by their names, in multiples of a script that does nothing.
fn count_all(
    counted: &mut Counted,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, f64>> {
    let floor = cases::others().into_iter().find(|case| case.name == FLOOR);
    let mut floor = floor.context("a script that does nothing")?;
    // The server's Lua clears garbage away in steps, and the cost of a step depends on the scripts
    // that are loaded: the unit is of a server that has no other.
    floor.before = cases::reload([FLOOR.to_owned()]);
    // The first run of a command on a server costs more.
    count(counted, &floor)?;
    let floor = count(counted, &floor)?;
    let mut multiples = BTreeMap::new();
    for case in cases::own() {
        let name = format!("{}, {}", case.name, case.outcome);
        if is_wanted(&name) {
            let each = count(counted, &case)?;
            if each > MOST {
                bail!("{name}: {each:.0} instructions for one call, more than {MOST}");
            }
            multiples.insert(name, (each / floor * 1000.0).round() / 1000.0);
        }
    }
    Ok(multiples)
}

/// Compares with the committed counts.
fn compare(server: &Build, multiples: &BTreeMap<String, f64>) -> Result<()> {
    let baseline: Baseline = serde_json::from_str(&fs::read_to_string(FILE)?)?;
    let (committed, this) = (&baseline.server.redis_version, &server.redis_version);
    if committed != this {
        println!(
            "SKIPPED: the counts that are committed are of redis-server {committed}, and this is {this}"
        );
        return Ok(());
    }
    let is_same = baseline.server.redis_build_id == server.redis_build_id;
    let tolerance = if is_same { SAME_BUILD } else { OTHER_BUILD };
    let mut more = Vec::new();
    for (case, now) in multiples {
        let before = baseline
            .multiples
            .get(case)
            .with_context(|| format!("{case} is not in {FILE}: --record"))?;
        println!("{case}: {now:.3} times a script that does nothing ({before:.3})");
        if *now > before * tolerance {
            more.push(format!("{case}: {now:.3} where {before:.3} is committed"));
        }
    }
    if !more.is_empty() {
        bail!("more instructions than before; if that is meant, --record:\n{}", more.join("\n"));
    }
    Ok(())
}

/// Returns the instructions of each decision.
pub(super) fn count(counted: &mut Counted, case: &Case) -> Result<f64> {
    let mut counts = Vec::new();
    for _ in 0..MAX_ROUNDS {
        prepare(&mut counted.server, case)?;
        counts.push(counted.count(&case.commands(WARM_UP, COUNTED))? as f64);
        counts.sort_by(f64::total_cmp);
        if let [least, next, ..] = counts[..]
            && next <= least * AGREE
        {
            break;
        }
    }
    Ok(counts[0] / COUNTED as f64)
}

/// Tests, so that they are built with the rest of the workspace, once.
#[cfg(test)]
mod tests {
    use super::{Build, Counted, bound_worst, compare, count_all, run};

    /// The rows that stand for all where there is little time: a fast script, a log, the general script and a lock.
    const FOUR: [&str; 4] = [
        "token bucket, admitted",
        "sliding log, admitted",
        "token bucket + fixed window, admitted",
        "lock, acquired and released",
    ];

    #[test]
    #[ignore = "needs valgrind: ./check runs it"]
    fn four_scripts_need_no_more_instructions_than_are_committed() {
        let mut counted = Counted::start("redis-server").expect("valgrind runs redis-server");
        let counts = count_all(&mut counted, |name| FOUR.contains(&name)).expect("a count");
        assert_eq!(counts.len(), FOUR.len());
        let server = Build::of(&mut counted).expect("a version");
        compare(&server, &counts).expect("see above, and docs/PERFORMANCE.md");
        bound_worst(&mut counted).expect("see above, and docs/PERFORMANCE.md");
    }

    #[test]
    #[ignore = "needs valgrind, and minutes: ./check --long runs it"]
    fn no_script_needs_more_instructions_than_is_committed() {
        let mut counted = Counted::start("redis-server").expect("valgrind runs redis-server");
        run(&mut counted, false).expect("see above, and docs/PERFORMANCE.md");
    }
}
