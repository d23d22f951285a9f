//! The body of a request after its beginning was read.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// The body of a request that an [`Estimate`](crate::Estimate) has read: the same frames, first those that were read, and
/// then those that are still to come.
#[derive(Debug)]
pub struct Replayed<B: Body> {
    read: VecDeque<Result<Frame<Bytes>, B::Error>>,
    bytes: usize,
    rest: B,
    /// Whether the rest has ended, or failed.
    is_over: bool,
}

/// How a body was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// All of it.
    Whole,
    /// It has more bytes than the bound.
    TooLong,
    /// It broke off.
    Failed,
}

impl<B: Body<Data = Bytes> + Unpin> Replayed<B> {
    pub(crate) fn new(body: B) -> Self {
        Replayed { read: VecDeque::new(), bytes: 0, is_over: body.is_end_stream(), rest: body }
    }

    /// Reads until the end, or until there are more bytes than the bound.
    pub(crate) fn poll_read(&mut self, bound: usize, context: &mut Context<'_>) -> Poll<Read> {
        while !self.is_over {
            if self.rest.size_hint().lower() > bound.saturating_sub(self.bytes) as u64 {
                return Poll::Ready(Read::TooLong);
            }
            match ready!(Pin::new(&mut self.rest).poll_frame(context)) {
                None => self.is_over = true,
                Some(Err(error)) => {
                    self.read.push_back(Err(error));
                    self.is_over = true;
                    return Poll::Ready(Read::Failed);
                }
                Some(Ok(frame)) => {
                    self.bytes += frame.data_ref().map_or(0, Bytes::len);
                    self.read.push_back(Ok(frame));
                    self.is_over = self.rest.is_end_stream();
                    if self.bytes > bound {
                        return Poll::Ready(Read::TooLong);
                    }
                }
            }
        }
        Poll::Ready(Read::Whole)
    }

    /// Returns the bytes that were read.
    pub(crate) fn read(&self) -> Bytes {
        let data = || self.read.iter().filter_map(|frame| frame.as_ref().ok()?.data_ref());
        match data().count() {
            0 | 1 => data().next().cloned().unwrap_or_default(),
            _ => data()
                .fold(Vec::with_capacity(self.bytes), |mut all, data| {
                    all.extend_from_slice(data);
                    all
                })
                .into(),
        }
    }
}

/// Errors are moved, never pinned.
impl<B: Body + Unpin> Unpin for Replayed<B> {}

impl<B: Body<Data = Bytes> + Unpin> Body for Replayed<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if let Some(frame) = self.read.pop_front() {
            self.bytes -= frame.as_ref().ok().and_then(Frame::data_ref).map_or(0, Bytes::len);
            return Poll::Ready(Some(frame));
        }
        if self.is_over {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.rest).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.read.is_empty() && (self.is_over || self.rest.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = if self.is_over { SizeHint::with_exact(0) } else { self.rest.size_hint() };
        let read = self.bytes as u64;
        // The lower bound first: the upper one may not be below it.
        let upper = hint.upper().map(|upper| upper.saturating_add(read));
        match hint.exact() {
            Some(rest) => SizeHint::with_exact(rest.saturating_add(read)),
            None => {
                let lower = hint.lower().saturating_add(read);
                hint = SizeHint::new();
                hint.set_lower(lower);
                upper.into_iter().for_each(|upper| hint.set_upper(upper));
                hint
            }
        }
    }
}
