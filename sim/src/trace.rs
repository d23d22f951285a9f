//! Traces: requests with a time, a key and a cost, read from a file or synthetic.

use std::collections::HashMap;

use lockage_core::Timestamp;

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its time.
    pub at: Timestamp,
    /// An index into the trace's keys.
    pub key: u32,
    /// Its cost, in units of the limit, at least 1.
    pub cost: u64,
}

/// Requests in the order of their times, and the names of their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    keys: Vec<String>,
    requests: Vec<Request>,
}

impl Trace {
    /// Returns the requests, earliest first; those of one instant in their given order.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Returns the name of a request's key.
    pub fn key(&self, key: u32) -> &str {
        &self.keys[key as usize]
    }

    /// Returns how many keys have at least one request.
    pub fn key_count(&self) -> usize {
        self.keys.len()
    }

    /// Returns the times of the first and the last request; `None` without requests.
    pub fn span(&self) -> Option<(Timestamp, Timestamp)> {
        Some((self.requests.first()?.at, self.requests.last()?.at))
    }
}

/// Collects requests in any order.
#[derive(Debug, Default)]
pub struct TraceBuilder {
    trace: Trace,
    // Each name is kept twice, and in exchange a request carries four bytes instead of a string.
    numbers: HashMap<String, u32>,
}

impl TraceBuilder {
    /// Returns the number of the key of this name, the same in every call.
    ///
    /// Every such key must get a request, or `key_count` counts one too many.
    pub fn key(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number =
            u32::try_from(self.trace.keys.len()).expect("fewer keys than 2^32 fit in memory");
        self.trace.keys.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// Adds a request.
    pub fn push(&mut self, request: Request) {
        self.trace.requests.push(request);
    }

    /// Returns the number of requests so far.
    pub fn len(&self) -> usize {
        self.trace.requests.len()
    }

    /// Returns whether there is no request so far.
    pub fn is_empty(&self) -> bool {
        self.trace.requests.is_empty()
    }

    /// Returns the requests so far, in the order of their addition.
    pub fn so_far(&self) -> &Trace {
        &self.trace
    }

    /// Returns the trace, stably sorted by time.
    pub fn finish(mut self) -> Trace {
        self.trace.requests.sort_by_key(|request| request.at);
        self.trace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_one_instant_keep_their_order() {
        let mut builder = TraceBuilder::default();
        for (micros, name) in [(5, "b"), (1, "a"), (5, "a"), (5, "c")] {
            let key = builder.key(name);
            let at = Timestamp::from_micros(micros).unwrap();
            builder.push(Request { at, key, cost: 1 });
        }
        let trace = builder.finish();
        let order: Vec<_> =
            trace.requests().iter().map(|r| (r.at.as_micros(), trace.key(r.key))).collect();
        assert_eq!(order, [(1, "a"), (5, "b"), (5, "a"), (5, "c")]);
        assert_eq!(trace.key_count(), 3);
    }

    #[test]
    fn an_empty_trace_has_no_span() {
        assert_eq!(Trace::default().span(), None);
    }
}
