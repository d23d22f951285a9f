//! Ports that stay free for the server or the proxy that was given one, also while it is down.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// The bus of a cluster's node is so many ports above its own by default.
pub const BUS_OFFSET: u16 = 10_000;

/// How many ports are tried when other programs keep taking them first.
const ATTEMPTS: u32 = 50;

// Below the range from which systems take the ports of outgoing connections (32768 on Linux, 49152
// elsewhere), with the bus too: so a server that is down for a while finds its port free again.
const FIRST: u32 = 10_000;
const COUNT: u32 = 12_000;

/// Returns what `start` makes of a free port of 127.0.0.1, whose [`BUS_OFFSET`] is free too. It returns `None` where
/// another program took the port first, and is then given another.
///
/// # Panics
/// Where there is none.
pub fn on_free_port<T>(mut start: impl FnMut(u16) -> Option<T>) -> T {
    (0..ATTEMPTS)
        .find_map(|_| Some(next()).filter(|port| is_free(*port)).and_then(&mut start))
        .unwrap_or_else(|| panic!("no free TCP port on 127.0.0.1 after {ATTEMPTS} attempts"))
}

/// Never the same port twice in a process, and different ones in processes that run side by side.
fn next() -> u16 {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(997);
    let port = FIRST + start.wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed)) % COUNT;
    u16::try_from(port).expect("the range ends below 65536")
}

fn is_free(port: u16) -> bool {
    [port, port + BUS_OFFSET].iter().all(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
}
