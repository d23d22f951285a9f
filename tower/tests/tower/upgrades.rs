//! H4 where a connection outlives its response: the request holds its permit until the connection ends, and no longer.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::{Method, StatusCode, Version};
use http_body_util::Empty;
use hyper::client::conn::http2::SendRequest;
use hyper::ext::Protocol;
use hyper_util::rt::{TokioExecutor, TokioIo};
use lockage::Locks;
use lockage_tower::Commit;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

const WEBSOCKET: &str =
    "GET /echo HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
const TUNNEL: &str = "CONNECT b.example:443 HTTP/1.1\r\nhost: b.example:443\r\n\r\n";

type Store = RetryStore<MemoryStore, Tokio>;

/// A server that serves one request of a client at once.
struct Server {
    address: SocketAddr,
    places: Locks<MemoryStore, Tokio>,
    outer_places: Locks<MemoryStore, Tokio>,
    limiter: Limiter<Store>,
}

impl Server {
    async fn start() -> Self {
        let store = waiting_store(MemoryStore::new());
        let locks = Locks::new(store.clone(), SECOND * 30).unwrap();
        let [places, outer_places] =
            ["places", "outer"].map(|prefix| locks.clone().with_prefix(prefix).unwrap());
        let [limiter, all] = ["l", "all"].map(|prefix| {
            let limiter = Limiter::new(store.clone(), limit("fixed-window 10_000_000/h"))
                .with_prefix("test")
                .unwrap();
            limiter.with_prefix(prefix).unwrap()
        });
        let layer = RateLimit::per_ip(limiter.clone())
            .in_flight(places.clone(), 1)
            .cost(|_: &http::request::Parts| 1000)
            .reserve(Tokio, SECOND * 600, Commit::by_body_length())
            .build()
            .unwrap();
        // One above the other: each passes a connection of its own on.
        let outer = RateLimit::per_ip(all).in_flight(outer_places.clone(), 9).build().unwrap();
        let app = Router::new().fallback(serve).layer(layer).layer(outer);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, app).await });
        Server { address, places, outer_places, limiter }
    }

    /// Sends a request over HTTP/1.1; returns the status and the connection.
    async fn ask(&self, request: &str) -> (u16, TcpStream) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), stream)
    }

    async fn connect(&self) -> SendRequest<Empty<Bytes>> {
        let stream = TokioIo::new(TcpStream::connect(self.address).await.unwrap());
        let connect = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream);
        let (mut client, connection) = connect.await.unwrap();
        tokio::spawn(connection);
        // The answer comes after the settings of the server, which allow it.
        let plain = http::Request::get("http://a/plain").body(Empty::new()).unwrap();
        assert_eq!(client.send_request(plain).await.unwrap().status(), 200);
        self.is_free().await;
        client
    }

    /// Waits until all permits are back, which are given back in the background.
    async fn is_free(&self) {
        for (places, permits) in [(&self.places, 1), (&self.outer_places, 9)] {
            let places = places.semaphore("ip:127.0.0.1", permits).unwrap();
            let all = places.permits(permits).unwrap().acquire_within(SECOND * 20).await.unwrap();
            all.taken().expect("a permit is never given back").release().await.unwrap();
        }
    }

    /// Waits until this much is charged, which is settled in the background.
    async fn charged(&self, expected: u64) {
        let mut charged = 0;
        for _ in 0..2_000 {
            let left = self.limiter.peek("ip:127.0.0.1", 0).await.unwrap().remaining;
            charged = 10_000_000 - left;
            if charged == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(charged, expected);
    }
}

/// Answers 200, streams, or echoes the bytes of an upgraded connection.
async fn serve(mut request: Request) -> Response {
    let response = Response::builder();
    let (path, method) = (request.uri().path().to_owned(), request.method().clone());
    let upgrade = hyper::upgrade::on(&mut request);
    let response = match (&*path, method) {
        ("/plain", _) => response.body(Body::from("yes")),
        ("/events", _) => response.body(Body::new(Events(Some("data: 1\n\n")))),
        ("/refused", _) => {
            tokio::spawn(async { assert!(upgrade.await.is_err()) });
            response.status(400).body(Body::from("no"))
        }
        ("/forgotten", _) => {
            drop(upgrade);
            let upgrades = response.header("connection", "upgrade").header("upgrade", "websocket");
            upgrades.status(StatusCode::SWITCHING_PROTOCOLS).body(Body::empty())
        }
        (_, method) => {
            tokio::spawn(async {
                let Ok(upgraded) = upgrade.await else { return };
                let (mut read, mut write) = tokio::io::split(TokioIo::new(upgraded));
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
            match method {
                Method::CONNECT => response.body(Body::empty()),
                _ => response
                    .status(StatusCode::SWITCHING_PROTOCOLS)
                    .header("connection", "upgrade")
                    .header("upgrade", "websocket")
                    .body(Body::empty()),
            }
        }
    };
    response.unwrap()
}

/// Events that go on until the client leaves.
struct Events(Option<&'static str>);

impl http_body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        match self.0.take() {
            Some(event) => std::task::Poll::Ready(Some(Ok(http_body::Frame::data(event.into())))),
            None => std::task::Poll::Pending,
        }
    }
}

async fn echoes(stream: &mut (impl AsyncReadExt + AsyncWriteExt + Unpin), text: &[u8]) {
    stream.write_all(text).await.unwrap();
    stream.flush().await.unwrap();
    let mut echo = vec![0; text.len()];
    stream.read_exact(&mut echo).await.unwrap();
    assert_eq!(echo, text);
}

#[tokio::test]
async fn an_upgraded_connection_holds_its_permit_until_it_ends() {
    for (request, status) in [(WEBSOCKET, 101), (TUNNEL, 200)] {
        let server = Server::start().await;
        for _ in 0..3 {
            let (first, mut open) = server.ask(request).await;
            assert_eq!(first, status);
            for _ in 0..2 {
                assert_eq!(server.ask(request).await.0, 429, "one is open");
                assert_eq!(server.ask("GET /plain HTTP/1.1\r\nhost: a\r\n\r\n").await.0, 429);
            }
            echoes(&mut open, b"one").await;
            // More bytes than fit into the buffers on the way.
            for _ in 0..20 {
                echoes(&mut open, &[b'x'; 30_000]).await;
            }
            assert_eq!(server.ask(request).await.0, 429, "it still is");
            drop(open);
            server.is_free().await;
        }
        // Denied requests cost nothing, and the others the bytes that were sent on them.
        server.charged(3 * 600_003).await;
    }
}

/// Over HTTP/2 likewise: while one extended CONNECT holds the permit, others on its connection are denied.
#[tokio::test]
async fn an_extended_connect_holds_its_permit_until_it_ends() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let mut open = async || {
        let mut request = http::Request::new(Empty::new());
        *request.method_mut() = Method::CONNECT;
        *request.version_mut() = Version::HTTP_2;
        *request.uri_mut() = "http://a/echo".parse().unwrap();
        request.extensions_mut().insert(Protocol::from_static("websocket"));
        client.send_request(request).await.unwrap()
    };
    for _ in 0..3 {
        let mut first = open().await;
        assert_eq!(first.status(), 200);
        let mut stream = TokioIo::new(hyper::upgrade::on(&mut first).await.unwrap());
        for _ in 0..2 {
            assert_eq!(open().await.status(), 429, "one is open");
        }
        echoes(&mut stream, b"one").await;
        assert_eq!(open().await.status(), 429, "it still is");
        stream.shutdown().await.unwrap();
        drop(stream);
        server.is_free().await;
    }
    server.charged(3 * 3 + 3).await;
}

#[tokio::test]
async fn an_upgrade_that_does_not_happen_holds_nothing() {
    let server = Server::start().await;
    for _ in 0..3 {
        // Refused by the service.
        let refused = WEBSOCKET.replace("/echo", "/refused");
        assert_eq!(server.ask(&refused).await.0, 400);
        server.is_free().await;
        // Agreed to, and then not taken.
        let (status, mut stream) = server.ask(&WEBSOCKET.replace("/echo", "/forgotten")).await;
        assert_eq!(status, 101);
        assert_eq!(stream.read(&mut [0]).await.unwrap_or(0), 0, "it is closed");
        server.is_free().await;
        // An offer that the service does not need, as clients make of HTTP/2.
        let (status, _open) = server.ask(&WEBSOCKET.replace("/echo", "/plain")).await;
        assert_eq!(status, 200);
        server.is_free().await;
        // The client is gone.
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(WEBSOCKET.as_bytes()).await.unwrap();
        drop(stream);
        server.is_free().await;
    }
}

/// Events sent by a server are a body, which holds the permit as long as it is read.
#[tokio::test]
async fn a_stream_of_events_holds_its_permit_until_it_ends() {
    let server = Server::start().await;
    let events = "GET /events HTTP/1.1\r\nhost: a\r\n\r\n";
    for _ in 0..3 {
        let (status, open) = server.ask(events).await;
        assert_eq!(status, 200);
        assert_eq!(server.ask(events).await.0, 429);
        drop(open);
        server.is_free().await;
    }
}

/// On a server other than hyper, the permit is held as long as the response.
#[tokio::test]
async fn without_hyper_an_upgrade_holds_its_permit_as_long_as_its_response() {
    let store = waiting_store(MemoryStore::new());
    let locks = Locks::new(store.clone(), SECOND * 30).unwrap().with_prefix("places").unwrap();
    let limiter = Limiter::new(store, limit("fixed-window 100/h")).with_prefix("l").unwrap();
    let layer = RateLimit::per_ip(limiter).in_flight(locks.clone(), 1).build().unwrap();
    let service = layer.layer(service_fn(async |_: http::Request<()>| {
        let mut response = http::Response::new(Full::<Bytes>::default());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        Ok::<_, Infallible>(response)
    }));
    let first = service.clone().oneshot(from("192.0.2.1")).await.unwrap();
    assert_eq!(first.status(), 101);
    assert_eq!(service.clone().oneshot(from("192.0.2.1")).await.unwrap().status(), 429);
    drop(first);
    let place = locks.semaphore("ip:192.0.2.1", 1).unwrap();
    assert!(place.acquire_within(SECOND * 20).await.unwrap().taken().is_some());
}
