//! The program `lockage`.

mod change;
mod json;
mod list;
mod output;
mod sample;
mod watch;
mod words;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, CommandFactory, Parser, Subcommand};
use lockage::store::KeyError;
use lockage_core::parse_duration;

use crate::admin::{Admin, Selection};
pub use output::{conclude, refuse_usage};

/// List, show and change limits and locks on Redis or Valkey.
///
/// Records are read without any configuration. A walk over all keys takes less than a millisecond of a server at a
/// time, and pauses after each call.
#[derive(Debug, Parser)]
#[command(name = "lockage", version, max_term_width = 100, after_help = STATUSES)]
pub struct Cli {
    #[command(flatten)]
    server: ServerArgs,
    #[command(subcommand)]
    command: Command,
}

/// The help on exit statuses.
const STATUSES: &str = "\
Exit status:
  0  done
  1  refused, or nothing there: nothing was changed
  2  wrong arguments
  3  misconfigured: an address, a password, a right; it fails until that is changed
  4  not done: the server is away, for example; it is safe to try again
  5  sent, and not answered: it may be done";

#[derive(Debug, Args)]
struct ServerArgs {
    /// The address: redis://user:password@host:6379/0, rediss:// for TLS, redis+unix:///path,
    /// redis-sentinel://host:26379?sentinelServiceName=name or redis-cluster://host:6379. Other users of the machine
    /// can read arguments: prefer the environment for a password
    #[arg(
        long,
        value_name = "ADDRESS",
        global = true,
        env = "LOCKAGE_URL",
        hide_env_values = true
    )]
    #[arg(default_value = "redis://127.0.0.1:6379")]
    url: String,
    /// The longest time for a call
    #[arg(long, value_name = "DURATION", global = true, default_value = "2s")]
    #[arg(value_parser = parse_duration)]
    timeout: Duration,
    /// Print JSON instead of a table, with times in microseconds since 1970
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Ls(list::LsArgs),
    Show(list::ShowArgs),
    Who(list::WhoArgs),
    Release(change::ReleaseArgs),
    Block(change::BlockArgs),
    Unblock(change::UnblockArgs),
    Set(change::SetArgs),
    Reset(change::ResetArgs),
    Watch(watch::WatchArgs),
    Top(sample::TopArgs),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, in roff
    Man,
}

/// The keys to walk over.
#[derive(Debug, Args)]
struct KeysArgs {
    /// A key, such as login:{user:42}, or a pattern, such as login:*
    #[arg(value_name = "PATTERN", value_parser = Selection::parse, conflicts_with = "prefix")]
    pattern: Option<Selection>,
    /// Only keys of this prefix
    #[arg(long)]
    prefix: Option<String>,
    /// The shortest pause after each call; it is as long as the call at least
    #[arg(long, value_name = "DURATION", default_value = "1ms", value_parser = parse_duration)]
    pace: Duration,
}

impl KeysArgs {
    fn selection(&self) -> Result<Selection, KeyError> {
        match (&self.pattern, &self.prefix) {
            (Some(selection), _) => Ok(selection.clone()),
            (None, Some(prefix)) => Selection::prefix(prefix),
            (None, None) => Ok(Selection::all()),
        }
    }
}

/// Runs the command, and prints its report on standard output. Returns the exit status.
///
/// # Errors
/// Returns an error without credentials: of the server, or of the output.
pub fn run(cli: Cli) -> Result<ExitCode> {
    match &cli.command {
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "lockage", &mut text);
            return output::write_raw(&text);
        }
        Command::Man => {
            let mut text = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut text)?;
            return output::write_raw(&text);
        }
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let ServerArgs { url, timeout, json } = cli.server;
        let admin = Admin::open(&url, timeout).await?;
        match cli.command {
            Command::Ls(args) => args.run(&admin, json).await,
            Command::Show(args) => args.run(&admin, json).await,
            Command::Who(args) => args.run(&admin, json).await,
            Command::Release(args) => args.run(&admin, json).await,
            Command::Block(args) => args.run(&admin, json).await,
            Command::Unblock(args) => args.run(&admin, json).await,
            Command::Set(args) => args.run(&admin, json).await,
            Command::Reset(args) => args.run(&admin, json).await,
            Command::Watch(args) => args.run(admin, json).await,
            Command::Top(args) => args.run(&admin, json).await,
            Command::Completions { .. } | Command::Man => Ok(ExitCode::SUCCESS),
        }
    })
}
