//! Bodies of responses, which hold permits until they end.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::held::Held;

pin_project! {
    /// The body of a response: the service's own, or that of a rejection.
    ///
    /// It holds the request's permit until it ends or is dropped.
    pub struct Body<B> {
        #[pin]
        inner: Option<B>,
        rejection: Bytes,
        held: Option<Box<Held>>,
    }
}

impl<B: http_body::Body> Body<B> {
    pub(crate) fn of_service(inner: B, held: Option<Box<Held>>) -> Self {
        Body { inner: Some(inner), rejection: Bytes::new(), held }
    }

    pub(crate) fn of_rejection(rejection: Bytes) -> Self {
        Body { inner: None, rejection, held: None }
    }
}

impl<B: http_body::Body<Data = Bytes>> http_body::Body for Body<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let mut this = self.project();
        let Some(mut inner) = this.inner.as_mut().as_pin_mut() else {
            let rest = std::mem::take(this.rejection);
            return Poll::Ready((!rest.is_empty()).then(|| Ok(Frame::data(rest))));
        };
        let frame = ready!(inner.as_mut().poll_frame(context));
        if let Some(held) = this.held {
            if let Some(Ok(frame)) = &frame {
                held.observe(frame.data_ref().map_or(&[], |data| data));
            }
            // An error is no end: reservations are charged as those of a body that breaks off.
            let failed = matches!(frame, Some(Err(_)));
            if frame.is_none() || failed || inner.is_end_stream() {
                let held = this.held.take();
                if let Some(held) = held.filter(|_| !failed) {
                    held.end();
                }
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().map_or(self.rejection.is_empty(), B::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let rejection = || SizeHint::with_exact(self.rejection.len() as u64);
        self.inner.as_ref().map_or_else(rejection, B::size_hint)
    }
}
