//! How a file is read.

use serde::Deserialize;

use super::client::{Clients, Network};

/// The format of the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Format {
    /// Detected from the first lines.
    #[default]
    Auto,
    /// The common or combined log format of Apache and nginx.
    Log,
    /// `timestamp,key[,cost]`, or columns that a header names; also with tabs.
    Csv,
    /// One JSON object a line, as of nginx, Caddy and Traefik.
    Json,
    /// `name=value` pairs.
    Logfmt,
    /// Fields that a `#Fields` line names, as of IIS and CloudFront.
    W3c,
    /// The log of an application or classic load balancer of AWS.
    Alb,
    /// The server access log of S3.
    S3,
}

impl Format {
    /// All but [`Format::Auto`]: the most recognisable ones come first.
    pub(super) const KNOWN: [Format; 7] = [
        Format::W3c,
        Format::Json,
        Format::Alb,
        Format::S3,
        Format::Log,
        Format::Logfmt,
        Format::Csv,
    ];

    /// Returns its name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Format::Auto => "auto",
            Format::Log => "log",
            Format::Csv => "csv",
            Format::Json => "json",
            Format::Logfmt => "logfmt",
            Format::W3c => "w3c",
            Format::Alb => "alb",
            Format::S3 => "s3",
        }
    }
}

/// The part of a request that is the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum By {
    /// The client's address or host name.
    #[default]
    Address,
    /// The authenticated user.
    User,
    /// The request's method.
    Method,
    /// The request's path, without its query.
    Path,
    /// The response's status.
    Status,
    /// The referring page.
    Referer,
    /// The user agent.
    Agent,
    /// No part: all requests have one key.
    All,
}

impl By {
    const PARTS: [By; 7] =
        [By::Address, By::User, By::Method, By::Path, By::Status, By::Referer, By::Agent];

    /// Returns its name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            By::Address => "address",
            By::User => "user",
            By::Method => "method",
            By::Path => "path",
            By::Status => "status",
            By::Referer => "referer",
            By::Agent => "agent",
            By::All => "all",
        }
    }

    /// Returns the part of this name.
    pub(super) fn named(name: &str) -> Option<By> {
        By::PARTS.into_iter().find(|by| by.name() == name)
    }

    /// Returns the names of all parts, in words.
    pub(super) fn names() -> String {
        By::PARTS.map(By::name).join(", ")
    }
}

/// How a file is read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::Args))]
pub struct ReadOptions {
    /// The format of the file
    #[cfg_attr(feature = "cli", arg(long, value_enum, default_value_t))]
    pub format: Format,
    /// The part of a request that is the key
    #[cfg_attr(feature = "cli", arg(long, value_enum, default_value_t))]
    pub by: By,
    /// The field that is the key, whatever is in it: by its name, or in lines without names by its number, from 1
    #[cfg_attr(feature = "cli", arg(long, value_name = "FIELD", conflicts_with = "by"))]
    pub key: Option<String>,
    /// The field that is the time, in lines with names
    #[cfg_attr(feature = "cli", arg(long, value_name = "FIELD"))]
    pub time: Option<String>,
    /// A network of proxies, such as 10.0.0.0/8, or an address, repeatable: in lists of X-Forwarded-For the client is
    /// the last address that is none of them
    #[cfg_attr(feature = "cli", arg(long, value_name = "NETWORK"))]
    pub trust: Vec<Network>,
    /// An IPv6 client is its network of this many bits, as in lockage-tower; 128 is the address
    #[cfg_attr(feature = "cli", arg(long, value_name = "BITS", default_value_t = 64))]
    #[cfg_attr(feature = "cli", arg(value_parser = clap::value_parser!(u8).range(1..=128)))]
    pub ipv6_prefix: u8,
}

impl Default for ReadOptions {
    fn default() -> Self {
        let (format, by) = (Format::Auto, By::Address);
        ReadOptions { format, by, key: None, time: None, trust: Vec::new(), ipv6_prefix: 64 }
    }
}

impl ReadOptions {
    pub(super) fn clients(&self) -> Clients {
        Clients { trusted: self.trust.clone(), ipv6_prefix: self.ipv6_prefix }
    }
}
