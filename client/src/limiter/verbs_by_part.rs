//! The verbs of a limiter with a cost for each part of its limit.

use std::time::Duration;

use lockage_core::{
    Acquire, Adjust, Adjusted, Decision, Peek, RequestId, Reservation, Reserved, Settle, Settlement,
};

use super::Limiter;
use super::ask::{Answer, Mode};
use super::decide::Change;
use super::idempotency::random_id;
use super::part_costs::PartCosts;
use super::verbs::positive;
use crate::error::Error;
use crate::retry_store::HasTimeout;
use crate::store::Store;

/// # A cost for each part
///
/// For limits with several parts that count different things, such as requests and tokens. All parts admit a request, and
/// each is charged its own cost, or nothing is charged. [`Decision::parts`] has the rest of each.
///
/// A limit that is given is checked before anything is sent: unknown names, another number of costs than parts, and
/// different costs for its sliding logs, which share their entries, are [`Error::Cost`]. Under a stored limit, names are
/// those of the limiter's default; costs for other parts than the stored limit has are refused by the store
/// ([`RecordError::OtherParts`](crate::store::RecordError::OtherParts)), and nothing is charged.
impl<S: Store> Limiter<S> {
    /// Admits a request for `id` and charges each part its cost, or changes nothing. Not all costs may be zero.
    #[doc = limiter_example!(under "requests: fixed-window 60/min + tokens: token-bucket 90_000/min":
        r#"let decision = limiter.try_acquire_parts("user:42", &[("requests", 1), ("tokens", 950)]).await?;"#
        "assert_eq!((decision.parts[0].remaining, decision.parts[1].remaining), (59, 89_050));"
        r#"let by_place = limiter.try_acquire_parts("user:42", &[1, 90_000]).await?;"#
        "assert_eq!((by_place.is_allowed(), by_place.binding), (false, Some(1)));"
    )]
    /// # Errors
    /// [`Error`]. A denial is not an error.
    pub async fn try_acquire_parts<'a>(
        &self,
        id: &str,
        costs: impl Into<PartCosts<'a>>,
    ) -> Result<Decision, Error> {
        let cost = positive(self.source.cost(costs.into())?)?;
        self.decide(id, &[cost], Mode::Acquire).await.map(Answer::decision)
    }

    /// Admits a request under an id that the caller chose, as [`Limiter::try_acquire_once`] does.
    ///
    /// # Errors
    /// As there.
    pub async fn try_acquire_parts_once<'a>(
        &self,
        id: &str,
        costs: impl Into<PartCosts<'a>>,
        request: RequestId,
        window: Duration,
    ) -> Result<Decision, Error> {
        let cost = self.source.cost(costs.into())?;
        let command = Acquire::by_part(self.source.nominal(), cost)?;
        let command = command.with_request(request, window)?;
        self.decide(id, &[cost], Mode::Repeat(&command)).await.map(Answer::decision)
    }

    /// Returns the decision that [`Limiter::try_acquire_parts`] would make now, and charges nothing.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn peek_parts<'a>(
        &self,
        id: &str,
        costs: impl Into<PartCosts<'a>>,
    ) -> Result<Decision, Error> {
        let cost = self.source.cost(costs.into())?;
        let command = Peek::by_part(self.source.nominal(), cost);
        self.decide(id, &[cost], Mode::Peek(&command)).await.map(Answer::decision)
    }

    /// Admits a request for `id` and charges each part an estimate, as [`Limiter::reserve_as`] does.
    /// [`Limiter::commit_parts`] corrects each part by itself.
    ///
    /// # Errors
    /// As there.
    pub async fn reserve_parts_as<'a>(
        &self,
        id: &str,
        costs: impl Into<PartCosts<'a>>,
        request: RequestId,
        hold: Duration,
    ) -> Result<Reserved, Error> {
        let cost = self.source.cost(costs.into())?;
        let command = Acquire::by_part(self.source.nominal(), cost)?.reserve(request, hold)?;
        self.decide(id, &[cost], Mode::Reserve(&command)).await.map(Answer::reserved)
    }

    /// Reserves as [`Limiter::reserve_parts_as`] does, under a new random id.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn reserve_parts<'a>(
        &self,
        id: &str,
        costs: impl Into<PartCosts<'a>>,
        hold: Duration,
    ) -> Result<Reserved, Error>
    where
        S: HasTimeout,
    {
        let request = random_id(|| crate::runtime::Runtime::random(self.store.runtime()));
        self.reserve_parts_as(id, costs, request, hold).await
    }

    /// Charges each part its real cost instead of its estimate, as [`Limiter::commit`] does for all alike. A part's cost
    /// may be below its estimate while another's is above.
    #[doc = limiter_example!(under "requests: fixed-window 60/min + tokens: fixed-window 90_000/min":
        "let hold = Duration::from_secs(60);"
        r#"let reserved = limiter.reserve_parts("user:42", &[("requests", 1), ("tokens", 4000)], hold).await?;"#
        r#"let reservation = reserved.reservation.expect("it is admitted");"#
        r#"let true_costs = [("requests", 1), ("tokens", 950)];"#
        r#"_ = limiter.commit_parts("user:42", &reservation, &true_costs).await?;"#
        r#"let parts = limiter.peek("user:42", 0).await?.parts;"#
        "assert_eq!((parts[0].remaining, parts[1].remaining), (59, 89_050));"
    )]
    /// # Errors
    /// [`Error`]. A settled or expired reservation is not an error.
    pub async fn commit_parts<'a>(
        &self,
        id: &str,
        reservation: &Reservation,
        actual: impl Into<PartCosts<'a>>,
    ) -> Result<Settlement, Error> {
        let actual = self.source.cost(actual.into())?;
        let command = Settle::by_part(self.source.nominal(), reservation, actual);
        self.change(id, Change::Use, &command).await
    }

    /// Gives back, of each part of `id`, up to its cost, as [`Limiter::refund`] does of all alike. The amount is the most
    /// that any part gave back.
    #[doc = limiter_example!(under "requests: fixed-window 60/min + tokens: fixed-window 90_000/min":
        r#"_ = limiter.try_acquire_parts("user:42", &[("requests", 1), ("tokens", 950)]).await?;"#
        r#"let unused = limiter.refund_parts("user:42", &[("tokens", 900)]).await?;"#
        "assert_eq!((unused.after.parts[0].remaining, unused.after.parts[1].remaining), (59, 89_950));"
    )]
    /// # Errors
    /// [`Error`].
    pub async fn refund_parts<'a>(
        &self,
        id: &str,
        costs: impl Into<PartCosts<'a>>,
    ) -> Result<Adjusted, Error> {
        let cost = self.source.cost(costs.into())?;
        let command = Adjust::refund_by_part(self.source.nominal(), cost)?;
        self.adjust(id, Change::Use, command).await
    }

    /// Charges each part of `id` its cost, as [`Limiter::penalty`] does all alike. The amount is the most that any part was
    /// charged.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn penalty_parts<'a>(
        &self,
        id: &str,
        costs: impl Into<PartCosts<'a>>,
    ) -> Result<Adjusted, Error> {
        let cost = self.source.cost(costs.into())?;
        let command = Adjust::penalty_by_part(self.source.nominal(), cost)?;
        self.adjust(id, Change::Use, command).await
    }
}
