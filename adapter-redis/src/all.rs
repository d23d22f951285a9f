//! Requests on several keys as one script call, which charges all of them or none.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use lockage::{Key, StoreError};
use lockage_core::{AcquireAll, CallTime, Encoded, OneOutcome, ReplyError, ScriptCall, ScriptId};
use lockage_lua::{NEEDS_SLOW_PATH, Script, all_script};

use crate::call::Reply;
use crate::clock::now;
use crate::link::{Link, Request, Route};
use crate::store::LuaStore;

impl<L: Link> LuaStore<L> {
    /// Executes requests on several keys as [`Store::execute_all`](lockage::Store::execute_all) does, for a caller that drops the call at `deadline`.
    ///
    /// # Errors
    /// See [`StoreError`].
    ///
    /// # Panics
    /// Unless there is one key for each request.
    pub async fn call_all(
        &self,
        keys: &[Key],
        command: &AcquireAll,
        deadline: Option<Instant>,
    ) -> Result<Vec<OneOutcome>, StoreError> {
        assert_eq!(keys.len(), command.requests().len(), "each request has a key");
        if self.link.is_cluster() && keys.iter().any(|key| key.hash_tag() != keys[0].hash_tag()) {
            return Err(StoreError::Misconfigured(SEVERAL_NODES.into()));
        }
        let mut call = AllCall::new(command, self.time.read());
        loop {
            let request = call.request(keys.iter().map(Key::as_str)).by(deadline);
            let reply = self.send(&request).await?;
            if !call.goes_on_after(&reply, self.link.is_cluster()) {
                return call.outcome(&reply);
            }
        }
    }

    /// Executes requests on several keys as [`LuaStore::call_all`] does, through a link whose futures are always ready.
    ///
    /// # Errors
    /// See [`StoreError`].
    ///
    /// # Panics
    /// As [`LuaStore::call_all`].
    pub fn call_all_blocking(
        &self,
        keys: &[Key],
        command: &AcquireAll,
        patience: Duration,
    ) -> Result<Vec<OneOutcome>, StoreError> {
        let call = self.call_all(keys, command, now().checked_add(patience));
        // Invariant: as of a call.
        call.now_or_never().expect("a link that blocks is always ready")
    }
}

const SEVERAL_NODES: &str = "the ids of one decision are on several nodes of the cluster: begin them with one tag in braces, \
                             such as {acme}:user:42 and {acme}:all";

/// An [`AcquireAll`] as one script call, and the next step after each reply.
#[derive(Debug)]
pub struct AllCall<'a> {
    command: &'a AcquireAll,
    time: CallTime,
    is_packed: bool,
    script: Arc<Script>,
    arguments: Vec<Vec<u8>>,
    route: Route,
}

impl<'a> AllCall<'a> {
    /// Returns the call at this time.
    pub fn new(command: &'a AcquireAll, time: CallTime) -> Self {
        AllCall::of(command, command.encode(), time)
    }

    fn of(command: &'a AcquireAll, each: Vec<Encoded>, time: CallTime) -> Self {
        let is_packed = matches!(each[0], Encoded::Packed(_));
        let each: Vec<ScriptCall> = each.into_iter().map(|encoded| encoded.at(time)).collect();
        let mut scripts: Vec<ScriptId> = each.iter().map(ScriptCall::script).collect();
        scripts.sort_unstable();
        scripts.dedup();
        let head = each.iter().flat_map(|call| {
            let number = scripts.iter().take_while(|id| **id != call.script()).count() + 1;
            // There are fewer than 255 scripts, and a limit has few numbers.
            [number, call.arguments().len()].map(|number| number as u8)
        });
        let own = each.iter().flat_map(ScriptCall::arguments).map(<[u8]>::to_vec);
        let arguments = std::iter::once(head.collect()).chain(own).collect();
        let (script, route) = (all_script(&scripts), Route::default());
        AllCall { command, time, is_packed, script, arguments, route }
    }

    /// Returns its script.
    pub fn script(&self) -> &Script {
        &self.script
    }

    /// Returns the request to send: `EVALSHA digest number key... argument...`, or `EVAL` with the script's text.
    pub fn request<'r>(&'r self, keys: impl ExactSizeIterator<Item = &'r str>) -> Request<'r> {
        let number = keys.len() as u128;
        let request = self.route.request(&self.script).with_number(number);
        let request = keys.fold(request, Request::with_key);
        self.arguments.iter().fold(request, Request::with)
    }

    /// Takes a reply, and returns whether to send the next [`AllCall::request`] at once, as after the reply to a
    /// [`Call`](crate::Call). If one key needs the slow path, all take it.
    pub fn goes_on_after(&mut self, reply: &Reply, follows: bool) -> bool {
        let Reply::Error(error) = reply else { return false };
        if error.code() != NEEDS_SLOW_PATH {
            return self.route.goes_on_after(error.code(), error.node(), follows);
        }
        if !self.is_packed {
            return false;
        }
        let text = self.command.encode_text().into_iter().map(Encoded::Text).collect();
        let route = std::mem::take(&mut self.route);
        *self = AllCall { route, ..AllCall::of(self.command, text, self.time) };
        self.route.of_another_script();
        true
    }

    /// Returns the decisions of a final reply.
    ///
    /// # Errors
    /// As of [`Call::outcome`](crate::Call::outcome).
    pub fn outcome(&self, reply: &Reply) -> Result<Vec<OneOutcome>, StoreError> {
        match reply {
            Reply::Error(error) if self.route.is_lost_after(error.code()) => {
                Err(StoreError::NotDone(Box::new(error.clone())))
            }
            Reply::Error(error) => Err(error.refusal()),
            Reply::List(replies) => {
                let replies: Result<Vec<_>, ReplyError> =
                    replies.iter().map(Reply::integers).collect();
                Ok(self.command.outcome(&replies?)?)
            }
            _ => Err(ReplyError::Unexpected.into()),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use lockage::{Limit, Store};
    use lockage_core::Acquire;

    use super::*;
    use crate::link::LinkError;

    fn command() -> AcquireAll {
        let limits = ["token-bucket 5/s", "fixed-window 5/s", "token-bucket 9/s"];
        let each = limits.map(|limit| Acquire::new(limit.parse::<Limit>().unwrap(), 1).unwrap());
        AcquireAll::new(each.into()).unwrap()
    }

    /// Returns the command's name, and its arguments.
    fn sent(call: &AllCall<'_>) -> (&'static str, Vec<Vec<u8>>) {
        let request = call.request(["a", "b", "c"].into_iter());
        (request.name(), request.arguments().map(<[u8]>::to_vec).collect())
    }

    #[test]
    fn each_key_has_its_script_and_its_arguments() {
        let command = command();
        let scripts = [ScriptId::FixedWindowAcquire, ScriptId::TokenBucketAcquire];
        let of = |id| scripts.iter().position(|it| *it == id).unwrap() as u8 + 1;
        let [window, bucket] = scripts.map(of);
        let (name, words) = sent(&AllCall::new(&command, CallTime::Store));
        assert_eq!(name, "EVALSHA");
        assert_eq!(words[0], all_script(&scripts).digest().as_bytes());
        assert_eq!(words[1..5], [&b"3"[..], b"a", b"b", b"c"].map(<[u8]>::to_vec));
        assert_eq!(words[5], [bucket, 1, window, 1, bucket, 1]);
        assert_eq!(words.len(), 9);
    }

    /// The text follows the digest once, all keys take the slow path once, and a slot is followed only in a cluster.
    #[test]
    fn a_call_goes_on_as_one_for_a_single_key_does() {
        let command = command();
        let mut call = AllCall::new(&command, CallTime::Store);
        let mut goes_on = |error: &str| call.goes_on_after(&Reply::error(error), true);
        assert!(goes_on("NOSCRIPT No matching script."));
        assert!(!goes_on("NOSCRIPT No matching script."));
        assert!(goes_on("LOCKAGE_NEEDS_SLOW_PATH"));
        assert!(goes_on("ASK 1 b:1"));
        assert!(goes_on("NOSCRIPT No matching script."));
        assert!(!goes_on("LOCKAGE_NEEDS_SLOW_PATH"));
        let (name, words) = sent(&call);
        assert_eq!((name, words[5][0], words[5][2]), ("EVAL", 1, 1), "one script for all");
        let request = call.request(["a"].into_iter());
        assert_eq!((request.node(), request.is_asking()), (Some("b:1"), true));
        let lost = call.outcome(&Reply::error("MOVED 1 c:1"));
        assert!(matches!(lost, Err(StoreError::NotDone(_))), "{lost:?}");
        assert!(!call.goes_on_after(&Reply::error("MOVED 1 c:1"), false));
    }

    #[test]
    fn a_reply_has_one_for_each_key() {
        let command = command();
        let call = AllCall::new(&command, CallTime::Store);
        for reply in [Reply::Other, Reply::Integer(1), Reply::List(vec![Reply::Integer(0); 2])] {
            let unreadable = call.outcome(&reply);
            assert!(matches!(unreadable, Err(StoreError::Unknown(_))), "{unreadable:?}");
        }
        let refused = call.outcome(&Reply::error("NOAUTH Authentication required."));
        assert!(matches!(refused, Err(StoreError::Misconfigured(_))), "{refused:?}");
    }

    /// A server that names another node for each request, and counts them.
    struct Moved {
        is_cluster: bool,
        sent: AtomicUsize,
    }

    impl Link for Moved {
        async fn send(&self, _: &Request<'_>) -> Result<Reply, LinkError> {
            self.sent.fetch_add(1, Ordering::Relaxed);
            Ok(Reply::error("MOVED 1 b:1"))
        }

        fn is_cluster(&self) -> bool {
            self.is_cluster
        }
    }

    #[test]
    fn another_node_is_asked_only_in_a_cluster() {
        for is_cluster in [true, false] {
            let store = LuaStore::new(Moved { is_cluster, sent: AtomicUsize::new(0) });
            let keys = ["{t}1", "{t}2", "{t}3"].map(|id| Key::new("test", id).unwrap());
            let command = command();
            let asked = store.execute_all(&keys, &command, Duration::MAX);
            assert!(asked.now_or_never().unwrap().is_err());
            assert_eq!(store.link.sent.load(Ordering::Relaxed) > 1, is_cluster);
        }
    }

    /// A cluster that is asked for nothing.
    struct Cluster;

    impl Link for Cluster {
        async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
            match request.key() {
                Some("test:{{t}:3}") => Err(LinkError::not_sent("sent")),
                key => panic!("{key:?} is on a node of its own"),
            }
        }

        fn is_cluster(&self) -> bool {
            true
        }
    }

    #[test]
    fn keys_on_several_nodes_are_refused_before_anything_is_sent() {
        let (store, command) = (LuaStore::new(Cluster), command());
        let ask = |ids: [&str; 3]| {
            let keys = ids.map(|id| Key::new("test", id).unwrap());
            let asked = store.execute_all(&keys, &command, Duration::MAX);
            asked.now_or_never().unwrap()
        };
        let refused = ask(["{t}:1", "{t}:2", "{s}:3"]).unwrap_err();
        assert!(matches!(refused, StoreError::Misconfigured(_)), "{refused}");
        assert!(refused.to_string().contains("one tag in braces"), "{refused}");
        let sent = ask(["{t}:1", "{t}:2", "{t}:3"]).unwrap_err();
        assert!(matches!(sent, StoreError::NotDone(_)), "{sent}");
    }
}
