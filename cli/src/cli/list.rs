//! `lockage ls`, `show` and `who`: records as they are.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use lockage::Key;
use lockage::store::RecordError;
use lockage_core::Timestamp;
use lockage_core::view::View;
use serde_json::{Value, json};

use super::output::{Mood, print_json, print_table, refused, remark};
use super::{KeysArgs, json, words};
use crate::admin::{Admin, Contents, Entry, Role, holds};

/// List records, by their keys.
///
/// Keys with other contents, such as hashes of a program, are counted, and not listed.
#[derive(Debug, Args)]
#[command(after_long_help = LS_JSON)]
pub(super) struct LsArgs {
    #[command(flatten)]
    keys: KeysArgs,
    /// Only records of this kind
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    /// Stop after this many records
    #[arg(long, value_name = "N", default_value_t = 1000)]
    max: usize,
}

const LS_JSON: &str = "\
--json prints one object: `records`, as `lockage show --help` describes each, `others`, the number of keys of this form
with other contents, and `stopped`, whether --max left records out.";

/// The kinds of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Limiter,
    Reservation,
    Lock,
    Semaphore,
    RwLock,
    Latch,
    Fenced,
    /// A damaged record, or one of another version
    Unreadable,
}

impl Kind {
    fn is_of(self, entry: &Entry) -> bool {
        let name = match &entry.contents {
            Contents::View(view) => view.kind(),
            _ => "unreadable",
        };
        self.to_possible_value().is_some_and(|value| value.get_name() == name)
    }
}

impl LsArgs {
    pub(super) async fn run(self, admin: &Admin, as_json: bool) -> Result<ExitCode> {
        let mut scan = admin.scan(&self.keys.selection()?, self.keys.pace);
        let (mut found, mut others, mut stopped) = (BTreeMap::new(), 0_u64, false);
        'scan: while let Some(entries) = scan.next().await? {
            for entry in entries {
                match &entry.contents {
                    Contents::Unreadable(RecordError::OtherKind) => others += 1,
                    Contents::View(_) | Contents::Unreadable(_)
                        if self.kind.is_none_or(|kind| kind.is_of(&entry)) =>
                    {
                        if found.len() == self.max && !found.contains_key(entry.key.as_str()) {
                            stopped = true;
                            break 'scan;
                        }
                        found.insert(entry.key.to_string(), entry);
                    }
                    _ => {}
                }
            }
        }
        if as_json {
            let records: Vec<Value> = found.values().map(|it| json::entry(it, false)).collect();
            print_json(&json!({ "records": records, "others": others, "stopped": stopped }))?;
        } else {
            let rows: Vec<_> = found.values().map(row).collect();
            print_table(&["KEY", "KIND", "STATE", "LIMIT"], &rows)?;
            if others > 0 {
                remark(&format!("{} with other contents", words::counted(others as usize, "key")));
            }
            if stopped {
                remark(&format!("stopped after {} records: --max N shows more", self.max));
            }
        }
        Ok(if found.is_empty() { refused() } else { ExitCode::SUCCESS })
    }
}

fn row(entry: &Entry) -> (Mood, Vec<String>) {
    let (mood, state) = words::state(entry);
    let (kind, limit) = match &entry.contents {
        Contents::View(view) => (view.kind(), words::limit(view)),
        _ => ("unreadable", String::new()),
    };
    (mood, vec![entry.key.to_string(), kind.to_owned(), state, limit])
}

/// Show everything that the record of a key has
#[derive(Debug, Args)]
#[command(after_long_help = json::FIELDS)]
pub(super) struct ShowArgs {
    /// The key, such as login:{user:42}
    key: Key,
    /// Also the value of a fenced value, which may be private
    #[arg(long)]
    value: bool,
}

impl ShowArgs {
    pub(super) async fn run(self, admin: &Admin, as_json: bool) -> Result<ExitCode> {
        let entry = admin.read(&self.key).await?;
        if as_json {
            print_json(&json::entry(&entry, self.value))?;
            return Ok(if entry.view().is_ok() { ExitCode::SUCCESS } else { refused() });
        }
        let view = entry.view().map_err(crate::admin::AdminError::from)?;
        let row = |(name, value)| (Mood::Plain, vec![name, value]);
        let rows: Vec<_> = words::fields(&entry, view, self.value).into_iter().map(row).collect();
        print_table(&["FIELD", "VALUE"], &rows)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Show which callers hold locks, semaphores and read-write locks, which wait, and since when.
///
/// Waiters poll, and a record does not have them, but for those of a fair lock, which stand in line. Of others it only
/// has the latest time until which one of them announced to wait.
#[derive(Debug, Args)]
#[command(after_long_help = WHO_JSON)]
pub(super) struct WhoArgs {
    #[command(flatten)]
    keys: KeysArgs,
}

const WHO_JSON: &str = "\
--json prints one object: `records` of the locks, semaphores and read-write locks that are held or awaited, as `lockage
show --help` describes each.";

impl WhoArgs {
    pub(super) async fn run(self, admin: &Admin, as_json: bool) -> Result<ExitCode> {
        let mut scan = admin.scan(&self.keys.selection()?, self.keys.pace);
        let mut found = BTreeMap::new();
        while let Some(entries) = scan.next().await? {
            let used = entries.into_iter().filter(|entry| !people(entry).is_empty());
            found.extend(used.map(|entry| (entry.key.to_string(), entry)));
        }
        if as_json {
            let records: Vec<Value> = found.values().map(|it| json::entry(it, false)).collect();
            print_json(&json!({ "records": records }))?;
        } else {
            let rows: Vec<_> = found.values().flat_map(people).collect();
            let rows: Vec<_> = rows.into_iter().map(|row| (Mood::Plain, row)).collect();
            print_table(&["KEY", "IS", "BY", "SINCE", "UNTIL", "TOKEN", "COUNT"], &rows)?;
        }
        Ok(if found.is_empty() { refused() } else { ExitCode::SUCCESS })
    }
}

/// Returns a row for each holder and each waiter of a record.
fn people(entry: &Entry) -> Vec<Vec<String>> {
    let Contents::View(view) = &entry.contents else { return Vec::new() };
    let ago = |time| format!("{} ago", words::span(entry.now.saturating_since(time)));
    let within =
        |until: Timestamp| format!("in {}", words::span(until.saturating_since(entry.now)));
    let key = || entry.key.to_string();
    let mut rows = Vec::new();
    for hold in holds(view) {
        let kind = if matches!(hold.role, Role::Permits(_)) { "permit " } else { "" };
        let who = format!("{kind}{}", words::holder(&hold));
        let (since, until) = (ago(hold.since), within(hold.until));
        let (token, count) = (hold.token.to_string(), hold.count.to_string());
        rows.push(vec![key(), words::role(&hold).to_owned(), who, since, until, token, count]);
    }
    let mut waits = |is: String, who: String, until| {
        rows.push(vec![key(), is, who, String::new(), within(until), String::new(), String::new()])
    };
    let awaited = match view {
        View::Lock(it) => {
            for (place, (owner, until)) in it.line.iter().enumerate() {
                waits(format!("in line {}", place + 1), owner.to_string(), *until);
            }
            it.awaited_until.filter(|_| it.line.is_empty())
        }
        View::Semaphore(it) => it.awaited_until,
        View::RwLock(it) => {
            if let Some(until) = it.kept_until {
                waits("awaited".to_owned(), "a writer".to_owned(), until);
            }
            it.awaited_until.filter(|_| it.kept_until.is_none())
        }
        _ => None,
    };
    if let Some(until) = awaited {
        waits("awaited".to_owned(), "at least one".to_owned(), until);
    }
    rows
}
