//! A caller's requests, and the answer.

use std::slice::{from_mut, from_ref};
use std::time::Duration;

use lockage_core::{
    Acquire, AcquireEach, Cost, Decision, Peek, RequestId, Reserve, Reserved, Turn,
};

use super::limit_source::LimitSource;
use crate::error::Error;
use crate::key::Key;

/// Asks for decisions on requests of one id.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) id: &'a str,
    pub(super) key: &'a Key,
    pub(super) source: &'a LimitSource,
    /// One, or several with [`Mode::Each`].
    pub(super) costs: &'a [Cost],
    pub(super) mode: Mode<'a>,
    /// How long the caller waits to be admitted, beyond which a denial is final.
    pub(super) patience: Duration,
    /// The latest turn that the caller takes, if there may be turns.
    pub(super) latest_turn: Option<Duration>,
    /// Names the request for that long: the store treats all calls with one name as one.
    pub(super) name: Option<(RequestId, Duration)>,
    /// Whether it must not wait for the calls of others.
    pub(super) goes_alone: bool,
}

/// How requests are decided. Commands were checked, and stand for the limit that the limiter has.
#[derive(Clone, Copy)]
pub(super) enum Mode<'a> {
    /// Admits a request. Its command is made when it is sent, since copies of a limit take time.
    Acquire,
    /// Admits a request that its caller named, and that may have been made before.
    Repeat(&'a Acquire),
    /// Admits several requests, each by itself.
    Each(&'a AcquireEach),
    /// Decides, and charges nothing.
    Peek(&'a Peek),
    /// Admits a request to a turn that can be given back.
    TakeTurn(&'a Acquire),
    /// Admits a request that only the store can keep.
    Reserve(&'a Reserve),
}

impl Mode<'_> {
    /// Returns whether admitted requests are charged.
    pub(super) fn charges(self) -> bool {
        !matches!(self, Mode::Peek(_))
    }
}

impl<'a> Ask<'a> {
    pub(super) fn new(
        id: &'a str,
        key: &'a Key,
        source: &'a LimitSource,
        costs: &'a [Cost],
        mode: Mode<'a>,
    ) -> Self {
        let (patience, latest_turn, name, goes_alone) = (Duration::ZERO, None, None, false);
        Ask { id, key, source, costs, mode, patience, latest_turn, name, goes_alone }
    }

    /// Makes it the call of a caller that waits for `patience` and takes no later turn. Where there may be turns it goes
    /// alone, since callers that share a call share its latest turn.
    pub(super) fn within(self, patience: Duration) -> Self {
        match self.source.may_have_turns() {
            false => Ask { patience, ..self },
            true => Ask { patience, latest_turn: Some(patience), goes_alone: true, ..self },
        }
    }

    /// Returns whether no answer but the store's will do.
    pub(super) fn needs_store(&self) -> bool {
        matches!(self.mode, Mode::Reserve(_))
    }

    /// Returns whether a known denial answers it, and callers in line come before it. A peek does not wait, and a
    /// repetition may have been admitted before.
    pub(super) fn takes_known_denial(&self) -> bool {
        matches!(self.mode, Mode::Acquire | Mode::Each(_) | Mode::TakeTurn(_))
    }

    /// Returns whether the limiter names it, so that it can be retried.
    pub(super) fn wants_name(&self) -> bool {
        matches!(self.mode, Mode::Acquire | Mode::TakeTurn(_)) && self.name.is_none()
    }

    /// Returns the cost of a request that can share a call.
    pub(super) fn shared_cost(&self) -> Option<u64> {
        self.single_cost().filter(|_| !self.goes_alone)
    }

    /// Returns the cost of a plain acquire, unless it is by part.
    pub(super) fn single_cost(&self) -> Option<u64> {
        match (self.mode, self.costs) {
            (Mode::Acquire, [cost]) => cost.for_all(),
            _ => None,
        }
    }

    /// Returns the command of a plain acquire.
    #[inline]
    pub(super) fn acquire(&self) -> Result<Acquire, Error> {
        let mut command = Acquire::by_part(self.source.nominal(), self.costs[0])?;
        if let Some(latest) = self.latest_turn {
            command = command.within(latest);
        }
        if let Some((name, window)) = self.name {
            command = command.with_request(name, window)?;
        }
        Ok(command)
    }

    /// Returns the command under the name of this call.
    pub(super) fn named(&self, command: Acquire) -> Result<Acquire, Error> {
        Ok(match self.name {
            Some((name, window)) => command.with_request(name, window)?,
            None => command,
        })
    }
}

/// The decisions on all costs of an [`Ask`]. All calls move one, so its rare parts are in a box.
pub(super) enum Answer {
    One(Decision),
    /// In the order of the costs.
    Each(Vec<Decision>),
    Turn(Box<Turn>),
    Reserved(Box<Reserved>),
}

impl Answer {
    /// Makes the answer of decisions that are not the store's, one for each cost.
    pub(super) fn of(ask: &Ask<'_>, decisions: impl IntoIterator<Item = Decision>) -> Self {
        let mut decisions = decisions.into_iter();
        match ask.mode {
            Mode::Each(_) => Answer::Each(decisions.collect()),
            _ => Answer::One(decisions.next().expect("each cost has a decision")),
        }
    }

    pub(super) fn decisions(&self) -> &[Decision] {
        match self {
            Answer::One(decision) => from_ref(decision),
            Answer::Each(decisions) => decisions,
            Answer::Turn(turn) => from_ref(&turn.decision),
            Answer::Reserved(reserved) => from_ref(&reserved.decision),
        }
    }

    pub(super) fn decisions_mut(&mut self) -> &mut [Decision] {
        match self {
            Answer::One(decision) => from_mut(decision),
            Answer::Each(decisions) => decisions,
            Answer::Turn(turn) => from_mut(&mut turn.decision),
            Answer::Reserved(reserved) => from_mut(&mut reserved.decision),
        }
    }

    /// Returns the decision on the only cost.
    #[inline]
    pub(super) fn decision(self) -> Decision {
        match self {
            Answer::One(decision) => decision,
            Answer::Each(mut decisions) => decisions.pop().expect("each cost has a decision"),
            Answer::Turn(turn) => turn.decision,
            Answer::Reserved(reserved) => reserved.decision,
        }
    }

    pub(super) fn each(self) -> Vec<Decision> {
        match self {
            Answer::Each(decisions) => decisions,
            other => vec![other.decision()],
        }
    }

    pub(super) fn turn(self) -> Turn {
        match self {
            Answer::Turn(turn) => *turn,
            other => other.decision().into(),
        }
    }

    pub(super) fn reserved(self) -> Reserved {
        match self {
            Answer::Reserved(reserved) => *reserved,
            other => other.decision().into(),
        }
    }
}
