//! Requests that go ahead.

#[cfg(feature = "rules")]
use std::sync::Arc;

use http::{HeaderMap, Response, StatusCode, response};
use lockage::Decision;
#[cfg(feature = "rules")]
use lockage_rules::RuleDecision;

use crate::body::Body;
use crate::held::Held;
use crate::merge::AllFields;
use crate::switch::Switch;

/// A request that goes ahead, on a server that is not built on tower. Dropping it returns its permit, and charges its
/// unsettled reservations like those of a response that breaks off. If the request upgrades its connection, keep it until that ends.
#[must_use = "dropped, it gives the request's permit back"]
pub struct Admission {
    /// The decision of the limit that has the least left, if one was made. Skipped and free requests have none, nor do
    /// those that go ahead because the store is away ([`OnError::Allow`](crate::OnError::Allow)).
    pub decision: Option<Decision>,
    /// The header fields of the limits, for the response.
    pub headers: HeaderMap,
    /// The decision by [rules](crate::RateLimit::rules).
    #[cfg(feature = "rules")]
    pub rules: Option<Arc<RuleDecision>>,
    held: Option<Box<Held>>,
}

impl Admission {
    /// Settles by the head of the response everything but costs by its body.
    pub fn settle_by(&mut self, head: &response::Parts) {
        self.held.iter_mut().for_each(|held| held.settle_by(head));
    }

    /// Reads the next bytes of the response's body, for [`Commit::by_usage`](crate::Commit::by_usage).
    pub fn observe(&mut self, data: &[u8]) {
        self.held.iter_mut().for_each(|held| held.observe(data));
    }

    /// Settles the rest by the response's body, of this length, once all of it was sent, and returns the permit.
    pub fn end(self, body_length: u64) {
        if let Some(mut held) = self.held {
            held.bytes = body_length;
            held.end();
        }
    }
}

/// A request that goes ahead.
#[derive(Default)]
pub(crate) struct Admitted {
    pub(crate) decision: Option<Decision>,
    #[cfg(feature = "rules")]
    pub(crate) rules: Option<Arc<RuleDecision>>,
    pub(crate) pending: Pending,
}

/// The rest of a request that goes ahead, for its response. Each request moves it several times.
#[derive(Default)]
pub(crate) struct Pending {
    pub(crate) fields: AllFields,
    pub(crate) held: Option<Box<Held>>,
    /// The switch of a request that holds something.
    pub(crate) switch: Option<Switch>,
}

impl From<Admitted> for Admission {
    fn from(admitted: Admitted) -> Self {
        let mut headers = HeaderMap::new();
        admitted.pending.fields.into_headers(&mut headers);
        Admission {
            decision: admitted.decision,
            headers,
            #[cfg(feature = "rules")]
            rules: admitted.rules,
            held: admitted.pending.held,
        }
    }
}

impl Pending {
    /// Adds the header fields to the response, and settles by its head. The rest of the held things stays with the
    /// body, or with the connection if the service keeps it.
    pub(crate) fn respond<B: http_body::Body>(
        self,
        mut response: Response<B>,
    ) -> Response<Body<B>> {
        self.fields.merge_into(response.status(), response.headers_mut());
        let Some(mut held) = self.held else {
            return response.map(|body| Body::of_service(body, None));
        };
        let (head, body) = response.into_parts();
        held.settle_by(&head);
        let held = match self.switch.filter(|switch| switch.is_agreed_by(head.status)) {
            Some(switch) => {
                switch.complete(held);
                None
            }
            // The server is not hyper: its connection lasts longer than its body, and no shorter.
            None if head.status == StatusCode::SWITCHING_PROTOCOLS => Some(held),
            // An empty body is never polled.
            None => held.unless_ended(&body),
        };
        Response::from_parts(head, Body::of_service(body, held))
    }
}
