//! Shapes of traffic, and their strings.

use std::str::FromStr;
use std::time::Duration;

use lockage_core::Limit;

use super::attack::Attack;
use super::form::{Decimal, Form, ParseTrafficError, Rate, split_word};

/// A shape of traffic: when requests come.
///
/// Parses from strings like those below. All rates except those of [`Constant`](Shape::Constant) are means of random
/// requests, which are a Poisson process unless stated otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shape {
    /// `constant 5/s`: evenly spaced.
    Constant(Rate),
    /// `poisson 5/s`: a Poisson process with this mean rate.
    Poisson(Rate),
    /// `burst 50 every 10s`: many in one instant, repeatedly.
    Burst {
        /// The number per burst.
        size: u64,
        /// The time from one burst to the next.
        every: Duration,
    },
    /// `on-off 100/s for 1s, 1/s for 9s`: two rates by turns, for random times with these means, the first one first. A
    /// Markov-modulated Poisson process (MMPP) of two states (Fischer and Meier-Hellstern, "The Markov-modulated
    /// Poisson process cookbook", 1993).
    OnOff {
        /// The first rate.
        on: Stay,
        /// The second rate.
        off: Stay,
    },
    /// `pareto 5/s tail 1.5`: most gaps are short, and a few are very long. Up to a tail index of 2
    /// their variance is infinite, as it is of real traffic (Paxson and Floyd, "Wide-area traffic:
    /// the failure of Poisson modeling", 1995).
    Pareto {
        /// The mean rate in the long run.
        rate: Rate,
        /// The tail index, 1.1 to 100: a gap is above x with a probability in proportion to x^-tail.
        tail: Decimal,
    },
    /// `diurnal 1/s to 50/s every 1day`: the rate is a sine, from its lowest on.
    Diurnal {
        /// The rate at the beginning and the end of each period.
        low: Rate,
        /// The rate in the middle of each period.
        high: Rate,
        /// The period.
        every: Duration,
    },
    /// `ramp 1/s to 50/s over 5min`: the rate changes linearly, then stays.
    Ramp {
        /// The rate at the beginning.
        from: Rate,
        /// The rate at the end.
        to: Rate,
        /// From the beginning to the end.
        over: Duration,
    },
    /// `steps 1/s for 1min, 10/s for 30s`: one rate after the other, repeated.
    Steps(Vec<Stay>),
    /// `flash-crowd 2/s peak 200/s at 2min half-life 30s`: the rate jumps, and decays exponentially.
    FlashCrowd {
        /// The rate before, and long after.
        base: Rate,
        /// The rate that it jumps to.
        peak: Rate,
        /// When it jumps.
        at: Duration,
        /// The time in which the added rate halves.
        half_life: Duration,
    },
    /// `closed-loop 20 clients think 1s`: each client sends a request, waits for the answer, and thinks for
    /// an exponential time with this mean.
    ClosedLoop {
        /// The number of clients.
        clients: u32,
        /// The mean time from an answer to the next request.
        think: Duration,
    },
    /// `boundary-attack fixed-window 10/60s`: the most that this limit admits.
    BoundaryAttack(Box<Attack>),
}

/// A rate, and how long it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stay {
    /// The rate.
    pub rate: Rate,
    /// How long it lasts.
    pub time: Duration,
}

impl FromStr for Shape {
    type Err = ParseTrafficError;

    fn from_str(text: &str) -> Result<Self, ParseTrafficError> {
        let (kind, rest) = split_word(text);
        let form = |example| Form { text, example };
        match kind.to_ascii_lowercase().as_str() {
            "constant" => Ok(Shape::Constant(form("constant 5/s").rate(rest)?)),
            "poisson" => Ok(Shape::Poisson(form("poisson 5/s").rate(rest)?)),
            "burst" => burst(&form("burst 50 every 10s"), rest),
            "on-off" => on_off(&form("on-off 100/s for 1s, 1/s for 9s"), rest),
            "pareto" => pareto(&form("pareto 5/s tail 1.5"), rest),
            "diurnal" => diurnal(&form("diurnal 1/s to 50/s every 1day"), rest),
            "ramp" => ramp(&form("ramp 1/s to 50/s over 5min"), rest),
            "steps" => steps(&form("steps 1/s for 1min, 10/s for 30s"), rest),
            "flash-crowd" => {
                flash_crowd(&form("flash-crowd 2/s peak 200/s at 2min half-life 30s"), rest)
            }
            "closed-loop" => closed_loop(&form("closed-loop 20 clients think 1s"), rest),
            "boundary-attack" => attack(&form("boundary-attack fixed-window 10/60s"), rest),
            _ => Err(form("poisson 5/s").expected(
                kind.trim_start(),
                "constant, poisson, burst, on-off, pareto, diurnal, ramp, steps, flash-crowd, closed-loop or boundary-attack",
            )),
        }
    }
}

fn burst(form: &Form<'_>, rest: &str) -> Result<Shape, ParseTrafficError> {
    let (size, every) = form.split(rest, "every")?;
    let size = form.number(size, "a whole number of requests")?;
    Ok(Shape::Burst { size, every: form.duration(every)? })
}

fn on_off(form: &Form<'_>, rest: &str) -> Result<Shape, ParseTrafficError> {
    match stays(form, rest)?[..] {
        [on, off] => Ok(Shape::OnOff { on, off }),
        _ => Err(form.expected(rest, "two rates with a comma between them")),
    }
}

fn pareto(form: &Form<'_>, rest: &str) -> Result<Shape, ParseTrafficError> {
    const TAIL: &str = "a tail index from 1.1 to 100";
    let (rate, tail) = form.split(rest, "tail")?;
    let (rate, number) = (form.rate(rate)?, form.decimal(tail, TAIL)?);
    match number.thousandths {
        1100..=100_000 => Ok(Shape::Pareto { rate, tail: number }),
        _ => Err(form.expected(tail, TAIL)),
    }
}

fn diurnal(form: &Form<'_>, rest: &str) -> Result<Shape, ParseTrafficError> {
    let (low, rest) = form.split(rest, "to")?;
    let (high, every) = form.split(rest, "every")?;
    let (low, high) = (form.any_rate(low)?, form.any_rate(high)?);
    not_all_zero(form, &[low, high])?;
    Ok(Shape::Diurnal { low, high, every: form.duration(every)? })
}

fn ramp(form: &Form<'_>, rest: &str) -> Result<Shape, ParseTrafficError> {
    let (from, rest) = form.split(rest, "to")?;
    let (to, over) = form.split(rest, "over")?;
    let (from, to) = (form.any_rate(from)?, form.any_rate(to)?);
    not_all_zero(form, &[from, to])?;
    Ok(Shape::Ramp { from, to, over: form.duration(over)? })
}

fn steps(form: &Form<'_>, rest: &str) -> Result<Shape, ParseTrafficError> {
    Ok(Shape::Steps(stays(form, rest)?))
}

fn flash_crowd(form: &Form<'_>, rest: &str) -> Result<Shape, ParseTrafficError> {
    let (base, rest) = form.split(rest, "peak")?;
    let (peak, rest) = form.split(rest, "at")?;
    let (at, half_life) = form.split(rest, "half-life")?;
    let (base, peak) = (form.any_rate(base)?, form.any_rate(peak)?);
    not_all_zero(form, &[base, peak])?;
    let (at, half_life) = (form.any_duration(at)?, form.duration(half_life)?);
    Ok(Shape::FlashCrowd { base, peak, at, half_life })
}

fn closed_loop(form: &Form<'_>, rest: &str) -> Result<Shape, ParseTrafficError> {
    const CLIENTS: &str = "a whole number of clients below 2^32";
    let (number, rest) = form.split(rest, "clients")?;
    let clients = u32::try_from(form.number(number, CLIENTS)?);
    let clients = clients.map_err(|_| form.expected(number, CLIENTS))?;
    let (word, think) = split_word(rest);
    match word.eq_ignore_ascii_case("think") {
        true => Ok(Shape::ClosedLoop { clients, think: form.duration(think)? }),
        false => Err(form.expected(rest, "think")),
    }
}

fn attack(form: &Form<'_>, rest: &str) -> Result<Shape, ParseTrafficError> {
    let limit: Limit = rest.parse().map_err(|error| form.part(rest, "a limit", error))?;
    let attack = Attack::on(&limit).ok_or_else(|| form.expected(rest, "a limit that is known"))?;
    Ok(Shape::BoundaryAttack(Box::new(attack)))
}

/// Reads rates with commas between them, each `for` a time.
fn stays(form: &Form<'_>, rest: &str) -> Result<Vec<Stay>, ParseTrafficError> {
    let stay = |piece| {
        let (rate, time) = form.split(piece, "for")?;
        Ok(Stay { rate: form.any_rate(rate)?, time: form.duration(time)? })
    };
    let stays: Vec<Stay> = rest.split(',').map(stay).collect::<Result<_, _>>()?;
    let rates: Vec<Rate> = stays.iter().map(|stay| stay.rate).collect();
    not_all_zero(form, &rates)?;
    Ok(stays)
}

fn not_all_zero(form: &Form<'_>, rates: &[Rate]) -> Result<(), ParseTrafficError> {
    form.not_zero("rate", rates.iter().all(|rate| rate.amount == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(amount: u64) -> Rate {
        Rate { amount, per: Duration::from_secs(1) }
    }

    fn stay(amount: u64, seconds: u64) -> Stay {
        Stay { rate: rate(amount), time: Duration::from_secs(seconds) }
    }

    #[test]
    fn shapes_are_read_as_people_write_them() {
        let seconds = Duration::from_secs;
        for (text, expected) in [
            ("constant 5/s", Shape::Constant(rate(5))),
            ("  Constant 5 per second ", Shape::Constant(rate(5))),
            ("poisson 5/1000ms", Shape::Poisson(rate(5))),
            ("burst 50 every 10s", Shape::Burst { size: 50, every: seconds(10) }),
            ("burst 1_000 every 1h30m", Shape::Burst { size: 1000, every: seconds(5400) }),
            ("on-off 100/s for 1s, 0/s for 9s", Shape::OnOff { on: stay(100, 1), off: stay(0, 9) }),
            (
                "pareto 5/s tail 1.5",
                Shape::Pareto { rate: rate(5), tail: Decimal { thousandths: 1500 } },
            ),
            (
                "diurnal 1 per s to 50/s every 1min",
                Shape::Diurnal { low: rate(1), high: rate(50), every: seconds(60) },
            ),
            (
                "ramp 0/s to 50/s over 5min",
                Shape::Ramp { from: rate(0), to: rate(50), over: seconds(300) },
            ),
            (
                "closed-loop 20 clients think 1s",
                Shape::ClosedLoop { clients: 20, think: seconds(1) },
            ),
            ("steps 1/s for 1min", Shape::Steps(vec![stay(1, 60)])),
            (
                "steps 1/s for 1min,10/s for 30s , 0/s for 1s",
                Shape::Steps(vec![stay(1, 60), stay(10, 30), stay(0, 1)]),
            ),
            (
                "flash-crowd 2/s peak 200/s at 0s half-life 30s",
                Shape::FlashCrowd {
                    base: rate(2),
                    peak: rate(200),
                    at: seconds(0),
                    half_life: seconds(30),
                },
            ),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn invalid_shapes_are_refused_with_position_and_expectation() {
        for (text, expected) in [
            ("", "column 1: expected constant"),
            ("zigzag 5/s", "found \"zigzag\""),
            ("constant", "column 9: expected a rate, as in constant 5/s"),
            ("constant 5", "column 10: expected a rate"),
            ("constant x/s", "whole number"),
            ("constant -5/s", "whole number"),
            ("constant 1.5/s", "whole number"),
            ("poisson 5/fortnight", "found \"fortnight\""),
            ("poisson nan/s", "whole number"),
            ("constant 0/s", "a rate of zero"),
            ("constant 5/0s", "a duration of zero"),
            ("burst", "column 6: expected every, as in burst 50 every 10s"),
            ("burst many every 10s", "column 7: expected a whole number of requests"),
            ("burst _ every 10s", "a whole number of requests"),
            ("burst 50", "column 9: expected every"),
            ("burst 50 10s", "column 10: expected every"),
            ("burst 50 every", "column 15: expected a duration"),
            ("burst 50 every now", "found \"now\""),
            ("burst 0 every 10s", "a number of zero"),
            ("burst 5 every 0s", "a duration of zero"),
            ("burst 99999999999999999999 every 10s", "a whole number of requests"),
            ("constant 5/s and more", "and"),
            ("on-off 5/s for 1s", "column 8: expected two rates"),
            ("on-off 5/s for 1s, 1/s", "column 23: expected for"),
            ("on-off 5/s for 1s, 1/s during 1s", "column 24: expected for"),
            ("on-off 0/s for 1s, 0/s for 1s", "a rate of zero"),
            ("on-off 5/s for 1s, 1/s for 0s", "a duration of zero"),
            ("steps", "expected for, as in steps"),
            ("steps 1/s for 1s,", "column 18: expected for"),
            ("steps 1/s for x", "column 15: expected a duration"),
            ("pareto 5/s", "column 11: expected tail"),
            ("pareto 5/s tail 1", "column 17: expected a tail index from 1.1 to 100"),
            ("pareto 5/s tail x", "column 17: expected a tail index from 1.1 to 100"),
            ("pareto 0/s tail 2", "a rate of zero"),
            ("diurnal 1/s", "column 12: expected to"),
            ("diurnal 1/s to 5/s", "column 19: expected every"),
            ("diurnal 0/s to 0/s every 1h", "a rate of zero"),
            ("ramp 1/s to 5/s every 1h", "column 17: expected over"),
            ("ramp 1/s to 5/s over 0s", "a duration of zero"),
            ("flash-crowd 2/s at 5s", "column 17: expected peak"),
            ("flash-crowd 2/s peak 9/s at 5s", "column 31: expected half-life"),
            ("flash-crowd 2/s peak 9/s at x half-life 1s", "column 29: expected a duration"),
            ("closed-loop 20", "column 15: expected clients"),
            ("closed-loop 0 clients think 1s", "a number of zero"),
            ("closed-loop 4294967296 clients think 1s", "column 13: expected a whole number"),
            ("closed-loop 20 clients 1s", "column 24: expected think"),
            ("closed-loop 20 clients think 0s", "a duration of zero"),
            ("boundary-attack", "column 16: expected a limit"),
            ("boundary-attack fixed-window 10", "column 17: expected a limit"),
        ] {
            let error = text.parse::<Shape>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
