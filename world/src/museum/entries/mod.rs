//! The entries, by the kind of their bugs.

mod buckets;
mod calls;
mod inputs;
mod locks;
mod logs;
mod windows;

use lockage_sim::store::RespValue;

use super::stage::Alphabet;
use super::step::{Deed, Seen, Step};
use super::{Entry, Way};

const MS: u64 = 1_000;
const S: u64 = 1_000_000;

pub(super) fn all() -> Vec<Entry> {
    let rooms = [
        windows::entries(),
        logs::entries(),
        buckets::entries(),
        inputs::entries(),
        locks::entries(),
        calls::entries(),
    ];
    rooms.into_iter().flatten().collect()
}

/// Searches all traces of these steps, up to `depth` steps long.
fn searched(steps: &[Step], depth: usize) -> Way {
    Way::Searched(Alphabet { steps: steps.to_vec(), gap_us: 0, depth })
}

/// Searches all traces of these steps, up to `depth` steps long, where each step takes `gap_us`.
fn searched_slowly(steps: &[Step], depth: usize, gap_us: u64) -> Way {
    Way::Searched(Alphabet { steps: steps.to_vec(), gap_us, depth })
}

const fn a(deed: Deed) -> Step {
    Step::By('A', deed)
}

const fn b(deed: Deed) -> Step {
    Step::By('B', deed)
}

const fn c(deed: Deed) -> Step {
    Step::By('C', deed)
}

/// Reads a reply of two numbers: whether the request is admitted, and the remaining permits.
fn admitted_and_left(reply: RespValue) -> Seen {
    match pair(&reply) {
        Ok((0, _)) => Seen::Denied { retry_after_us: None },
        Ok((_, left)) => Seen::Admitted { remaining: u64::try_from(left).ok() },
        Err(error) => Seen::Failed(error),
    }
}

/// Reads a reply that is the remaining permits, below zero if the request is denied.
fn left(reply: RespValue) -> Seen {
    match number(&reply) {
        Ok(left) => match u64::try_from(left) {
            Ok(left) => Seen::Admitted { remaining: Some(left) },
            Err(_) => Seen::Denied { retry_after_us: None },
        },
        Err(error) => Seen::Failed(error),
    }
}

/// Reads a reply that is 1 if the request is admitted, and 0 if it is denied.
fn admitted(reply: RespValue) -> Seen {
    match number(&reply) {
        Ok(0) => Seen::Denied { retry_after_us: None },
        Ok(_) => Seen::Admitted { remaining: None },
        Err(error) => Seen::Failed(error),
    }
}

/// Reads a reply of two numbers.
fn pair(reply: &RespValue) -> Result<(i64, i64), String> {
    match reply {
        RespValue::Array(both) if both.len() == 2 => Ok((number(&both[0])?, number(&both[1])?)),
        RespValue::Error(error) => Err(error.clone()),
        other => Err(other_form(other)),
    }
}

/// Reads a reply that is a number.
fn number(reply: &RespValue) -> Result<i64, String> {
    match reply {
        RespValue::Integer(number) => Ok(*number),
        RespValue::Error(error) => Err(error.clone()),
        other => Err(other_form(other)),
    }
}

fn other_form(reply: &RespValue) -> String {
    format!("a reply of another form: {reply:?}")
}
