//! Advised limits as JSON: one object.
//!
//! | field | meaning |
//! |---|---|
//! | `requests`, `clients` | in the file: a client is a key |
//! | `from`, `to` | times of the first and the last request, RFC 3339 in UTC |
//! | `reading`, `unparsed`, `unparsed_lines` | as in a replay |
//! | `deny_clients` | the bound on the share of denied clients, as given |
//! | `may_deny` | the number of clients that may be denied |
//! | `deploy` | the one to deploy: a token bucket |
//! | `families` | one object per window and kind of limit |
//! | `buckets` | token buckets that deny as few, the slowest refill first |
//!
//! A family has `kind`, `window_us`, the `advised` limit, and its `curve`, from 1 to the smallest amount that denies none. The advised
//! limit, the one to deploy, points of a curve and buckets have `limit`, `amount` (per window), `clients_denied` (at least once) and `requests_denied`.

use std::io::{self, Write};

use serde::Serialize;

use crate::advise::{Advice, Denies, Family};
use crate::dates;
use crate::input::{Reading, UnparsedLine};
use crate::report::AdviceReport;

/// Writes advised limits as one JSON object and a newline.
///
/// # Errors
/// The error of `out`.
pub fn write(report: &AdviceReport, out: &mut dyn Write) -> io::Result<()> {
    let Advice { clients, requests, may_deny, deploy, families, buckets } = &report.advice;
    let unparsed = report.source.unparsed();
    let object = Object {
        requests: *requests,
        clients: *clients,
        from: dates::to_calendar(report.span.0).to_string(),
        to: dates::to_calendar(report.span.1).to_string(),
        reading: report.source.reading(),
        unparsed: unparsed.count,
        unparsed_lines: &unparsed.samples,
        deny_clients: report.share.to_string(),
        may_deny: *may_deny,
        deploy: denies_object(deploy),
        families: families.iter().map(family_object).collect(),
        buckets: buckets.iter().map(denies_object).collect(),
    };
    serde_json::to_writer_pretty(&mut *out, &object)?;
    writeln!(out)
}

#[derive(Serialize)]
struct Object<'a> {
    requests: u64,
    clients: u64,
    from: String,
    to: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reading: Option<&'a Reading>,
    unparsed: u64,
    unparsed_lines: &'a [UnparsedLine],
    deny_clients: String,
    may_deny: u64,
    deploy: DeniesObject,
    families: Vec<FamilyObject>,
    buckets: Vec<DeniesObject>,
}

#[derive(Serialize)]
struct FamilyObject {
    kind: &'static str,
    window_us: u128,
    advised: DeniesObject,
    curve: Vec<DeniesObject>,
}

#[derive(Serialize)]
struct DeniesObject {
    limit: String,
    amount: u64,
    clients_denied: u64,
    requests_denied: u64,
}

fn family_object(family: &Family) -> FamilyObject {
    FamilyObject {
        kind: family.kind.name(),
        window_us: family.window.as_micros(),
        advised: denies_object(&family.advised),
        curve: family.curve.iter().map(denies_object).collect(),
    }
}

fn denies_object(denies: &Denies) -> DeniesObject {
    DeniesObject {
        limit: denies.limit.to_string(),
        amount: denies.amount,
        clients_denied: denies.clients,
        requests_denied: denies.requests,
    }
}
