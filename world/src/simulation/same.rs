//! The comparison of two outcomes of one command, for all types of outcomes.

use std::any::Any;

use lockage_core::fenced::{Access, Kept};
use lockage_core::{
    Adjusted, Cancellation, Decision, Renewal, Reserved, Settlement, StoredLimitOutcome, Timestamp,
    Turn, latch, lock, rw_lock, semaphore,
};

/// Returns whether two outcomes of one command are the same.
///
/// # Panics
/// Panics for a type that no command here has: it is missing in the list.
pub(super) fn is_same(one: &dyn Any, other: &dyn Any) -> bool {
    macro_rules! either {
        ($($outcome:ty),* $(,)?) => {
            $(if let Some(one) = one.downcast_ref::<$outcome>() {
                return Some(one) == other.downcast_ref();
            })*
        };
    }
    either!(
        Decision,
        Vec<Decision>,
        Turn,
        Reserved,
        Adjusted,
        Settlement,
        Renewal,
        Cancellation,
        bool,
        StoredLimitOutcome<Decision>,
        StoredLimitOutcome<Vec<Decision>>,
        StoredLimitOutcome<Reserved>,
        StoredLimitOutcome<Adjusted>,
        StoredLimitOutcome<Settlement>,
        StoredLimitOutcome<Renewal>,
        lock::Reply,
        lock::Inspection,
        semaphore::Reply,
        semaphore::Inspection,
        rw_lock::Reply,
        rw_lock::Inspection,
        latch::Reply,
        latch::Inspection,
        Option<u64>,
        Access<()>,
        Access<Option<Kept>>,
        Option<Kept>,
        Timestamp,
    );
    panic!("outcomes of an unknown type")
}
