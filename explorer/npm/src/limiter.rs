//! The limiter: one limit and its keys, in a module instance of its own.

use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockage_core::{
    Acquire, Adjust, Clock, Decision, DenialReason, Limit, Peek, Reset, Timestamp, Verdict,
};
use lockage_memory::{MemoryError, MemoryStore};

use crate::abi::{answer, answer_numbers, with_input};

/// The time of the call: the page has the clock.
#[derive(Clone, Default)]
struct Now(Arc<AtomicU64>);

impl Clock for Now {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::Relaxed)).unwrap_or(Timestamp::MAX)
    }
}

struct Limiter {
    limit: Limit,
    store: MemoryStore<Now>,
    now: Now,
}

thread_local! {
    static LIMITER: OnceCell<Limiter> = const { OnceCell::new() };
}

/// The success result of a call; other results are the length of a message.
const DONE: i32 = 0;

/// Creates the limiter from the limit in the input, once for each instance. Returns 0 with the
/// canonical text of the limit in the output, and its length as the first number; or the length of
/// the error message, with the column as the first number.
#[unsafe(no_mangle)]
extern "C" fn create() -> i32 {
    let limit = with_input(|text| String::from_utf8_lossy(text).parse::<Limit>());
    let limit = match limit {
        Ok(limit) if limit.has_calendar() => {
            answer_numbers([1.0]);
            return answer("a calendar-window needs time zones, which this package does not have");
        }
        Ok(limit) => limit,
        Err(error) => {
            answer_numbers([error.column() as f64]);
            return answer(error.to_string());
        }
    };
    let now = Now::default();
    let store = MemoryStore::with_clock(now.clone());
    LIMITER.with(|limiter| limiter.set(Limiter { limit, store, now }).ok());
    answer_numbers([f64::from(answer(limit.to_string()))]);
    DONE
}

/// Decides a cost at this time, in microseconds, for the key in the input, and charges it if
/// `charges`.
#[unsafe(no_mangle)]
extern "C" fn decide(cost: f64, now: f64, charges: bool) -> i32 {
    run(now, |limiter, key| {
        let decision = match charges {
            true => {
                let acquire = match Acquire::new(limiter.limit, cost as u64) {
                    Ok(acquire) => acquire,
                    Err(error) => return Ok(answer(error.to_string())),
                };
                limiter.store.run(key, &acquire)?
            }
            false => limiter.store.run(key, &Peek::new(limiter.limit, cost as u64))?,
        };
        tell(&decision, 0.0);
        Ok(DONE)
    })
}

/// Adjusts the key in the input: `amount` is a cost, or for a block a span in microseconds.
#[unsafe(no_mangle)]
extern "C" fn adjust(what: u32, amount: f64, now: f64) -> i32 {
    run(now, |limiter, key| {
        let (limit, amount) = (limiter.limit, amount as u64);
        let adjust = match what {
            0 => Adjust::take_up_to(limit, amount).map_err(|error| error.to_string()),
            1 => Adjust::refund(limit, amount).map_err(|error| error.to_string()),
            2 => Adjust::penalty(limit, amount).map_err(|error| error.to_string()),
            3 => Adjust::block(limit, Duration::from_micros(amount))
                .map_err(|error| error.to_string()),
            _ => Ok(Adjust::unblock(limit)),
        };
        match adjust {
            Ok(adjust) => {
                let adjusted = limiter.store.run(key, &adjust)?;
                tell(&adjusted.after, adjusted.amount as f64);
                Ok(DONE)
            }
            Err(error) => Ok(answer(error)),
        }
    })
}

/// Forgets the key in the input. The first number says whether anything was stored.
#[unsafe(no_mangle)]
extern "C" fn reset(now: f64) -> i32 {
    run(now, |limiter, key| {
        let was_stored = limiter.store.run(key, &Reset)?;
        answer_numbers([f64::from(was_stored)]);
        Ok(DONE)
    })
}

/// Drops every expired key, and returns how many are left.
#[unsafe(no_mangle)]
extern "C" fn purge(now: f64) -> usize {
    with_limiter(now, |limiter| {
        limiter.store.purge();
        limiter.store.len()
    })
}

/// Returns how many keys are stored.
#[unsafe(no_mangle)]
extern "C" fn size() -> usize {
    with_limiter(0.0, |limiter| limiter.store.len())
}

fn with_limiter<T>(now: f64, run: impl FnOnce(&Limiter) -> T) -> T {
    LIMITER.with(|limiter| {
        let limiter = limiter.get().expect("the page creates it first");
        limiter.now.0.store(now as u64, Ordering::Relaxed);
        run(limiter)
    })
}

fn run(now: f64, run: impl FnOnce(&Limiter, &str) -> Result<i32, MemoryError>) -> i32 {
    let run = |key: &[u8]| {
        with_limiter(now, |limiter| run(limiter, std::str::from_utf8(key).unwrap_or_default()))
    };
    with_input(run).unwrap_or_else(|error| answer(error.to_string()))
}

/// Writes a decision to the numbers: whether it admits (1), denies (0), for a block (2) or for ever
/// (3); the limit, the remaining permits; the times to the retry, the reset and the turn, in microseconds;
/// which limit of several binds, or -1; and how much was adjusted.
fn tell(decision: &Decision, amount: f64) {
    let micros = |span: Duration| span.as_micros() as f64;
    let (verdict, retry_after) = match decision.verdict {
        Verdict::Allowed => (1.0, Duration::ZERO),
        Verdict::Denied { retry_after, reason: DenialReason::Blocked } => (2.0, retry_after),
        Verdict::Denied { retry_after, .. } => (0.0, retry_after),
        Verdict::Never => (3.0, Duration::ZERO),
    };
    answer_numbers([
        verdict,
        decision.limit as f64,
        decision.remaining as f64,
        micros(retry_after),
        micros(decision.reset_after),
        micros(decision.turn_after),
        decision.binding.map_or(-1.0, |index| index as f64),
        amount,
    ]);
}
