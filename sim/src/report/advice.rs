//! Prints advised limits as tables and as JSON.
//!
//! The JSON is one object:
//!
//! | field | meaning |
//! |---|---|
//! | `requests`, `clients` | in the file: a client is a key |
//! | `from`, `to` | times of the first and the last request, RFC 3339 in UTC |
//! | `unparsed`, `unparsed_lines` | as in a replay |
//! | `deny_clients` | the bound on the share of denied clients, as given |
//! | `may_deny` | the number of clients that may be denied |
//! | `families` | one object per window and kind of limit |
//! | `buckets` | token buckets that deny as few, the slowest refill first |
//!
//! A family has `kind`, `window_us`, the `advised` limit, and its `curve`, from 1 to the smallest amount that denies none. The advised
//! limit, points of a curve and buckets have `limit`, `amount` (per window), `clients_denied` (at least once) and `requests_denied`.

use std::io::{self, Write};
use std::time::Duration;

use lockage_core::Timestamp;
use serde::Serialize;

use super::grid::Grid;
use super::{counted, grouped, headline_date, percent, span, table};
use crate::advise::{Advice, Denies, Family, Share};
use crate::dates;
use crate::input::{Unparsed, UnparsedLine, printable, shorten};

/// A report of advised limits.
#[derive(Debug)]
pub(crate) struct AdviceReport {
    /// The name of the file.
    pub(crate) name: String,
    /// Its lines that are no requests.
    pub(crate) unparsed: Unparsed,
    /// The times of the first and of the last request.
    pub(crate) span: (Timestamp, Timestamp),
    /// The bound on the share of denied clients.
    pub(crate) share: Share,
    pub(crate) advice: Advice,
}

impl AdviceReport {
    /// Returns the source and number of requests, in words.
    pub(crate) fn headline(&self) -> String {
        let name = shorten(&printable(&self.name), 40);
        let Advice { clients, requests, .. } = self.advice;
        format!("{name}: {} of {}", counted(requests, "request"), counted(clients, "client"))
    }

    /// Returns the span of time, in words.
    pub(crate) fn period(&self) -> String {
        format!("{} to {} UTC", headline_date(self.span.0), headline_date(self.span.1))
    }

    /// Writes the tables, at most `width` columns wide.
    pub(crate) fn write(&self, width: u16, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}\n{}", self.headline(), self.period())?;
        table::write_unparsed(&self.unparsed, out)?;
        for grid in self.grids() {
            writeln!(out, "{}", grid.to_text(width))?;
        }
        Ok(())
    }

    /// Returns the tables: advised limits, more or fewer denials, and rate against burst.
    pub(crate) fn grids(&self) -> Vec<Grid> {
        let grids = [self.advised(), self.trade_off(), self.buckets()];
        grids.into_iter().filter(|grid| !grid.rows.is_empty()).collect()
    }

    fn advised(&self) -> Grid {
        let header = ["window", "limit", "clients\ndenied", "%", "requests\ndenied", "%"];
        let title =
            format!("The smallest limits that deny fewer than {} of the clients", self.share);
        let mut grid = Grid::new(&title, &header, 2);
        let may_deny = counted(self.advice.may_deny, "client");
        grid.note = format!("That is at most {may_deny} of whom any request is denied.");
        let mut last = None;
        for family in &self.advice.families {
            let is_new = last.replace(family.window) != Some(family.window);
            let window = if is_new { words(family.window) } else { String::new() };
            grid.rows.push(self.row(window, &family.advised));
        }
        grid
    }

    fn trade_off(&self) -> Grid {
        // Steps of clients denied that people think in; the given share is in the table above.
        const SHARES: [&str; 6] = ["10%", "5%", "1%", "0.5%", "0.1%", "0%"];
        let shares = SHARES.map(|share| share.parse::<Share>().expect("it is a percentage"));
        let mut header = vec!["window", "limit"];
        header.extend(["<10%", "<5%", "<1%", "<0.5%", "<0.1%", "nobody"]);
        let mut grid = Grid::new("The trade-off", &header, 2);
        grid.note = "The smallest amount per window that denies so many of the clients.".into();
        let mut last = None;
        for family in &self.advice.families {
            let is_new = last.replace(family.window) != Some(family.window);
            let window = if is_new { words(family.window) } else { String::new() };
            let mut row = vec![window, family.kind.name().to_owned()];
            row.extend(shares.map(|share| grouped(family.smallest(share))));
            grid.rows.push(row);
        }
        grid
    }

    fn buckets(&self) -> Grid {
        let header = ["token bucket", "clients\ndenied", "%", "requests\ndenied", "%"];
        let mut grid = Grid::new("Rate against burst", &header, 1);
        grid.note = "For each rate the smallest burst that denies as few.".into();
        let row = |bucket: &Denies| self.row(String::new(), bucket).split_off(1);
        grid.rows = self.advice.buckets.iter().map(row).collect();
        grid
    }

    fn row(&self, window: String, denies: &Denies) -> Vec<String> {
        let Denies { limit, clients, requests, .. } = denies;
        vec![
            window,
            limit.to_string(),
            grouped(*clients),
            percent(*clients, self.advice.clients),
            grouped(*requests),
            percent(*requests, self.advice.requests),
        ]
    }

    /// Writes one JSON object and a newline.
    pub(crate) fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let Advice { clients, requests, may_deny, families, buckets } = &self.advice;
        let object = Object {
            requests: *requests,
            clients: *clients,
            from: dates::to_calendar(self.span.0).to_string(),
            to: dates::to_calendar(self.span.1).to_string(),
            unparsed: self.unparsed.count,
            unparsed_lines: &self.unparsed.samples,
            deny_clients: self.share.to_string(),
            may_deny: *may_deny,
            families: families.iter().map(family_object).collect(),
            buckets: buckets.iter().map(denies_object).collect(),
        };
        serde_json::to_writer_pretty(&mut *out, &object)?;
        writeln!(out)
    }
}

/// Returns a window in words.
pub(super) fn words(window: Duration) -> String {
    span(u64::try_from(window.as_micros()).unwrap_or(u64::MAX))
}

#[derive(Serialize)]
struct Object<'a> {
    requests: u64,
    clients: u64,
    from: String,
    to: String,
    unparsed: u64,
    unparsed_lines: &'a [UnparsedLine],
    deny_clients: String,
    may_deny: u64,
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
