//! What a limiter is asked, and what it answers.

use std::sync::Arc;
use std::time::Duration;

use lockage_core::{
    Acquire, AcquireEach, Adjust, CancelTurn, Cancellation, Decision, Peek, RequestId, Reservation,
    SetLimit, Settle, Settlement, TakeTurn, Verdict,
};

use super::job::{Adjustment, LIST, Setting};
use super::message::short;
use super::scenario::{Limiter, Place};
use super::server::{Operation, Outcome};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LimiterAsk {
    /// Under which of two limits, where the caller says that.
    pub(super) is_other: bool,
    pub(super) what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    Acquire { cost: u64, id: Option<RequestId>, patience: Duration },
    AcquireEach { costs: [u64; LIST] },
    TakeTurn { cost: u64, id: Option<RequestId> },
    Cancel(Arc<CancelTurn>),
    Peek { cost: u64 },
    Adjust { adjustment: Adjustment, amount: u64, id: Option<RequestId> },
    Reserve { cost: u64, id: RequestId, hold_us: u64 },
    Settle { reservation: Reservation, actual: u64 },
    Set(Setting),
}

impl LimiterAsk {
    /// The key beside its own that it works on.
    pub(super) fn beside(&self) -> Option<RequestId> {
        match &self.what {
            What::Reserve { id, .. } => Some(*id),
            What::Settle { reservation, .. } => Some(reservation.id),
            _ => None,
        }
    }

    pub(super) fn operation(&self, limiter: &Limiter) -> Operation {
        let limit = limiter.which(self.is_other);
        let remember = Duration::from_micros(limiter.remember_us);
        let (above_zero, in_range) = ("costs are at least 1", "far from its bounds");
        let operation = match &self.what {
            What::Cancel(cancel) => return Operation::Cancel(cancel.clone()),
            &What::TakeTurn { cost, id } => {
                let acquire = Acquire::new(limit, cost).expect(above_zero);
                return Operation::TakeTurn(TakeTurn::new(match id {
                    Some(id) => acquire.with_request(id, remember).expect(in_range),
                    None => acquire,
                }));
            }
            &What::Acquire { cost, id, patience } => {
                let acquire = Acquire::new(limit, cost).expect(above_zero).within(patience);
                Operation::Acquire(match id {
                    Some(id) => acquire.with_request(id, remember).expect(in_range),
                    None => acquire,
                })
            }
            What::AcquireEach { costs } => {
                let costs = each(costs).collect();
                Operation::AcquireEach(AcquireEach::new(limit, costs).expect(above_zero))
            }
            &What::Peek { cost } => Operation::Peek(Peek::new(limit, cost)),
            &What::Adjust { adjustment, amount, id } => {
                let adjust = match adjustment {
                    Adjustment::TakeUpTo => Adjust::take_up_to(limit, amount).expect(above_zero),
                    Adjustment::Refund => Adjust::refund(limit, amount).expect(above_zero),
                    Adjustment::Penalty => Adjust::penalty(limit, amount).expect(above_zero),
                    Adjustment::Block => {
                        Adjust::block(limit, Duration::from_micros(amount)).expect(in_range)
                    }
                    Adjustment::Unblock => Adjust::unblock(limit),
                };
                Operation::Adjust(match id {
                    Some(id) => adjust.with_request(id, remember).expect(in_range),
                    None => adjust,
                })
            }
            &What::Reserve { cost, id, hold_us } => {
                let acquire = Acquire::new(limit, cost).expect(above_zero);
                let hold = Duration::from_micros(hold_us);
                Operation::Reserve(acquire.reserve(id, hold).expect(in_range))
            }
            What::Settle { reservation, actual } => {
                Operation::Settle(Settle::new(limit, reservation, *actual))
            }
            What::Set(setting) => {
                let limit = limiter.stored(self.is_other);
                return Operation::SetLimit(match setting {
                    Setting::Keep => SetLimit::new(limit),
                    Setting::IfAbsent => SetLimit::if_absent(limit),
                    Setting::Afresh => SetLimit::afresh(limit),
                });
            }
        };
        let command = || Box::new(operation.clone());
        match limiter.place {
            Place::WithCallers => operation,
            Place::Stored => Operation::WithStoredLimit { command: command(), default: None },
            Place::StoredOrDefault => {
                let default = Some(limiter.stored(self.is_other));
                Operation::WithStoredLimit { command: command(), default }
            }
        }
    }

    /// As the client says it: see [`lockage_core::Command::is_repeatable`].
    pub(super) fn is_repeatable(&self) -> bool {
        match &self.what {
            What::Acquire { id, .. } | What::TakeTurn { id, .. } | What::Adjust { id, .. } => {
                id.is_some()
            }
            What::AcquireEach { .. } | What::Cancel(_) => false,
            What::Peek { .. } | What::Reserve { .. } | What::Settle { .. } => true,
            What::Set(setting) => *setting == Setting::Keep,
        }
    }

    /// Whether it changes nothing.
    pub(super) fn only_asks(&self) -> bool {
        matches!(self.what, What::Peek { .. })
    }

    /// Which of the scripts of a key it needs.
    pub(super) fn script(&self) -> u8 {
        match self.what {
            What::Acquire { .. } | What::AcquireEach { .. } | What::TakeTurn { .. } => 4,
            What::Peek { .. } => 8,
            What::Adjust { .. } => 9,
            What::Reserve { .. } => 10,
            What::Settle { .. } => 11,
            What::Set(_) => 12,
            What::Cancel(_) => 15,
        }
    }

    pub(super) fn words(&self) -> String {
        let other = if self.is_other { ", under the other limit" } else { "" };
        let named = |id: Option<RequestId>| {
            id.map_or(String::new(), |id| format!(" {}", short(id.as_u128())))
        };
        let words = match &self.what {
            What::TakeTurn { cost, id } => format!("turn{} of cost {cost}", named(*id)),
            What::Cancel(_) => "give the turn back".to_owned(),
            What::Acquire { cost, id, .. } => format!("permit{} of cost {cost}", named(*id)),
            What::AcquireEach { costs } => {
                let costs: Vec<String> = each(costs).map(|cost| cost.to_string()).collect();
                format!("permits of costs {}", costs.join(", "))
            }
            What::Peek { cost } => format!("peek for {cost}"),
            What::Adjust { adjustment, amount, id } => {
                let what = match adjustment {
                    Adjustment::TakeUpTo => format!("take up to {amount}"),
                    Adjustment::Refund => format!("refund {amount}"),
                    Adjustment::Penalty => format!("penalty of {amount}"),
                    Adjustment::Block => format!("block for {amount} us"),
                    Adjustment::Unblock => "unblock".to_owned(),
                };
                format!("{what}{}", named(*id))
            }
            What::Reserve { cost, id, hold_us } => {
                format!("reserve{} of {cost} for {hold_us} us", named(Some(*id)))
            }
            What::Settle { reservation, actual } => {
                format!("settle{} with {actual}", named(Some(reservation.id)))
            }
            What::Set(Setting::Keep) => "store the limit".to_owned(),
            What::Set(Setting::IfAbsent) => "store the limit, where none is".to_owned(),
            What::Set(Setting::Afresh) => "store the limit, and forget all else".to_owned(),
        };
        words + other
    }
}

/// The costs of a list.
pub(super) fn each(costs: &[u64; LIST]) -> impl Iterator<Item = u64> {
    costs.iter().copied().filter(|cost| *cost > 0)
}

impl Outcome {
    /// What came of it, whether or not the limit is stored.
    pub(super) fn inner(&self) -> &Outcome {
        match self {
            Outcome::Under { outcome, .. } => outcome,
            outcome => outcome,
        }
    }

    /// The decision, of a call that is told one.
    pub(super) fn decision(&self) -> Option<&Decision> {
        match self.inner() {
            Outcome::Decision(decision) | Outcome::Turn { decision, .. } => Some(decision),
            Outcome::Reserved(reserved) => Some(&reserved.decision),
            _ => None,
        }
    }
}

/// In words, for a timeline.
pub(super) fn words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Decision(decision) | Outcome::Turn { decision, .. } => decided(decision),
        Outcome::Cancelled(Cancellation::GivenBack) => "given back".to_owned(),
        Outcome::Cancelled(Cancellation::NotLast) => "refused, others came since".to_owned(),
        Outcome::Cancelled(Cancellation::TooLate) => "refused, it has come".to_owned(),
        Outcome::Decisions(decisions) => {
            decisions.iter().map(decided).collect::<Vec<_>>().join("; ")
        }
        Outcome::Reserved(reserved) => decided(&reserved.decision),
        Outcome::Adjusted(adjusted) => {
            format!("done, {}; {} left", adjusted.amount, adjusted.after.remaining)
        }
        Outcome::Settled(Settlement::Settled { amount, after }) => {
            format!("settled, {amount}; {} left", after.remaining)
        }
        Outcome::Settled(Settlement::AlreadySettled) => "settled before, otherwise".to_owned(),
        Outcome::Settled(Settlement::Expired) => "refused, it has expired".to_owned(),
        Outcome::Settled(_) => "refused, it is not known".to_owned(),
        Outcome::Set(true) => "stored".to_owned(),
        Outcome::Set(false) => "not stored: there is one".to_owned(),
        Outcome::NoLimit => "refused, no limit is stored".to_owned(),
        Outcome::PerClient(limit) => format!("it is {limit}"),
        Outcome::Under { limit, outcome } => {
            format!("{}, under {}", words(outcome), limit.limit())
        }
        _ => "refused, the id was used".to_owned(),
    }
}

fn decided(decision: &Decision) -> String {
    let verdict = match decision.verdict {
        Verdict::Allowed => "admitted".to_owned(),
        Verdict::Denied { retry_after, .. } => {
            format!("denied, for {} us", retry_after.as_micros())
        }
        Verdict::Never => "never".to_owned(),
    };
    format!("{verdict}, {} left", decision.remaining)
}
