//! The cost of a decision for a server: instructions, time, bytes of its log, and memory.

mod callgrind;
pub(super) mod cases;
mod compared;
mod gate;
mod several_ids;
mod worst;

use std::collections::BTreeSet;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use comfy_table::Table;
use redis::{Arg, Cmd};

use crate::measure::check_part;
use crate::process::Server;
use crate::table::markdown;
pub(super) use callgrind::Counted;
use cases::Case;

/// The number of decisions that are made first, and of those that are measured.
const WARM_UP: usize = 64;
pub(super) const MEASURED: usize = 1600;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The server's program, with arguments behind spaces. Given several times, it only counts instructions of some rows, a column for each program.
    #[arg(long, default_value = "redis-server")]
    program: Vec<String>,
    /// Measures only cases with this in their name.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Only counts instructions, and fails where a script needs more of them than in `bench/instructions.json`.
    #[arg(long, conflicts_with = "only")]
    gate: bool,
    /// Writes the counts of now to that file.
    #[arg(long, conflicts_with_all = ["only", "gate"])]
    record: bool,
}

/// The costs of one case, for each decision.
struct Row {
    name: &'static str,
    outcome: &'static str,
    instructions: f64,
    /// The server's own measure of its commands.
    microseconds: f64,
    appended: f64,
    /// The memory of its key at the end, if there is one.
    memory: Option<u64>,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let [program] = &args.program[..] else {
        ensure!(!args.gate && !args.record, "--gate and --record take one --program");
        return compared::run(&args.program, args.only.as_deref());
    };
    let own = cases::own().into_iter().chain(worst::worst());
    let cases: Vec<Case> =
        cases::others().into_iter().chain(own).chain(cases::many_keys()).collect();
    let mut names: Vec<&str> = cases.iter().map(|case| case.name).collect();
    names.dedup();
    check_part(args.only.as_deref(), &names)?;
    let mut counted = Counted::start(program)?;
    if args.gate || args.record {
        return gate::run(&mut counted, args.record);
    }
    let folder = tempfile::tempdir().context("a folder for the server")?;
    let mut words = program.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    let mut timed = Server::start(command, folder, true)?;
    let version = timed.info("server", "redis_version:")?;
    let mut rows = Vec::new();
    for case in cases {
        let is_wanted = args.only.as_ref().is_none_or(|only| case.name.contains(only.as_str()));
        if is_wanted || case.name == FLOOR {
            rows.push(measure(&mut counted, &mut timed, &case)?);
        }
    }
    println!("redis-server {}, for each decision:\n\n{}", version.concat(), table(&rows));
    Ok(())
}

/// A script that does nothing.
const FLOOR: &str = "return 1";

fn measure(counted: &mut Counted, timed: &mut Server, case: &Case) -> Result<Row> {
    for server in [&mut counted.server, timed] {
        prepare(server, case)?;
    }
    let measured = MEASURED.min(case.most);
    let then = case.commands(case.warm_up(), measured);
    let instructions = counted.count(&then)? as f64;
    let before = appended(timed)?;
    let _: String = timed.ask(&["CONFIG", "RESETSTAT"])?;
    timed.send(&then)?;
    let microseconds = of_commands(timed, &then)?;
    let appended = appended(timed)? - before;
    let key: Option<String> = timed.ask(&["RANDOMKEY"])?;
    let memory = match key {
        Some(key) => timed.ask(&["MEMORY", "USAGE", &key, "SAMPLES", "0"])?,
        None => None,
    };
    let each = |sum: f64| sum / measured as f64;
    Ok(Row {
        name: case.name,
        outcome: case.outcome,
        instructions: each(instructions),
        microseconds: each(microseconds),
        appended: each(appended),
        memory,
    })
}

/// Brings a server to the state in which later calls cost as much as in the long run.
pub(super) fn prepare(server: &mut Server, case: &Case) -> Result<()> {
    server.send(&[redis::cmd("FLUSHALL")])?;
    server.send(&cases::reload(cases::scripts()))?;
    server.send(&case.before)?;
    server.send(&case.commands(0, case.warm_up()))
}

/// Returns how much the server has appended to its log.
fn appended(server: &mut Server) -> Result<f64> {
    // The server writes its buffer before it sleeps.
    sleep(Duration::from_millis(20));
    let size = server.info("persistence", "aof_current_size:")?;
    Ok(size.concat().parse()?)
}

/// Returns the time of these commands, without the commands of their scripts, which the server counts once more.
fn of_commands(server: &mut Server, commands: &[Cmd]) -> Result<f64> {
    let names: BTreeSet<String> =
        commands.iter().map(|command| name(command).to_lowercase()).collect();
    let mut sum = 0.0;
    for name in names {
        for line in server.info("commandstats", &format!("cmdstat_{name}:"))? {
            let usec = line.split(',').find_map(|field| field.strip_prefix("usec="));
            sum += usec.context("commandstats without usec")?.parse::<f64>()?;
        }
    }
    Ok(sum)
}

fn name(command: &Cmd) -> String {
    match command.args_iter().next() {
        Some(Arg::Simple(name)) => String::from_utf8_lossy(name).into_owned(),
        _ => String::new(),
    }
}

fn table(rows: &[Row]) -> Table {
    let floor = rows.iter().find(|row| row.name == FLOOR).map(|row| row.instructions);
    let head = ["", "", "instructions", "of return 1", "us", "appended", "memory of its key"];
    let cells = rows.iter().map(|row| {
        let ratio = floor.map_or(String::new(), |floor| format!("{:.2}", row.instructions / floor));
        [
            row.name.to_owned(),
            row.outcome.to_owned(),
            format!("{:.0}", row.instructions),
            ratio,
            format!("{:.1}", row.microseconds),
            format!("{:.0} B", row.appended),
            row.memory.map_or(String::new(), |bytes| format!("{bytes} B")),
        ]
    });
    markdown(head, cells, 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_case_has_is_refused_before_a_server_is_started() {
        let (program, only) = (vec!["no-such-server".to_owned()], Some("admitted".to_owned()));
        let refused = run(&Args { program, only, gate: false, record: false });
        let told = refused.expect_err("there is no such case").to_string();
        let listed = "nothing has \"admitted\" in its name; there are: INCR; return 1; ";
        assert!(told.starts_with(listed), "{told}");
    }
}
