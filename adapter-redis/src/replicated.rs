//! Waiting for replicas.

use std::time::{Duration, Instant};

use lockage::store::{Command, Replicated};
use lockage::{Key, StoreError};
use lockage_lua::REWRITE;

use crate::call::Call;
use crate::call::Reply;
use crate::clock::now;
use crate::link::{Link, LinkError, Request};
use crate::store::LuaStore;

/// The longest that a server is asked to wait for its replicas.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// A link that can wait for replicas too. Each such call has a connection to itself, since everything after a `WAIT` on
/// its connection waits as well.
pub trait Acknowledging: Link {
    /// Sends a call and then waits for replicas, on one connection.
    ///
    /// # Errors
    /// As [`Link::send`], of the call.
    fn send_acknowledged(
        &self,
        call: &Request<'_>,
        wait: ReplicaWait,
    ) -> impl Future<Output = Result<Acknowledged, LinkError>> + Send;
}

/// A call's reply; and how many replicas have its effect, or why that is unknown.
pub type Acknowledged = (Reply, Result<u32, LinkError>);

impl<L: Acknowledging> Replicated for LuaStore<L> {
    async fn execute_acknowledged<C>(
        &self,
        key: &Key,
        command: &C,
        replicas: u32,
        patience: Duration,
    ) -> Result<(C::Outcome, u32), StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        let wait = ReplicaWait::new(replicas, patience);
        let mut call = Call::new(command, self.time.read());
        loop {
            let request = call.request(key.as_str());
            self.check_open()?;
            let sent = self.link.send_acknowledged(&request, wait).await;
            let (reply, acknowledged) = sent.map_err(|error| self.named(error))?;
            if !call.goes_on_after(&reply, self.link.is_cluster()) {
                let acknowledged = acknowledged.map_err(|error| self.named(error));
                return Ok((call.outcome(&reply)?, acknowledged?));
            }
        }
    }
}

/// How long a call waits for replicas once its command is done.
#[derive(Clone, Copy, Debug)]
pub struct ReplicaWait {
    replicas: u32,
    deadline: Instant,
}

impl ReplicaWait {
    /// Creates a wait for this many replicas, for this long from now on.
    pub fn new(replicas: u32, patience: Duration) -> Self {
        ReplicaWait { replicas, deadline: now() + patience.min(LONGEST) }
    }

    /// Returns when it ends.
    pub(crate) fn deadline(self) -> Instant {
        self.deadline
    }

    /// Returns the time left, in whole milliseconds: at least one, since zero means for ever to a server.
    pub fn left(self) -> Duration {
        let left = self.deadline.saturating_duration_since(now()).as_millis();
        // Invariant: it is no longer than a day.
        Duration::from_millis(u64::try_from(left).expect("no longer than a day").max(1))
    }

    /// Returns all requests for this call, to one connection: on another one `WAIT` counts nothing of it.
    ///
    /// In a transaction no slot can move to another node in between. The record is rewritten unchanged (`rewrite.lua`),
    /// so that there is a write to wait for if the command had none.
    pub(crate) fn requests<'r>(self, call: &Request<'r>, in_transaction: bool) -> Vec<Request<'r>> {
        let key = call.key().unwrap_or_default();
        let rewrite = Request::new("EVAL").with(REWRITE).with("1").with_key(key);
        let wait = Request::new("WAIT").with_number(self.replicas.into());
        let wait = wait.with_number(self.left().as_millis());
        // It holds for the next command, or the whole transaction.
        let asking = call.is_asking().then(|| Request::new("ASKING").along(call.redirect()));
        let done = match in_transaction {
            true => vec![Request::new("MULTI"), call.clone(), rewrite, Request::new("EXEC")],
            false => {
                [Some(call.clone()), asking.clone(), Some(rewrite)].into_iter().flatten().collect()
            }
        };
        asking.into_iter().chain(done).chain([wait]).collect()
    }
}

/// Reads the replies to [`ReplicaWait::requests`].
pub(crate) fn read(
    mut replies: Vec<Reply>,
    in_transaction: bool,
) -> Result<Acknowledged, LinkError> {
    if let [Reply::Error(_)] = &replies[..] {
        return Ok((replies.remove(0), Err(unexpected())));
    }
    let waited = replies.pop();
    if in_transaction {
        let executed = replies.pop();
        // If anything was refused before, nothing of the transaction ran.
        let refused = replies.into_iter().find(|reply| matches!(reply, Reply::Error(_)));
        replies = match (refused, executed) {
            (Some(error), _) | (None, Some(error @ Reply::Error(_))) => {
                return Ok((error, Err(unexpected())));
            }
            (None, Some(Reply::List(both))) => both,
            _ => return Err(unexpected()),
        };
    }
    let rewritten = replies.pop();
    // The call comes first, except for an `ASKING` before it and another after it.
    let reply = match replies.len() {
        1 => replies.pop(),
        3 => replies.into_iter().nth(1),
        _ => None,
    };
    let acknowledged = match (rewritten, waited) {
        (Some(Reply::Integer(1)), Some(Reply::Integer(count))) => {
            u32::try_from(count).map_err(LinkError::unanswered)
        }
        (Some(Reply::Error(error)), _) | (_, Some(Reply::Error(error))) => {
            Err(LinkError::unanswered(error))
        }
        _ => Err(unexpected()),
    };
    Ok((reply.ok_or_else(unexpected)?, acknowledged))
}

fn unexpected() -> LinkError {
    LinkError::unanswered("not the replies to a transaction and WAIT")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the server's replies to all requests, with nothing refused before `EXEC`.
    fn after_done(executed: Reply, waited: Reply) -> Result<Acknowledged, LinkError> {
        read(vec![Reply::Other, Reply::Other, Reply::Other, executed, waited], true)
    }

    fn both(reply: Reply, rewritten: Reply) -> Reply {
        Reply::List(vec![reply, rewritten])
    }

    #[test]
    fn replicas_are_counted_only_after_a_write() {
        let [one, two, seven] = [1, 2, 7].map(Reply::Integer);
        let (reply, acknowledged) =
            after_done(both(seven.clone(), one.clone()), two.clone()).unwrap();
        assert_eq!((reply, acknowledged.unwrap()), (seven.clone(), 2));
        let oom = Reply::error("OOM command not allowed");
        for (rewritten, waited, why) in [
            (Reply::Integer(0), two.clone(), "not the replies"),
            (oom, two, "OOM"),
            (one.clone(), Reply::error("NOPERM this user has no permissions"), "NOPERM"),
            (one, Reply::Other, "not the replies"),
        ] {
            let (reply, acknowledged) = after_done(both(seven.clone(), rewritten), waited).unwrap();
            assert_eq!(reply, seven);
            let error = acknowledged.unwrap_err();
            assert!(error.was_sent() && error.to_string().starts_with(why), "{why}: {error}");
        }
    }

    #[test]
    fn errors_of_the_call_take_precedence() {
        let code = |told: Result<Acknowledged, LinkError>| match told {
            Ok((Reply::Error(error), _)) => Some(error.code().to_owned()),
            _ => None,
        };
        let [zero, one] = [0, 1].map(Reply::Integer);
        let missing = both(Reply::error("NOSCRIPT No matching script."), one);
        assert_eq!(code(after_done(missing, zero.clone())).as_deref(), Some("NOSCRIPT"));
        let aborted =
            || Reply::error("EXECABORT Transaction discarded because of previous errors.");
        let moved = || Reply::error("MOVED 1 127.0.0.1:1");
        let told = read(vec![Reply::Other, moved(), moved(), aborted(), zero.clone()], true);
        assert_eq!(code(told).as_deref(), Some("MOVED"));
        let again = Reply::error("TRYAGAIN");
        let asked = vec![Reply::Other, Reply::Other, again, Reply::Other, aborted(), zero.clone()];
        assert_eq!(code(read(asked, true)).as_deref(), Some("TRYAGAIN"));
        let told = after_done(Reply::error("READONLY no"), zero.clone());
        assert_eq!(code(told).as_deref(), Some("READONLY"));
        assert_eq!(code(read(vec![moved()], true)).as_deref(), Some("MOVED"), "in place of all");
        assert!(after_done(Reply::Other, zero).is_err_and(|error| error.was_sent()));
        assert!(read(vec![], true).is_err());
    }

    #[test]
    fn without_a_transaction_each_reply_stands_by_itself() {
        let [one, two, seven] = [1, 2, 7].map(Reply::Integer);
        let (reply, acknowledged) =
            read(vec![seven.clone(), one.clone(), two.clone()], false).unwrap();
        assert_eq!((reply, acknowledged.unwrap()), (seven.clone(), 2));
        let asked = vec![Reply::Other, seven.clone(), Reply::Other, one.clone(), two.clone()];
        let (reply, acknowledged) = read(asked, false).unwrap();
        assert_eq!((reply, acknowledged.unwrap()), (seven.clone(), 2));
        let oom = Reply::error("OOM command not allowed");
        let (reply, acknowledged) = read(vec![seven.clone(), oom, two.clone()], false).unwrap();
        assert_eq!(reply, seven);
        assert!(acknowledged.is_err_and(|error| error.was_sent()));
        let moved = Reply::error("MOVED 1 127.0.0.1:1");
        let (reply, _) = read(vec![moved.clone(), moved.clone(), two], false).unwrap();
        assert_eq!(reply, moved);
        assert!(read(vec![one], false).is_err());
    }

    #[test]
    fn all_is_sent_in_order_and_to_the_node_that_was_named() {
        let call = Request::new("EVALSHA").with("digest").with("1").with_key("key");
        let wait = ReplicaWait::new(2, Duration::ZERO);
        let names = |call: &Request<'_>, in_transaction| -> Vec<&str> {
            wait.requests(call, in_transaction).iter().map(Request::name).collect()
        };
        assert_eq!(names(&call, true), ["MULTI", "EVALSHA", "EVAL", "EXEC", "WAIT"]);
        assert_eq!(names(&call, false), ["EVALSHA", "EVAL", "WAIT"]);
        let asking = crate::link::Redirect { node: Some("a:1"), is_asking: true, count: 1 };
        let asking = call.along(asking);
        let all = ["ASKING", "MULTI", "EVALSHA", "EVAL", "EXEC", "WAIT"];
        assert_eq!(names(&asking, true), all);
        assert_eq!(names(&asking, false), ["ASKING", "EVALSHA", "ASKING", "EVAL", "WAIT"]);
        let words = wait.requests(&asking, true);
        assert!(words.iter().any(|request| request.node() == Some("a:1")));
        let wait: Vec<&[u8]> = words[5].arguments().collect();
        assert_eq!(wait, [b"2", b"1"]);
    }

    #[test]
    fn a_closed_store_waits_for_no_replicas() {
        struct Server;
        impl Link for Server {
            async fn send(&self, _: &Request<'_>) -> Result<Reply, LinkError> {
                panic!("it is closed")
            }
        }
        impl Acknowledging for Server {
            async fn send_acknowledged(
                &self,
                call: &Request<'_>,
                _: ReplicaWait,
            ) -> Result<Acknowledged, LinkError> {
                self.send(call).await.map(|reply| (reply, Ok(1)))
            }
        }
        let store = LuaStore::new(Server);
        pollster::block_on(store.close());
        let key = Key::new("test", "a").unwrap();
        let reset = store.execute_acknowledged(&key, &lockage_core::Reset, 1, Duration::ZERO);
        assert!(matches!(pollster::block_on(reset), Err(StoreError::NotDone(_))));
    }

    #[test]
    fn a_server_is_never_asked_to_wait_for_ever() {
        for patience in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
            let left = ReplicaWait::new(1, patience).left();
            assert!((Duration::from_millis(1)..=LONGEST).contains(&left), "{left:?}");
        }
    }
}
