//! One command on each of several keys as one script call.

use std::sync::OnceLock;

use lockage_core::{Command, Encoded, ReplyError, ScriptCall, ScriptId};

use crate::{Reply, Script, TimeSource, sources};

/// Commands on several keys as one script call: the script of them all, once for each key. A server runs it as one,
/// so that it saves the trips and what each call costs beside its script.
///
/// In a cluster all keys would have to be in one slot, so this is for single servers.
#[derive(Debug)]
pub struct BatchCall<'a, C> {
    commands: Vec<&'a C>,
    script: &'static Script,
    arguments: Vec<Vec<u8>>,
    with_text: bool,
}

impl<'a, C: Command> BatchCall<'a, C> {
    /// The call of these commands, or nothing where they do not go into one: it takes commands of one script, whose
    /// arguments begin alike, and of which what differs is numbers.
    pub fn new(commands: Vec<&'a C>, time: &TimeSource) -> Option<Self> {
        let time = time.read();
        let each: Vec<ScriptCall> =
            commands.iter().map(|command| command.encode().at(time)).collect();
        let id = each.first()?.script();
        if each.iter().any(|call| call.script() != id) {
            return None;
        }
        let arguments = match each[0].encoded() {
            Encoded::Packed(_) => in_binary(&each),
            Encoded::Text(_) => in_words(&each)?,
        };
        Some(BatchCall { commands, script: script(id), arguments, with_text: false })
    }

    /// The command's name: `EVALSHA`, or `EVAL`.
    pub fn name(&self) -> &'static str {
        if self.with_text { "EVAL" } else { "EVALSHA" }
    }

    /// The command's first argument; the number of keys and the keys stand between it and
    /// [`BatchCall::arguments`].
    pub fn script(&self) -> &'static str {
        if self.with_text { self.script.source() } else { self.script.digest() }
    }

    /// The script's own arguments.
    pub fn arguments(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.arguments.iter().map(Vec::as_slice)
    }

    /// Whether to send this call again, at once, after an error reply whose first word is `code`: where the
    /// server did not know the script. Nothing was done, whatever the code.
    pub fn again_after(&mut self, code: &str) -> bool {
        code == "NOSCRIPT" && !std::mem::replace(&mut self.with_text, true)
    }

    /// The outcome of the command on the key at `index`, which has this reply.
    ///
    /// # Errors
    /// As [`Command::outcome`].
    pub fn outcome(&self, index: usize, reply: Reply<'_>) -> Result<C::Outcome, ReplyError> {
        self.commands[index].outcome(&reply.integers()?)
    }
}

/// Nothing, the numbers of each, and where the caller's time decides that time.
fn in_binary(each: &[ScriptCall]) -> Vec<Vec<u8>> {
    let numbers = each.iter().filter_map(|one| one.arguments().next());
    let time = each[0].arguments().nth(1);
    [&b""[..]].into_iter().chain(numbers).chain(time).map(<[u8]>::to_vec).collect()
}

/// What all begin with, and what each has of its own.
fn in_words(each: &[ScriptCall]) -> Option<Vec<Vec<u8>>> {
    let (first, others) = each.split_first()?;
    let first: Vec<&[u8]> = first.arguments().collect();
    let alike = |other: &ScriptCall| {
        first.iter().zip(other.arguments()).take_while(|(one, other)| **one == *other).count()
    };
    // Many costs of one key are shorter as numbers of its own.
    let run = first.windows(2).rev().take_while(|pair| pair[0] == pair[1]).count();
    let shared = others.iter().map(alike).fold(first.len() - run, usize::min);
    let mut arguments = vec![shared.to_string().into_bytes()];
    arguments.extend(first[..shared].iter().map(|&one| one.to_owned()));
    if each.iter().any(|one| one.arguments().len() > shared) {
        for one in each {
            arguments.push(numbers(one.arguments().skip(shared))?.into_bytes());
        }
    }
    Some(arguments)
}

/// Each number with how often it stands there in a row.
fn numbers<'a>(all: impl Iterator<Item = &'a [u8]>) -> Option<String> {
    let mut runs: Vec<(&str, usize)> = Vec::new();
    for one in all {
        let one = std::str::from_utf8(one).ok().filter(|text| !text.is_empty())?;
        if one.bytes().any(|byte| !byte.is_ascii_digit()) {
            return None;
        }
        match runs.last_mut() {
            Some((last, times)) if *last == one => *times += 1,
            _ => runs.push((one, 1)),
        }
    }
    let texts: Vec<String> =
        runs.iter().map(|(number, times)| format!("{number}x{times}")).collect();
    Some(texts.join(","))
}

/// The script that runs this one for each key.
fn script(id: ScriptId) -> &'static Script {
    static SCRIPTS: [OnceLock<Script>; ScriptId::ALL.len()] =
        [const { OnceLock::new() }; ScriptId::ALL.len()];
    let index = ScriptId::ALL.binary_search(&id).expect("every script is in ScriptId::ALL");
    SCRIPTS[index].get_or_init(|| {
        let source = sources::many(id);
        let digest = sha1_smol::Sha1::from(&source).hexdigest();
        Script { id, source, digest }
    })
}

#[cfg(test)]
mod tests {
    use lockage_core::AcquireEach;

    use super::*;

    /// Of a limit whose script takes text.
    fn in_words(each: &[&[u64]]) -> Vec<String> {
        let limit: lockage_core::Limit = "sliding-log 5/s + fixed-window 9/s".parse().unwrap();
        let each: Vec<AcquireEach> =
            each.iter().map(|costs| AcquireEach::new(limit, costs.to_vec()).unwrap()).collect();
        let call = BatchCall::new(each.iter().collect(), &TimeSource::SERVER).unwrap();
        call.arguments().map(|text| String::from_utf8(text.to_vec()).unwrap()).collect()
    }

    #[test]
    fn numbers_in_binary_stand_there_for_each_key() {
        let limit: lockage_core::Limit = "fixed-window 5/s".parse().unwrap();
        let each = [vec![1], vec![2, 2]].map(|costs| AcquireEach::new(limit, costs).unwrap());
        let call = BatchCall::new(each.iter().collect(), &TimeSource::SERVER).unwrap();
        let packed = |numbers: &[f64]| numbers.iter().flat_map(|it| it.to_le_bytes()).collect();
        let own = [packed(&[5.0, 1e6, 1.0]), packed(&[5.0, 1e6, 2.0, 2.0])];
        let all: Vec<Vec<u8>> = call.arguments().map(<[u8]>::to_vec).collect();
        assert_eq!(all, [&[vec![]][..], &own].concat());
    }

    #[test]
    fn what_is_the_same_for_all_is_said_once() {
        let limit = ["", "0", "", "C1", "L1", "5", "1000000", "F1", "9", "1000000"];
        let with =
            |shared: &'static str, own: &[&'static str]| [&[shared][..], &limit, own].concat();
        assert_eq!(in_words(&[&[1], &[1], &[1]]), with("11", &["1"]));
        assert_eq!(in_words(&[&[1], &[2, 2, 2, 1]]), with("10", &["1x1", "2x3,1x1"]));
        assert_eq!(in_words(&[&[3, 3, 3, 3]]), with("11", &["3", "3x3"]));
    }

    #[test]
    fn the_text_follows_the_digest_once() {
        let limit: lockage_core::Limit = "token-bucket 5/s".parse().unwrap();
        let each = AcquireEach::new(limit, vec![1]).unwrap();
        let mut call = BatchCall::new(vec![&each], &TimeSource::SERVER).unwrap();
        assert_eq!((call.name(), call.script().len()), ("EVALSHA", 40));
        assert!(call.again_after("NOSCRIPT"));
        assert_eq!(call.name(), "EVAL");
        assert!(call.script().starts_with("local function run(redis, KEYS, ARGV)"));
        assert!(!call.again_after("NOSCRIPT") && !call.again_after("MOVED"));
    }
}
