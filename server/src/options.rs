//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Parser, ValueEnum};
use lockage_tower::Fields;

/// Rate limits and locks for Envoy, HTTP clients and clients of redis-cell
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Exit status: 0 after SIGTERM or SIGINT, or if the rules have no mistakes (--check); \
                                 1 for a failure, 2 for wrong arguments."
)]
pub struct Options {
    /// The file of rules, in TOML, YAML or JSON. It is followed while the server runs. Without it, all requests by values
    /// are allowed
    #[arg(long, value_name = "FILE", env = "LOCKAGE_RULES")]
    pub(crate) rules: Option<PathBuf>,
    /// Print all mistakes of the rules, and end
    #[arg(long, requires = "rules")]
    pub(crate) check: bool,
    /// Where limits and locks are: `memory`, or an address such as `redis://host`, `rediss://host`,
    /// `redis-cluster://host` or `redis-sentinel://host?sentinelServiceName=main`
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "memory",
        env = "LOCKAGE_STORE",
        hide_env_values = true
    )]
    pub(crate) store: String,
    /// The prefix of all keys; that of locks has -locks behind it
    #[arg(long, default_value = "lockage")]
    pub(crate) prefix: String,
    /// How long a call to the store may take; on Redis it is 500ms at most
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = span)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) ports: Ports,
    #[command(flatten)]
    pub(crate) limits: Limits,
    #[command(flatten)]
    pub(crate) bounds: Bounds,
    #[command(flatten)]
    pub(crate) tls: Tls,
    /// The form of logs on standard error
    #[arg(long, value_enum, default_value_t = LogForm::Text)]
    pub(crate) log: LogForm,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Ports (`none` for none)")]
pub(crate) struct Ports {
    /// Envoy's rate limit service
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8081", value_parser = port)]
    pub(crate) grpc: Port,
    /// Limits and locks by HTTP and JSON
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080", value_parser = port)]
    pub(crate) http: Port,
    /// The command CL.THROTTLE of redis-cell, by the protocol of Redis
    #[arg(long, value_name = "ADDRESS", default_value = "none", value_parser = port)]
    pub(crate) resp: Port,
    /// Health, metrics and the verbs of operators. Keep it from others
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8082", value_parser = port)]
    pub(crate) admin: Port,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct Limits {
    /// While the store is away: deny all, admit all, or count in this process under the share of one of N
    #[arg(long, value_name = "closed|open|N", value_parser = fallback)]
    pub(crate) fallback: Option<FallbackOption>,
    /// Put up to N requests that arrive together for one limit into one call
    #[arg(long, value_name = "N")]
    pub(crate) coalesce: Option<usize>,
    /// Answer known denials of up to N ids in this process
    #[arg(long, value_name = "N")]
    pub(crate) deny_cache: Option<usize>,
    /// Take N permits ahead for an id that is in use, for up to a second
    #[arg(long, value_name = "N")]
    pub(crate) prefetch: Option<u64>,
    /// Decide at most N requests at once, of the less important ones fewer: the others are refused
    #[arg(long, value_name = "N")]
    pub(crate) max_in_flight: Option<u32>,
    /// The header fields that Envoy adds to responses: `draft-11`, `x-ratelimit`, both with a comma, or `none`
    #[arg(long, value_name = "FORMS", default_value = "draft-11", value_parser = Fields::from_str)]
    pub(crate) fields: Fields,
    /// How long a request with an Idempotency-Key is remembered
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = span)]
    pub(crate) remember: Duration,
    /// How often the file of rules is looked at
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = span)]
    pub(crate) poll: Duration,
    /// The longest wait for a lock
    #[arg(long, value_name = "TIME", default_value = "1min", value_parser = span)]
    pub(crate) longest_wait: Duration,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Connections")]
pub(crate) struct Bounds {
    /// The most connections of a port
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) max_connections: usize,
    /// The most requests at once on a connection of HTTP/2
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) max_streams: u32,
    /// The most bytes of a request
    #[arg(long, value_name = "N", default_value_t = 65_536)]
    pub(crate) max_body: usize,
    /// How long a handshake, the head of a request and its body may each take
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span)]
    pub(crate) patience: Duration,
    /// After this time a connection takes no more requests, so that clients spread over new servers
    #[arg(long, value_name = "TIME", default_value = "30min", value_parser = span)]
    pub(crate) max_age: Duration,
    /// How long new requests are served after SIGTERM, while /readyz sends them elsewhere
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = span_or_none)]
    pub(crate) drain: Duration,
    /// How long requests under way have to end after that
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = span)]
    pub(crate) grace: Duration,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "TLS, for all ports but the operators'")]
pub(crate) struct Tls {
    /// The server's certificate and those up to the root, in PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// The private key, in PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Admit only clients with a certificate of these authorities, in PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) client_ca: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogForm {
    Text,
    Json,
}

/// The address of a port; none if it is not opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port(pub(crate) Option<SocketAddr>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FallbackOption {
    Closed,
    Open,
    Share(u64),
}

fn port(text: &str) -> Result<Port, String> {
    if text == "none" {
        return Ok(Port(None));
    }
    let address = text.parse();
    address
        .map(|address| Port(Some(address)))
        .map_err(|_| "expected an address such as 0.0.0.0:8080, or `none`".into())
}

fn fallback(text: &str) -> Result<FallbackOption, String> {
    match text {
        "closed" => Ok(FallbackOption::Closed),
        "open" => Ok(FallbackOption::Open),
        _ => match text.parse() {
            Ok(processes @ 1..) => Ok(FallbackOption::Share(processes)),
            _ => Err("expected `closed`, `open`, or the number of servers".into()),
        },
    }
}

fn span(text: &str) -> Result<Duration, String> {
    lockage_core::parse_duration(text).map_err(|error| error.to_string())
}

fn span_or_none(text: &str) -> Result<Duration, String> {
    if text == "0s" { Ok(Duration::ZERO) } else { span(text) }
}
