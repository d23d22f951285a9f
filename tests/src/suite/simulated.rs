//! The simulated store behind the seam that users' stores stand behind.

use std::sync::mpsc::{Sender, channel};
use std::thread;

use lockage::{Command, Key, Store, StoreError};
use lockage_core::Timestamp;
use lockage_lua::{Call, Reply, TimeSource};
use lockage_sim::store::{RespValue, SimStore};

/// A [`SimStore`] on a thread of its own, since an interpreter cannot be shared. Clones share it.
#[derive(Clone, Debug)]
pub struct Simulated {
    work: Sender<Work>,
}

type Work = Box<dyn FnOnce(&mut SimStore) + Send>;

impl Simulated {
    /// An empty store.
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

    /// Sets the store's clock, in microseconds since the epoch.
    pub fn set_us(&self, now_us: u64) {
        let now = Timestamp::from_micros(now_us).expect("the suite stays within the range of time");
        self.with(move |store| store.set_now(now));
    }

    fn with<T: Send + 'static>(&self, run: impl FnOnce(&mut SimStore) -> T + Send + 'static) -> T {
        let (sender, receiver) = channel();
        let work = move |store: &mut SimStore| {
            // The one who asked is still there: it waits just below.
            let _ = sender.send(run(store));
        };
        self.work.send(Box::new(work)).expect("the store's thread lives as long as its handles");
        receiver.recv().expect("the store answers, or its thread has panicked")
    }
}

impl Store for Simulated {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        let mut call = Call::new(command, &TimeSource::SERVER);
        loop {
            match self.send(key, &call) {
                RespValue::Error(error) => {
                    let code = error.split(' ').next().unwrap_or_default();
                    if !call.again_after(code) {
                        return Err(StoreError::NotDone(error.into()));
                    }
                }
                reply => return Ok(call.outcome(as_read(&reply))?),
            }
        }
    }
}

impl Simulated {
    fn send<C: Command>(&self, key: &Key, call: &Call<'_, C>) -> RespValue {
        let (name, script) = (call.name(), call.script());
        let key = key.as_str().to_owned();
        let arguments: Vec<Vec<u8>> = call.arguments().map(<[u8]>::to_vec).collect();
        self.with(move |store| {
            let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
            let keys = [key.as_bytes()];
            let reply = match name {
                "EVALSHA" => store.evalsha(script, &keys, &arguments),
                _ => store.eval(script, &keys, &arguments),
            };
            reply.expect("Lua gets its memory")
        })
    }
}

fn as_read(reply: &RespValue) -> Reply<'_> {
    let integer = |value: &RespValue| match value {
        RespValue::Integer(number) => Some(*number),
        _ => None,
    };
    match reply {
        RespValue::Array(values) => Reply::List(values.iter().map(integer).collect()),
        RespValue::Integer(integer) => Reply::Integer(*integer),
        RespValue::Bulk(numbers) => Reply::Bytes(numbers),
        _ => Reply::Other,
    }
}
