//! A proxy between clients and one server that loses replies, cuts connections, is late, or is not
//! there, when a test says so.

mod connection;
mod resp;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::ports::on_free_port;
use connection::Connection;

/// The time for which the port may be taken by connections that were closed.
const DEADLINE: Duration = Duration::from_secs(40);

/// A TCP proxy between any client and a Redis or Valkey server of this machine, without TLS.
///
/// It has a free port of 127.0.0.1. The port and its connections are gone when the guard drops.
///
/// Faults apply to existing and new connections alike. Those about scripts count EVALSHA and EVAL,
/// and so also an EVALSHA of a script that the server does not know. Replication passes untouched,
/// so that a cluster behind proxies stays whole.
///
/// Replies are matched to requests by their order: `CLIENT REPLY` and `MONITOR` are not for this
/// proxy, and in RESP2 a connection that subscribes runs no scripts.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    acceptor: Mutex<Option<JoinHandle<()>>>,
}

impl Proxy {
    /// Starts a proxy in front of the server on `target_port` of 127.0.0.1, which need not be up yet.
    ///
    /// # Panics
    ///
    /// When no port is free.
    pub fn start(target_port: u16) -> Self {
        let listener = on_free_port(|port| TcpListener::bind(("127.0.0.1", port)).ok());
        let port = listener.local_addr().expect("a bound listener has an address").port();
        let shared = Shared { target_port: target_port.into(), state: Mutex::default() };
        let shared = Arc::new(shared);
        let acceptor = Mutex::new(Some(shared.accept(listener)));
        Self { port, shared, acceptor }
    }

    /// Returns the port that clients connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the URL that clients connect to, `redis://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Returns how many commands of this name, in capitals, were forwarded to the server.
    pub fn commands(&self, name: &str) -> u64 {
        self.shared.state().commands.get(name).copied().unwrap_or(0)
    }

    /// Returns how many replies to scripts were swallowed.
    pub fn swallowed(&self) -> u64 {
        self.shared.state().swallowed
    }

    /// Never delivers the next `n` replies to scripts; their connections stay open.
    ///
    /// A reply says of no request that it is its own, so a stream with one missing would give every
    /// later request the reply of another, which no server does. A connection that lost a reply is
    /// therefore silent from then on, while its requests are still forwarded; every reply to a
    /// script that it withholds counts as swallowed, and as one of the `n` while any are left.
    pub fn swallow_replies(&self, n: u64) {
        self.shared.state().to_swallow = n;
    }

    /// Forwards the next `n` scripts, and when the server has answered, closes the client's
    /// connection in place of the reply. No request that follows on that connection is forwarded.
    pub fn cut_after_request(&self, n: u64) {
        self.shared.state().to_cut_after = n;
    }

    /// Closes the connection in place of forwarding the script, for the next `n` scripts. Replies that
    /// the connection still waited for are lost.
    pub fn cut_before_request(&self, n: u64) {
        self.shared.state().to_cut_before = n;
    }

    /// Cuts the connection at the next `n` times that a client waits for replicas (WAIT).
    pub fn cut_before_waits(&self, n: u64) {
        self.shared.state().to_cut_before_waits = n;
    }

    /// Replies this error, such as `OOM command not allowed`, in place of forwarding the script, for the next `n` scripts.
    pub fn reply_error(&self, n: u64, error: &str) {
        let mut state = self.shared.state();
        (state.to_refuse, state.refusal) = (n, format!("-{error}\r\n"));
    }

    /// Makes the server forget all scripts, as a restart does.
    ///
    /// # Panics
    /// Where the server is not there, or refuses it.
    pub fn flush_scripts(&self) {
        const OK: &[u8; 5] = b"+OK\r\n";
        let flush = || {
            let mut server = self.shared.to_server()?;
            server.write_all(b"SCRIPT FLUSH\r\n")?;
            let mut reply = [0; OK.len()];
            server.read_exact(&mut reply).map(|()| reply)
        };
        let reply = flush().expect("the server answers");
        assert_eq!(&reply, OK, "{:?}", String::from_utf8_lossy(&reply));
    }

    /// Delivers each reply this much later, and up to twice as late when replies come faster.
    pub fn delay_replies(&self, delay: Duration) {
        self.shared.state().delay = delay;
    }

    /// Behaves like a dead server while `true`: every connection is closed and new ones are refused.
    ///
    /// # Panics
    ///
    /// When another program took the port in the meantime.
    pub fn refuse(&self, refuse: bool) {
        let mut acceptor = self.acceptor.lock().unwrap_or_else(PoisonError::into_inner);
        if refuse {
            self.close(&mut acceptor);
            self.disconnect();
        } else if acceptor.is_none() {
            let listener = self.listen_again();
            self.shared.state().closed = false;
            *acceptor = Some(self.shared.accept(listener));
        }
    }

    /// Behaves like a lost network while `true`: everything is accepted and read, nothing is forwarded or
    /// answered. Connections that lost something are closed when it ends.
    pub fn black_hole(&self, black_hole: bool) {
        self.shared.state().black_hole = black_hole;
        if !black_hole {
            let open = self.shared.state().open();
            open.iter().filter(|connection| connection.silent()).for_each(|it| it.close());
        }
    }

    /// Refuses to end subscriptions of a client that has none, as Valkey does from 8.0 on.
    pub fn refuse_unsubscriptions(&self) {
        self.shared.state().refuses_unsubscriptions = true;
    }

    /// Leads new connections to the server on another port; those that are open stay where they are.
    pub fn lead_to(&self, target_port: u16) {
        self.shared.target_port.store(target_port, Ordering::SeqCst);
    }

    /// Closes every connection of a client, once.
    pub fn disconnect(&self) {
        self.each_of_a_client(Connection::close);
    }

    /// Forgets every connection of a client, as a router does: both ends see it open, and nothing arrives any more.
    /// New ones work.
    pub fn forget_connections(&self) {
        self.each_of_a_client(Connection::forget);
    }

    fn each_of_a_client(&self, change: impl Fn(&Connection)) {
        let open = self.shared.state().open();
        open.iter().filter(|connection| !connection.replicates()).for_each(|it| change(it));
    }

    fn listen_again(&self) -> TcpListener {
        let began = Instant::now();
        loop {
            match TcpListener::bind(("127.0.0.1", self.port)) {
                Ok(listener) => return listener,
                Err(error) => assert!(began.elapsed() < DEADLINE, "the proxy's port: {error}"),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn close(&self, acceptor: &mut Option<JoinHandle<()>>) {
        self.shared.state().closed = true;
        if let Some(acceptor) = acceptor.take() {
            // The acceptor waits for a connection to see that it is to end.
            let _ = TcpStream::connect(("127.0.0.1", self.port));
            let _ = acceptor.join();
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let mut acceptor = self.acceptor.lock().unwrap_or_else(PoisonError::into_inner);
        self.close(&mut acceptor);
        self.shared.state().open().iter().for_each(|connection| connection.close());
    }
}

/// The state that the test thread and the connections share.
#[derive(Debug)]
struct Shared {
    target_port: AtomicU16,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    black_hole: bool,
    refuses_unsubscriptions: bool,
    delay: Duration,
    to_swallow: u64,
    to_cut_after: u64,
    to_cut_before: u64,
    to_cut_before_waits: u64,
    to_refuse: u64,
    /// The error that they get.
    refusal: String,
    swallowed: u64,
    commands: BTreeMap<String, u64>,
    connections: Vec<Weak<Connection>>,
}

impl State {
    fn open(&mut self) -> Vec<Arc<Connection>> {
        self.connections.retain(|connection| connection.strong_count() > 0);
        self.connections.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn to_server(&self) -> std::io::Result<TcpStream> {
        TcpStream::connect(("127.0.0.1", self.target_port.load(Ordering::SeqCst)))
    }

    fn accept(self: &Arc<Self>, listener: TcpListener) -> JoinHandle<()> {
        let shared = Arc::clone(self);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                // An error here is a client that went away at once, or a server that is down.
                let connection = client.and_then(|client| Connection::to_server(&shared, client));
                let mut state = shared.state();
                if state.closed {
                    break;
                }
                if let Ok(connection) = connection {
                    state.open();
                    state.connections.push(Arc::downgrade(&connection));
                    drop(state);
                    connection.run();
                }
            }
            stop_listening(listener);
        })
    }
}

/// Refuses connections from now on. To close a listener is not enough: a process that another thread starts has a
/// copy of it until it executes its program, and while that is open, connections are accepted.
fn stop_listening(listener: TcpListener) {
    #[cfg(unix)]
    let _ =
        TcpStream::from(std::os::fd::OwnedFd::from(listener)).shutdown(std::net::Shutdown::Both);
    #[cfg(not(unix))]
    drop(listener);
}
