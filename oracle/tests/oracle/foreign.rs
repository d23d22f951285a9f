//! Somebody else's script in the simulated store: the kind that people copy, with the bugs that
//! people copy.

use lockage_sim::store::{RespValue, SimStore};

use lockage_oracle::config::Config;
use lockage_oracle::key::time;
use lockage_oracle::subject::{Answer, Op, Outcome, Subject, Verdict};

/// A fresh key under a script that decides by itself and replies `{admitted, remaining}`.
#[derive(Debug)]
pub(crate) struct Foreign {
    store: SimStore,
    source: String,
    config: Config,
    tick_us: u64,
}

impl Foreign {
    /// Returns a key under `config`, decided by `source`. One tick of the trace's time is `tick_us`
    /// microseconds of the store's: such scripts count in seconds or milliseconds.
    ///
    /// # Panics
    /// When Lua cannot get memory.
    pub(crate) fn new(source: impl Into<String>, config: Config, tick_us: u64) -> Self {
        let store = SimStore::new().expect("Lua gets its memory");
        Foreign { store, source: source.into(), config, tick_us }
    }

    fn decide(&mut self, cost: u64, charge: bool) -> Result<Answer, String> {
        let Config { amount, span_us, burst, .. } = self.config;
        let numbers = [burst, amount, span_us, self.tick_us, cost, charge.into()];
        let arguments: Vec<String> = numbers.iter().map(u64::to_string).collect();
        let arguments: Vec<&[u8]> = arguments.iter().map(String::as_bytes).collect();
        let reply = self.store.eval(&self.source, &[b"key"], &arguments);
        let reply = reply.map_err(|error| error.to_string())?;
        let RespValue::Array(numbers) = &reply else { return Err(format!("{reply:?}")) };
        let [RespValue::Integer(admitted), RespValue::Integer(remaining)] = numbers[..] else {
            return Err(format!("{reply:?}"));
        };
        let verdict = match admitted {
            0 if cost > burst => Verdict::Never,
            // Such scripts do not say when, or only roughly.
            0 => Verdict::Denied { retry_after_us: 0 },
            _ => Verdict::Allowed,
        };
        let remaining = u64::try_from(remaining).map_err(|_| format!("{remaining} remain"))?;
        Ok(Answer::single(verdict, burst, remaining, 0))
    }
}

impl Subject for Foreign {
    fn run(&mut self, op: &Op, now_us: u64) -> Outcome {
        self.store.set_now(time(now_us * self.tick_us));
        let (costs, charge) = match op {
            Op::Acquire(cost) | Op::Request { cost, .. } | Op::TakeTurn { cost, .. } => {
                (vec![*cost], true)
            }
            Op::AcquireEach(costs) => (costs.clone(), true),
            Op::Peek(cost) => (vec![*cost], false),
            Op::CancelTurn(_) => return Outcome::Cancelled(None),
            Op::Adjust { .. } | Op::Change(_) => {
                return Outcome::Refused("such scripts cannot do that".to_owned());
            }
            Op::Reset => {
                self.forget();
                return Outcome::Reset { existed: true };
            }
        };
        let answers: Result<Vec<Answer>, String> =
            costs.into_iter().map(|cost| self.decide(cost, charge)).collect();
        answers.map_or_else(Outcome::Refused, Outcome::Decided)
    }

    fn forget(&mut self) {
        self.store.flush_all();
    }
}
