//! Traces for a read-write lock.

use lockage_core::rw_lock::Mode;
use proptest::prelude::*;

use super::{Action, Ask, Op, Who};
use crate::key::MAX_TIME_US;
use crate::play;

/// Returns traces of up to `max_steps`, also with a clock that goes back.
pub fn any_trace(max_steps: usize) -> BoxedStrategy<play::Trace<Ask>> {
    (any::<bool>(), prop::bool::weighted(0.3), prop::bool::weighted(0.2))
        .prop_flat_map(move |(backwards, hasty, is_brisk)| match is_brisk {
            true => play::brisk(brisk(), max_steps),
            false => play::trace(ask(hasty), max_steps, backwards),
        })
        .boxed()
}

/// Returns operations of one reader with many holds, each of which is soon released.
fn brisk() -> BoxedStrategy<Ask> {
    let within = prop_oneof![0..=60_i64, 1_000..=3_000_i64];
    let acquire = (any::<u128>(), within).prop_map(|(hold, us)| {
        let (lease_us, not_after_us, waits_us) = (1 << 40, MAX_TIME_US, 0);
        let action = Action::Acquire { hold, lease_us, not_after_us, waits_us };
        Ask::Within(Op { who: (0xa11ce, Mode::Read), action }, us)
    });
    let release = (0..2_usize).prop_map(|which| Ask::ReleaseHeld(which, 1 << 40));
    let again = (0..40_usize, 0..=2_u64).prop_map(|(back, by_us)| Ask::Again(back, by_us));
    prop_oneof![4 => acquire, 4 => release, 1 => again].boxed()
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
    let within = prop_oneof![-2..=2_i64, 0..=40_i64, 100..=3_000_i64];
    let operation = (who, action, 0..14_u8, -2..=2_i64, within).prop_map(
        |(who, action, form, offset, within)| {
            let op = Op { who, action };
            match form {
                0..=3 => Ask::Plain(op),
                4 | 5 => Ask::OtherMode(op),
                6 | 7 => Ask::Token(op, 0),
                8 => Ask::Token(op, offset),
                _ => Ask::Within(op, within),
            }
        },
    );
    let held = (0..100_usize, span()).prop_map(|(which, us)| Ask::ReleaseHeld(which, us));
    let again = (0..9_usize, 0..=2_u64).prop_map(|(back, by_us)| Ask::Again(back, by_us));
    prop_oneof![8 => operation, 2 => held, 1 => again].boxed()
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
    any_trace(max_steps).prop_map(play::Trace::forward).boxed()
}
