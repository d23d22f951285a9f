//! One command as a script call, without sending it: both adapters speak through this.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockage_core::{
    CallTime, Clock, Command, Encoded, ReplyError, ScriptCall, read_integer_reply,
    read_packed_reply,
};

use crate::{Script, script};

/// How often one call follows a slot to another node, or finds it gone again, before it is
/// reported as not done.
const REDIRECTIONS: u8 = 8;

/// The first word of the error that a script replies where the key was written under another limit,
/// and the command goes on as text: see [`lockage_core::Encoded::Packed`].
pub const NEEDS_SLOW_PATH: &str = "LOCKAGE_NEEDS_SLOW_PATH";

/// One command as a script call: what to send, whether an error reply asks for sending again, and
/// what a reply says.
///
/// A script is called by its digest first, and with its whole text where the server does not know
/// it. `EVAL` makes the server remember the text, so this needs no `SCRIPT LOAD`, and in a cluster
/// it reaches the node that has the key.
#[derive(Debug)]
pub struct Call<'a, C> {
    command: &'a C,
    time: CallTime,
    script: &'static Script,
    call: ScriptCall,
    with_text: bool,
    redirections: u8,
}

impl<'a, C: Command> Call<'a, C> {
    /// The call of this command, at the time that `time` says.
    pub fn new(command: &'a C, time: &TimeSource) -> Self {
        let time = time.read();
        let call = command.encode().at(time);
        let script = script(call.script());
        Call { command, time, script, call, with_text: false, redirections: 0 }
    }

    /// The command's name: `EVALSHA`, or `EVAL`.
    pub fn name(&self) -> &'static str {
        if self.with_text { "EVAL" } else { "EVALSHA" }
    }

    /// The command's first argument; `1` and the key stand between it and
    /// [`Call::arguments`].
    pub fn script(&self) -> &'static str {
        if self.with_text { self.script.source() } else { self.script.digest() }
    }

    /// The script's own arguments.
    pub fn arguments(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.call.arguments()
    }

    /// Whether to send this call again, at once, after an error reply whose first word is `code`.
    ///
    /// Whatever the code, nothing was done: no script of lockage fails once it has written. Again
    /// is right where the server did not know the script (the text is sent then), where a limiter's
    /// key was written under another limit (the script that converts it is called then), and where
    /// the slot is with another node (`MOVED`, `ASK`), for as often as a sane cluster needs.
    pub fn again_after(&mut self, code: &str) -> bool {
        match code {
            "NOSCRIPT" => !std::mem::replace(&mut self.with_text, true),
            NEEDS_SLOW_PATH if matches!(self.call.encoded(), Encoded::Packed(_)) => {
                self.with_text = false;
                self.call = Encoded::Text(self.command.encode_text()).at(self.time);
                self.script = script(self.call.script());
                true
            }
            "MOVED" | "ASK" => {
                self.redirections += 1;
                self.redirections <= REDIRECTIONS
            }
            _ => false,
        }
    }

    /// The outcome that this reply stands for.
    ///
    /// # Errors
    /// As [`Command::outcome`].
    pub fn outcome(&self, reply: Reply<'_>) -> Result<C::Outcome, ReplyError> {
        self.command.outcome(&reply.integers()?)
    }
}

/// A script's reply, as a client has read it.
#[derive(Debug)]
pub enum Reply<'a> {
    /// A list of integers, with nothing in the place of what is none.
    List(Vec<Option<i64>>),
    /// One integer.
    Integer(i64),
    /// A string, of numbers in binary.
    Bytes(&'a [u8]),
    /// Anything else, which no script replies.
    Other,
}

impl Reply<'_> {
    /// The same as commands read it.
    pub(crate) fn integers(self) -> Result<Vec<i64>, ReplyError> {
        let integers = match self {
            Reply::List(all) => all.into_iter().collect(),
            Reply::Integer(integer) => Some(read_integer_reply(integer).to_vec()),
            Reply::Bytes(numbers) => read_packed_reply(numbers),
            Reply::Other => None,
        };
        integers.ok_or(ReplyError::Unexpected)
    }
}

/// Whose clock decides: the server's, or the caller's.
#[derive(Clone, Default)]
pub struct TimeSource(Option<Injected>);

#[derive(Clone)]
struct Injected {
    clock: Arc<dyn Clock>,
    skew_ms: u64,
}

impl TimeSource {
    /// The server's clock.
    pub const SERVER: TimeSource = TimeSource(None);

    /// The caller's clock, for servers that refuse `TIME` in scripts, and for tests.
    ///
    /// `skew` bounds how far this clock may be off the server's and other callers'; it is added to
    /// every expiry, rounded up to milliseconds, and counts as a year where it is more. Beyond it,
    /// keys can expire while they still matter. Do not use it for locks outside of tests: their
    /// leases rest on one clock for all.
    pub fn caller(clock: Arc<dyn Clock>, skew: Duration) -> Self {
        let skew_ms = u64::try_from(skew.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
        // More is no bound, and the server could not add it to its time.
        let skew_ms = skew_ms.min(366 * 24 * 3600 * 1000);
        TimeSource(Some(Injected { clock, skew_ms }))
    }

    /// Returns the time of a call that is made now.
    pub(crate) fn read(&self) -> CallTime {
        match &self.0 {
            Some(Injected { clock, skew_ms }) => {
                CallTime::Caller { now: clock.now(), skew_ms: *skew_ms }
            }
            None => CallTime::Store,
        }
    }
}

impl fmt::Debug for TimeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "TimeSource::caller" } else { "TimeSource::SERVER" })
    }
}

#[cfg(test)]
mod tests {
    use lockage_core::{Acquire, Limit};

    use super::*;

    fn with_call(test: impl FnOnce(Call<'_, Acquire>)) {
        let limit: Limit = "token-bucket 5/s".parse().unwrap();
        let command = Acquire::new(limit, 1).unwrap();
        test(Call::new(&command, &TimeSource::SERVER));
    }

    #[test]
    fn the_text_follows_the_digest_once() {
        with_call(|mut call| {
            assert_eq!((call.name(), call.script().len()), ("EVALSHA", 40));
            assert!(call.again_after("NOSCRIPT"));
            assert_eq!(call.name(), "EVAL");
            assert!(call.script().contains("KEYS[1]"));
            assert!(!call.again_after("NOSCRIPT"));
        });
    }

    #[test]
    fn a_record_of_another_limit_is_for_the_script_that_converts_once() {
        with_call(|mut call| {
            let first = call.script();
            assert!(call.again_after("NOSCRIPT"));
            assert!(call.again_after("LOCKAGE_NEEDS_SLOW_PATH"));
            assert_eq!((call.name(), call.script().len()), ("EVALSHA", 40));
            assert_ne!(call.script(), first);
            assert!(call.again_after("NOSCRIPT"));
            assert!(!call.again_after("LOCKAGE_NEEDS_SLOW_PATH"));
        });
    }

    #[test]
    fn a_slot_is_followed_for_as_often_as_a_sane_cluster_needs() {
        with_call(|mut call| {
            let followed =
                (0..100).filter(|_| call.again_after("MOVED") || call.again_after("ASK"));
            assert!((2..20).contains(&followed.count()));
        });
    }

    #[test]
    fn other_errors_are_reported() {
        for code in ["ERR", "OOM", "READONLY", "BUSY", "CLUSTERDOWN", "LOADING", "NOSCRIPTS", ""] {
            with_call(|mut call| assert!(!call.again_after(code), "{code}"));
        }
    }
}
