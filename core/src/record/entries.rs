//! Lists, the records of logs, as a store keeps them.
//!
//! The last element is the head, followed by the newest entries; each is its time and its cost, two doubles. If there
//! are chunks of older ones, the first element is their index: for each, the time of its last entry, and the total of
//! all chunks up to it. The chunks are between the two. The head of a log alone with nothing after its state is packed;
//! after the state come the expired part of the first chunk, and the time of the first entry that counts.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

use super::packed::{pack_numbers, text_of};
use super::read_number;
use crate::call::{packed, whole};
use crate::exact::MAX_EXACT;
use crate::limit::{Entries, Entry, last_of};

/// What a chunk begins with in text.
const CHUNK: &str = "chunk";

/// The separator of the head and the newest entries if the head is text.
const END_OF_TEXT: u8 = b';';

/// The tag, the configuration and the state, and what follows it.
const PACKED_HEAD: usize = 3 + 8 * 4;
const PACKED_CACHE: usize = 8 * 2;

/// The elements of a record in text: the head, the chunks, and the newest entries, each by itself. One of cost 1, which
/// most are, is its time alone.
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

/// Reads what follows the head.
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
    let Some((head, others)) = list.split_first() else { return Vec::new() };
    match read(others) {
        Some(entries) => pack(head, &entries),
        None => others.iter().chain([head]).map(|text| text.as_bytes().to_vec()).collect(),
    }
}

fn pack(head: &str, entries: &Entries) -> Vec<Vec<u8>> {
    let Entries { chunks, newest } = entries;
    let mut total = 0_u64;
    let index = chunks.iter().map(|chunk| {
        total = total.saturating_add(last_of(chunk).cost);
        Entry { cost: total, ..last_of(chunk) }
    });
    let index = (!chunks.is_empty()).then(|| pairs(index));
    let chunks = chunks.iter().map(|chunk| pairs(chunk.iter().copied()));
    let used = head.split(' ').nth(3).and_then(read_number).unwrap_or_default();
    let head = match pack_numbers(head, true) {
        Some(head) => [head, cache(entries, used).into_iter().flat_map(packed).collect()].concat(),
        None => [head.as_bytes(), &[END_OF_TEXT]].concat(),
    };
    let head = [head, pairs(newest.iter().copied())].concat();
    index.into_iter().chain(chunks).chain([head]).collect()
}

/// What the script of a log alone keeps beside its state: the expired part of the first chunk, and the time of the
/// first entry that counts.
fn cache(entries: &Entries, used: u64) -> [u64; 2] {
    let expired = entries.total().saturating_sub(used);
    [expired, entries.reaching(expired + 1).unwrap_or_default()]
}

fn pairs(entries: impl Iterator<Item = Entry>) -> Vec<u8> {
    entries.flat_map(|Entry { at, cost }| [packed(at), packed(cost)]).flatten().collect()
}

/// Reads the elements of a list. Invalid ones end in `?`: it is no record then.
pub(super) fn of_bytes(elements: &[&[u8]]) -> Vec<String> {
    let Some((head, others)) = elements.split_last() else { return Vec::new() };
    let mut texts = Vec::new();
    let newest = if head.get(2) == Some(&b':') {
        let (cache, newest) = (PACKED_HEAD.min(head.len()), PACKED_HEAD + PACKED_CACHE);
        texts.push(text_of(&head[..cache]));
        head.get(newest..)
    } else {
        let end = head.iter().position(|byte| *byte == END_OF_TEXT);
        texts.push(String::from_utf8_lossy(&head[..end.unwrap_or(head.len())]).into_owned());
        end.map(|end| &head[end + 1..])
    };
    let read = |bytes: &[u8]| {
        let (doubles, rest) = bytes.as_chunks::<8>();
        let numbers = doubles.iter().map(|it| whole(*it)).collect::<Option<Vec<u64>>>()?;
        let (pairs, odd) = numbers.as_chunks::<2>();
        let pairs = pairs.iter().map(|&[at, cost]| Entry { at, cost }).collect::<Vec<_>>();
        (rest.is_empty() && odd.is_empty()).then_some(pairs)
    };
    let chunks = others.get(1..).unwrap_or_default().iter().map(|bytes| read(bytes));
    let entries = (|| {
        let chunks = chunks.collect::<Option<_>>()?;
        Some(Entries { chunks, newest: read(newest?)?.into() })
    })();
    let head = core::mem::take(&mut texts[0]);
    let mut list = self::texts(head, &entries.clone().unwrap_or_default());
    if entries.is_none() || to_bytes(&list) != elements {
        list.push("?".to_string());
    }
    list
}
