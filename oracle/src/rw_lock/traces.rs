//! Traces for a read-write lock.

use lockage_core::rw_lock::Mode;
use proptest::prelude::*;

use super::{Action, Ask, Op, Who};
use crate::key::MAX_TIME_US;
use crate::play;

/// Returns traces of up to `max_steps`, also with a clock that goes back.
pub fn any_trace(max_steps: usize) -> BoxedStrategy<play::Trace<Ask>> {
    (any::<bool>(), prop::bool::weighted(0.3))
        .prop_flat_map(move |(backwards, hasty)| play::trace(ask(hasty), max_steps, backwards))
        .boxed()
}

/// Returns operations with few owners and few holds, so that they meet.
pub fn ask(hasty: bool) -> BoxedStrategy<Ask> {
    let who = (
        prop::sample::select(&[0xa11ce_u128, 0, u128::MAX][..]),
        prop_oneof![3 => Just(Mode::Read), 2 => Just(Mode::Write)],
    );
    ask_of(who, move || span(hasty))
}

/// Returns traces of up to `max_steps` of one reader with leases so long that it holds the lock often.
pub fn of_one(max_steps: usize) -> BoxedStrategy<play::Trace<Ask>> {
    let ask = ask_of(Just((0xa11ce, Mode::Read)), || (1_000..=50_000_u64).boxed());
    play::trace(ask, max_steps, false).boxed()
}

fn ask_of(
    who: impl Strategy<Value = Who> + 'static,
    span: impl Fn() -> BoxedStrategy<u64>,
) -> BoxedStrategy<Ask> {
    // Ids differ in their upper half too.
    let hold = || (0..24_u128).prop_map(|id| id << 96 | 0xfeed);
    let waits = prop_oneof![2 => Just(0_u64), 3 => 1..=40_u64, 1 => 100..=3_000_u64];
    let acquire = (hold(), span(), waits).prop_map(|(hold, lease_us, waits_us)| Action::Acquire {
        hold,
        lease_us,
        not_after_us: MAX_TIME_US,
        waits_us,
    });
    let renew = span().prop_map(|lease_us| Action::Renew { token: None, lease_us });
    let release =
        (hold(), span()).prop_map(|(hold, remember_us)| Action::Release { hold, remember_us });
    let action = prop_oneof![9 => acquire, 3 => renew, 3 => release, 1 => Just(Action::Inspect)];
    let operation = (who, action, 0..10_u8, -2..=2_i64).prop_map(|(who, action, form, offset)| {
        let op = Op { who, action };
        match form {
            0..=3 => Ask::Plain(op),
            4 | 5 => Ask::OtherMode(op),
            6 | 7 => Ask::Token(op, 0),
            8 => Ask::Token(op, offset),
            _ => Ask::Within(op, offset),
        }
    });
    let held = (0..100_usize, span()).prop_map(|(which, us)| Ask::ReleaseHeld(which, us));
    prop_oneof![4 => operation, 1 => held].boxed()
}

/// Returns a lease, or a time to remember, in microseconds: tiny, as in a trace, up to the longest. With `hasty`, a key
/// grants more tokens than a lease has microseconds.
fn span(hasty: bool) -> BoxedStrategy<u64> {
    match hasty {
        true => (1..=2_u64).boxed(),
        false => prop_oneof![4 => 1..=20_u64, 4 => 100..=3_000_u64, 1 => Just(1_u64 << 50)].boxed(),
    }
}

/// Returns traces of up to `max_steps`, with a clock that never steps back.
pub fn forward(max_steps: usize) -> BoxedStrategy<play::Trace<Ask>> {
    prop::bool::weighted(0.3)
        .prop_flat_map(move |hasty| play::trace(ask(hasty), max_steps, false))
        .boxed()
}
