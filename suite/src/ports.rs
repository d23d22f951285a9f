//! Ports that stay free for the server or the proxy that was given one, also while it is down.

use std::net::{TcpListener, UdpSocket};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// The bus of a cluster's node is this many ports above its own by default.
pub const BUS_OFFSET: u16 = 10_000;

/// The number of ports that are tried when other programs keep taking them first.
const ATTEMPTS: u32 = 50;

// Below the range from which systems take the ports of outgoing connections (32768 on Linux, 49152
// elsewhere), with the bus too: so a server that is down for a while finds its port free again.
const FIRST: u16 = 10_000;
const COUNT: u16 = 10_000;

/// This many ports belong to one process alone at a time.
const BLOCK: u16 = 250;

// No port is the bus of another, and no block is cut off.
const _: () = assert!(COUNT <= BUS_OFFSET && COUNT.is_multiple_of(BLOCK));

/// Returns the result of `start` for a free port of 127.0.0.1, whose [`BUS_OFFSET`] is free too. It returns `None`
/// where another program took the port first, and is then given another.
///
/// # Panics
/// Where there is none.
pub fn on_free_port<T>(mut start: impl FnMut(u16) -> Option<T>) -> T {
    (0..ATTEMPTS)
        .find_map(|_| Some(next()).filter(|port| is_free(*port)).and_then(&mut start))
        .unwrap_or_else(|| panic!("no free TCP port on 127.0.0.1 after {ATTEMPTS} attempts"))
}

/// Returns a port, never the same one twice, neither in a process nor in processes that run side by side: where a
/// server is down, a program that tried its port would answer its clients for a moment.
fn next() -> u16 {
    static OURS: Mutex<Vec<(UdpSocket, Range<u16>)>> = Mutex::new(Vec::new());
    let mut ours = OURS.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(port) = ours.last_mut().and_then(|(_, ports)| ports.next()) {
            return port;
        }
        ours.push(block().expect("a block of ports that no other process has"));
    }
}

/// Returns a block of ports, which belongs to its process while the UDP port of its first number does.
fn block() -> Option<(UdpSocket, Range<u16>)> {
    (FIRST..FIRST + COUNT).step_by(BLOCK.into()).find_map(|first| {
        let socket = UdpSocket::bind(("127.0.0.1", first)).ok()?;
        Some((socket, first..first + BLOCK))
    })
}

fn is_free(port: u16) -> bool {
    [port, port + BUS_OFFSET].iter().all(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
}
