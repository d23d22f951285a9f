//! `lockage watch`: one key as it changes.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use lockage::{Key, StoreError};
use lockage_core::parse_duration;
use lockage_core::view::View;
use serde_json::json;

use super::output::{print_json_line, print_line, refused, remark};
use super::{json, words};
use crate::admin::{Admin, AdminError, Contents, Entry, charged, holds};

/// Watch the record of a key, until interrupted.
///
/// It looks at the record again and again, and prints a line for each change. Single decisions are not recorded: a line
/// has the least that was charged since the line before, and whether a request of cost 1 would be denied. Denials
/// between two looks, and locks that were taken and released between them, are not seen.
#[derive(Debug, Args)]
#[command(after_long_help = JSON)]
pub(super) struct WatchArgs {
    /// The key, such as login:{user:42}
    key: Key,
    /// The time between two looks
    #[arg(long, value_name = "DURATION", default_value = "200ms", value_parser = parse_duration)]
    every: Duration,
    /// Stop after this time
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    span: Option<Duration>,
}

const JSON: &str = "\
--json prints one object on each line: the record, as `lockage show --help` describes it, and of a limiter
`charged_at_least` since the line before.";

impl WatchArgs {
    pub(super) async fn run(self, mut admin: Admin, as_json: bool) -> Result<ExitCode> {
        let began = Instant::now();
        let mut last: Option<Entry> = None;
        let mut is_away = false;
        loop {
            match admin.read(&self.key).await {
                Ok(entry) => {
                    is_away = false;
                    if last.as_ref().is_none_or(|last| is_news(last, &entry)) {
                        print(&entry, last.as_ref(), as_json)?;
                        last = Some(entry);
                    }
                }
                // As of a failover: it goes on once a master answers.
                Err(AdminError::Store(error @ StoreError::NotDone(_))) => {
                    if !is_away {
                        remark(&format!("away: {error}"));
                    }
                    is_away = true;
                    // If that fails, too, the next look shows it.
                    let _ = admin.reconnect().await;
                }
                Err(error) => return Err(error.into()),
            }
            let left = self.span.map(|span| span.saturating_sub(began.elapsed()));
            if left == Some(Duration::ZERO) {
                let was_there =
                    last.is_some_and(|entry| !matches!(entry.contents, Contents::Absent));
                return Ok(if was_there { ExitCode::SUCCESS } else { refused() });
            }
            tokio::time::sleep(self.every.min(left.unwrap_or(Duration::MAX))).await;
        }
    }
}

/// Returns whether the record was written since, or its state has changed with time.
fn is_news(last: &Entry, entry: &Entry) -> bool {
    let shown = |entry: &Entry| match &entry.contents {
        Contents::View(View::Limiter(it)) => {
            let admits = it.decision.as_ref().map(|decision| decision.is_allowed());
            (1, usize::from(admits == Some(true)), it.blocked_until.is_some())
        }
        Contents::View(View::RwLock(it)) => (1, it.holders.len(), it.kept_until.is_some()),
        Contents::View(View::Lock(it)) => (1, it.line.len(), it.inspection.holder.is_some()),
        Contents::View(view) => (1, holds(view).len(), false),
        Contents::Absent => (0, 0, false),
        Contents::Unreadable(_) | Contents::Moved => (2, 0, false),
    };
    entry.was_written_since(last) || shown(last) != shown(entry)
}

fn print(entry: &Entry, last: Option<&Entry>, as_json: bool) -> Result<()> {
    let charged = last.and_then(|last| charged(last, entry));
    if as_json {
        let more = match charged {
            Some(least) => json!({ "charged_at_least": least }),
            None => json!({}),
        };
        return print_json_line(&json::merged(json::entry(entry, false), more));
    }
    let (mood, state) = words::state(entry);
    let charged = match charged {
        Some(least @ 1..) => format!("  (at least {least} charged)"),
        _ => String::new(),
    };
    print_line(mood, &format!("{}  {state}{charged}", words::date(entry.now)))
}
