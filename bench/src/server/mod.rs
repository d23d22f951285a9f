//! Instructions of redis-server per decision.

mod cases;
mod valgrind;

use anyhow::Result;
use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;

use cases::Case;
use valgrind::Counted;

/// How many decisions are not counted first, and how many are.
const WARM_UP: usize = 64;
const COUNTED: usize = 1600;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The server's program.
    #[arg(long, default_value = "redis-server")]
    program: String,
    /// Counts only what has this in its name.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let mut server = Counted::start(&args.program)?;
    println!("redis-server {}, instructions per decision\n", server.version()?);
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(["", "", "instructions", "of return 1"]);
    let mut floor = None;
    for case in cases::all() {
        let is_floor = case.name == "return 1";
        let is_wanted = args.only.as_ref().is_none_or(|only| case.name.contains(only.as_str()));
        if !is_floor && !is_wanted {
            continue;
        }
        let count = count(&mut server, &case)?;
        if is_floor {
            floor = Some(count);
        }
        let ratio = floor.map_or(String::new(), |floor| format!("{:.2}", count / floor));
        table.add_row([case.name, case.outcome, &format!("{count:.0}"), &ratio]);
    }
    println!("{table}");
    Ok(())
}

/// Instructions for each decision of a case.
fn count(server: &mut Counted, case: &Case) -> Result<f64> {
    let load = cases::scripts().into_iter().map(|text| {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(text);
        load
    });
    server.send(&[redis::cmd("FLUSHALL")])?;
    server.send(&load.collect::<Vec<_>>())?;
    server.send(&case.before)?;
    let commands = |from: usize, count: usize| {
        (from..from + count * case.each).map(|number| (case.command)(number)).collect::<Vec<_>>()
    };
    server.send(&commands(0, WARM_UP))?;
    let counted = server.count(&commands(WARM_UP * case.each, COUNTED))?;
    Ok(counted as f64 / COUNTED as f64)
}
