//! One command on each of several keys as one script call.

use lockage_core::{CallTime, Command, Encoded, ScriptCall, ScriptId};
use lockage_lua::{Script, batch_script};

use crate::call::Reply;
use crate::link::{Request, Route};

/// The most instructions of a call, in thousands, as estimated: about a millisecond, in which a server does nothing
/// else.
const MAX_WORK: usize = 3_000;

/// Commands on several keys as one script call, which runs their script once for each key. It saves round trips, and
/// the server's overhead for each call.
///
/// In a cluster all keys would have to be in one slot, so this is for single servers.
#[derive(Debug)]
pub struct BatchCall {
    script: &'static Script,
    keys: usize,
    arguments: Vec<Vec<u8>>,
    route: Route,
}

impl BatchCall {
    /// Returns the calls of these commands, each with as many as a server can run in about a millisecond. Returns
    /// `None` if they cannot be batched: each must have the same fast script and one key. On the slow path of a key, a
    /// batch would save little.
    pub fn all<'c, C: Command + 'c>(
        commands: impl Iterator<Item = &'c C>,
        time: CallTime,
    ) -> Option<Vec<Self>> {
        let of_one_key =
            |command: &C| command.beside().is_none().then(|| command.encode().at(time));
        let each = commands.map(of_one_key).collect::<Option<Vec<ScriptCall>>>()?;
        let (mut calls, mut left) = (Vec::new(), &each[..]);
        while !left.is_empty() {
            let mut work = 0;
            let fits = |one: &&ScriptCall| {
                work += self::work(one);
                work <= MAX_WORK
            };
            let count = left.iter().take_while(fits).count().max(1);
            let (these, others) = left.split_at(count);
            calls.push(BatchCall::of(these)?);
            left = others;
        }
        Some(calls)
    }

    fn of(each: &[ScriptCall]) -> Option<Self> {
        let [first, ..] = each else { return None };
        let id = first.script();
        let is_alike =
            |call: &ScriptCall| call.script() == id && matches!(call.encoded(), Encoded::Packed(_));
        if !each.iter().all(is_alike) {
            return None;
        }
        // The numbers of each and, where the caller's time decides, that time.
        let numbers = each.iter().filter_map(|one| one.arguments().next());
        let time = first.arguments().nth(1);
        let arguments = numbers.chain(time).map(<[u8]>::to_vec).collect();
        let (script, route) = (batch_script(id), Route::default());
        Some(BatchCall { script, keys: each.len(), arguments, route })
    }

    /// Returns the number of commands.
    #[allow(clippy::len_without_is_empty, reason = "no call is of none")]
    pub fn len(&self) -> usize {
        self.keys
    }

    /// Returns the request to send: `EVALSHA digest number key... argument...`, or `EVAL` with the script's text.
    pub fn request<'r>(&'r self, keys: impl ExactSizeIterator<Item = &'r str>) -> Request<'r> {
        let request = self.route.request(self.script);
        let number = keys.len() as u128;
        let request = keys.fold(request.with_number(number), Request::with_key);
        self.arguments.iter().fold(request, Request::with)
    }

    /// Takes a reply, and returns whether to send the next [`BatchCall::request`] at once: the server did not
    /// know the script.
    pub fn goes_on_after(&mut self, reply: &Reply) -> bool {
        matches!(reply, Reply::Error(error) if self.route.goes_on_after(error.code(), None, false))
    }
}

/// Returns an estimate of the server's instructions for this call, at most, in thousands.
fn work(call: &ScriptCall) -> usize {
    let numbers = call.arguments().next().map_or(0, <[u8]>::len) / 8;
    // A log is searched.
    let base = if call.script() == ScriptId::SlidingLogAcquire { 500 } else { 40 };
    base + 3 * numbers
}

#[cfg(test)]
mod tests {
    use lockage::Limit;
    use lockage_core::AcquireEach;

    use super::*;

    fn batch(limit: &str, each: &[&[u64]]) -> BatchCall {
        let limit: Limit = limit.parse().unwrap();
        let each: Vec<AcquireEach> =
            each.iter().map(|costs| AcquireEach::new(limit, costs.to_vec()).unwrap()).collect();
        BatchCall::all(each.iter(), CallTime::Store).unwrap().remove(0)
    }

    #[test]
    fn numbers_in_binary_stand_there_for_each_key() {
        let call = batch("fixed-window 5/s", &[&[1], &[2, 2]]);
        let packed = |numbers: &[f64]| -> Vec<u8> {
            numbers.iter().flat_map(|it| it.to_le_bytes()).collect()
        };
        let own = [packed(&[5.0, 1e6, 1.0]), packed(&[5.0, 1e6, 2.0, 2.0])];
        assert_eq!(call.arguments, own);
    }

    #[test]
    fn slow_path_limits_are_not_batched() {
        let limit: Limit = "sliding-log 5/s + fixed-window 9/s".parse().unwrap();
        let each = AcquireEach::new(limit, vec![1]).unwrap();
        assert!(BatchCall::all([each].iter(), CallTime::Store).is_none());
    }

    #[test]
    fn many_keys_are_several_calls_none_of_which_takes_long() {
        for (limit, costs, keys) in [
            ("token-bucket 5/s", 1, 57),
            ("token-bucket 5/s", 1000, 1),
            // As much as a call may have.
            ("fixed-window 5/s", 18, 30),
            ("fixed-window 5/s + fixed-window 9/min", 1, 51),
            ("sliding-log 5/s", 1, 5),
        ] {
            let limit: Limit = limit.parse().unwrap();
            let each = vec![AcquireEach::new(limit, vec![1; costs]).unwrap(); 128];
            let calls = BatchCall::all(each.iter(), CallTime::Store).unwrap();
            assert_eq!(calls.iter().map(BatchCall::len).sum::<usize>(), 128, "{limit}");
            assert_eq!(calls[0].len(), keys, "{limit} with {costs}");
        }
    }

    #[test]
    fn the_text_follows_the_digest_once() {
        let mut call = batch("token-bucket 5/s", &[&[1]]);
        let sent = |call: &BatchCall| {
            let request = call.request(["a", "b"].into_iter());
            let words: Vec<String> = request
                .arguments()
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect();
            assert_eq!(words[1..4], ["2", "a", "b"]);
            (request.name(), words[0].clone())
        };
        let (name, digest) = sent(&call);
        assert_eq!((name, digest.len()), ("EVALSHA", 40));
        assert!(call.goes_on_after(&Reply::error("NOSCRIPT No matching script.")));
        let (name, text) = sent(&call);
        assert_eq!(name, "EVAL");
        assert!(text.starts_with("local function run(redis, KEYS, ARGV)"));
        for error in ["NOSCRIPT No matching script.", "MOVED 1 a:1"] {
            assert!(!call.goes_on_after(&Reply::error(error)), "{error}");
        }
    }
}
