//! The simulated store behind the seam that users' stores stand behind.

use std::sync::mpsc::{Sender, channel};
use std::thread;

use lockage::{Command, Key, Store, StoreError};
use lockage_core::{Arguments, ReplyError, Timestamp};
use lockage_lua::{Attempt, script};
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
        let mut arguments = Arguments::new(None, 0);
        command.arguments(&mut arguments);
        let mut attempt = Attempt::Digest;
        loop {
            match (self.call(attempt, key, command, &arguments), attempt.after_no_script()) {
                (RespValue::Error(error), Some(next)) if error.starts_with("NOSCRIPT") => {
                    attempt = next
                }
                (RespValue::Array(reply), _) => return read(command, &reply),
                (other, _) => return Err(StoreError::NotDone(format!("{other:?}").into())),
            }
        }
    }
}

impl Simulated {
    fn call<C: Command>(
        &self,
        attempt: Attempt,
        key: &Key,
        command: &C,
        arguments: &Arguments,
    ) -> RespValue {
        let script = attempt.argument(script(command.script()));
        let key = key.as_str().to_owned();
        let arguments: Vec<String> = arguments.iter().map(str::to_owned).collect();
        self.with(move |store| {
            let arguments: Vec<&[u8]> = arguments.iter().map(String::as_bytes).collect();
            let keys = [key.as_bytes()];
            let reply = match attempt {
                Attempt::Digest => store.evalsha(script, &keys, &arguments),
                Attempt::Source => store.eval(script, &keys, &arguments),
            };
            reply.expect("Lua gets its memory")
        })
    }
}

fn read<C: Command>(command: &C, reply: &[RespValue]) -> Result<C::Outcome, StoreError> {
    let integer = |value: &RespValue| match value {
        RespValue::Integer(number) => Ok(*number),
        other => Err(StoreError::Unknown(format!("{other:?} in a reply").into())),
    };
    let numbers = reply.iter().map(integer).collect::<Result<Vec<i64>, _>>()?;
    command.outcome(&numbers).map_err(|error| match error {
        ReplyError::Record(error) => StoreError::Record(error),
        other => StoreError::Unknown(Box::new(other)),
    })
}
