//! Requests in lines with fields: JSON, logfmt, W3C, and the logs of AWS.

use lockage_core::Timestamp;

use super::NotARequest;
use super::client::Clients;
use super::facts::{Facts, Found, ONE_KEY, by_network};
use super::fields::{Fields, by_place, has_text, logfmt, words};
use super::log::{method_and_path, path};
use super::options::{By, Format, ReadOptions};
use super::prefix::{Prefix, strip};
use super::text::escape_invalid;
use crate::dates;

/// The fields of a load balancer's line: those of a classic one begin with the time.
const ALB: [&str; 15] = [
    "type",
    "time",
    "elb",
    "client",
    "target",
    "request_processing_time",
    "target_processing_time",
    "response_processing_time",
    "elb_status_code",
    "target_status_code",
    "received_bytes",
    "sent_bytes",
    "request",
    "user_agent",
    "ssl_cipher",
];

const S3: [&str; 17] = [
    "bucket_owner",
    "bucket",
    "time",
    "remote_ip",
    "requester",
    "request_id",
    "operation",
    "key",
    "request_uri",
    "http_status",
    "error_code",
    "bytes_sent",
    "object_size",
    "total_time",
    "turn_around_time",
    "referer",
    "user_agent",
];

/// Names of the client's address, as servers found it, then as it connected.
const CLIENT: [&str; 29] = [
    "client_ip",
    "request.client_ip",
    "client",
    "client.ip",
    "client.address",
    "client_address",
    "remote_addr",
    "remote_ip",
    "request.remote_ip",
    "request.remote_addr",
    "ClientHost",
    "ClientAddr",
    "c-ip",
    "httpRequest.remoteIp",
    "httpRequest.clientIp",
    "proxy.clientIp",
    "req.remoteAddress",
    "remote_address",
    "source_ip",
    "source.ip",
    "sourceIPAddress",
    "src_ip",
    "remote_host",
    "remote",
    "ip",
    "ip_address",
    "address",
    "peer",
    "fwd",
];

/// Names of the address that connected.
const PEER: [&str; 5] = ["remote_addr", "remote_ip", "request.remote_ip", "ClientHost", "c-ip"];

const FORWARDED: [&str; 6] = [
    "x_forwarded_for",
    "http_x_forwarded_for",
    "request_X-Forwarded-For",
    "request.headers.X-Forwarded-For",
    "headers.X-Forwarded-For",
    "cs(X-Forwarded-For)",
];

/// Names of the time.
pub(super) const TIME: [&str; 16] = [
    "timestamp",
    "time",
    "ts",
    "@timestamp",
    "datetime",
    "time_iso8601",
    "time_local",
    "msec",
    "StartUTC",
    "StartLocal",
    "start_time",
    "date_time",
    "event_time",
    "request_time",
    "EdgeStartTimestamp",
    "date",
];

/// Names of a part of a request, the whole request last.
pub(super) fn names(by: By) -> &'static [&'static str] {
    match by {
        By::Address => &CLIENT,
        By::User => &[
            "user",
            "username",
            "remote_user",
            "ClientUsername",
            "user_id",
            "user.name",
            "cs-username",
            "requester",
            "auth_user",
        ],
        By::Method => &[
            "method",
            "request_method",
            "RequestMethod",
            "http_method",
            "cs-method",
            "verb",
            "request.method",
            "http.request.method",
            "httpRequest.requestMethod",
            "ClientRequestMethod",
            "request",
            "request_uri",
        ],
        By::Path => &[
            "path",
            "request_path",
            "uri",
            "url",
            "cs-uri-stem",
            "url.path",
            "request.uri",
            "httpRequest.requestUrl",
            "ClientRequestPath",
            "ClientRequestURI",
            "request",
            "request_uri",
        ],
        By::Status => &[
            "status",
            "status_code",
            "sc-status",
            "DownstreamStatus",
            "response_status",
            "response_code",
            "elb_status_code",
            "http_status",
            "http.response.status_code",
            "httpRequest.status",
            "EdgeResponseStatus",
        ],
        By::Referer => &[
            "referer",
            "referrer",
            "http_referer",
            "cs(Referer)",
            "request_Referer",
            "request.headers.Referer",
            "httpRequest.referer",
        ],
        By::Agent => &[
            "agent",
            "user_agent",
            "http_user_agent",
            "cs(User-Agent)",
            "request_User-Agent",
            "request.headers.User-Agent",
            "user_agent.original",
            "httpRequest.userAgent",
            "ClientRequestUserAgent",
        ],
        By::All => &[],
    }
}

/// Parses lines with fields.
#[derive(Debug)]
pub(super) struct RecordParser {
    format: Format,
    by: By,
    key: Option<String>,
    time: Option<String>,
    prefix: Prefix,
    /// The names in the last `#Fields` line.
    named: Vec<String>,
}

impl RecordParser {
    pub(super) fn new(format: Format, options: &ReadOptions) -> RecordParser {
        let ReadOptions { by, key, time, .. } = options.clone();
        RecordParser { format, by, key, time, prefix: Prefix::new(), named: Vec::new() }
    }

    /// Returns the key, time and cost in words.
    pub(super) fn describe(&self, facts: &Facts, ipv6_prefix: u8) -> [String; 3] {
        let field = |part: &str| facts.names(part).unwrap_or_default();
        let key = match (&self.key, self.by) {
            (None, By::Address) => {
                by_network(&format!("the client's address in {}", field("key")), ipv6_prefix)
            }
            (None, By::All) => ONE_KEY.to_owned(),
            (None, by) => format!("the {} in {}", by.name(), field("key")),
            (Some(_), _) => field("key"),
        };
        let cost = facts.names("cost").unwrap_or_else(|| "1 each".to_owned());
        [key, field("time"), cost]
    }

    /// Parses the time, key and cost of a line.
    pub(super) fn parse(
        &mut self,
        line: &[u8],
        clients: &Clients,
        facts: &mut Facts,
    ) -> Result<Found<'static>, NotARequest> {
        if self.format == Format::W3c && line.starts_with(b"#") {
            return Err(self.directive(line));
        }
        let (fields, prefix) = self.fields(line)?;
        let (time_name, (at, has_zone)) = self.time(&fields, line)?;
        let (key_name, key, is_list) = self.key(&fields, clients, facts)?;
        let cost = match fields.get("cost") {
            Some((name, text)) => {
                facts.has_name("cost", &name);
                super::csv::parse_cost(&text)?
            }
            None => 1,
        };
        facts.has_name("time", &time_name);
        facts.has_name("key", &key_name);
        facts.has_prefix(&prefix);
        // W3C logs are in UTC.
        facts.count(has_zone || self.format == Format::W3c, is_list);
        self.prefix = prefix;
        Ok(Found { at, key: key.into(), cost })
    }

    fn fields<'a>(&'a self, line: &'a [u8]) -> Result<(Fields<'a>, Prefix), String> {
        let plain = |fields| (fields, Prefix::new());
        match self.format {
            Format::Json => {
                let object = strip(line, &self.prefix, &|text| Fields::of_json(text));
                object.ok_or_else(|| {
                    "expected one JSON object a line (jq -c . makes such lines, and jq -c .[] of an array)".to_owned()
                })
            }
            Format::Logfmt => {
                let pairs = strip(line, &self.prefix, &logfmt);
                pairs.ok_or_else(|| "expected name=value pairs".to_owned())
            }
            Format::W3c => {
                let texts: Vec<&[u8]> = match line.contains(&b'\t') {
                    true => line.split(|&byte| byte == b'\t').collect(),
                    false => line.split(|&byte| byte == b' ').collect(),
                };
                let (expected, found) = (self.named.len(), texts.len());
                match expected {
                    0 => Err("expected a line such as #Fields: date time c-ip first".to_owned()),
                    _ if expected != found => {
                        Err(format!("expected {expected} fields, found {found}"))
                    }
                    _ => Ok(plain(by_place(self.named.iter().map(String::as_str), texts))),
                }
            }
            _ => {
                let texts = words(line);
                let is_time = |text: &&[u8]| dates::of_log(&escape_invalid(text)).is_ok();
                let (names, least) = match self.format {
                    Format::Alb if texts.first().is_some_and(is_time) => (&ALB[1..], 13),
                    Format::Alb => (&ALB[..], 14),
                    _ => (&S3[..], 17),
                };
                match texts.len() {
                    found if found < least => {
                        Err(format!("expected at least {least} fields, found {found}"))
                    }
                    _ => Ok(plain(by_place(names.iter().copied(), texts))),
                }
            }
        }
    }

    /// Reads a line such as `#Fields: date time c-ip`.
    fn directive(&mut self, line: &[u8]) -> NotARequest {
        const KNOWN: [&[u8]; 6] =
            [b"#Version:", b"#Software:", b"#Date:", b"#Start-Date:", b"#End-Date:", b"#Remark:"];
        if let Some(names) = line.strip_prefix(b"#Fields:") {
            let names = escape_invalid(names);
            self.named = names.split_ascii_whitespace().map(str::to_owned).collect();
        } else if !KNOWN.iter().any(|directive| line.starts_with(directive)) {
            return "expected a directive such as #Fields".into();
        }
        NotARequest::Header
    }

    fn time(
        &self,
        fields: &Fields<'_>,
        line: &[u8],
    ) -> Result<(String, (Timestamp, bool)), String> {
        if let Some(wanted) = &self.time {
            let (name, text) = fields.get(wanted).ok_or_else(|| no_field(wanted, fields))?;
            return Ok((name, dates::of_log(&text)?));
        }
        // `09:00:00` needs a field with its day; other fields of these names may be durations.
        let there =
            || TIME.iter().filter_map(|name| fields.get(name)).filter(|(_, text)| has_text(text));
        let day = fields.get("date").filter(|(_, day)| has_text(day));
        let read = |(name, text): (String, String)| match (&day, text.get(2..3)) {
            (Some((day, date)), Some(":")) => {
                Some((format!("{day} {name}"), dates::of_log(&format!("{date} {text}")).ok()?))
            }
            _ => Some((name, dates::of_log(&text).ok()?)),
        };
        if let Some(found) = there().find_map(read) {
            return Ok(found);
        }
        if let Some((name, text)) = there().next() {
            return Err(format!("`{name}` is no time: {text:?}; name another with --time"));
        }
        // Heroku's router leaves it to the prefix, at first or behind a length and a priority.
        let mut front = line.split(|&byte| byte == b' ').take(3);
        let at = front.find_map(|word| dates::of_log(&escape_invalid(word)).ok());
        at.map(|at| ("the date in front".to_owned(), at)).ok_or_else(|| {
            format!("no field has a time: name it with --time, of {}", fields.names())
        })
    }

    /// Returns the name of the field with the key, the key, and whether it is one of a list.
    fn key(
        &self,
        fields: &Fields<'_>,
        clients: &Clients,
        facts: &mut Facts,
    ) -> Result<(String, String, bool), String> {
        let by = match &self.key {
            None => self.by,
            Some(wanted) => match (fields.get(wanted), By::named(wanted)) {
                (Some((name, text)), _) => {
                    let (key, is_list) = clients.of_any(text.as_bytes());
                    let key = if has_text(&key) { key.into_owned() } else { "-".to_owned() };
                    return Ok((name, key, is_list));
                }
                (None, Some(by)) => by,
                (None, None) => return Err(no_field(wanted, fields)),
            },
        };
        match by {
            By::Address => return client(fields, clients, facts),
            By::All => return Ok((String::new(), By::All.name().to_owned(), false)),
            _ => {}
        }
        let any = || names(by).iter().find_map(|name| fields.get(name));
        let (name, text) = fields.first(names(by)).or_else(any).ok_or_else(|| match &self.key {
            Some(wanted) => no_field(wanted, fields),
            None => {
                let (by, names) = (by.name(), fields.names());
                format!("no field has the {by}: name one with --key, of {names}")
            }
        })?;
        let request = text.as_bytes();
        let key = escape_invalid(match by {
            By::Method if text.contains(' ') => method_and_path(request).0,
            By::Path if text.contains(' ') => method_and_path(request).1,
            By::Path => path(request),
            _ => request,
        });
        Ok((name, if has_text(&key) { key.into_owned() } else { "-".to_owned() }, false))
    }
}

fn no_field(wanted: &str, fields: &Fields<'_>) -> String {
    format!("no field {wanted:?}: there are {}", fields.names())
}

/// Returns the client: behind trusted proxies, or the first field that has one.
fn client(
    fields: &Fields<'_>,
    clients: &Clients,
    facts: &mut Facts,
) -> Result<(String, String, bool), String> {
    if let Some((name, list)) = fields.first(&FORWARDED) {
        let peer = fields.first(&PEER).or_else(|| fields.first(&CLIENT));
        if clients.trusted.is_empty() {
            facts.has_unread_list();
        } else if let Some((peer_name, peer)) = peer {
            // IIS writes a space as `+`, and CloudFront as `%20`.
            let chain = format!("{},{peer}", list.replace('+', " ").replace("%20", " "));
            let key = clients.of_text(chain.as_bytes());
            let (key, is_list) =
                key.ok_or_else(|| format!("`{peer_name}` is no address: {peer:?}"))?;
            return Ok((format!("{name}, {peer_name}"), key, is_list));
        }
    }
    let there =
        || CLIENT.iter().filter_map(|name| fields.get(name).filter(|(_, text)| has_text(text)));
    let client = there().find_map(|(name, text)| {
        let (key, is_list) = clients.of_text(text.as_bytes())?;
        Some((name, key, is_list))
    });
    client.ok_or_else(|| match there().next() {
        Some((name, text)) => format!(
            "`{name}` is no address and no host name: {text:?}; --key {name} takes it as it is"
        ),
        None => {
            format!("no field has the client's address: name a part with --by, or a field with --key, of {}", fields.names())
        }
    })
}
