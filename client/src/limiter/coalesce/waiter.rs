//! Requests that wait for an answer, and the answer of each.

use std::collections::VecDeque;

use futures_channel::oneshot;
use lockage_core::{Decision, ReplyError};

use crate::error::{Error, StoreError};
use crate::limiter::circuit_breaker::Report;

/// The outcome of the requests for one key.
pub(super) type Outcome = Result<Vec<Decision>, Error>;

/// A request that has no answer yet. If it is dropped without one, that is its answer.
pub(super) struct Waiter {
    pub(super) cost: u64,
    pub(super) report: Option<Report>,
    pub(super) is_sent: bool,
    pub(super) answer: Option<oneshot::Sender<Result<Decision, Error>>>,
}

impl Waiter {
    fn answer(mut self, result: Result<Decision, Error>) {
        if let Some(answer) = self.answer.take() {
            // The caller may have left.
            _ = answer.send(result);
        }
    }

    pub(super) fn has_left(&self) -> bool {
        self.answer.as_ref().is_none_or(oneshot::Sender::is_canceled)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let Some(answer) = self.answer.take() else { return };
        let cause = "the runtime of the task that sends requests has ended".into();
        let error =
            if self.is_sent { StoreError::Unknown(cause) } else { StoreError::NotDone(cause) };
        _ = answer.send(Err(error.into()));
    }
}

/// Answers the waiters of one key.
pub(super) fn answer_all(waiters: VecDeque<Waiter>, outcome: Outcome) {
    match outcome {
        Ok(decisions) => {
            let mut decisions = decisions.into_iter();
            for waiter in waiters {
                waiter.answer(decisions.next().ok_or_else(unexpected));
            }
        }
        Err(error) => {
            let again = shared(error);
            waiters.into_iter().for_each(|waiter| waiter.answer(Err(again())));
        }
    }
}

/// Returns the error for each of several callers.
fn shared(error: Error) -> Box<dyn Fn() -> Error> {
    match error {
        Error::Store(error) => {
            let again = error.shared();
            Box::new(move || again().into())
        }
        Error::NoLimit => Box::new(|| Error::NoLimit),
        Error::NoClient => Box::new(|| Error::NoClient),
        other => {
            let cause = other.to_string();
            Box::new(move || StoreError::Unknown(cause.clone().into()).into())
        }
    }
}

pub(super) fn unexpected() -> Error {
    StoreError::from(ReplyError::Unexpected).into()
}
