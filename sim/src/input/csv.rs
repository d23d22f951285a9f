//! One line of a CSV: `timestamp,key[,cost]`.

use std::borrow::Cow;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};

use super::NotARequest;
use super::client::Clients;
use super::facts::{Facts, Found, ONE_KEY, by_network};
use super::fields::Fields as Pairs;
use super::options::{By, ReadOptions};
use super::records::{self, TIME};
use super::text::escape_invalid;
use crate::dates;

/// Parses lines of a CSV into the time, key and cost of a request.
///
/// Lines are independent: a field cannot continue on the next line, so an open quote spoils only its
/// own line.
#[derive(Debug)]
pub(super) struct CsvParser {
    by: By,
    key: Option<String>,
    time: Option<String>,
    columns: Columns,
    started: bool,
    fields: Fields,
}

impl CsvParser {
    pub(super) fn new(options: &ReadOptions) -> CsvParser {
        let ReadOptions { by, key, time, .. } = options.clone();
        CsvParser {
            by,
            key,
            time,
            columns: Columns::default(),
            started: false,
            fields: Fields::default(),
        }
    }

    /// Returns the key, time and cost in words.
    pub(super) fn describe(&self, ipv6_prefix: u8) -> [String; 3] {
        let Columns { timestamp, key, cost, ref names, .. } = self.columns;
        let name = |column: usize| match names.get(column) {
            Some(name) => format!("column `{name}`"),
            None => format!("column {}", column + 1),
        };
        let time = format!("{}, whole numbers in microseconds", name(timestamp));
        let cost = cost.map_or("1 each".to_owned(), |column| format!("{}, or 1", name(column)));
        let key = match self.by {
            By::All => ONE_KEY.to_owned(),
            _ => by_network(&name(key), ipv6_prefix),
        };
        [key, time, cost]
    }

    /// Parses the time, the key and the cost of a line.
    pub(super) fn parse(
        &mut self,
        line: &[u8],
        clients: &Clients,
        facts: &mut Facts,
    ) -> Result<Found<'static>, NotARequest> {
        if !self.started {
            self.fields.separate(line);
        }
        self.fields.split(line)?;
        if !self.started {
            self.started = true;
            if let Some(columns) = self.header()? {
                self.columns = columns;
                return Err(NotARequest::Header);
            }
            self.columns = self.by_number()?;
        }
        let Columns { timestamp, cost, ref count, .. } = self.columns;
        let found = self.fields.count();
        if !count.contains(&found) {
            let expected = match self.columns.names.is_empty() {
                false => "as many as the header",
                true => "timestamp,key[,cost]",
            };
            return Err(format!("expected {expected}, found {found} fields").into());
        }
        // Without a header, `2026-03-12 09:00:00,123 - INFO` is a line of a program, and no row.
        let text = self.fields.get(timestamp);
        let (at, has_zone) = match self.columns.names.is_empty() {
            true => (dates::parse(&text)?, true),
            false => dates::of_table(&text)?,
        };
        let cost = match cost.filter(|&cost| cost < found) {
            Some(column) => parse_cost(&self.fields.get(column))?,
            None => 1,
        };
        let (key, is_list) = self.key(clients)?;
        facts.count(has_zone, is_list);
        Ok(Found { at, key: key.into(), cost })
    }

    /// Returns the key, and whether it is one of a list.
    fn key(&self, clients: &Clients) -> Result<(String, bool), String> {
        if self.by == By::All {
            return Ok((By::All.name().to_owned(), false));
        }
        let key = self.fields.get(self.columns.key);
        if key.is_empty() {
            return Err("no key".to_owned());
        }
        if self.columns.must_be_client {
            let client = clients.of_text(key.as_bytes());
            return client.ok_or_else(|| format!("{key:?} is no address and no host name"));
        }
        let (key, is_list) = clients.of_any(key.as_bytes());
        Ok((key.into_owned(), is_list))
    }

    /// Parses a header, whose columns may be in any order and among others; `None` if it is none.
    ///
    /// The timestamp decides: a key may have any name.
    fn header(&self) -> Result<Option<Columns>, NotARequest> {
        let names: Vec<String> =
            (0..self.fields.count()).map(|i| self.fields.get(i).into_owned()).collect();
        let find = |wanted: &str| {
            let column = Pairs::Pairs(names.iter().map(|name| (name.into(), "".into())).collect());
            let (name, _) = column.get(wanted)?;
            names.iter().position(|other| *other == name)
        };
        let any = |wanted: &[&str]| wanted.iter().find_map(|name| find(name));
        let missing = |name: &str| {
            let there = names.join(", ");
            NotARequest::BadHeader(format!(
                "the header has no column named {name}, but {there}: see --by, --key and --time"
            ))
        };
        let timestamp = match &self.time {
            Some(name) if find(name).is_none() && number(name).is_some() => None,
            Some(name) => Some(find(name).ok_or_else(|| missing(name))?),
            None => any(&TIME),
        };
        let Some(timestamp) = timestamp else { return Ok(None) };
        let wanted = self.key.as_deref();
        let numbered = || wanted.and_then(number).filter(|column| *column < names.len());
        let own = find(wanted.unwrap_or("key")).or_else(numbered);
        let own = own.filter(|_| wanted.is_some() || self.by == By::Address);
        let by = wanted.map_or(Some(self.by), By::named);
        let key = own.or_else(|| any(by.map_or(&[], records::names)));
        let key = key.or((self.by == By::All).then_some(timestamp));
        let key = key.ok_or_else(|| {
            missing(wanted.unwrap_or(if self.by == By::Address { "key" } else { self.by.name() }))
        })?;
        let must_be_client = own.is_none() && by == Some(By::Address);
        let (cost, most) = (find("cost"), names.len());
        // A row may omit the cost if it is last.
        let least = if cost == Some(most - 1) { most - 1 } else { most };
        Ok(Some(Columns { timestamp, key, cost, count: least..=most, names, must_be_client }))
    }

    /// Returns the columns of a file without a header.
    fn by_number(&self) -> Result<Columns, NotARequest> {
        let wrong = |option: &str| {
            Err(NotARequest::BadHeader(format!(
                "{option} needs a header that names the columns, or the number of one"
            )))
        };
        let mut columns = Columns::default();
        if !matches!(self.by, By::Address | By::All) {
            return wrong(&format!("--by {}", self.by.name()));
        }
        for (option, name, column) in
            [("--key", &self.key, &mut columns.key), ("--time", &self.time, &mut columns.timestamp)]
        {
            let Some(name) = name else { continue };
            let Some(number) = number(name).filter(|number| *number < self.fields.count()) else {
                return wrong(&format!("{option} {name}"));
            };
            *column = number;
        }
        if self.key.is_some() || self.time.is_some() {
            (columns.cost, columns.count) = (None, self.fields.count()..=self.fields.count());
        }
        Ok(columns)
    }
}

/// Returns the column of this number, which is counted from 1.
fn number(name: &str) -> Option<usize> {
    name.parse::<usize>().ok()?.checked_sub(1)
}

/// Parses a cost: a whole number above zero, in decimal digits.
pub(super) fn parse_cost(text: &str) -> Result<u64, String> {
    if text.is_empty() {
        return Err("no cost: leave the column out, or write a whole number from 1 on".to_owned());
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "a cost of {text:?}: expected a whole number from 1 on, in decimal digits"
        ));
    }
    match text.parse() {
        Ok(0) => Err("a cost of zero: expected a whole number from 1 on".to_owned()),
        Ok(cost) => Ok(cost),
        Err(_) => Err(format!("a cost of {text}: it does not fit in 64 bits")),
    }
}

/// The positions of the columns.
#[derive(Clone, Debug)]
struct Columns {
    timestamp: usize,
    key: usize,
    cost: Option<usize>,
    count: std::ops::RangeInclusive<usize>,
    /// Those of the header, if there is one.
    names: Vec<String>,
    /// Whether the key's column promises an address.
    must_be_client: bool,
}

impl Default for Columns {
    fn default() -> Self {
        let (cost, count) = (Some(2), 2..=3);
        Columns { timestamp: 0, key: 1, cost, count, names: Vec::new(), must_be_client: false }
    }
}

/// The fields of one line.
#[derive(Debug)]
struct Fields {
    reader: Reader,
    text: Vec<u8>,
    ends: Vec<usize>,
    count: usize,
}

impl Default for Fields {
    fn default() -> Self {
        Fields { reader: reader(b','), text: Vec::new(), ends: Vec::new(), count: 0 }
    }
}

/// Returns a reader of fields with this separator.
fn reader(separator: u8) -> Reader {
    // A carriage return within a line is a character like any other.
    ReaderBuilder::new().terminator(Terminator::Any(b'\n')).delimiter(separator).build()
}

impl Fields {
    /// Takes the separator of a line: a tab, a comma, or a semicolon.
    fn separate(&mut self, line: &[u8]) {
        let separators = [b'\t', b',', b';'];
        let separator = separators.into_iter().find(|separator| line.contains(separator));
        self.reader = reader(separator.unwrap_or(b','));
    }

    fn split(&mut self, line: &[u8]) -> Result<(), NotARequest> {
        self.reader.reset();
        // No record has more text or more fields than its line has bytes, the line's end included.
        self.text.resize(line.len() + 1, 0);
        self.ends.resize(line.len() + 1, 0);
        let (_, _, written, fields) = self.reader.read_record(line, &mut self.text, &mut self.ends);
        let (result, _, _, last) =
            self.reader.read_record(b"\n", &mut self.text[written..], &mut self.ends[fields..]);
        self.count = fields + last;
        match result {
            ReadRecordResult::Record => Ok(()),
            _ => Err("a quote is left open".into()),
        }
    }

    fn count(&self) -> usize {
        self.count
    }

    /// Returns a field's text, trimmed.
    fn get(&self, index: usize) -> Cow<'_, str> {
        let start = index.checked_sub(1).map_or(0, |previous| self.ends[previous]);
        escape_invalid(self.text[start..self.ends[index]].trim_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(parser: &mut CsvParser, line: &str) -> Result<(u64, String, u64), String> {
        match parser.parse(
            line.as_bytes(),
            &ReadOptions::default().clients(),
            &mut Facts::default(),
        ) {
            Ok(Found { at, key, cost }) => Ok((at.as_micros(), key.into_owned(), cost)),
            Err(NotARequest::Header) => Err("header".to_owned()),
            Err(NotARequest::BadHeader(reason)) => Err(format!("bad header: {reason}")),
            Err(NotARequest::Unparsed(reason)) => Err(reason),
        }
    }

    fn new() -> CsvParser {
        CsvParser::new(&ReadOptions::default())
    }

    fn row(at: u64, key: &str, cost: u64) -> Result<(u64, String, u64), String> {
        Ok((at, key.to_owned(), cost))
    }

    #[test]
    fn rows_with_and_without_a_cost() {
        let mut parser = new();
        assert_eq!(parse(&mut parser, "5,alice"), row(5, "alice", 1));
        assert_eq!(parse(&mut parser, "6 , bob , 3"), row(6, "bob", 3));
        assert_eq!(
            parse(&mut parser, "1970-01-01T00:00:01Z,\"a, \"\"b\"\"\",007"),
            row(1_000_000, "a, \"b\"", 7)
        );
        assert_eq!(parse(&mut parser, "7,alice,18446744073709551615"), row(7, "alice", u64::MAX));
        assert_eq!(parse(&mut parser, "8,a\rb"), row(8, "a\rb", 1));
    }

    #[test]
    fn a_header_names_the_columns() {
        let mut parser = new();
        assert_eq!(parse(&mut parser, "Key,status,Timestamp,COST"), Err("header".to_owned()));
        assert_eq!(parse(&mut parser, "alice,200,5,3"), row(5, "alice", 3));
        assert_eq!(parse(&mut parser, "alice,200,5"), row(5, "alice", 1));
        assert!(parse(&mut parser, "alice,200").unwrap_err().contains("as many as the header"));
        // Only the first line can be a header.
        assert!(parse(&mut parser, "Key,status,Timestamp,COST").unwrap_err().contains("neither"));

        let mut parser = new();
        assert_eq!(parse(&mut parser, "timestamp,key"), Err("header".to_owned()));
        assert_eq!(parse(&mut parser, "5,alice"), row(5, "alice", 1));
        assert!(parse(&mut parser, "5,alice,3").unwrap_err().contains("as many as the header"));

        let mut parser = new();
        assert_eq!(parse(&mut parser, "timestamp,cost,key"), Err("header".to_owned()));
        assert!(parse(&mut parser, "5,alice").unwrap_err().contains("as many as the header"));

        let mut parser = new();
        assert!(parse(&mut parser, "timestamp,user").unwrap_err().contains("bad header"));

        // A first line that names no timestamp is a row.
        assert_eq!(parse(&mut new(), "5,key"), row(5, "key", 1));
    }

    #[test]
    fn a_bad_row_says_why() {
        for (line, expected) in [
            ("5", "found 1 fields"),
            ("5,alice,1,extra", "found 4 fields"),
            ("5,", "no key"),
            ("5,\"  \",1", "no key"),
            (",alice", "no timestamp"),
            ("soon,alice", "neither"),
            ("-5,alice", "neither"),
            ("9007199254740992,alice", "too late"),
            ("5,alice,", "no cost"),
            ("5,alice,0", "zero"),
            ("5,alice,nan", "\"nan\""),
            ("5,alice,inf", "\"inf\""),
            ("5,alice,-1", "\"-1\""),
            ("5,alice,+1", "\"+1\""),
            ("5,alice,1.5", "\"1.5\""),
            ("5,alice,1e3", "\"1e3\""),
            ("5,alice,0x10", "\"0x10\""),
            ("5,alice,1_000", "\"1_000\""),
            ("5,alice,18446744073709551616", "64 bits"),
            ("5,\"alice,1", "quote is left open"),
        ] {
            let reason = parse(&mut new(), line).unwrap_err();
            assert!(reason.contains(expected), "{line}: {reason}");
        }
    }

    #[test]
    fn a_bad_row_does_not_spoil_the_next() {
        let mut parser = new();
        for _ in 0..3 {
            assert!(parse(&mut parser, "5,\"alice").is_err());
            assert_eq!(parse(&mut parser, "5,alice"), row(5, "alice", 1));
        }
    }

    #[test]
    fn keys_that_are_not_utf8_stay_apart() {
        let mut parser = new();
        let mut key = |line: &[u8]| {
            let found =
                parser.parse(line, &ReadOptions::default().clients(), &mut Facts::default());
            found.ok().unwrap().key.into_owned()
        };
        assert_ne!(key(b"5,\xe4"), key(b"5,\xe5"));
    }
}
