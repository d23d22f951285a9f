//! Connections that outlive their response: after an upgrade (status 101), or a tunnel (2xx to CONNECT).
//!
//! Hyper passes such a connection to the service by an [`OnUpgrade`], which only hyper can make. To know when the
//! connection is dropped, the service gets another one: that of a connection in memory, whose bytes, once it is upgraded
//! too, are those of the client's.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use http::{Method, Request, Response, StatusCode, header, request};
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::{OnUpgrade, Upgraded};

use crate::background::BoxFuture;
use crate::held::Held;

/// The request of the connection in memory.
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: -\r\nconnection: upgrade\r\nupgrade: -\r\n\r\n";

/// A request that may keep its connection.
pub(crate) struct Switch {
    handshake: BoxFuture<'static, ()>,
    slot: Slot,
    is_connect: bool,
}

/// The place of the request's permit and reservations: empty until the service has agreed, and then filled until the
/// connection is dropped.
#[derive(Clone, Default)]
struct Slot(Arc<Mutex<Option<Box<Held>>>>);

impl Switch {
    /// Puts another upgrade in the place of the request's; `None` if it has none.
    pub(crate) fn of(parts: &mut request::Parts) -> Option<Self> {
        let upgrade = parts.extensions.remove::<OnUpgrade>()?;
        let (slot, offered) = (Slot::default(), Arc::new(Mutex::new(None)));
        let connection = Connection {
            handshake: Some(REQUEST),
            stream: Stream::Waiting(upgrade),
            slot: slot.clone(),
        };
        let (agreed, offer) = (slot.clone(), offered.clone());
        let answer = service_fn(move |mut request: Request<Incoming>| {
            *lock(&offer) = Some(hyper::upgrade::on(&mut request));
            let agreed = agreed.clone();
            std::future::poll_fn(move |_| match agreed.held().is_some() {
                true => Poll::Ready(switched()),
                false => Poll::Pending,
            })
        });
        let handshake = http1::Builder::new()
            .header_read_timeout(None)
            .serve_connection(connection, answer)
            .with_upgrades();
        let handshake = Box::pin(async move { drop(handshake.await) });
        let mut switch = Switch { handshake, slot, is_connect: parts.method == Method::CONNECT };
        let _ = switch.poll();
        // Without one the service cannot agree to an upgrade.
        if let Some(offered) = lock(&offered).take() {
            parts.extensions.insert(offered);
        }
        Some(switch)
    }

    /// Returns whether a response with this status keeps the connection.
    pub(crate) fn is_agreed_by(&self, status: StatusCode) -> bool {
        status == StatusCode::SWITCHING_PROTOCOLS || self.is_connect && status.is_success()
    }

    /// Passes the connection on to the service. `held` is kept until the service drops it.
    pub(crate) fn complete(mut self, held: Box<Held>) {
        *self.slot.held() = Some(held);
        // All is in memory, so this takes one or two polls.
        let _ = (0..8).any(|_| self.poll().is_ready());
    }

    fn poll(&mut self) -> Poll<()> {
        self.handshake.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }
}

fn switched() -> Result<Response<String>, http::Error> {
    Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::CONNECTION, "upgrade")
        .header(header::UPGRADE, "-")
        .body(String::new())
}

impl Slot {
    fn held(&self) -> MutexGuard<'_, Option<Box<Held>>> {
        lock(&self.0)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The connection in memory, and then the client's.
struct Connection {
    /// The rest of the request, until the response was written.
    handshake: Option<&'static [u8]>,
    stream: Stream,
    slot: Slot,
}

enum Stream {
    Waiting(OnUpgrade),
    Open(Upgraded),
    /// There is no connection: the client left before it was upgraded.
    Failed,
}

impl Connection {
    /// Returns the client's connection, once there is one.
    fn poll_stream(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Pin<&mut Upgraded>>> {
        if let Stream::Waiting(upgrade) = &mut self.stream {
            match ready!(Pin::new(upgrade).poll(context)) {
                Ok(upgraded) => self.stream = Stream::Open(upgraded),
                Err(error) => {
                    self.stream = Stream::Failed;
                    drop(self.slot.held().take());
                    return Poll::Ready(Err(io::Error::other(error)));
                }
            }
        }
        Poll::Ready(match &mut self.stream {
            Stream::Open(upgraded) => Ok(Pin::new(upgraded)),
            _ => Err(io::ErrorKind::NotConnected.into()),
        })
    }

    fn count(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let (Poll::Ready(Ok(bytes)), Some(held)) = (&written, &mut *self.slot.held()) {
            held.add_bytes(*bytes);
        }
        written
    }
}

impl Read for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.handshake {
            // The next poll asks again.
            Some([]) => Poll::Pending,
            Some(request) => {
                let (now, later) = request.split_at(request.len().min(buffer.remaining()));
                buffer.put_slice(now);
                *request = later;
                Poll::Ready(Ok(()))
            }
            None => ready!(self.poll_stream(context))?.poll_read(context, buffer),
        }
    }
}

impl Write for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.handshake.is_some() {
            if bytes.ends_with(b"\r\n\r\n") {
                self.handshake = None;
            }
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = ready!(self.poll_stream(context))?.poll_write(context, bytes);
        self.count(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.stream {
            // There is nothing to flush.
            Stream::Waiting(_) => Poll::Ready(Ok(())),
            _ => ready!(self.poll_stream(context))?.poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_stream(context))?.poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        matches!(&self.stream, Stream::Open(stream) if stream.is_write_vectored())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.handshake.is_some() {
            let first = buffers.iter().find(|buffer| !buffer.is_empty());
            return self.poll_write(context, first.map_or(&[], |buffer| buffer));
        }
        let written = ready!(self.poll_stream(context))?.poll_write_vectored(context, buffers);
        self.count(written)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let (Stream::Open(_), Some(held)) = (&self.stream, self.slot.held().take()) {
            held.end();
        }
    }
}
