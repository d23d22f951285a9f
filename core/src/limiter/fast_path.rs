//! What most calls find: one counter, and a record of its own. It takes a shorter way.

use super::{Fields, Machine};
use crate::limit::Singles;
use crate::record::{Body, Record};
use crate::time::Timestamp;

/// The machine of a limit that is a single counter's, borrowed from `limits`.
pub(super) fn only_counter(limits: &Singles) -> Option<&dyn Machine> {
    match &limits[..] {
        [only] => only.machine().ok(),
        _ => None,
    }
}

/// The machine and the state where that is all there is: one counter, a record of its own or none, no
/// block, no reservation that is known still, and no stored limit.
pub(super) fn plain<'a>(
    limits: &'a Singles,
    slot: &Option<Record>,
    now: Timestamp,
) -> Option<(&'a dyn Machine, Option<Fields>)> {
    let machine = only_counter(limits)?;
    match slot {
        None => Some((machine, None)),
        Some(Record {
            body: Body::Counter(record),
            blocked_until,
            reservations,
            policy: None,
            ..
        }) if record.is_of(machine)
            && *blocked_until <= now.as_micros()
            && reservations.until() <= now =>
        {
            Some((machine, Some(record.state)))
        }
        Some(_) => None,
    }
}
