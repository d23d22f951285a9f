//! `lockage release`, `block`, `unblock`, `set` and `reset`: changes, which ask first.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use lockage::{Key, Limit};
use lockage_core::{Adjusted, StoredLimit, parse_duration};
use serde_json::json;

use super::output::{Mood, confirm, print_json, print_line, refused, remark};
use super::{json, words};
use crate::admin::Admin;

/// The key of a change.
#[derive(Debug, Args)]
struct ChangeArgs {
    /// The key, such as login:{user:42} or lock:{invoices}
    key: Key,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

impl ChangeArgs {
    /// Asks whether to go on with this change of the key.
    fn confirm(&self, change: &str) -> Result<bool> {
        let goes_on = confirm(&format!("{change}?"), self.yes)?;
        if !goes_on {
            remark("nothing was changed");
        }
        Ok(goes_on)
    }

    /// Prints the change that was made.
    fn done(&self, as_json: bool, words: &str, more: serde_json::Value) -> Result<ExitCode> {
        match as_json {
            true => print_json(&json::merged(json!({ "key": self.key.as_str() }), more))?,
            false => print_line(Mood::Plain, words)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Break a hold of a lock, a semaphore or a read-write lock.
///
/// The token names the hold, so that a later one stays. Its holder goes on until its next renewal, within a third of the
/// lease: whatever it protects must refuse the token from now on.
#[derive(Debug, Args)]
#[command(after_long_help = "--json prints the key and the hold, as in `lockage show`.")]
pub(super) struct ReleaseArgs {
    #[command(flatten)]
    change: ChangeArgs,
    /// The fencing token of the hold; by default that of the only one
    #[arg(long)]
    token: Option<u64>,
}

impl ReleaseArgs {
    pub(super) async fn run(self, admin: &Admin, as_json: bool) -> Result<ExitCode> {
        let key = &self.change.key;
        let hold = admin.hold(key, self.token).await?;
        let (who, token) = (words::holder(&hold), hold.token);
        let since = words::date(hold.since);
        let words = format!("the hold of {key} by {who} with the token {token}, since {since}");
        if !self.change.confirm(&format!("break {words}"))? {
            return Ok(refused());
        }
        admin.release(key, &hold).await?;
        self.change.done(as_json, &format!("broke {words}"), json!({ "broke": json::hold(&hold) }))
    }
}

/// Deny all requests of a limiter for a time, whatever its limit says.
#[derive(Debug, Args)]
#[command(after_long_help = ADJUSTED)]
pub(super) struct BlockArgs {
    #[command(flatten)]
    change: ChangeArgs,
    /// How long from now on; a longer block stays
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    span: Duration,
    /// The limit that its callers have, for a key without a record
    #[arg(long)]
    limit: Option<Limit>,
}

const ADJUSTED: &str = "\
--json prints the key, and `blocked_for_us`, which is null if it is not blocked.";

impl BlockArgs {
    pub(super) async fn run(self, admin: &Admin, as_json: bool) -> Result<ExitCode> {
        let key = &self.change.key;
        let span = words::span(self.span);
        if !self.change.confirm(&format!("block {key} for {span}"))? {
            return Ok(refused());
        }
        let Adjusted { amount, .. } = admin.block(key, self.span, self.limit).await?;
        let blocked = words::span(Duration::from_micros(amount));
        let words = format!("{key} is blocked for {blocked}");
        self.change.done(as_json, &words, json!({ "blocked_for_us": amount }))
    }
}

/// End the block of a limiter.
#[derive(Debug, Args)]
#[command(after_long_help = ADJUSTED)]
pub(super) struct UnblockArgs {
    #[command(flatten)]
    change: ChangeArgs,
}

impl UnblockArgs {
    pub(super) async fn run(self, admin: &Admin, as_json: bool) -> Result<ExitCode> {
        let key = &self.change.key;
        if !self.change.confirm(&format!("end the block of {key}"))? {
            return Ok(refused());
        }
        let Adjusted { after, .. } = admin.unblock(key).await?;
        let words =
            format!("{key} is not blocked, and has {} of {} left", after.remaining, after.limit);
        self.change.done(as_json, &words, json!({ "blocked_for_us": null }))
    }
}

/// Store a limit, which all callers follow from their next call on; usage stays.
///
/// It is for limiters of stored limits. Callers that bring their own limit would be refused on this key.
#[derive(Debug, Args)]
#[command(after_long_help = "--json prints the key, and `stored`, the limit.")]
pub(super) struct SetArgs {
    #[command(flatten)]
    change: ChangeArgs,
    /// The limit, such as "token-bucket 100/min burst 20", also with "per client" and "kept 1h" behind it
    limit: StoredLimit,
    /// Store it even if callers bring their own limit
    #[arg(long)]
    convert: bool,
}

impl SetArgs {
    pub(super) async fn run(self, admin: &Admin, as_json: bool) -> Result<ExitCode> {
        let key = &self.change.key;
        if !self.change.confirm(&format!("store {} for {key}", self.limit))? {
            return Ok(refused());
        }
        let is_known = admin.set_limit(key, self.limit, self.convert).await?;
        let refused = match is_known {
            true => "",
            false => {
                "; it had no record: callers that bring a limit of their own are refused there"
            }
        };
        let words = format!("{key} has the stored limit {}{refused}", self.limit);
        self.change.done(as_json, &words, json!({ "stored": self.limit.to_string() }))
    }
}

/// Forget a limiter, with its usage, block and stored limit; or open a latch.
#[derive(Debug, Args)]
#[command(after_long_help = "--json prints the key, and `reset`, which is true.")]
pub(super) struct ResetArgs {
    #[command(flatten)]
    change: ChangeArgs,
}

impl ResetArgs {
    pub(super) async fn run(self, admin: &Admin, as_json: bool) -> Result<ExitCode> {
        let key = &self.change.key;
        let entry = admin.read(key).await?;
        let state = words::state(&entry).1;
        if !self.change.confirm(&format!("reset {key} ({state}), with all that is stored there"))? {
            return Ok(refused());
        }
        admin.reset(key).await?;
        self.change.done(as_json, &format!("{key} is reset"), json!({ "reset": true }))
    }
}
