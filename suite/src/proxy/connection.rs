//! One client's connection through the proxy, request by request and reply by reply.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::Shared;
use super::resp::{command_name, frame_length, is_push, push_name};

/// A client's connection, and the one to the server that belongs to it.
#[derive(Debug)]
pub(super) struct Connection {
    client: TcpStream,
    server: TcpStream,
    shared: Arc<Shared>,
    /// The forwarded requests that are not answered yet.
    awaited: Mutex<VecDeque<Request>>,
    /// A reply is missing, or a request is: later replies would be taken for it.
    silent: AtomicBool,
    /// Nothing arrives any more, in either direction.
    forgotten: AtomicBool,
    /// It carries replication in place of requests and replies.
    replicates: AtomicBool,
    /// It has a channel.
    subscribed: AtomicBool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    Script,
    ScriptToCut,
    /// Sent in place of a script that gets an error.
    Refused,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Pass,
    PassAsLast,
    Refuse,
    Lose,
    Cut,
}

impl Connection {
    /// Connects this client to the server.
    pub(super) fn to_server(shared: &Arc<Shared>, client: TcpStream) -> std::io::Result<Arc<Self>> {
        let server = shared.to_server()?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (shared, awaited) = (Arc::clone(shared), Mutex::default());
        let [silent, forgotten, replicates, subscribed] = [(); 4].map(|()| AtomicBool::new(false));
        Ok(Arc::new(Connection {
            client,
            server,
            shared,
            awaited,
            silent,
            forgotten,
            replicates,
            subscribed,
        }))
    }

    pub(super) fn run(self: Arc<Self>) {
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
            // The error takes the place of a reply, so that it is in order.
            let request = if fate == Fate::Refuse { b"PING\r\n" } else { &request[..] };
            if fate != Fate::Lose && (&self.server).write_all(request).is_err() {
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
            let refusal = self.shared.state().refusal.clone();
            let reply = match fate {
                Fate::Refuse => refusal.as_bytes(),
                _ => self.as_valkey(&reply),
            };
            if fate != Fate::Lose && (&self.client).write_all(reply).is_err() {
                break;
            }
        }
        self.close();
    }

    fn fate_of_request(&self, request: &[u8]) -> Fate {
        if self.replicates() {
            return Fate::Pass;
        }
        if self.forgotten() {
            return Fate::Lose;
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
        if is_script && !is_last && spend(&mut state.to_refuse) {
            self.awaited().push_back(Request::Refused);
            return Fate::Refuse;
        }
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
        if self.forgotten() {
            return Fate::Lose;
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
        match request {
            _ if self.silent() => Fate::Lose,
            Some(Request::Refused) => Fate::Refuse,
            _ => Fate::Pass,
        }
    }

    /// Returns Valkey's reply in place of this. One channel at a time is enough here.
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

    pub(super) fn silent(&self) -> bool {
        self.silent.load(Ordering::SeqCst)
    }

    pub(super) fn forget(&self) {
        self.forgotten.store(true, Ordering::SeqCst);
    }

    fn forgotten(&self) -> bool {
        self.forgotten.load(Ordering::SeqCst)
    }

    pub(super) fn replicates(&self) -> bool {
        self.replicates.load(Ordering::SeqCst)
    }

    /// Ends both directions; a second call has no effect.
    pub(super) fn close(&self) {
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

/// Takes one of the rest.
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
