//! The simulated store and a real server.

use lockage_core::ScriptId::{self, LimiterAcquire, LimiterAdjust, LimiterPeek};
use lockage_core::{Stored, Timestamp, read_integer_reply, read_packed_reply};
use lockage_oracle::place::is_fast_path;
use lockage_sim::store::{RespValue, SimStore};
use lockage_tests::server::{Server, VirtualClock};

pub(crate) const KEY: &str = "lockage:{one}";
pub(crate) const CLOCK_US: u64 = 1_763_700_000_000_000;
pub(crate) const ID: &str = "0000000000000000000000000000c0de";
/// The key of the reservation of that id.
pub(crate) const BESIDE: &str = "lockage:{one}:0000000000000000000000000000c0de";
pub(crate) const OTHER_ID: &str = "0000000000000000000000000000c0df";

/// A simulated store and a real server that are asked alike and must answer alike.
pub(crate) struct Both {
    pub(crate) simulated: SimStore,
    pub(crate) real: redis::Connection,
    _server: Server,
}

impl Both {
    /// Returns `None` if the server [follows no clock](Server::with_clock).
    pub(crate) fn new() -> Option<Self> {
        let mut simulated = SimStore::new().unwrap();
        simulated.set_now(Timestamp::from_micros(CLOCK_US).unwrap());
        let server = Server::with_clock(&VirtualClock::new(CLOCK_US))?;
        Some(Both { simulated, real: server.connection(), _server: server })
    }

    /// Calls a script. `arguments` are separated by spaces; `-` is an empty one.
    pub(crate) fn eval(&mut self, script: ScriptId, now: i64, arguments: &str) -> RespValue {
        let now = now.to_string();
        let empty = |text| if text == "-" { "" } else { text };
        let own = arguments.split_whitespace().map(empty);
        let argv: Vec<Vec<u8>> = match is_fast_path(script) || script == ScriptId::StoredAcquire {
            // The numbers behind the tag, and the time.
            true => {
                let numbers: Vec<&str> = own.skip(2).collect();
                vec![packed(&numbers), packed(&[&now, "0"])]
            }
            false => {
                let all = [now.as_str(), "0"].into_iter().chain(own);
                all.map(|text| text.as_bytes().to_vec()).collect()
            }
        };
        let source = lockage_lua::script(script).source();
        let bytes: Vec<&[u8]> = argv.iter().map(Vec::as_slice).collect();
        let is_of_two = script.name().ends_with("_reserve") || script.name().ends_with("_settle");
        let keys = if is_of_two { &[KEY, BESIDE][..] } else { &[KEY] };
        let key_bytes: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        let simulated = self.simulated.eval(source, &key_bytes, &bytes).unwrap();
        let mut eval = redis::cmd("EVAL");
        let real = eval.arg(source).arg(keys.len()).arg(keys).arg(&argv).query(&mut self.real);
        assert_eq!(simulated, read(real), "{} {arguments}", script.name());
        self.stored();
        for key in keys {
            self.run(&["PTTL", key]);
        }
        if is_of_two {
            self.run(&["GET", BESIDE]);
        }
        simulated
    }

    pub(crate) fn call(&mut self, script: ScriptId, now: i64, arguments: &str) -> Vec<i64> {
        let reply = self.eval(script, now, arguments);
        let numbers = match reply {
            RespValue::Array(numbers) => numbers,
            RespValue::Integer(number) => return read_integer_reply(number).to_vec(),
            RespValue::Bulk(numbers) => return read_packed_reply(&numbers).unwrap(),
            _ => panic!("{arguments}: {reply:?}"),
        };
        let number = |value| {
            let RespValue::Integer(number) = value else { panic!("{arguments}: {value:?}") };
            number
        };
        numbers.into_iter().map(number).collect()
    }

    pub(crate) fn acquire(&mut self, now: i64, limit: &str, costs: &str) -> Vec<i64> {
        // A queue takes a patience first.
        let patience = if limit.contains("Q1") { "9007199254740991 " } else { "" };
        self.call(LimiterAcquire, now, &format!("- {limit} {patience}{costs}"))
    }

    pub(crate) fn peek(&mut self, now: i64, limit: &str, cost: &str) -> Vec<i64> {
        self.call(LimiterPeek, now, &format!("{limit} {cost}"))
    }

    pub(crate) fn adjust(&mut self, now: i64, change: &str, limit: &str) -> Vec<i64> {
        self.call(LimiterAdjust, now, &format!("- {change} {limit}"))
    }

    pub(crate) fn refused(&mut self, script: ScriptId, arguments: &str) -> String {
        match self.eval(script, 5000, arguments) {
            RespValue::Error(message) => message,
            reply => panic!("{arguments}: {reply:?}"),
        }
    }

    /// Runs one plain command.
    pub(crate) fn run(&mut self, words: &[&str]) -> RespValue {
        let bytes: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let simulated = self.simulated.execute(&bytes);
        let real = redis::cmd(words[0]).arg(&words[1..]).query(&mut self.real);
        assert_eq!(simulated, read(real), "{words:?}");
        simulated
    }

    pub(crate) fn clear(&mut self) {
        self.run(&["DEL", KEY]);
        self.run(&["DEL", BESIDE]);
    }

    /// Stores a record: of one element, none where that is empty, a string unless it is a log's.
    pub(crate) fn put(&mut self, record: &[&str]) {
        self.clear();
        match record {
            [""] => {}
            [text] if !text.contains('L') => self.put_text(text),
            elements => {
                let elements = elements.iter().map(|text| (*text).to_owned()).collect();
                self.put_list(&Stored::List(elements).to_bytes());
            }
        }
    }

    pub(crate) fn put_text(&mut self, text: &str) {
        self.put_bytes(&Stored::Text(text.to_owned()).to_bytes()[0]);
    }

    pub(crate) fn put_bytes(&mut self, bytes: &[u8]) {
        self.simulated.execute(&[b"SET", KEY.as_bytes(), bytes]);
        redis::cmd("SET").arg(KEY).arg(bytes).exec(&mut self.real).unwrap();
    }

    pub(crate) fn put_list(&mut self, elements: &[Vec<u8>]) {
        let words = [&b"RPUSH"[..], KEY.as_bytes()].into_iter();
        let words: Vec<&[u8]> = words.chain(elements.iter().map(Vec::as_slice)).collect();
        self.simulated.execute(&words);
        redis::cmd("RPUSH").arg(KEY).arg(elements).exec(&mut self.real).unwrap();
    }

    pub(crate) fn stored(&mut self) -> RespValue {
        match self.run(&["TYPE", KEY]) {
            RespValue::Status(kind) if kind == "list" => self.run(&["LRANGE", KEY, "0", "-1"]),
            RespValue::Status(kind) if kind == "hash" => self.run(&["HGETALL", KEY]),
            _ => self.run(&["GET", KEY]),
        }
    }

    pub(crate) fn record(&mut self) -> String {
        text(self.stored())
    }

    pub(crate) fn records(&mut self) -> Vec<String> {
        match self.stored() {
            RespValue::Array(elements) => {
                let bytes: Vec<Vec<u8>> = elements.into_iter().map(bytes).collect();
                match Stored::of_list(bytes.iter().map(Vec::as_slice)) {
                    Stored::List(list) => list,
                    Stored::Text(text) => vec![text],
                }
            }
            record => vec![text(record)],
        }
    }

    pub(crate) fn ttl(&mut self) -> i64 {
        let RespValue::Integer(ttl) = self.run(&["PTTL", KEY]) else { panic!("PTTL is a number") };
        ttl
    }
}

pub(crate) fn text(value: RespValue) -> String {
    let Stored::Text(text) = Stored::of_string(&bytes(value)) else { panic!("a string is text") };
    text
}

fn bytes(value: RespValue) -> Vec<u8> {
    let RespValue::Bulk(bytes) = value else { panic!("no text: {value:?}") };
    bytes
}

/// Packs numbers for a fast-path script, and behind a bar an id.
pub(crate) fn packed(words: &[&str]) -> Vec<u8> {
    let bytes = |word: &&str| match word.len() {
        32 => u128::from_str_radix(word, 16).unwrap().to_be_bytes().to_vec(),
        _ if *word == "|" => b"|".to_vec(),
        _ => word.parse::<f64>().unwrap().to_le_bytes().to_vec(),
    };
    words.iter().flat_map(bytes).collect()
}

pub(crate) fn numbers(text: &str) -> Vec<i64> {
    text.split(' ').map(|number| number.parse().unwrap()).collect()
}

pub(crate) fn read(reply: redis::RedisResult<redis::Value>) -> RespValue {
    use redis::Value;
    match reply {
        Ok(Value::Nil) => RespValue::Nil,
        Ok(Value::Int(number)) => RespValue::Integer(number),
        Ok(Value::BulkString(bytes)) => RespValue::Bulk(bytes),
        Ok(Value::Array(values)) => {
            RespValue::Array(values.into_iter().map(|value| read(Ok(value))).collect())
        }
        Ok(Value::Okay) => RespValue::Status("OK".to_owned()),
        Ok(Value::SimpleString(text)) => RespValue::Status(text),
        Ok(value) => panic!("{value:?}"),
        Err(error) => RespValue::Error(format!(
            "{} {}",
            error.code().unwrap_or_default(),
            error.detail().unwrap_or_default()
        )),
    }
}
