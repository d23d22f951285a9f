//! The command table: every command of the simulated store, with its arity and body.

mod hashes;
mod keys;
mod lists;
mod sorted_sets;
mod strings;

use super::error::CommandError;
use super::keyspace::Keyspace;
use super::resp::RespValue;

/// The outcome of a command. An error means that the command changed nothing; earlier writes of a script stay.
pub(crate) type Outcome = Result<RespValue, CommandError>;

/// A command's body. The arguments come without the command's name.
type Body = fn(&mut Keyspace, &[&[u8]]) -> Outcome;

/// One row of the table.
pub(crate) struct CommandSpec {
    name: &'static str,
    /// The name as one number, by which it is found.
    number: u128,
    /// The arity as Redis counts it, the name included: exactly `n` words, or at least `n` for `-n`.
    arity: i8,
    body: Body,
    effect: Effect,
}

/// The effect of a command on memory, by which a server whose memory is full refuses it.
#[derive(Clone, Copy, PartialEq)]
enum Effect {
    Reads,
    /// It writes, and takes no more memory.
    Writes,
    /// It may take more memory.
    TakesMemory,
}

/// Every command, by name. Sorted for the binary search.
const COMMANDS: &[CommandSpec] = &[
    row("append", 3, strings::append).takes_memory(),
    row("decr", 2, strings::decr).takes_memory(),
    row("decrby", 3, strings::decrby).takes_memory(),
    row("del", -2, keys::del).writes(),
    row("exists", -2, keys::exists),
    row("expire", -3, keys::expire).writes(),
    row("expireat", -3, keys::expireat).writes(),
    row("expiretime", 2, keys::expiretime),
    row("get", 2, strings::get),
    row("getex", -2, strings::getex).writes(),
    row("getrange", 4, strings::getrange),
    row("hdel", -3, hashes::hdel).writes(),
    row("hexists", 3, hashes::hexists),
    row("hget", 3, hashes::hget),
    row("hgetall", 2, hashes::hgetall),
    row("hincrby", 4, hashes::hincrby).takes_memory(),
    row("hlen", 2, hashes::hlen),
    row("hmget", -3, hashes::hmget),
    row("hmset", -4, hashes::hmset).takes_memory(),
    row("hset", -4, hashes::hset).takes_memory(),
    row("incr", 2, strings::incr).takes_memory(),
    row("incrby", 3, strings::incrby).takes_memory(),
    row("lindex", 3, lists::lindex),
    row("llen", 2, lists::llen),
    row("lpop", -2, lists::lpop).writes(),
    row("lpush", -3, lists::lpush).takes_memory(),
    row("lrange", 4, lists::lrange),
    row("lrem", 4, lists::lrem).writes(),
    row("lset", 4, lists::lset).takes_memory(),
    row("ltrim", 4, lists::ltrim).writes(),
    row("persist", 2, keys::persist).writes(),
    row("pexpire", -3, keys::pexpire).writes(),
    row("pexpireat", -3, keys::pexpireat).writes(),
    row("pexpiretime", 2, keys::pexpiretime),
    row("psetex", 4, strings::psetex).takes_memory(),
    row("pttl", 2, keys::pttl),
    row("publish", 3, publish),
    row("rpop", -2, lists::rpop).writes(),
    row("rpush", -3, lists::rpush).takes_memory(),
    row("set", -3, strings::set).takes_memory(),
    row("setex", 4, strings::setex).takes_memory(),
    row("setnx", 3, strings::setnx).takes_memory(),
    row("setrange", 4, strings::setrange).takes_memory(),
    row("spublish", 3, publish),
    row("strlen", 2, strings::strlen),
    row("time", 1, time),
    row("ttl", 2, keys::ttl),
    row("type", 2, keys::type_name),
    row("unlink", -2, keys::del).writes(),
    row("zadd", -4, sorted_sets::zadd).takes_memory(),
    row("zcard", 2, sorted_sets::zcard),
    row("zcount", 4, sorted_sets::zcount),
    row("zrange", -4, sorted_sets::zrange),
    row("zrangebyscore", -4, sorted_sets::zrangebyscore),
    row("zrem", -3, sorted_sets::zrem).writes(),
    row("zremrangebyrank", 4, sorted_sets::zremrangebyrank).writes(),
    row("zremrangebyscore", 4, sorted_sets::zremrangebyscore).writes(),
    row("zscore", 3, sorted_sets::zscore),
];

/// As many letters as the longest of these names has.
const LONGEST_NAME: usize = size_of::<u128>();

/// Returns the place in the table of the command of this name, in either case.
pub(crate) fn find(name: &[u8]) -> Option<usize> {
    let mut lower = [0; LONGEST_NAME];
    lower.get_mut(..name.len())?.copy_from_slice(name);
    lower.make_ascii_lowercase();
    let number = u128::from_be_bytes(lower);
    let place = COMMANDS.binary_search_by_key(&number, |row| row.number).ok()?;
    (COMMANDS[place].name.len() == name.len()).then_some(place)
}

/// Returns the command at a valid place.
pub(crate) fn at(place: usize) -> &'static CommandSpec {
    &COMMANDS[place]
}

/// Returns its name, in lower case.
pub(crate) fn name_at(place: usize) -> &'static str {
    at(place).name
}

impl CommandSpec {
    /// Returns whether `len` words, the name included, make a call of this command.
    pub(crate) fn takes(&self, len: usize) -> bool {
        let required = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 { len >= required } else { len == required }
    }

    /// Returns whether it counts as a write, whatever it changes.
    pub(crate) fn is_write(&self) -> bool {
        self.effect != Effect::Reads
    }

    /// Returns whether a server refuses it while its memory is full.
    pub(crate) fn may_take_memory(&self) -> bool {
        self.effect == Effect::TakesMemory
    }

    const fn writes(self) -> Self {
        CommandSpec { effect: Effect::Writes, ..self }
    }

    const fn takes_memory(self) -> Self {
        CommandSpec { effect: Effect::TakesMemory, ..self }
    }

    /// Runs the command; `words` are its name and arguments, as many as it [takes](Self::takes).
    pub(crate) fn run(&self, keyspace: &mut Keyspace, words: &[&[u8]]) -> Outcome {
        debug_assert!(
            self.takes(words.len()),
            "the caller checks the arity, since the error depends on who calls"
        );
        (self.body)(keyspace, &words[1..])
    }
}

/// Runs one command as a client sends it.
pub(crate) fn execute(keyspace: &mut Keyspace, words: &[&[u8]]) -> RespValue {
    let Some((name, arguments)) = words.split_first() else {
        return RespValue::Error("ERR an empty command".to_owned());
    };
    let outcome = match find(name).map(at) {
        None => Err(unknown(name, arguments)),
        Some(spec) if !spec.takes(words.len()) => Err(CommandError::Arity { command: spec.name }),
        Some(spec) => spec.run(keyspace, words),
    };
    outcome.unwrap_or_else(RespValue::from)
}

const fn row(name: &'static str, arity: i8, body: Body) -> CommandSpec {
    let (letters, mut number, mut at) = (name.as_bytes(), 0, 0);
    while at < LONGEST_NAME {
        let letter = if at < letters.len() { letters[at] } else { 0 };
        number = number << 8 | letter as u128;
        at += 1;
    }
    CommandSpec { name, number, arity, body, effect: Effect::Reads }
}

fn unknown(name: &[u8], arguments: &[&[u8]]) -> CommandError {
    let quoted = |word: &&[u8]| format!("'{}' ", String::from_utf8_lossy(word));
    CommandError::UnknownCommand {
        name: String::from_utf8_lossy(name).into_owned(),
        arguments: arguments.iter().map(quoted).collect(),
    }
}

/// `TIME`: replies the clock in seconds and the microseconds within.
fn time(keyspace: &mut Keyspace, _: &[&[u8]]) -> Outcome {
    let parts = keyspace.time().map(|part| RespValue::bulk(part.to_string()));
    Ok(RespValue::Array(parts.to_vec()))
}

/// `PUBLISH` and `SPUBLISH`: reply the number of receivers. There are none here.
fn publish(keyspace: &mut Keyspace, words: &[&[u8]]) -> Outcome {
    keyspace.publish(words[1]);
    Ok(RespValue::Integer(0))
}

/// Returns the half-open range of positions of Redis's inclusive `start` and `stop` in a sequence; negative ones count
/// from the end.
fn positions(start: i64, stop: i64, len: usize) -> std::ops::Range<usize> {
    let signed_len = i64::try_from(len).expect("nothing in memory is longer than i64::MAX");
    let from_end = |at: i64| if at < 0 { at.saturating_add(signed_len) } else { at };
    let start = from_end(start).max(0);
    let end = from_end(stop).min(signed_len - 1) + 1;
    if start >= end {
        return 0..0;
    }
    let position = |at: i64| usize::try_from(at).expect("it lies between 0 and the length here");
    position(start)..position(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_so_that_every_row_is_found_in_either_case() {
        assert!(COMMANDS.windows(2).all(|pair| pair[0].name < pair[1].name));
        assert!(COMMANDS.iter().all(|row| row.name.len() <= LONGEST_NAME));
        assert!(
            COMMANDS.iter().all(|row| find(row.name.to_ascii_uppercase().as_bytes()).is_some())
        );
    }
}
