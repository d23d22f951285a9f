//! Arrivals of requests whose callers wait.

use std::time::Duration;

use crate::trace::{Request, Trace, TraceBuilder};
use crate::traffic::closed::Thinking;
use crate::traffic::{Plan, Shape, make_up};

/// A source of requests. Times count from the epoch.
pub(super) trait Arrivals {
    /// Returns the requests so far, and maybe others.
    fn trace(&self) -> &Trace;
    /// Returns when the next request comes, unless an answer brings an earlier one.
    fn next_at(&self) -> Option<Duration>;
    /// Takes the next request, and returns its index in the trace.
    fn next(&mut self) -> usize;
    /// Reports that a request's caller has its answer, or its turn, at this time.
    fn answered(&mut self, request: usize, at: Duration);
}

/// Requests that are independent of answers.
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

/// Requests of closed loops, and maybe others that are independent of answers.
pub(super) struct Closed<'a> {
    loops: Vec<Loop<'a>>,
    others: Trace,
    others_arrived: usize,
    builder: TraceBuilder,
    /// The loop and client of each request.
    clients: Vec<Option<(usize, u32)>>,
}

/// One closed loop.
struct Loop<'a> {
    start: Duration,
    thinking: Thinking,
    add: Add<'a>,
}

impl<'a> Closed<'a> {
    /// Returns `None` if no plan is a closed loop.
    pub(super) fn of(plans: &'a [Plan]) -> Option<Self> {
        let loops: Vec<Loop<'a>> = plans.iter().filter_map(Loop::of).collect();
        let is_open = |plan: &&Plan| !matches!(plan.shape, Shape::ClosedLoop { .. });
        (!loops.is_empty()).then(|| Closed {
            loops,
            others: make_up(plans.iter().filter(is_open)),
            others_arrived: 0,
            builder: TraceBuilder::default(),
            clients: Vec::new(),
        })
    }

    /// Returns the requests.
    pub(super) fn finish(self) -> Trace {
        self.builder.finish()
    }

    /// Returns when the next request outside of loops comes.
    fn other_at(&self) -> Option<Duration> {
        let waits = self.others_arrived < self.others.requests().len();
        waits.then(|| arrival(&self.others, self.others_arrived))
    }

    /// Returns when the next request of a loop comes, and of which.
    fn loop_at(&self) -> Option<(Duration, usize)> {
        let next = |(number, one): (usize, &Loop<'_>)| Some((one.next_at()?, number));
        self.loops.iter().enumerate().filter_map(next).min()
    }
}

impl<'a> Loop<'a> {
    fn of(plan: &'a Plan) -> Option<Self> {
        let Shape::ClosedLoop { clients, think } = plan.shape else { return None };
        Some(Loop {
            start: Duration::from_micros(plan.start.as_micros()),
            thinking: Thinking::new(clients, think, plan.micros(), plan.seed),
            add: Box::new(plan.requests()),
        })
    }

    fn next_at(&self) -> Option<Duration> {
        self.thinking.next_at().map(|offset| self.start + Duration::from_micros(offset))
    }
}

impl Arrivals for Closed<'_> {
    fn trace(&self) -> &Trace {
        self.builder.so_far()
    }

    fn next_at(&self) -> Option<Duration> {
        let of_loops = self.loop_at().map(|(at, _)| at);
        self.other_at().into_iter().chain(of_loops).min()
    }

    fn next(&mut self) -> usize {
        let of_loop = self.loop_at();
        let other_is_first = |at| of_loop.is_none_or(|(of_loop, _)| at <= of_loop);
        if self.other_at().is_some_and(other_is_first) {
            let request = self.others.requests()[self.others_arrived];
            let key = self.builder.key(self.others.key(request.key));
            self.builder.push(Request { key, ..request });
            self.others_arrived += 1;
            self.clients.push(None);
        } else {
            let (_, number) = of_loop.expect("one comes: its time is known");
            let one = &mut self.loops[number];
            let (offset, client) = one.thinking.pop().expect("one comes: its time is known");
            (one.add)(&mut self.builder, offset);
            self.clients.push(Some((number, client)));
        }
        self.clients.len() - 1
    }

    fn answered(&mut self, request: usize, at: Duration) {
        let Some((number, client)) = self.clients[request] else { return };
        let one = &mut self.loops[number];
        let now = u64::try_from((at - one.start).as_micros()).unwrap_or(u64::MAX);
        one.thinking.think(client, now);
    }
}

/// Returns when a request came.
fn arrival(trace: &Trace, request: usize) -> Duration {
    Duration::from_micros(trace.requests()[request].at.as_micros())
}
