//! Reads records of any kind.

use lockage::store::RecordError;
use lockage::{Decision, Key, Store, StoreError, limiter};
use lockage_core::view::{LimiterView, View};
use lockage_core::{Peek, Record, Scope, Stored, StoredLimitOutcome, Timestamp, WithStoredLimit};
use lockage_redis::{ErrorReply, LinkError, Reply, Request, hint};

use super::{Admin, AdminError, Refusal, bounded};

/// The most keys of one read.
pub const BATCH: usize = 32;

/// The last byte that is read of a string: the longest record is a fenced value of 64 KiB.
const LAST: &str = "66000";

/// A key and its contents.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// The server's time at which it was read.
    pub now: Timestamp,
    /// Its contents.
    pub contents: Contents,
    /// The master that has it.
    pub(super) master: usize,
    /// The record of a string, which shows its state at later times too.
    pub(super) record: Option<Record>,
}

/// The contents of a key.
#[expect(clippy::large_enum_variant, reason = "most keys have a record")]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Contents {
    /// No record, or one that has ended.
    Absent,
    /// A record.
    View(View),
    /// Something else, or a record of another version, or a damaged one.
    Unreadable(RecordError),
    /// The key's slot is moving, or has moved, to another node.
    Moved,
}

impl Entry {
    /// Returns the contents of the record.
    ///
    /// # Errors
    /// [`Refusal`] if there is none that can be read.
    pub fn view(&self) -> Result<&View, Refusal> {
        match &self.contents {
            Contents::View(view) => Ok(view),
            Contents::Absent => Err(Refusal::NoRecord),
            Contents::Unreadable(error) => Err(Refusal::Unreadable(*error)),
            Contents::Moved => Err(Refusal::Moving),
        }
    }

    /// Returns whether the key was written between two reads. Of a log, only its decision shows that.
    pub fn was_written_since(&self, earlier: &Entry) -> bool {
        let remaining = |entry: &Entry| match &entry.contents {
            Contents::View(View::Limiter(it)) if entry.record.is_none() => {
                it.decision.as_ref().map(|decision| decision.remaining)
            }
            _ => None,
        };
        self.record != earlier.record || remaining(self) != remaining(earlier)
    }
}

impl Admin {
    /// Reads a key.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn read(&self, key: &Key) -> Result<Entry, AdminError> {
        // While its slot moves, the new master answers only to `ASKING`, and only of keys that have arrived.
        for asking in [false, true] {
            for master in 0..self.masters.len() {
                let entries = self.read_as(master, vec![key.clone()], asking).await?;
                match entries.into_iter().next() {
                    Some(Entry { contents: Contents::Moved, .. }) => {}
                    Some(entry) => return Ok(entry),
                    None => return Err(unexpected().into()),
                }
            }
        }
        Err(Refusal::Moving.into())
    }

    /// Reads keys that are on a master, at most [`BATCH`]; also those of a slot that is moving there.
    pub(super) async fn read_from(
        &self,
        master: usize,
        keys: Vec<Key>,
    ) -> Result<Vec<Entry>, StoreError> {
        let mut entries = self.read_as(master, keys, false).await?;
        let is_moved = |entry: &Entry| matches!(entry.contents, Contents::Moved);
        let (moved, found): (Vec<Entry>, Vec<Entry>) = entries.drain(..).partition(is_moved);
        let keys: Vec<Key> = moved.into_iter().map(|entry| entry.key).collect();
        let arrived = match keys.is_empty() {
            true => Vec::new(),
            false => self.read_as(master, keys, true).await?,
        };
        Ok(found.into_iter().chain(arrived).collect())
    }

    /// Reads keys, each after an `ASKING` or not.
    async fn read_as(
        &self,
        master: usize,
        keys: Vec<Key>,
        asking: bool,
    ) -> Result<Vec<Entry>, StoreError> {
        let string = |key| Request::new("GETRANGE").with(Key::as_str(key)).with("0").with(LAST);
        let (time, replies) = self.send_each(master, &keys, asking, string).await?;
        let now = self.time(master, time)?;
        let mut entries = Vec::with_capacity(keys.len());
        let mut lists = Vec::new();
        for (key, reply) in keys.iter().zip(replies) {
            let key = key.clone();
            let (record, contents) = match reply {
                Reply::Error(error) if error.code() == "WRONGTYPE" => {
                    lists.push(entries.len());
                    (None, Contents::Unreadable(RecordError::OtherKind))
                }
                Reply::Error(error) => (None, self.moved(master, &error)?),
                Reply::Bytes(bytes) => of_string(&bytes, now),
                _ => return Err(unexpected()),
            };
            entries.push(Entry { key, now, contents, master, record });
        }
        if !lists.is_empty() {
            self.read_lists(master, asking, &mut entries, &lists).await?;
        }
        Ok(entries)
    }

    /// Reads the heads of lists, and lets the server decide by the rest of them.
    async fn read_lists(
        &self,
        master: usize,
        asking: bool,
        entries: &mut [Entry],
        lists: &[usize],
    ) -> Result<(), StoreError> {
        let keys: Vec<Key> = lists.iter().map(|index| entries[*index].key.clone()).collect();
        let head = |key| Request::new("LINDEX").with(Key::as_str(key)).with("0");
        let (_, replies) = self.send_each(master, &keys, asking, head).await?;
        for (index, reply) in lists.iter().zip(replies) {
            let entry = &mut entries[*index];
            let head = match reply {
                Reply::Bytes(head) => LimiterView::of_list_head(&head, entry.now),
                // Another type; or the list has ended meanwhile.
                Reply::Error(error) if error.code() == "WRONGTYPE" => continue,
                Reply::Error(error) => {
                    entry.contents = self.moved(master, &error)?;
                    continue;
                }
                _ => Ok(None),
            };
            entry.contents = match head {
                Err(error) => Contents::Unreadable(error),
                Ok(None) => Contents::Absent,
                Ok(Some(mut view)) => {
                    view.decision = self.peek(&entry.key, &view, entry.now).await?;
                    Contents::View(View::Limiter(Box::new(view)))
                }
            };
        }
        Ok(())
    }

    /// Returns the decision of a peek of cost 1; `None` if the limit is for each client, or has changed meanwhile.
    async fn peek(
        &self,
        key: &Key,
        view: &LimiterView,
        now: Timestamp,
    ) -> Result<Option<Decision>, StoreError> {
        let peek = Peek::new(bounded(view.limit, now), 1);
        let decision = match view.stored {
            None => self.store.execute(key, &peek).await.map(Some),
            Some(stored) if stored.scope() == Scope::PerClient => Ok(None),
            Some(_) => {
                let outcome = self.store.execute(key, &WithStoredLimit::new(peek)).await;
                outcome.map(|outcome| match outcome {
                    StoredLimitOutcome::Done { outcome, .. } => Some(outcome),
                    _ => None,
                })
            }
        };
        match decision {
            Err(StoreError::Record(_)) => Ok(None),
            other => other.map_err(unchanged),
        }
    }

    /// Checks that the only master has all keys, and is no node of a cluster.
    pub(super) async fn check_whole(&self) -> Result<(), StoreError> {
        match self.send(0, &[Request::new("CLUSTER").with("MYID")]).await?.first() {
            // It refuses the command, for whatever reason.
            Some(Reply::Error(_)) | None => Ok(()),
            Some(_) => Err(self.refused(0, "MOVED from this node, as other keys are")),
        }
    }

    /// Returns the number of keys of a master, of any form.
    pub(super) async fn size(&self, master: usize) -> Result<u64, StoreError> {
        match self.ask(master, Request::new("DBSIZE")).await? {
            Reply::Integer(size) => Ok(u64::try_from(size).unwrap_or_default()),
            _ => Err(unexpected()),
        }
    }

    /// Sends one request to a master, and returns its reply unless that is an error.
    pub(super) async fn ask(
        &self,
        master: usize,
        request: Request<'_>,
    ) -> Result<Reply, StoreError> {
        match self.send(master, &[request]).await?.into_iter().next() {
            Some(Reply::Error(error)) => Err(self.refused(master, &error)),
            Some(reply) => Ok(reply),
            None => Err(unexpected()),
        }
    }

    /// Asks a master for its time, and sends a request for each key. Returns the replies.
    async fn send_each<'k>(
        &self,
        master: usize,
        keys: &'k [Key],
        asking: bool,
        request: impl Fn(&'k Key) -> Request<'k>,
    ) -> Result<(Option<Reply>, Vec<Reply>), StoreError> {
        let before = || asking.then(|| Request::new("ASKING"));
        let each = keys.iter().flat_map(|key| before().into_iter().chain([request(key)]));
        let requests: Vec<_> = [Request::new("TIME")].into_iter().chain(each).collect();
        let mut replies = self.send(master, &requests).await?.into_iter();
        let time = replies.next();
        let step = 1 + usize::from(asking);
        Ok((time, replies.skip(step - 1).step_by(step).collect()))
    }

    async fn send(
        &self,
        master: usize,
        requests: &[Request<'_>],
    ) -> Result<Vec<Reply>, StoreError> {
        let sent = self.masters[master].send(requests, self.timeout).await;
        sent.map_err(unchanged)
    }

    /// Returns the server's time.
    fn time(&self, master: usize, reply: Option<Reply>) -> Result<Timestamp, StoreError> {
        match reply {
            Some(Reply::Error(error)) => Err(self.refused(master, &error)),
            Some(Reply::List(parts)) => {
                let number = |at: usize| text(parts.get(at)?)?.parse::<u64>().ok();
                let micros = number(0).zip(number(1)).map(|(sec, us)| sec * 1_000_000 + us);
                let now = micros.and_then(|micros| Timestamp::from_micros(micros).ok());
                now.ok_or(StoreError::Record(RecordError::ClockOff))
            }
            _ => Err(unexpected()),
        }
    }

    /// Returns the contents of a key that is elsewhere.
    fn moved(&self, master: usize, error: &ErrorReply) -> Result<Contents, StoreError> {
        match error.code() {
            "MOVED" | "ASK" | "TRYAGAIN" if self.masters.len() > 1 => Ok(Contents::Moved),
            _ => Err(self.refused(master, error)),
        }
    }

    /// Returns the error of a master that refuses a call in these words.
    fn refused(&self, master: usize, error: impl ToString) -> StoreError {
        let words = error.to_string();
        let hint = hint(&words);
        let error = LinkError::not_sent(words).misconfigured(hint);
        error.at(Some(self.masters[master].address().to_owned())).into()
    }
}

/// Returns the error of a call that changes nothing: without an answer, it is not done.
fn unchanged(error: StoreError) -> StoreError {
    match error {
        StoreError::Unknown(cause) => StoreError::NotDone(cause),
        other => other,
    }
}

/// Returns the contents of a string, and its record. A key without one is an empty string.
fn of_string(bytes: &[u8], now: Timestamp) -> (Option<Record>, Contents) {
    if bytes.is_empty() {
        return (None, Contents::Absent);
    }
    let record = match Record::read(&Stored::of_string(bytes)) {
        Ok(record) => record,
        Err(error) => return (None, Contents::Unreadable(error)),
    };
    let contents = match View::of(&record, now, |window| limiter::bounded_at(window, now)) {
        Ok(Some(view)) => Contents::View(view),
        Ok(None) => Contents::Absent,
        Err(error) => Contents::Unreadable(error),
    };
    (Some(record), contents)
}

/// Returns a string of a reply.
pub(super) fn text(reply: &Reply) -> Option<&str> {
    match reply {
        Reply::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

pub(super) fn unexpected() -> StoreError {
    StoreError::NotDone("the server's reply has an unexpected form".into())
}
