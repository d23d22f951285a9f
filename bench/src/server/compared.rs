//! Instructions of several servers, side by side.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use comfy_table::Table;
use redis::Value;

use super::callgrind::Counted;
use super::cases::{self, Case};
use super::{FLOOR, gate, name};
use crate::measure::check_part;
use crate::process::Server;
use crate::table::markdown;

/// The compared cases: floors, those of others, and one limit or lock of each kind.
const COMPARED: [&str; 14] = [
    "INCR",
    FLOOR,
    "TIME + GET + SETRANGE",
    "INCREX",
    "GCRA",
    "fixed window",
    "sliding window",
    "token bucket",
    "sliding log",
    "token bucket + fixed window",
    "SET NX + compare and delete",
    "SET NX + DELEX",
    "SET NX + DELIFEQ",
    "lock",
];

/// Prints a table with a column for each program.
///
/// # Errors
/// A program that is given twice or does not run, before anything is counted; a part of a name that no row has.
pub(super) fn run(programs: &[String], only: Option<&str>) -> Result<()> {
    check_part(only, &COMPARED)?;
    let distinct: BTreeSet<&String> = programs.iter().collect();
    ensure!(distinct.len() == programs.len(), "a program is given twice: {}", programs.join(" "));
    let titles: Vec<String> =
        programs.iter().map(|program| title(program)).collect::<Result<_>>()?;
    let cases: Vec<Case> = COMPARED
        .iter()
        .filter(|name| **name == FLOOR || name.contains(only.unwrap_or_default()))
        .flat_map(|name| all().filter(move |case| case.name == *name))
        .collect();
    let columns: Vec<Vec<Option<f64>>> =
        programs.iter().map(|program| column(program, &cases)).collect::<Result<_>>()?;
    println!("Thousand instructions for each decision, and in multiples of `{FLOOR}`:\n");
    println!("{}", table(&cases, &titles, &columns));
    let rows = cases.iter().enumerate();
    let mut missing: Vec<&str> =
        rows.filter(|(row, _)| is_missing(&columns, *row)).map(|(_, case)| case.name).collect();
    missing.dedup();
    if !missing.is_empty() {
        println!("\nOn none of them: {}.", missing.join(", "));
    }
    Ok(())
}

fn is_missing(columns: &[Vec<Option<f64>>], row: usize) -> bool {
    columns.iter().all(|column| column[row].is_none())
}

fn all() -> impl Iterator<Item = Case> {
    cases::others().into_iter().chain(cases::native()).chain(cases::own())
}

/// Returns the name and allocator of a program, as in `Redis server v=7.0.15 sha=0 malloc=libc bits=64`.
fn title(program: &str) -> Result<String> {
    let (file, arguments) = program.split_once(' ').unwrap_or((program, ""));
    let output = Command::new(file)
        .arg("--version")
        .output()
        .with_context(|| format!("{program} cannot be run"))?;
    let told = String::from_utf8_lossy(&output.stdout);
    let field = |name: &str| told.split_whitespace().find_map(|word| word.strip_prefix(name));
    let fields = (told.split(' ').next(), field("v="), field("malloc="));
    let (Some(name), Some(version), Some(allocator)) = fields else {
        anyhow::bail!("{program} is no server: its --version is {told:?}");
    };
    let with = arguments.rsplit('/').next().filter(|with| !with.is_empty());
    let with = with.map(|with| format!(", {with}")).unwrap_or_default();
    Ok(format!("{name} {version}, {allocator}{with}"))
}

/// Counts the cases on one server; none where it lacks the command.
fn column(program: &str, cases: &[Case]) -> Result<Vec<Option<f64>>> {
    let mut counted = Counted::start(program)?;
    let mut count = |case: &Case| match knows(&mut counted.server, case)? {
        true => gate::count(&mut counted, case).map(Some),
        false => Ok(None),
    };
    cases.iter().map(|case| count(case).context(case.name)).collect()
}

fn knows(server: &mut Server, case: &Case) -> Result<bool> {
    for command in case.commands(0, 1) {
        let known: Vec<Value> = server.ask(&["COMMAND", "INFO", &name(&command)])?;
        if known == [Value::Nil] {
            return Ok(false);
        }
    }
    Ok(true)
}

fn table(cases: &[Case], titles: &[String], columns: &[Vec<Option<f64>>]) -> Table {
    let head = ["", ""].into_iter().chain(titles.iter().map(String::as_str));
    let floor = cases.iter().position(|case| case.name == FLOOR);
    let rows = cases.iter().enumerate().filter(|(row, _)| !is_missing(columns, *row));
    let rows = rows.map(|(row, case)| {
        let cells = columns.iter().map(move |column| {
            match (column[row], floor.and_then(|at| column[at])) {
                (Some(count), Some(floor)) => {
                    format!("{:.1} ({:.2})", count / 1000.0, count / floor)
                }
                _ => "-".to_owned(),
            }
        });
        [case.name.to_owned(), case.outcome.to_owned()].into_iter().chain(cells)
    });
    markdown(head, rows, 2)
}

#[cfg(test)]
mod tests {
    use super::{COMPARED, all, run};

    #[test]
    fn a_program_that_is_given_twice_or_does_not_run_is_refused_before_anything_is_counted() {
        let told = |programs: [&str; 2]| {
            let refused = run(&programs.map(str::to_owned), None).expect_err("a wrong program");
            format!("{refused:#}")
        };
        assert_eq!(told(["a", "a"]), "a program is given twice: a a");
        let none = told(["/no/such/server", "redis-server"]);
        assert!(none.starts_with("/no/such/server cannot be run: "), "{none}");
        let other = told(["cargo", "redis-server"]);
        assert!(other.starts_with("cargo is no server: its --version is "), "{other}");
    }

    #[test]
    fn every_row_that_is_compared_is_a_case() {
        for name in COMPARED {
            assert!(all().any(|case| case.name == name), "{name}");
        }
    }
}
