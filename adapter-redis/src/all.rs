//! Requests on several keys as one script call, which charges all of them or none.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use lockage::{Key, StoreError};
use lockage_core::{AcquireAll, CallTime, Decision, Encoded, ReplyError, ScriptCall, ScriptId};
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
    pub async fn call_all(
        &self,
        keys: &[Key],
        command: &AcquireAll,
        deadline: Option<Instant>,
    ) -> Result<Vec<Decision>, StoreError> {
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
    pub fn call_all_blocking(
        &self,
        keys: &[Key],
        command: &AcquireAll,
        patience: Duration,
    ) -> Result<Vec<Decision>, StoreError> {
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
        let mut head = Vec::with_capacity(2 * each.len());
        for call in &each {
            let number = scripts.iter().take_while(|id| **id != call.script()).count() + 1;
            // There are fewer than 255 scripts, and a limit has few numbers.
            head.extend([number, call.arguments().len()].map(|number| number as u8));
        }
        let own = each.iter().flat_map(ScriptCall::arguments).map(<[u8]>::to_vec);
        let arguments = std::iter::once(head).chain(own).collect();
        let (script, route) = (all_script(&scripts), Route::default());
        AllCall { command, time, is_packed, script, arguments, route }
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
        let was_packed = self.is_packed;
        if was_packed {
            let text = self.command.encode_text().into_iter().map(Encoded::Text).collect();
            let route = std::mem::take(&mut self.route);
            *self = AllCall { route, ..AllCall::of(self.command, text, self.time) };
            self.route.of_another_script();
        }
        was_packed
    }

    /// Returns the decisions of a final reply.
    ///
    /// # Errors
    /// As of [`Call::outcome`](crate::Call::outcome).
    pub fn outcome(&self, reply: &Reply) -> Result<Vec<Decision>, StoreError> {
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
