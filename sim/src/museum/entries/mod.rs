//! The entries, by what they are bugs of.

mod buckets;
mod calls;
mod inputs;
mod locks;
mod logs;
mod windows;

use super::stage::Alphabet;
use super::step::{Deed, Seen, Step};
use super::{Entry, Way};
use crate::store::RespValue;

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

/// All traces of these steps, of at most so many.
fn searched(steps: &[Step], depth: usize) -> Way {
    Way::Searched(Alphabet { steps: steps.to_vec(), gap_us: 0, depth })
}

/// The same, where each step takes so many microseconds.
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

/// What a reply says that begins with whether it is admitted, and what is left.
fn admitted_and_left(reply: RespValue) -> Seen {
    match numbers(&reply).as_deref() {
        Ok([0, ..]) => Seen::Denied { retry_after_us: None },
        Ok([_, left, ..]) => Seen::Admitted { remaining: u64::try_from(*left).ok() },
        Ok(_) => Seen::Failed(format!("a reply of another form: {reply:?}")),
        Err(error) => Seen::Failed(error.clone()),
    }
}

/// What a reply says that is what is left, below zero where it is denied.
fn left(reply: RespValue) -> Seen {
    match numbers(&reply).as_deref() {
        Ok([left]) => match u64::try_from(*left) {
            Ok(left) => Seen::Admitted { remaining: Some(left) },
            Err(_) => Seen::Denied { retry_after_us: None },
        },
        Ok(_) => Seen::Failed(format!("a reply of another form: {reply:?}")),
        Err(error) => Seen::Failed(error.clone()),
    }
}

/// The numbers of a reply, or the error that it is.
fn numbers(reply: &RespValue) -> Result<Vec<i64>, String> {
    match reply {
        RespValue::Error(error) => Err(error.clone()),
        RespValue::Integer(number) => Ok(vec![*number]),
        RespValue::Array(all) => all.iter().map(number).collect(),
        RespValue::Nil => Ok(Vec::new()),
        other => number(other).map(|number| vec![number]),
    }
}

fn number(reply: &RespValue) -> Result<i64, String> {
    let read = match reply {
        RespValue::Integer(number) => Some(*number),
        RespValue::Bulk(text) => String::from_utf8_lossy(text).parse().ok(),
        _ => None,
    };
    read.ok_or_else(|| format!("a reply of another form: {reply:?}"))
}
