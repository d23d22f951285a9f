//! The operations of limiters, and their commands as far as the judge knows them.

use lockage_core::{AnyCommand, Command, Limit, Peek, ScriptId};
use serde::{Deserialize, Serialize};

use crate::simulation::by_part::{ByPart, costs_of};

/// An operation of a limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // each is the verb of its name
pub enum Op {
    Acquire,
    Reserve,
    Peek,
    /// One of several ids on several nodes that are all denied: the store has reserved or charged one of them, and looked
    /// at the others.
    Apart,
    TakeUpTo,
    Refund,
    Penalty,
    Block,
    Unblock,
    Settle,
    CancelTurn,
    Reset,
    SetLimit,
    SetLimitIfAbsent,
    SetLimitAfresh,
    ReadLimit,
}

impl Op {
    /// Returns whether the operation gives something back, or changes a grant.
    pub(super) fn loosens(self) -> bool {
        use Op::*;
        !matches!(self, Acquire | Reserve | Peek | Apart | TakeUpTo | Penalty | Block | ReadLimit)
    }

    /// Returns whether an operation of the store answers this one of a caller.
    pub(super) fn is(self, of_store: Op) -> bool {
        match self {
            Op::Apart => matches!(of_store, Op::Acquire | Op::Reserve | Op::Peek),
            op => op == of_store,
        }
    }

    /// Returns whether the operation applies a limit.
    pub(super) fn has_limit(self) -> bool {
        !matches!(self, Op::Reset | Op::CancelTurn | Op::Peek | Op::ReadLimit)
    }

    /// Returns whether the operation stores a limit.
    pub(super) fn sets_limit(self) -> bool {
        matches!(self, Op::SetLimit | Op::SetLimitIfAbsent | Op::SetLimitAfresh)
    }

    /// Returns whether the operation forgets all usage.
    pub(super) fn forgets(self) -> bool {
        matches!(self, Op::Reset | Op::SetLimitAfresh)
    }
}

/// A command, as far as the judge knows it.
pub(in crate::simulation) struct Asked {
    pub(super) op: Op,
    /// One for each decision: its cost, the actual one of a settlement, or a span in microseconds.
    pub(super) costs: Vec<ByPart>,
    /// Whether it names the other limit, not the plan's.
    pub(super) is_other: bool,
    /// The id of an acquire, as text; empty without one.
    pub(super) request: Vec<u8>,
}

impl Asked {
    /// Returns the request of a command with this number of answers.
    pub(in crate::simulation) fn of(
        command: &AnyCommand,
        answers: usize,
        limits: &Limits,
    ) -> Option<Self> {
        let call = command.encode_text();
        let mut arguments: Vec<&[u8]> = call.arguments().collect();
        // The last argument says how the command follows a stored limit, whatever limit it names.
        let is_followed = arguments.last().is_some_and(|last| last.starts_with(b"*"));
        if is_followed {
            arguments.pop();
        }
        let cost = |text: &[u8]| Some(costs_of(&std::str::from_utf8(text).ok()?.parse().ok()?));
        let (op, limit, costs) = match call.script() {
            ScriptId::LimiterAcquire => {
                let (before, costs) = arguments.split_at(arguments.len() - answers.max(1));
                (Op::Acquire, &before[1..], costs)
            }
            ScriptId::LimiterPeek => {
                let (before, cost) = arguments.split_at(arguments.len() - 1);
                (Op::Peek, before, cost)
            }
            ScriptId::LimiterReserve => {
                let (before, cost) = arguments.split_at(arguments.len() - 1);
                (Op::Reserve, &before[1..], cost)
            }
            ScriptId::LimiterAdjust => {
                let op = match arguments[1] {
                    b"t" => Op::TakeUpTo,
                    b"f" => Op::Refund,
                    b"p" => Op::Penalty,
                    b"b" => Op::Block,
                    _ => Op::Unblock,
                };
                (op, &arguments[3..], &arguments[2..3])
            }
            ScriptId::LimiterSettle => (Op::Settle, &arguments[2..], &arguments[1..2]),
            ScriptId::LeakyBucketCancel => (Op::CancelTurn, &[][..], &[][..]),
            ScriptId::LimiterReset => (Op::Reset, &[][..], &[][..]),
            ScriptId::LimiterSet => {
                let op = match arguments[0] {
                    b"k" => Op::SetLimit,
                    b"a" => Op::SetLimitIfAbsent,
                    _ => Op::SetLimitAfresh,
                };
                (op, &arguments[2..], &[][..])
            }
            _ => return None,
        };
        let costs = costs.iter().filter_map(|text| cost(text)).collect();
        let request = if op == Op::Acquire { arguments[0].to_vec() } else { Vec::new() };
        Some(Asked { op, costs, is_other: !is_followed && limits.is_other(limit), request })
    }
}

/// The two limits of a world, as commands name them.
pub(in crate::simulation) struct Limits {
    own: Vec<Vec<u8>>,
    other: Vec<Vec<u8>>,
}

impl Limits {
    pub(super) fn new(own: Limit, other: Limit) -> Self {
        Limits { own: words(own), other: words(other) }
    }

    /// Returns whether this is the other limit, not the plan's.
    pub(super) fn is_the_other(&self, limit: Limit) -> bool {
        let words = words(limit);
        self.is_other(&words.iter().map(|word| &word[..]).collect::<Vec<_>>())
    }

    /// Returns whether a command is under the other limit.
    pub(super) fn are_other(&self, command: &AnyCommand) -> bool {
        Asked::of(command, 0, self).is_some_and(|asked| asked.is_other)
    }

    /// Returns whether commands distinguish the two limits.
    pub(super) fn differ(&self) -> bool {
        self.own != self.other
    }

    fn is_other(&self, words: &[&[u8]]) -> bool {
        let begins_with = |limit: &[Vec<u8>]| {
            let mut words = words.iter().filter(|word| !is_boundary(word));
            limit.iter().all(|word| words.next().is_some_and(|own| *own == &word[..]))
        };
        // The words of one limit may begin with those of the other.
        begins_with(&self.other) && (!begins_with(&self.own) || self.other.len() > self.own.len())
    }
}

/// Returns a limit as commands name it, without the dates of its windows.
fn words(limit: Limit) -> Vec<Vec<u8>> {
    // In the year 2005.
    let dates = [1 << 50; 4];
    let limit = limit.with_calendar(|window| window.with_boundaries(dates));
    let call = Peek::new(limit, 1).encode_text();
    let words = call.arguments().filter(|word| !is_boundary(word));
    let mut words: Vec<Vec<u8>> = words.map(<[u8]>::to_vec).collect();
    words.pop();
    words
}

/// Returns whether a word is a time: the beginning of a calendar window is no part of a limit.
fn is_boundary(word: &[u8]) -> bool {
    word.len() > 14
}
