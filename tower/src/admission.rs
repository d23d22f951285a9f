//! Requests that go ahead, and what is settled when their responses end.

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;

use http::{HeaderMap, Response, StatusCode, response};
use lockage::limiter::Reservation;
use lockage::{Decision, Limiter, Store};

use crate::body::Body;
use crate::cost::Actual;
use crate::merge::AllFields;
use crate::switch::Switch;

pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs a future in the background.
pub(crate) type Spawner = Arc<dyn Fn(BoxFuture<'static, ()>) + Send + Sync>;

/// A request that goes ahead, on a server that is not built on tower. Dropping it returns its permit, and leaves its
/// unsettled reservations charged as estimated. If the request upgrades its connection, keep it until that ends.
#[must_use = "dropped, it gives the request's permit back"]
pub struct Admission {
    /// The decision of the limit that has the least left, if one was made. Skipped and free requests have none, nor do
    /// those that go ahead because the store is away ([`OnError::Allow`](crate::OnError::Allow)).
    pub decision: Option<Decision>,
    /// The header fields of the limits, for the response.
    pub headers: HeaderMap,
    held: Option<Box<Held>>,
}

impl Admission {
    /// Settles by the head of the response everything but [`Commit::by_body_length`](crate::Commit::by_body_length).
    pub fn settle_by(&mut self, head: &response::Parts) {
        self.held.iter_mut().for_each(|held| held.settle_by(head));
    }

    /// Settles the rest by the length of the response's body, once all of it was sent, and returns the permit.
    pub fn end(self, body_length: u64) {
        if let Some(mut held) = self.held {
            held.bytes = body_length;
            held.end();
        }
    }
}

/// A request that goes ahead, before its header fields are in a map.
#[derive(Default)]
pub(crate) struct Admitted {
    pub(crate) decision: Option<Decision>,
    pub(crate) fields: AllFields,
    pub(crate) held: Option<Box<Held>>,
    /// Of a request that holds something.
    pub(crate) switch: Option<Switch>,
}

impl From<Admitted> for Admission {
    fn from(Admitted { decision, fields, held, .. }: Admitted) -> Self {
        let mut headers = HeaderMap::new();
        fields.into_headers(&mut headers);
        Admission { decision, headers, held }
    }
}

impl Admitted {
    /// Adds the header fields to the response, and settles by its head. What is held beyond that is kept by the body, or
    /// by the connection if the service keeps it.
    pub(crate) fn respond<B: http_body::Body>(self, response: Response<B>) -> Response<Body<B>> {
        let (mut head, body) = response.into_parts();
        self.fields.merge_into(head.status, &mut head.headers);
        let Some(mut held) = self.held else {
            return Response::from_parts(head, Body::of_service(body, None));
        };
        held.settle_by(&head);
        let held = match self.switch.filter(|switch| switch.is_agreed_by(head.status)) {
            Some(switch) => {
                switch.complete(held);
                None
            }
            // The server is not hyper: its connection lasts longer than its body, and no shorter.
            None if head.status == StatusCode::SWITCHING_PROTOCOLS => Some(held),
            // A body that is empty is never asked for anything.
            None => held.unless_ended(&body),
        };
        Response::from_parts(head, Body::of_service(body, held))
    }
}

/// What a request holds until its response has ended.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) permit: Option<Box<dyn Any + Send>>,
    pub(crate) reservations: Vec<Open>,
    bytes: u64,
}

impl Held {
    fn settle_by(&mut self, head: &response::Parts) {
        self.reservations.iter_mut().for_each(|open| open.settle_by(head));
    }

    pub(crate) fn add_bytes(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }

    /// Settles by what was sent, and returns the permit.
    pub(crate) fn end(mut self) {
        let bytes = self.bytes;
        for open in &mut self.reservations {
            open.settle(bytes);
        }
    }

    /// Returns itself, unless it has nothing to wait for.
    pub(crate) fn unless_ended<B: http_body::Body>(self: Box<Self>, body: &B) -> Option<Box<Self>> {
        if body.is_end_stream() {
            self.end();
            return None;
        }
        Some(self)
    }
}

/// A reservation that is settled once. Dropping it settles it as estimated.
pub(crate) struct Open {
    /// `None` once it is settled.
    account: Option<Box<dyn Account>>,
    by: Actual,
    estimate: u64,
    spawn: Spawner,
}

/// Where a cost is charged.
pub(crate) trait Account: Send {
    /// Charges a request's real cost.
    fn commit(self: Box<Self>, actual: u64) -> BoxFuture<'static, ()>;
}

/// A reservation, and its limiter.
pub(crate) struct Reserved<S> {
    pub(crate) limiter: Limiter<S>,
    pub(crate) id: String,
    pub(crate) reservation: Reservation,
}

impl<S: Store + 'static> Account for Reserved<S> {
    fn commit(self: Box<Self>, actual: u64) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // Where it fails, the estimate stays charged.
            let _ = self.limiter.commit(&self.id, &self.reservation, actual).await;
        })
    }
}

impl Open {
    pub(crate) fn new(
        account: Box<dyn Account>,
        by: Actual,
        estimate: u64,
        spawn: Spawner,
    ) -> Self {
        Open { account: Some(account), by, estimate, spawn }
    }

    /// Gives it back, since the request does not go ahead.
    pub(crate) fn cancel(&mut self) {
        self.settle(0);
    }

    fn settle_by(&mut self, head: &response::Parts) {
        if let Actual::Head(of) = &self.by {
            let actual = of(head).unwrap_or(self.estimate);
            self.settle(actual);
        }
    }

    fn settle(&mut self, actual: u64) {
        if let Some(account) = self.account.take() {
            (self.spawn)(account.commit(actual));
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.settle(self.estimate);
    }
}
