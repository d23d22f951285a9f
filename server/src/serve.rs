//! Connections of HTTP/1.1 and HTTP/2: bounded in number, time and size, and ended without losing a request.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

use crate::streams::{Begun, Streams};

/// The bounds of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The most connections of a port.
    pub(crate) connections: usize,
    /// The most requests at once on a connection of HTTP/2.
    pub(crate) streams: u32,
    /// How long a handshake, the head of a request, and its body may each take.
    pub(crate) patience: Duration,
    /// The most bytes of a body.
    pub(crate) body: usize,
    /// After this time a connection takes no more requests. An eighth of it is drawn, so that they do not all end at once.
    pub(crate) age: Option<Duration>,
}

/// A port that is served, and the end of serving.
pub(crate) struct Port {
    pub(crate) listener: TcpListener,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) bounds: Bounds,
    /// Whether serving ends.
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) works: TaskTracker,
}

impl Port {
    /// Accepts connections until serving ends, and gives each, with its number, to `serve`.
    pub(crate) async fn accept<F>(mut self, serve: impl Fn(TcpStream, Connection) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let places = Arc::new(Semaphore::new(self.bounds.connections));
        loop {
            let place = Arc::clone(&places).acquire_owned().await.expect("it is never closed");
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                _ = self.stop.wait_for(|stops| *stops) => return,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    after_refusal(&error).await;
                    continue;
                }
            };
            let _ = stream.set_nodelay(true);
            let (tls, bounds, stop) = (self.tls.clone(), self.bounds, self.stop.clone());
            let served = serve(stream, Connection { tls, bounds, stop });
            self.works.spawn(async move {
                served.await;
                drop(place);
            });
        }
    }

    /// Serves these routes.
    pub(crate) async fn serve(self, routes: Router) {
        let bounds = self.bounds;
        let routes = routes.layer(from_fn(move |request, next| read(bounds, request, next)));
        let serve = |stream, connection: Connection| connection.serve(stream, routes.clone());
        self.accept(serve).await;
    }
}

/// An error of one connection is its own; without free descriptors, accepting waits for some.
async fn after_refusal(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        tracing::warn!(%error, "no connection is accepted for a second");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// The terms of one connection.
pub(crate) struct Connection {
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) bounds: Bounds,
    pub(crate) stop: watch::Receiver<bool>,
}

impl Connection {
    async fn serve(self, stream: TcpStream, routes: Router) {
        let Some(tls) = self.tls.clone() else { return self.talk(stream, routes).await };
        match timeout(self.bounds.patience, tls.accept(stream)).await {
            Ok(Ok(stream)) => self.talk(stream, routes).await,
            Ok(Err(error)) => tracing::debug!(%error, "a handshake failed"),
            Err(_) => tracing::debug!("a handshake took too long"),
        }
    }

    async fn talk(
        mut self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        routes: Router,
    ) {
        let Bounds { streams: most, patience, age, .. } = self.bounds;
        let begun = Begun::default();
        let mut builder = Builder::new(begun.clone());
        let mut streams = Streams::new(begun);
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(patience)
            .max_buf_size(64 * 1024);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(most)
            .max_header_list_size(64 * 1024)
            .max_local_error_reset_streams(Some(256))
            .keep_alive_interval(Some(patience))
            .keep_alive_timeout(patience);
        let connection =
            builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
        tokio::pin!(connection);
        let age = age.map(|age| Instant::now() + age - age.mul_f64(jitter() / 8.0));
        let mut is_ending = false;
        loop {
            let aged = async {
                match age {
                    Some(age) => sleep_until(age).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                ended = poll_fn(|context| streams.poll(connection.as_mut(), context)) => {
                    if let Err(error) = ended {
                        tracing::debug!(error, "a connection failed");
                    }
                    return;
                }
                _ = self.stop.wait_for(|stops| *stops), if !is_ending => {}
                () = aged, if !is_ending => {}
            }
            is_ending = true;
            connection.as_mut().graceful_shutdown();
        }
    }
}

/// Returns a number from 0 to 1.
fn jitter() -> f64 {
    use lockage::runtime::{Runtime, Tokio};
    f64::from(Tokio.random() as u32) / f64::from(u32::MAX)
}

/// Reads the body of a request within its bounds, before the request is handled.
async fn read(bounds: Bounds, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    match timeout(bounds.patience, axum::body::to_bytes(body, bounds.body)).await {
        Ok(Ok(body)) => next.run(Request::from_parts(head, Body::from(body))).await,
        Ok(Err(_)) => StatusCode::PAYLOAD_TOO_LARGE.into_response(),
        Err(_) => StatusCode::REQUEST_TIMEOUT.into_response(),
    }
}
