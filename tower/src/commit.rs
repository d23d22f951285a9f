//! The real cost of a request, known with its response.

use std::sync::Arc;

use http::{HeaderName, StatusCode, response};

use crate::error::SetupError;
use crate::usage::Usage;

/// The real cost of a request, known with its response.
#[derive(Clone)]
pub struct Commit {
    pub(crate) by: Actual,
    /// The parts of the limit that it is for; empty for a cost of the whole.
    pub(crate) parts: Arc<[Box<str>]>,
}

type OfHead = dyn Fn(&response::Parts) -> Option<u64> + Send + Sync;

#[derive(Clone)]
pub(crate) enum Actual {
    /// By the head of the response, or the estimate if it has no cost.
    Head(Arc<OfHead>),
    /// The number of the response's bytes.
    Bytes,
    /// By the response's body.
    Usage(Arc<Usage>),
    /// The estimate, once the response has ended.
    End,
}

impl Commit {
    /// Returns whether it waits for the response's body.
    pub(crate) fn is_by_body(&self) -> bool {
        !matches!(self.by, Actual::Head(_))
    }

    /// Returns the cost that a function computes from the head of the response; on `None`, the estimate stays.
    pub fn by(function: impl Fn(&response::Parts) -> Option<u64> + Send + Sync + 'static) -> Self {
        Commit { by: Actual::Head(Arc::new(function)), parts: Arc::default() }
    }

    /// Returns the cost that a function computes from the status. To count only failures, as of logins:
    ///
    /// ```
    /// use lockage_tower::Commit;
    ///
    /// let failures = Commit::by_status(|status| Some(u64::from(!status.is_success())));
    /// ```
    pub fn by_status(function: impl Fn(StatusCode) -> Option<u64> + Send + Sync + 'static) -> Self {
        Commit::by(move |head| function(head.status))
    }

    /// Returns the number in a header field of the response, such as the tokens that a language model used.
    ///
    /// # Errors
    /// [`SetupError::HeaderName`].
    pub fn by_header(name: &str) -> Result<Self, SetupError> {
        let name = HeaderName::try_from(name).map_err(|_| SetupError::HeaderName(name.into()))?;
        Ok(Commit::by(move |head| head.headers.get(&name)?.to_str().ok()?.trim().parse().ok()))
    }

    /// Returns the number of bytes of the response's body, once all of it was sent; of an upgraded connection, those that
    /// were written to it.
    pub fn by_body_length() -> Self {
        Commit { by: Actual::Bytes, parts: Arc::default() }
    }

    /// Returns the cost that the response's body states, such as the tokens of a streamed answer: see [`Usage`].
    pub fn by_usage(usage: Usage) -> Self {
        Commit { parts: usage.parts(), by: Actual::Usage(Arc::new(usage)) }
    }

    /// Returns the estimate, held until the response has ended: for requests [in flight](lockage::limiter::InFlight), which
    /// give back their places then.
    ///
    /// ```
    /// # #[cfg(feature = "axum")] {
    /// use std::time::Duration;
    ///
    /// use lockage::runtime::Tokio;
    /// use lockage::{Limiter, limit};
    /// use lockage_memory::MemoryStore;
    /// use lockage_tower::{Commit, RateLimit, header};
    ///
    /// let streams = Limiter::new(MemoryStore::new(), limit!("in-flight 20 lease 30s"))
    ///     .with_prefix("streams")?;
    /// let layer = RateLimit::by(header("x-api-key")?, streams)
    ///     .reserve(Tokio, Duration::from_secs(30), Commit::at_end())
    ///     .build()?;
    /// # } Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn at_end() -> Self {
        Commit { by: Actual::End, parts: Arc::default() }
    }

    /// Makes it the cost of this part of the limit, of which [`RateLimit::cost_of`](crate::RateLimit::cost_of) has the
    /// estimate. Parts without a real cost stay charged as estimated.
    pub fn for_part(self, part: &str) -> Self {
        Commit { parts: Arc::new([part.into()]), ..self }
    }
}
