//! The simulated store behind the seam that users' stores stand behind.

use std::sync::mpsc::{Sender, channel};
use std::thread;

use lockage_core::Timestamp;
use lockage_redis::{Link, LinkError, LuaStore, Reply, Request};
use lockage_sim::store::SimStore;

/// A [`SimStore`] on a thread of its own, since an interpreter cannot be shared. Clones share it.
#[derive(Clone, Debug)]
pub struct Simulated {
    work: Sender<Work>,
}

type Work = Box<dyn FnOnce(&mut SimStore) + Send>;

impl Simulated {
    /// Makes an empty store.
    pub fn start() -> Self {
        let (work, arrived) = channel::<Work>();
        thread::spawn(move || {
            let mut store = SimStore::new().expect("Lua gets its memory");
            for work in arrived {
                work(&mut store);
            }
        });
        Simulated { work }
    }

    /// Returns the store itself.
    pub fn store(&self) -> LuaStore<Self> {
        LuaStore::new(self.clone())
    }

    /// Sets the store's clock, in microseconds since the epoch.
    pub fn set_us(&self, now_us: u64) {
        let now = Timestamp::from_micros(now_us).expect("the suite stays within the range of time");
        self.with(move |store| store.set_now(now));
    }

    /// Sets whether the store's memory is full, so that it refuses writes that may take more.
    pub fn set_full(&self, is_full: bool) {
        self.with(move |store| store.set_full(is_full));
    }

    fn with<T: Send + 'static>(&self, run: impl FnOnce(&mut SimStore) -> T + Send + 'static) -> T {
        let (sender, receiver) = channel();
        let work = move |store: &mut SimStore| {
            // The caller is still there: it waits just below.
            let _ = sender.send(run(store));
        };
        self.work.send(Box::new(work)).expect("the store's thread lives as long as its handles");
        receiver.recv().expect("the store answers, or its thread has panicked")
    }
}

impl Link for Simulated {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        let name = request.name();
        let words: Vec<Vec<u8>> = request.arguments().map(<[u8]>::to_vec).collect();
        let reply = self.with(move |store| {
            let script = std::str::from_utf8(&words[0]).expect("a digest or a text");
            // The number of keys stands behind the script.
            let keys = str::from_utf8(&words[1]).ok().and_then(|number| number.parse().ok());
            let keys: usize = keys.expect("a number of keys");
            let words: Vec<&[u8]> = words[2..].iter().map(Vec::as_slice).collect();
            let (keys, arguments) = words.split_at(keys);
            match name {
                "EVALSHA" => store.evalsha(script, keys, arguments),
                _ => store.eval(script, keys, arguments),
            }
        });
        Ok(reply.expect("Lua gets its memory").into())
    }
}
