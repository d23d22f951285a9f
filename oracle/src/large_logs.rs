//! Logs of thousands of entries, in chunks: one machine in three places.

use std::time::Duration;

use lockage_core::{
    Acquire, AcquireEach, Adjust, Command, Limit, Peek, RequestId, Reservation, Settle, Timestamp,
};

use crate::key::{Holds, time};
use crate::properties::{Check, require};

/// A log alone, two that share their entries, and one with a counter.
pub const LIMITS: [&str; 3] = [
    "sliding-log 6000/20ms",
    "sliding-log 4000/30ms + sliding-log 1500/4ms",
    "fixed-window 9000/5ms + sliding-log 5000/15ms",
];

/// How many commands come between two comparisons of all that is stored.
const LOOKS_EACH: usize = 97;

const HOLD: Duration = Duration::from_millis(9);

/// Checks that two keys answer and hold the same for commands that follow from the seed. With `reserves`, most of them
/// make reservations and settle them.
///
/// # Errors
/// The first difference.
pub fn equals_the_model(
    model: &mut impl Holds,
    other: &mut impl Holds,
    limit: Limit,
    (seed, reserves, steps): (u64, bool, usize),
) -> Check {
    let mut traffic =
        Traffic { limit, state: seed, now_us: 1_763_700_000_000_000, open: Vec::new() };
    for step in 0..steps {
        let [answer, expected] = traffic.step(reserves, model, other);
        require(answer == expected, || format!("step {step}: {answer}, not {expected}"))?;
        if step % LOOKS_EACH == 0 {
            let (held, expected) = (other.held(), model.held());
            require(held == expected, || format!("step {step}: holds {held:?}, not {expected:?}"))?;
        }
    }
    Ok(())
}

struct Traffic {
    limit: Limit,
    state: u64,
    now_us: u64,
    open: Vec<Reservation>,
}

impl Traffic {
    fn below(&mut self, bound: u64) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.state >> 33) % bound
    }

    /// Returns the answers of the other key and the model to the next command.
    fn step(
        &mut self,
        reserves: bool,
        model: &mut impl Holds,
        other: &mut impl Holds,
    ) -> [String; 2] {
        self.now_us += self.below(6);
        if self.below(400) == 0 {
            self.now_us -= self.below(9);
        }
        if self.below(1500) == 0 {
            self.now_us += self.below(40_000);
        }
        let (limit, now) = (self.limit, time(self.now_us));
        let (capacity, cost) = (limit.capacity(), 1 + self.below(3));
        let high = 1 + self.below(capacity + 1);
        let chosen = self.below(1000);
        if reserves && chosen < 500 {
            let id = RequestId::from_u128(1 + u128::from(self.below(1 << 31)));
            let acquire = Acquire::new(limit, cost).expect("above zero");
            let reserve = acquire.reserve(id, HOLD).expect("in range");
            let reserved = model.execute(&reserve, now);
            self.open.extend(reserved.iter().filter_map(|it| it.reservation));
            return [format!("{:?}", other.execute(&reserve, now)), format!("{reserved:?}")];
        }
        if reserves && chosen < 950 && !self.open.is_empty() {
            let open = self.open.len() as u64;
            let place = self.below(open) as usize;
            let reservation = self.open.swap_remove(place);
            let actual = self.below(reservation.cost + 1) / 2;
            let settle = Settle::new(limit, &reservation, actual);
            return both(&settle, now, model, other);
        }
        match chosen {
            0..6 => {
                let costs = [high, 1, 1 + self.below(capacity), high];
                both(&AcquireEach::new(limit, costs.to_vec()).expect("few"), now, model, other)
            }
            6..20 => both(&Peek::new(limit, high), now, model, other),
            20..25 => {
                let bound = 1 + self.below(capacity / 2);
                let refund = 1 + self.below(bound);
                both(&Adjust::refund(limit, refund).expect("above zero"), now, model, other)
            }
            25..35 => both(&Adjust::refund(limit, cost).expect("above zero"), now, model, other),
            35..37 => both(&Adjust::penalty(limit, high).expect("above zero"), now, model, other),
            _ => both(&Acquire::new(limit, cost).expect("above zero"), now, model, other),
        }
    }
}

fn both<C: Command<Outcome: std::fmt::Debug>>(
    command: &C,
    now: Timestamp,
    model: &mut impl Holds,
    other: &mut impl Holds,
) -> [String; 2] {
    let expected = format!("{:?}", model.execute(command, now));
    [format!("{:?}", other.execute(command, now)), expected]
}
