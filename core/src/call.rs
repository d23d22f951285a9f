//! A command as a script call: the script's name, and its arguments as text or as packed numbers.
//!
//! A packed number is a double of eight bytes in little-endian order, which is exact below 2^53. The scripts of the
//! fast path take, reply and store numbers so: for Lua they cost less than text.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Write};

use crate::exact::MAX_EXACT;
use crate::script::ScriptId;
use crate::time::Timestamp;

/// A command as it is sent, without the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Encoded {
    /// For a script of the slow path, which takes text and works on every record.
    Text(TextCall),
    /// For a script of the fast path, which takes packed numbers. It refuses a record that it does not know by
    /// `LOCKAGE_NEEDS_SLOW_PATH`, and the command is then sent by [`encode_text`](crate::Command::encode_text).
    Packed(PackedCall),
}

/// A script and its own arguments, each a short text or unchanged bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextCall {
    script: ScriptId,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// A script and its only argument: packed numbers and other bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedCall {
    pub(crate) script: ScriptId,
    pub(crate) bytes: Vec<u8>,
}

/// The clock that decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallTime {
    /// The store's clock.
    Store,
    /// The caller's clock.
    Caller {
        /// The time.
        now: Timestamp,
        /// How far the time may be off the store's, in milliseconds. It is added to every expiry.
        skew_ms: u64,
    },
}

impl Encoded {
    /// Returns the name of the script.
    pub fn script(&self) -> ScriptId {
        match self {
            Encoded::Text(call) => call.script,
            Encoded::Packed(call) => call.script,
        }
    }

    /// Returns the call with its time, as it is sent.
    pub fn at(self, time: CallTime) -> ScriptCall {
        let time = match (&self, time) {
            (_, CallTime::Store) => TimeArguments::Store,
            (Encoded::Text(_), CallTime::Caller { now, skew_ms }) => {
                TimeArguments::Text([now.as_micros().to_string(), skew_ms.to_string()])
            }
            (Encoded::Packed(_), CallTime::Caller { now, skew_ms }) => {
                TimeArguments::Packed([now.as_micros(), skew_ms].map(packed).concat())
            }
        };
        ScriptCall { encoded: self, time }
    }
}

impl From<TextCall> for Encoded {
    fn from(call: TextCall) -> Self {
        Encoded::Text(call)
    }
}

impl TextCall {
    /// Returns a call without arguments of its own.
    pub fn new(script: ScriptId) -> Self {
        TextCall { script, bytes: Vec::new(), ends: Vec::new() }
    }

    /// Adds an argument.
    #[must_use]
    pub fn with(mut self, argument: impl fmt::Display) -> Self {
        // Invariant: writing to a buffer in memory cannot fail.
        let _ = write!(Buffer(&mut self.bytes), "{argument}");
        self.ends.push(self.bytes.len());
        self
    }

    /// Adds an argument of any bytes.
    #[must_use]
    pub fn with_bytes(mut self, argument: &[u8]) -> Self {
        self.bytes.extend_from_slice(argument);
        self.ends.push(self.bytes.len());
        self
    }

    /// Adds an argument; an empty one for `None`.
    #[must_use]
    pub fn with_optional(self, argument: Option<impl fmt::Display>) -> Self {
        match argument {
            Some(argument) => self.with(argument),
            None => self.with(""),
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn with_all(self, arguments: impl IntoIterator<Item = impl fmt::Display>) -> Self {
        arguments.into_iter().fold(self, TextCall::with)
    }

    /// Returns the name of the script.
    pub fn script(&self) -> ScriptId {
        self.script
    }

    /// Returns the script's own arguments, which follow the time and the skew.
    pub fn arguments(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.ends.len()).map(|index| self.argument(index))
    }

    fn argument(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[index]]
    }
}

impl PackedCall {
    pub(crate) fn new(script: ScriptId, bytes: impl IntoIterator<Item = u8>) -> Self {
        PackedCall { script, bytes: bytes.into_iter().collect() }
    }

    /// Packs numbers.
    pub(crate) fn of(script: ScriptId, numbers: impl Iterator<Item = u64>) -> Self {
        let mut call = PackedCall::with_room(script, numbers.size_hint().0);
        call.add(numbers);
        call
    }

    /// Returns a call without numbers, with room for this many.
    pub(crate) fn with_room(script: ScriptId, numbers: usize) -> Self {
        PackedCall { script, bytes: Vec::with_capacity(8 * numbers) }
    }

    /// Adds numbers. A call of many costs spends much of its time here, so bytes are added by eights.
    pub(crate) fn add(&mut self, numbers: impl IntoIterator<Item = u64>) {
        numbers.into_iter().for_each(|number| self.bytes.extend_from_slice(&packed(number)));
    }

    /// Adds bytes.
    pub(crate) fn with(mut self, bytes: impl IntoIterator<Item = u8>) -> Self {
        self.bytes.extend(bytes);
        self
    }

    /// Returns the name of the script.
    pub fn script(&self) -> ScriptId {
        self.script
    }

    /// Returns the script's argument.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// A script call as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptCall {
    encoded: Encoded,
    time: TimeArguments,
}

/// The time in the form that the call takes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TimeArguments {
    Store,
    /// The time and the skew.
    Text([String; 2]),
    /// The two packed, as one argument.
    Packed(Vec<u8>),
}

impl ScriptCall {
    /// Returns the name of the script.
    pub fn script(&self) -> ScriptId {
        self.encoded.script()
    }

    /// Returns the command without the time.
    pub fn encoded(&self) -> &Encoded {
        &self.encoded
    }

    /// Returns all arguments of the script, in order. For the slow path, the time (empty if the store's clock decides)
    /// and the skew come first. For the fast path they come last, and only if the caller's clock decides.
    pub fn arguments(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let timed = match (&self.encoded, &self.time) {
            (Encoded::Text(call), _) => call.ends.len() + 2,
            (Encoded::Packed(_), TimeArguments::Store) => 1,
            (Encoded::Packed(_), _) => 2,
        };
        (0..timed).map(|index| self.argument(index))
    }

    fn argument(&self, index: usize) -> &[u8] {
        match (&self.encoded, &self.time, index) {
            (Encoded::Text(call), _, 2..) => call.argument(index - 2),
            (Encoded::Packed(call), _, 0) => &call.bytes,
            (_, TimeArguments::Text(words), _) => words[index].as_bytes(),
            (_, TimeArguments::Packed(time), _) => time,
            (_, TimeArguments::Store, 0) => b"",
            (_, TimeArguments::Store, _) => b"0",
        }
    }
}

/// Returns a number as eight bytes; above 2^53 the nearest double.
pub(crate) fn packed(number: u64) -> [u8; 8] {
    (number as f64).to_le_bytes()
}

/// Returns all numbers of `bytes`, or `None` if any is not a whole number below 2^53.
pub(crate) fn unpacked(bytes: &[u8]) -> Option<Vec<u64>> {
    let (numbers, rest) = bytes.as_chunks::<8>();
    rest.is_empty().then(|| numbers.iter().map(|number| whole(*number)).collect())?
}

pub(crate) fn whole(bytes: [u8; 8]) -> Option<u64> {
    let number = f64::from_le_bytes(bytes);
    let is_whole = number >= 0.0 && number < MAX_EXACT as f64 && number == (number as u64) as f64;
    is_whole.then_some(number as u64)
}

/// The status of a reply that is one integer: see [`read_integer_reply`].
pub(crate) const ONE_INTEGER: i64 = 9;

/// Returns a reply that is one integer as [`Command::outcome`](crate::Command::outcome) takes it.
pub fn read_integer_reply(reply: i64) -> [i64; 2] {
    [ONE_INTEGER, reply]
}

/// Returns a reply that is a string as [`Command::outcome`](crate::Command::outcome) takes it.
///
/// The string holds packed integers, which are read as a list that begins with the status 0. Returns `None` for any
/// other string.
pub fn read_packed_reply(reply: &[u8]) -> Option<Vec<i64>> {
    let numbers = unpacked(reply)?;
    Some(core::iter::once(0).chain(numbers.into_iter().map(|number| number as i64)).collect())
}

/// Bytes of a string per integer of a reply.
const BYTES_PER_INTEGER: usize = 6;

/// Returns a string at the end of a list reply as [`Command::outcome`](crate::Command::outcome) takes it: its length,
/// then its bytes, six to an integer, the highest first.
pub fn read_string_reply(bytes: &[u8]) -> impl Iterator<Item = i64> {
    let integer = |bytes: &[u8]| bytes.iter().fold(0, |all, byte| all << 8 | i64::from(*byte));
    // No string has more bytes than an `i64` counts.
    core::iter::once(bytes.len() as i64).chain(bytes.chunks(BYTES_PER_INTEGER).map(integer))
}

/// Returns the string that [`read_string_reply`] gave these integers of; `None` if they are not of its form.
pub(crate) fn string_of(integers: &[i64]) -> Option<Vec<u8>> {
    let (&len, integers) = integers.split_first()?;
    let len = usize::try_from(len).ok()?;
    if integers.len() != len.div_ceil(BYTES_PER_INTEGER) {
        return None;
    }
    let mut bytes = Vec::with_capacity(len);
    for integer in integers {
        let integer = u64::try_from(*integer).ok()?.to_be_bytes();
        let taken = BYTES_PER_INTEGER.min(len - bytes.len());
        bytes.extend(&integer[8 - taken..]);
    }
    Some(bytes)
}

/// Text that is written to bytes.
struct Buffer<'a>(&'a mut Vec<u8>);

impl fmt::Write for Buffer<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn caller() -> CallTime {
        CallTime::Caller { now: Timestamp::from_micros(3).unwrap(), skew_ms: 4 }
    }

    fn arguments(encoded: impl Into<Encoded>, time: CallTime) -> Vec<Vec<u8>> {
        encoded.into().at(time).arguments().map(<[u8]>::to_vec).collect()
    }

    #[test]
    fn text_keeps_its_order_and_its_empty_arguments_behind_the_time() {
        let call = TextCall::new(ScriptId::LimiterPeek)
            .with_optional(None::<u64>)
            .with_bytes(b"\0\xff")
            .with_optional(Some("x"))
            .with_bytes(b"")
            .with(u64::MAX);
        let own = [&b""[..], b"\0\xff", b"x", b"", b"18446744073709551615"];
        assert_eq!(call.arguments().collect::<Vec<_>>(), own);
        assert_eq!(
            arguments(call.clone(), CallTime::Store),
            [&[&b""[..], b"0"], &own[..]].concat()
        );
        assert_eq!(arguments(call, caller()), [&[&b"3"[..], b"4"], &own[..]].concat());
    }

    #[test]
    fn packed_numbers_stand_alone_or_before_the_time_of_the_caller() {
        let numbers = [1, 2].map(packed).concat();
        let call = PackedCall::new(ScriptId::LimiterPeek, numbers.clone());
        let call = Encoded::Packed(call);
        assert_eq!(arguments(call.clone(), CallTime::Store), vec![numbers.clone()]);
        let time = [3.0f64.to_le_bytes(), 4.0f64.to_le_bytes()].concat();
        assert_eq!(arguments(call, caller()), vec![numbers, time]);
    }

    #[test]
    fn a_reply_in_binary_is_whole_numbers() {
        assert_eq!(read_packed_reply(&[]), Some(vec![0]));
        assert_eq!(read_packed_reply(&[1, 2]), None);
        assert_eq!(read_packed_reply(&7.0f64.to_le_bytes()), Some(vec![0, 7]));
    }

    #[test]
    fn a_string_in_a_reply_is_its_length_and_six_bytes_to_an_integer() {
        let read = |text: &str| read_string_reply(text.as_bytes()).collect::<Vec<_>>();
        assert_eq!(read(""), [0]);
        assert_eq!(read("aaaaaab"), [7, 0x6161_6161_6161, 0x62]);
    }
}
