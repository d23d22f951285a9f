//! `lockage top`: limiters that deny, and that are charged most, by sampling.

use std::cmp::Reverse;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use lockage_core::parse_duration;
use serde_json::{Value, json};

use super::output::{Mood, print_json, print_table, refused, remark};
use super::{KeysArgs, json, words};
use crate::admin::{Admin, Contents, Sampled};

/// Show the limiters that deny most often, or are charged most, by looking several times at a sample.
///
/// A denial writes nothing, so that a store does not know how many there were. DENIES is the number of looks at which a
/// request of cost 1 would have been denied; CHARGED is the least that was charged between the first look and the last
/// one. The sample is of limiters that had a record at the first look.
#[derive(Debug, Args)]
#[command(after_long_help = JSON)]
pub(super) struct TopArgs {
    #[command(flatten)]
    keys: KeysArgs,
    /// How often to look
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=1000))]
    looks: u32,
    /// The time between two looks, besides what they take
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_duration)]
    every: Duration,
    /// The most limiters to look at
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    sample: u64,
    /// The most rows
    #[arg(long, value_name = "N", default_value_t = 20)]
    rows: usize,
    /// The order of the rows
    #[arg(long, value_enum, default_value_t = By::Denies)]
    by: By,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    Denies,
    Charged,
}

const JSON: &str = "\
--json prints one object: `looks`, `sampled`, the number of limiters looked at, `keys`, the number of all keys of the
servers, and `records`, as `lockage show --help` describes each, with `denies` and `charged_at_least`.";

impl TopArgs {
    pub(super) async fn run(self, admin: &Admin, as_json: bool) -> Result<ExitCode> {
        let (selection, pace) = (self.keys.selection()?, self.keys.pace);
        let most = usize::try_from(self.sample).unwrap_or(usize::MAX);
        let mut sample = admin.sample(&selection, most, pace).await?;
        while sample.looks < self.looks {
            tokio::time::sleep(self.every).await;
            admin.look(&mut sample, pace).await?;
        }
        let mut rows: Vec<&Sampled> =
            sample.limiters().filter(|it| it.denied > 0 || it.charged > 0).collect();
        let both = |it: &&Sampled| (u64::from(it.denied), it.charged);
        rows.sort_by_key(|it| match (self.by, both(it)) {
            (By::Denies, order) => Reverse(order),
            (By::Charged, (denied, charged)) => Reverse((charged, denied)),
        });
        rows.truncate(self.rows);
        let (looks, sampled, keys) = (sample.looks, sample.limiters().len(), sample.keys);
        if as_json {
            let records: Vec<Value> = rows.iter().map(|it| record(it)).collect();
            print_json(
                &json!({ "looks": looks, "sampled": sampled, "keys": keys, "records": records }),
            )?;
        } else {
            let rows: Vec<_> = rows.iter().map(|it| row(it, looks)).collect();
            print_table(&["KEY", "DENIES", "CHARGED", "STATE", "LIMIT"], &rows)?;
            let sampled = words::counted(sampled, "limiter");
            remark(&format!(
                "{looks} looks at {sampled}; the servers have {keys} keys of any form"
            ));
        }
        Ok(if rows.is_empty() { refused() } else { ExitCode::SUCCESS })
    }
}

fn record(it: &Sampled) -> Value {
    let own = json!({ "denies": it.denied, "charged_at_least": it.charged });
    json::merged(json::entry(&it.entry, false), own)
}

fn row(it: &Sampled, looks: u32) -> (Mood, Vec<String>) {
    let (mood, state) = words::state(&it.entry);
    let limit = match &it.entry.contents {
        Contents::View(view) => words::limit(view),
        _ => String::new(),
    };
    let (key, denies) = (it.entry.key.to_string(), format!("{} of {looks}", it.denied));
    (mood, vec![key, denies, it.charged.to_string(), state, limit])
}
