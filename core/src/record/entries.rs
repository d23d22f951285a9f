//! Lists, the records of logs, as a store keeps them.
//!
//! The first element is the head. The newest entries are the last elements; each is its time and its cost, two doubles.
//! If there are chunks of older ones, they are between, after their index: for each, the time of its last entry, and
//! the total of all chunks up to it. The head of a log alone with nothing after its state is packed. After the state
//! come the expired part of the first chunk, the time of the first entry that counts, and the number of elements that
//! are newest entries, and 256 more if there are chunks; a head in text has this number alone. A head may go on with
//! entries: the oldest of the newest ones or, if there are chunks, copies of the first one's that expire next.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

use super::packed::{pack_numbers, text_of};
use super::read_number;
use crate::call::{packed, whole};
use crate::exact::MAX_EXACT;
use crate::limit::{Entries, Entry, MAX_IN_HEAD, last_of};

/// The first word of a chunk in text.
const CHUNK: &str = "chunk";

/// The character after the head, and after the number of elements, if the head is text.
const END_OF_TEXT: char = ';';

/// The size of the tag, the configuration and the state, then that of the numbers after them.
const PACKED_HEAD: usize = 3 + 8 * 4;
const PACKED_CACHE: usize = 8 * 3;

/// The number added to the number of elements if there are chunks.
const CHUNKED: usize = 256;

/// Returns the elements of a record in text: the head, the chunks, and the newest entries, each by itself. One of cost
/// 1, which most are, is its time alone.
pub(super) fn texts(head: String, entries: &Entries) -> Vec<String> {
    let chunk = |chunk: &Vec<Entry>| {
        let mut text = String::from(CHUNK);
        for Entry { at, cost } in chunk {
            // Invariant: writing to a `String` cannot fail.
            let _ = write!(text, " {at}:{cost}");
        }
        text
    };
    let newest = |entry: &Entry| match entry.cost {
        1 => entry.at.to_string(),
        cost => alloc::format!("{}:{cost}", entry.at),
    };
    let older = core::iter::once(head).chain(entries.chunks.iter().map(chunk));
    older.chain(entries.newest.iter().map(newest)).collect()
}

/// Reads the elements after the head.
pub(super) fn read(texts: &[String]) -> Option<Entries> {
    let mut entries = Entries::default();
    for text in texts {
        match text.strip_prefix(CHUNK) {
            Some(chunk) if entries.newest.is_empty() => {
                let pairs = chunk.strip_prefix(' ')?.split(' ').map(read_entry);
                entries.chunks.push_back(pairs.collect::<Option<_>>()?);
            }
            Some(_) => return None,
            None => entries.newest.push_back(read_entry(text)?),
        }
    }
    Some(entries)
}

fn read_entry(text: &str) -> Option<Entry> {
    let (at, cost) = text.split_once(':').unwrap_or((text, "1"));
    let exact = |text| read_number(text).filter(|number| *number < MAX_EXACT);
    Some(Entry { at: exact(at)?, cost: exact(cost)? })
}

/// Returns the elements of a list as a store keeps them. A list without entries stays text.
pub(super) fn to_bytes(list: &[String]) -> Vec<Vec<u8>> {
    in_bytes(list, None)
}

/// Returns the bytes with this many entries in the head, or as many as after a call of the slow path.
fn in_bytes(list: &[String], in_head: Option<usize>) -> Vec<Vec<u8>> {
    let Some((head, others)) = list.split_first() else { return Vec::new() };
    match read(others) {
        Some(entries) => pack(head, &entries, in_head),
        None => list.iter().map(|text| text.as_bytes().to_vec()).collect(),
    }
}

fn pack(head: &str, entries: &Entries, in_head: Option<usize>) -> Vec<Vec<u8>> {
    let Entries { chunks, newest } = entries;
    let mut total = 0_u64;
    let index = chunks.iter().map(|chunk| {
        total = total.saturating_add(last_of(chunk).cost);
        Entry { cost: total, ..last_of(chunk) }
    });
    let index = pairs(index);
    let used = head.split(' ').nth(3).and_then(read_number).unwrap_or_default();
    let is_chunked = !chunks.is_empty();
    let in_head = in_head.unwrap_or(if is_chunked { 0 } else { MAX_IN_HEAD });
    let moved = if is_chunked { 0 } else { in_head.min(newest.len()) };
    let count = newest.len() - moved + if is_chunked { CHUNKED } else { 0 };
    let expired = entries.total().saturating_sub(used);
    let head = match pack_numbers(head, true) {
        Some(head) => {
            let first = entries.reaching(expired + 1).unwrap_or_default();
            let cache = [expired, first, count as u64].into_iter().flat_map(packed).collect();
            [head, cache].concat()
        }
        None => alloc::format!("{head}{END_OF_TEXT}{count}{END_OF_TEXT}").into_bytes(),
    };
    let copied = chunks.iter().take(1).flatten().filter(|entry| entry.cost > expired);
    let ahead = copied.chain(newest.range(..moved)).take(in_head).copied();
    let head = [head, pairs(ahead)].concat();
    let chunks = chunks.iter().map(|chunk| pairs(chunk.iter().copied()));
    let newest = newest.range(moved..).map(|entry| pairs([*entry].into_iter()));
    let index = is_chunked.then_some(index);
    [head].into_iter().chain(index).chain(chunks).chain(newest).collect()
}

fn pairs(entries: impl Iterator<Item = Entry>) -> Vec<u8> {
    entries.flat_map(|Entry { at, cost }| [packed(at), packed(cost)]).flatten().collect()
}

/// Reads the elements of a list. Invalid ones end in `?`: it is no record then.
pub(super) fn of_bytes(elements: &[&[u8]]) -> Vec<String> {
    let Some((head, others)) = elements.split_first() else { return Vec::new() };
    let (text, count, ahead) = if head.get(2) == Some(&b':') {
        let (own, rest) = head.split_at(PACKED_HEAD.min(head.len()));
        let (cache, ahead) = rest.split_at(PACKED_CACHE.min(rest.len()));
        let count = cache.last_chunk().and_then(|it| whole(*it));
        (text_of(own), count, ahead)
    } else {
        let mut parts = head.splitn(3, |byte| *byte == END_OF_TEXT as u8);
        let mut text = || parts.next().map(String::from_utf8_lossy);
        let (own, count) = (text().unwrap_or_default().into_owned(), text());
        (own, count.and_then(|count| read_number(&count)), parts.next().unwrap_or_default())
    };
    let read = |bytes: &[u8]| {
        let (doubles, rest) = bytes.as_chunks::<8>();
        let numbers = doubles.iter().map(|it| whole(*it)).collect::<Option<Vec<u64>>>()?;
        let (pairs, odd) = numbers.as_chunks::<2>();
        let pairs = pairs.iter().map(|&[at, cost]| Entry { at, cost }).collect::<Vec<_>>();
        (rest.is_empty() && odd.is_empty()).then_some(pairs)
    };
    let entries = (|| {
        let newest = usize::try_from(count?).ok()? % CHUNKED;
        let (older, newest) = others.split_at_checked(others.len().checked_sub(newest)?)?;
        let chunks = older.get(1..).unwrap_or_default().iter().map(|bytes| read(bytes));
        let ahead = if older.is_empty() { ahead } else { &[] };
        Some(Entries {
            chunks: chunks.collect::<Option<_>>()?,
            newest: read(&[&[ahead], newest].concat().concat())?.into(),
        })
    })();
    let mut list = self::texts(text, &entries.clone().unwrap_or_default());
    if entries.is_none() || in_bytes(&list, Some(ahead.len() / 16)) != elements {
        list.push("?".to_string());
    }
    list
}
