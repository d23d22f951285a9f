//! Bodies that do at each poll as a test says.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

use super::*;

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Nothing for this poll.
    Wait,
    Data(Bytes),
    Trailers(HeaderMap),
    Fail,
    Panic,
    /// Nothing ever after.
    Hang,
}

pub(super) fn data(text: &str) -> Step {
    Step::Data(Bytes::copy_from_slice(text.as_bytes()))
}

/// A body of these steps.
#[derive(Debug, Default)]
pub(super) struct Scripted {
    steps: VecDeque<Step>,
    /// How often it was polled.
    pub(super) polls: Arc<AtomicU64>,
    /// The length that it states.
    length: Option<u64>,
    /// Whether it has ended or failed, after which a body is not polled.
    is_over: bool,
}

impl Scripted {
    pub(super) fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Scripted { steps: steps.into_iter().collect(), ..Scripted::default() }
    }

    /// Lets it state its length, as one with `Content-Length` does.
    pub(super) fn of_length(self, length: u64) -> Self {
        Scripted { length: Some(length), ..self }
    }
}

impl Body for Scripted {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        assert!(!self.is_over, "it is polled after its end");
        self.polls.fetch_add(1, Ordering::Relaxed);
        if matches!(self.steps.front(), Some(Step::Hang)) {
            return Poll::Pending;
        }
        self.is_over = matches!(self.steps.front(), None | Some(Step::Fail));
        Poll::Ready(match self.steps.pop_front() {
            None => None,
            Some(Step::Wait) => {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Some(Step::Data(bytes)) => {
                self.length = self.length.map(|length| length - bytes.len() as u64);
                Some(Ok(Frame::data(bytes)))
            }
            Some(Step::Trailers(trailers)) => Some(Ok(Frame::trailers(trailers))),
            Some(Step::Fail) => Some(Err("broken")),
            Some(Step::Panic) => panic!("as it is told"),
            Some(Step::Hang) => unreachable!("it was looked at"),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.length == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or(SizeHint::default(), SizeHint::with_exact)
    }
}
