//! A proxy between clients and one server that loses replies, cuts connections, is late, or is not
//! there, when a test says so.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::ports::on_free_port;
use super::resp::{command_name, frame_length, is_push, push_name};
use super::until;

/// A TCP proxy on a free port of 127.0.0.1, gone with its connections when the guard drops.
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

    /// The port that clients connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL that clients connect to, `redis://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// How many commands of this name, in capitals, were forwarded to the server.
    pub fn commands(&self, name: &str) -> u64 {
        self.shared.state().commands.get(name).copied().unwrap_or(0)
    }

    /// How many replies to scripts were swallowed.
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

    /// The same for the next `n` times that a client waits for replicas (WAIT).
    pub fn cut_before_waits(&self, n: u64) {
        self.shared.state().to_cut_before_waits = n;
    }

    /// Delivers each reply this much later, and up to twice as late when replies come faster.
    pub fn delay_replies(&self, delay: Duration) {
        self.shared.state().delay = delay;
    }

    /// Like a dead server while `true`: every connection is closed and new ones are refused.
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
            let listener = until("the proxy has its port again", || {
                TcpListener::bind(("127.0.0.1", self.port)).map_err(|error| error.to_string())
            });
            self.shared.state().closed = false;
            *acceptor = Some(self.shared.accept(listener));
        }
    }

    /// Like a lost network while `true`: everything is accepted and read, nothing is forwarded or
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
        let open = self.shared.state().open();
        open.iter().filter(|connection| !connection.replicates()).for_each(|it| it.close());
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

/// What the test thread and the connections share.
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

    fn accept(self: &Arc<Self>, listener: TcpListener) -> JoinHandle<()> {
        let shared = Arc::clone(self);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                // An error here is a client that went away at once, or a server that is down.
                let connection = client.and_then(|client| shared.connect(client));
                let mut state = shared.state();
                if state.closed {
                    return;
                }
                if let Ok(connection) = connection {
                    state.open();
                    state.connections.push(Arc::downgrade(&connection));
                    drop(state);
                    connection.run();
                }
            }
        })
    }

    fn connect(self: &Arc<Self>, client: TcpStream) -> std::io::Result<Arc<Connection>> {
        let target_port = self.target_port.load(Ordering::SeqCst);
        let server = TcpStream::connect(("127.0.0.1", target_port))?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (shared, awaited) = (Arc::clone(self), Mutex::default());
        let [silent, replicates, subscribed] = [(); 3].map(|()| AtomicBool::new(false));
        Ok(Arc::new(Connection { client, server, shared, awaited, silent, replicates, subscribed }))
    }
}

/// A client's connection, and the one to the server that belongs to it.
#[derive(Debug)]
struct Connection {
    client: TcpStream,
    server: TcpStream,
    shared: Arc<Shared>,
    /// What was forwarded and is not answered yet.
    awaited: Mutex<VecDeque<Request>>,
    /// A reply is missing, or a request is: what follows would be taken for it.
    silent: AtomicBool,
    /// It carries replication in place of requests and replies.
    replicates: AtomicBool,
    /// It has a channel.
    subscribed: AtomicBool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    Script,
    ScriptToCut,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Pass,
    PassAsLast,
    Lose,
    Cut,
}

impl Connection {
    fn run(self: Arc<Self>) {
        let replies = Arc::clone(&self);
        std::thread::spawn(move || replies.pass_replies());
        std::thread::spawn(move || self.pass_requests());
    }

    fn pass_requests(&self) {
        for request in Frames::new(&self.client, &self.replicates) {
            let fate = self.fate_of_request(&request);
            if fate == Fate::Cut {
                break;
            }
            if fate != Fate::Lose && (&self.server).write_all(&request).is_err() {
                break;
            }
            if fate == Fate::PassAsLast {
                // The reply to it closes the connection.
                return;
            }
        }
        self.close();
    }

    fn pass_replies(&self) {
        let mut frames = Frames::new(&self.server, &self.replicates);
        while let Some(reply) = frames.next() {
            let delay = self.shared.state().delay;
            if !self.replicates() {
                std::thread::sleep((frames.read_at + delay).duration_since(Instant::now()));
            }
            let fate = self.fate_of_reply(&reply);
            if fate == Fate::Cut {
                break;
            }
            let reply = self.as_valkey(&reply);
            if fate == Fate::Pass && (&self.client).write_all(reply).is_err() {
                break;
            }
        }
        self.close();
    }

    fn fate_of_request(&self, request: &[u8]) -> Fate {
        if self.replicates() {
            return Fate::Pass;
        }
        let mut state = self.shared.state();
        if state.black_hole {
            self.silent.store(true, Ordering::SeqCst);
            return Fate::Lose;
        }
        let name = command_name(request);
        let is_script = matches!(name.as_str(), "EVALSHA" | "EVAL");
        if is_script && spend(&mut state.to_cut_before) {
            return Fate::Cut;
        }
        if name == "WAIT" && spend(&mut state.to_cut_before_waits) {
            return Fate::Cut;
        }
        let is_last = is_script && spend(&mut state.to_cut_after);
        // Before the server can answer it.
        match name.as_str() {
            "PSYNC" | "SYNC" => self.replicates.store(true, Ordering::SeqCst),
            // They are answered by pushes, or in RESP2 by any number of messages.
            "SUBSCRIBE" | "PSUBSCRIBE" | "SSUBSCRIBE" => {}
            "UNSUBSCRIBE" | "PUNSUBSCRIBE" | "SUNSUBSCRIBE" => {}
            _ => self.awaited().push_back(match (is_script, is_last) {
                (_, true) => Request::ScriptToCut,
                (true, false) => Request::Script,
                (false, false) => Request::Other,
            }),
        }
        *state.commands.entry(name).or_default() += 1;
        if is_last { Fate::PassAsLast } else { Fate::Pass }
    }

    fn fate_of_reply(&self, reply: &[u8]) -> Fate {
        if self.replicates() {
            return Fate::Pass;
        }
        let mut state = self.shared.state();
        let request = match is_push(reply) {
            true => None,
            false => self.awaited().pop_front(),
        };
        if request == Some(Request::ScriptToCut) {
            return Fate::Cut;
        }
        if state.black_hole {
            self.silent.store(true, Ordering::SeqCst);
        }
        if request == Some(Request::Script) && !state.black_hole {
            let swallow = spend(&mut state.to_swallow) || self.silent();
            state.swallowed += u64::from(swallow);
            self.silent.fetch_or(swallow, Ordering::SeqCst);
        }
        if self.silent() { Fate::Lose } else { Fate::Pass }
    }

    /// Returns what Valkey replies in place of this. One channel at a time is enough here.
    fn as_valkey<'r>(&self, reply: &'r [u8]) -> &'r [u8] {
        match push_name(reply) {
            Some(b"ssubscribe") => self.subscribed.store(true, Ordering::SeqCst),
            Some(b"sunsubscribe") => {
                let had_one = self.subscribed.swap(false, Ordering::SeqCst);
                if !had_one && self.shared.state().refuses_unsubscriptions {
                    return b"-NOSUB 'SUNSUBSCRIBE' command executed not in subscribed mode\r\n";
                }
            }
            _ => {}
        }
        reply
    }

    fn awaited(&self) -> MutexGuard<'_, VecDeque<Request>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn silent(&self) -> bool {
        self.silent.load(Ordering::SeqCst)
    }

    fn replicates(&self) -> bool {
        self.replicates.load(Ordering::SeqCst)
    }

    /// Ends both directions; what was closed before is closed already.
    fn close(&self) {
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

/// Takes one of what is left.
fn spend(left: &mut u64) -> bool {
    let some = *left > 0;
    *left -= u64::from(some);
    some
}

/// Requests or replies one by one, and from when `raw` is set bytes as they come.
struct Frames<'c> {
    stream: &'c TcpStream,
    raw: &'c AtomicBool,
    read: Vec<u8>,
    read_at: Instant,
}

impl<'c> Frames<'c> {
    fn new(stream: &'c TcpStream, raw: &'c AtomicBool) -> Self {
        Self { stream, raw, read: Vec::new(), read_at: Instant::now() }
    }
}

impl Iterator for Frames<'_> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut chunk = [0; 16 * 1024];
        loop {
            let length = match self.raw.load(Ordering::SeqCst) {
                true => Some(self.read.len()).filter(|length| *length > 0),
                false => frame_length(&self.read),
            };
            if let Some(length) = length {
                return Some(self.read.drain(..length).collect());
            }
            let count = self.stream.read(&mut chunk).ok().filter(|count| *count > 0)?;
            self.read.extend_from_slice(&chunk[..count]);
            self.read_at = Instant::now();
        }
    }
}
