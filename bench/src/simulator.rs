//! The speed of the simulator on one core: decisions and worlds per engine.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::table::markdown;
use anyhow::{Result, ensure};
use lockage_core::{Acquire, Limit, Timestamp};
use lockage_sim::engine::EngineKind;
use lockage_world::simulation::{Engine, Plan, Stage, Work};

/// Selects the measurements.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Rounds per row, in turns; the table has the medians.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Milliseconds per measurement.
    #[arg(long, default_value_t = 300)]
    millis: u64,
}

const START_US: u64 = 1_763_700_000_000_000;

const LIMITS: [(&str, &str); 7] = [
    ("fixed window", "fixed-window 100/s"),
    ("sliding log", "sliding-log 100/s"),
    ("sliding window", "sliding-window 100/s"),
    ("token bucket", "token-bucket 100/s"),
    ("interval bucket", "token-bucket 100 every 1s"),
    ("leaky bucket", "leaky-bucket 100/s queue 100"),
    ("token bucket + fixed window", "token-bucket 100/s + fixed-window 100/s"),
];

/// A row: a name, and a function that works until a time and returns its count.
struct Row {
    name: String,
    engine: &'static str,
    run: Box<dyn FnMut(Instant) -> Result<u64>>,
    per_second: Vec<f64>,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let mut rows = Vec::new();
    for kind in [EngineKind::Model, EngineKind::Lua] {
        let engine = kind.name();
        for (name, limit) in LIMITS {
            let run = Box::new(decisions(kind, limit)?);
            rows.push(Row { name: format!("decisions, {name}"), engine, run, per_second: vec![] });
        }
        for (name, is_lock) in [("limiters", false), ("locks", true)] {
            let kind = if kind == EngineKind::Lua { Engine::Lua } else { Engine::Model };
            let run = Box::new(worlds(Stage::new(Some(kind))?, is_lock));
            rows.push(Row { name: format!("worlds, {name}"), engine, run, per_second: vec![] });
        }
    }
    for _ in 0..args.rounds {
        for row in &mut rows {
            let began = Instant::now();
            let done = (row.run)(began + Duration::from_millis(args.millis))?;
            row.per_second.push(done as f64 / began.elapsed().as_secs_f64());
        }
    }
    print(&mut rows);
    Ok(())
}

/// Returns requests on a hundred keys in turn, twice as many as are admitted.
fn decisions(kind: EngineKind, limit: &str) -> Result<impl FnMut(Instant) -> Result<u64>> {
    let mut engine = kind.build()?;
    let limit: Limit = limit.parse()?;
    let acquire = Acquire::new(limit, 1)?;
    let keys: Vec<String> = (0..100).map(|number| format!("key:{number}")).collect();
    let mut number = 0_u64;
    Ok(move |until: Instant| {
        let before = number;
        while Instant::now() < until {
            // Reads the clock seldom.
            for _ in 0..100 {
                let now = Timestamp::from_micros(START_US + number * 50)?;
                _ = engine.acquire(&keys[(number % 100) as usize], &acquire, now)?;
                number += 1;
            }
        }
        Ok(number - before)
    })
}

/// Returns the worlds of successive seeds whose programs ask limiters, or hold locks.
fn worlds(mut stage: Stage, locks: bool) -> impl FnMut(Instant) -> Result<u64> {
    let mut seed = 0;
    move |until: Instant| {
        let mut done = 0;
        while Instant::now() < until {
            let plan = Plan::of(seed);
            seed += 1;
            let is_right = |work| match work {
                Work::Ask { .. } => !locks,
                Work::Hold { .. } => locks,
                _ => false,
            };
            if plan.works().all(is_right) {
                let violation = stage.play(&plan, false).violation;
                ensure!(violation.is_none(), "seed {} fails", seed - 1);
                done += 1;
            }
        }
        Ok(done)
    }
}

fn print(rows: &mut [Row]) {
    let mut medians: BTreeMap<(usize, String), BTreeMap<&str, f64>> = BTreeMap::new();
    let half = rows.len() / 2;
    for (place, row) in rows.iter_mut().enumerate() {
        row.per_second.sort_by(f64::total_cmp);
        let median = row.per_second[row.per_second.len() / 2];
        medians.entry((place % half, row.name.clone())).or_default().insert(row.engine, median);
    }
    let rows = medians.into_iter().map(|((_, name), engines)| {
        [name, format!("{:.0}", engines["model"]), format!("{:.0}", engines["lua"])]
    });
    println!("{}", markdown(["", "model, per second", "lua, per second"], rows, 1));
}
