//! Where the requests come from whose callers wait.

use std::time::Duration;

use crate::trace::{Trace, TraceBuilder};
use crate::traffic::closed::Thinking;
use crate::traffic::{Plan, Shape};

/// Where requests come from. Times count from the epoch.
pub(super) trait Arrivals {
    /// The requests that have come, and maybe others.
    fn trace(&self) -> &Trace;
    /// When the next one comes, if no answer brings an earlier one.
    fn next_at(&self) -> Option<Duration>;
    /// The next one comes: its index in the trace.
    fn next(&mut self) -> usize;
    /// A request's caller has its answer, or its turn, at this time.
    fn answered(&mut self, request: usize, at: Duration);
}

/// Requests that come whatever becomes of the others.
pub(super) struct Open<'a> {
    trace: &'a Trace,
    arrived: usize,
}

impl<'a> Open<'a> {
    pub(super) fn new(trace: &'a Trace) -> Self {
        Open { trace, arrived: 0 }
    }
}

impl Arrivals for Open<'_> {
    fn trace(&self) -> &Trace {
        self.trace
    }

    fn next_at(&self) -> Option<Duration> {
        (self.arrived < self.trace.requests().len()).then(|| arrival(self.trace, self.arrived))
    }

    fn next(&mut self) -> usize {
        self.arrived += 1;
        self.arrived - 1
    }

    fn answered(&mut self, _: usize, _: Duration) {}
}

/// Adds a request at an offset from the start.
type Add<'a> = Box<dyn FnMut(&mut TraceBuilder, u64) + 'a>;

/// Requests of clients that wait for their answers and think.
pub(super) struct Closed<'a> {
    start: Duration,
    thinking: Thinking,
    add: Add<'a>,
    builder: TraceBuilder,
    /// Whose each request is.
    clients: Vec<u32>,
}

impl<'a> Closed<'a> {
    pub(super) fn of(plan: &'a Plan) -> Option<Self> {
        let Shape::ClosedLoop { clients, think } = plan.shape else { return None };
        let end = u64::try_from(plan.duration.as_micros()).unwrap_or(u64::MAX);
        Some(Closed {
            start: Duration::from_micros(plan.start.as_micros()),
            thinking: Thinking::new(clients, think, end, plan.seed),
            add: Box::new(plan.requests()),
            builder: TraceBuilder::default(),
            clients: Vec::new(),
        })
    }

    /// The requests that there were.
    pub(super) fn finish(self) -> Trace {
        self.builder.finish()
    }
}

impl Arrivals for Closed<'_> {
    fn trace(&self) -> &Trace {
        self.builder.so_far()
    }

    fn next_at(&self) -> Option<Duration> {
        self.thinking.next_at().map(|offset| self.start + Duration::from_micros(offset))
    }

    fn next(&mut self) -> usize {
        let (offset, client) = self.thinking.pop().expect("one comes: its time is known");
        (self.add)(&mut self.builder, offset);
        self.clients.push(client);
        self.clients.len() - 1
    }

    fn answered(&mut self, request: usize, at: Duration) {
        let now = u64::try_from((at - self.start).as_micros()).unwrap_or(u64::MAX);
        self.thinking.think(self.clients[request], now);
    }
}

/// When a request came.
pub(super) fn arrival(trace: &Trace, request: usize) -> Duration {
    Duration::from_micros(trace.requests()[request].at.as_micros())
}
