//! The entries of sliding logs, the costs admitted at each time, kept so that each operation takes a bounded number of
//! steps.
//!
//! The newest entries stand by themselves. Once there are [`MAX_NEWEST`] of them they join the last chunk, in which
//! each entry has the total of its chunk up to it. The chunks' totals and a binary search in one chunk then find the
//! charge since a time, and the entry up to which an amount was admitted.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::exact::MAX_EXACT;

/// The most entries outside of chunks.
pub(crate) const MAX_NEWEST: usize = 48;

/// The most entries that stand in the head of a record; they cost less there than as elements.
pub(crate) const MAX_IN_HEAD: usize = 16;

/// The most entries of a chunk.
pub(crate) const MAX_CHUNK: usize = 864;

/// How many entries a chunk takes for each chunk that there is, at most: the bytes of one in the index of a record.
const CHUNK_PER_CHUNK: usize = 16;

/// The largest total cost of entries, so that the sum of two such numbers is exact.
const MAX_TOTAL: u64 = MAX_EXACT / 2;

/// The most that a log takes over from limits that are not logs. The other charges of a key's logs, including expired
/// ones that are still stored, never come to as much.
pub(crate) const MAX_CARRIED: u64 = MAX_TOTAL / 2;

/// All that was admitted in one microsecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) at: u64,
    /// In a chunk, the total up to this entry.
    pub(crate) cost: u64,
}

/// The oldest first: no two at one time, and none without a cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entries {
    /// None is empty.
    pub(crate) chunks: VecDeque<Vec<Entry>>,
    /// Not empty if there are any entries.
    pub(crate) newest: VecDeque<Entry>,
}

impl Entries {
    pub(crate) fn is_empty(&self) -> bool {
        self.newest.is_empty()
    }

    /// Returns the cost of all of them.
    pub(crate) fn total(&self) -> u64 {
        self.since(0)
    }

    /// Returns the cost of the entries not older than `at`.
    pub(crate) fn since(&self, at: u64) -> u64 {
        let newest = self.newest.iter().filter(|entry| entry.at >= at);
        let newest: u64 = newest.map(|entry| entry.cost).sum();
        let chunk = self.chunks.partition_point(|chunk| last_of(chunk).at < at);
        let chunks: u64 = self.chunks.range(chunk..).map(|chunk| last_of(chunk).cost).sum();
        let older = self
            .chunks
            .get(chunk)
            .map_or(0, |chunk| before(chunk, chunk.partition_point(|entry| entry.at < at)));
        newest + chunks - older
    }

    /// Returns the time of the first entry up to which the oldest cost at least `total` (above zero).
    pub(crate) fn reaching(&self, total: u64) -> Option<u64> {
        let mut older = 0;
        for chunk in &self.chunks {
            let sum = last_of(chunk).cost;
            if older + sum >= total {
                return Some(chunk[chunk.partition_point(|entry| older + entry.cost < total)].at);
            }
            older += sum;
        }
        let reaches = |entry: &&Entry| {
            older += entry.cost;
            older >= total
        };
        self.newest.iter().find(reaches).map(|entry| entry.at)
    }

    /// Adds a charge at a time that is not before the newest entry's.
    pub(crate) fn push(&mut self, at: u64, cost: u64) {
        if let Some(newest) = self.newest.back_mut()
            && newest.at == at
        {
            newest.cost += cost;
            return;
        }
        if self.newest.len() == MAX_NEWEST {
            self.flush();
        }
        self.newest.push_back(Entry { at, cost });
    }

    /// Moves the newest entries to the last chunk, or to a new one if it is full. Few chunks are short, so that those
    /// of a small log cost little to read.
    fn flush(&mut self) {
        let full = MAX_CHUNK.min(CHUNK_PER_CHUNK * self.chunks.len());
        if self.chunks.back().is_none_or(|chunk| chunk.len() + MAX_NEWEST > full) {
            self.chunks.push_back(Vec::new());
        }
        let Some(chunk) = self.chunks.back_mut() else { return };
        let mut total = chunk.last().map_or(0, |entry| entry.cost);
        chunk.extend(self.newest.drain(..).map(|Entry { at, cost }| {
            total += cost;
            Entry { at, cost: total }
        }));
    }

    /// Drops the oldest entries, of cost `expired`, which no longer count; some of them stay in the first chunk.
    pub(crate) fn drop_oldest(&mut self, mut expired: u64) {
        while let Some(chunk) = self.chunks.front()
            && last_of(chunk).cost <= expired
        {
            expired -= last_of(chunk).cost;
            self.chunks.pop_front();
        }
        while self.chunks.is_empty()
            && let Some(oldest) = self.newest.front_mut()
        {
            if oldest.cost > expired {
                oldest.cost -= expired;
                break;
            }
            expired -= oldest.cost;
            self.newest.pop_front();
        }
    }

    /// Takes `cost` out of the newest.
    pub(crate) fn take_newest(&mut self, mut cost: u64) {
        while cost > 0 {
            if let Some(newest) = self.newest.back_mut() {
                let part = newest.cost.min(cost);
                cost -= part;
                newest.cost -= part;
                if newest.cost == 0 {
                    self.newest.pop_back();
                }
            } else if let Some(chunk) = self.chunks.back_mut() {
                let sum = last_of(chunk).cost;
                let left = sum - sum.min(cost);
                cost -= sum - left;
                if left == 0 {
                    self.chunks.pop_back();
                } else {
                    let end = chunk.partition_point(|entry| entry.cost < left);
                    chunk.truncate(end + 1);
                    chunk[end].cost = left;
                }
            } else {
                return;
            }
        }
        self.refill();
    }

    /// Returns the cost of the entry of this time, and of all up to it.
    pub(crate) fn find(&self, at: u64) -> Option<(u64, u64)> {
        let newer = self.since(at + 1);
        let cost = self.since(at) - newer;
        (cost > 0).then(|| (cost, self.total() - newer))
    }

    /// Takes `cost` out of the entry of this time, which has at least that.
    pub(crate) fn take(&mut self, at: u64, cost: u64) {
        if let Ok(place) = self.newest.binary_search_by_key(&at, |entry| entry.at) {
            self.newest[place].cost -= cost;
            if self.newest[place].cost == 0 {
                self.newest.remove(place);
            }
            return self.refill();
        }
        let number = self.chunks.partition_point(|chunk| last_of(chunk).at < at);
        let Some(chunk) = self.chunks.get_mut(number) else { return };
        let place = chunk.partition_point(|entry| entry.at < at);
        for entry in &mut chunk[place..] {
            entry.cost -= cost;
        }
        if chunk[place].cost == before(chunk, place) {
            chunk.remove(place);
        }
        self.join(number);
    }

    /// Merges a changed chunk with a neighbour if both fit into one, so that there are never many small chunks.
    fn join(&mut self, number: usize) {
        let len = |number: usize| self.chunks.get(number).map(Vec::len);
        let fits = |first: &usize| {
            len(*first).zip(len(first + 1)).is_some_and(|(one, other)| one + other <= MAX_CHUNK)
        };
        let first = number.checked_sub(1).into_iter().chain([number]).find(fits);
        if let Some((first, second)) = first.and_then(|at| Some((at, self.chunks.remove(at + 1)?)))
        {
            let chunk = &mut self.chunks[first];
            let sum = last_of(chunk).cost;
            chunk.extend(second.iter().map(|entry| Entry { cost: sum + entry.cost, ..*entry }));
        }
        self.chunks.retain(|chunk| !chunk.is_empty());
    }

    /// Takes the newest entries out of the last chunk if there are none outside of chunks.
    fn refill(&mut self) {
        let Some(chunk) = self.chunks.back_mut().filter(|_| self.newest.is_empty()) else { return };
        let from = chunk.len().saturating_sub(MAX_NEWEST);
        let mut total = before(chunk, from);
        self.newest.extend(chunk.drain(from..).map(|Entry { at, cost: up_to }| {
            let cost = up_to - total;
            total = up_to;
            Entry { at, cost }
        }));
        self.join(self.chunks.len() - 1);
    }

    /// Returns whether some sequence of calls can have left them, if the newest was made by `last` and the newest of
    /// cost `used` count.
    pub(crate) fn is_sound(&self, used: u64, last: u64) -> bool {
        let mut older = None;
        let mut in_order = |at: u64| older.replace(at).is_none_or(|older| older < at);
        let mut chunks = 0_u64;
        for chunk in &self.chunks {
            let mut total = 0;
            for entry in chunk {
                if !in_order(entry.at) || entry.cost <= total {
                    return false;
                }
                total = entry.cost;
            }
            chunks = chunks.saturating_add(total);
            if !(1..=MAX_CHUNK).contains(&chunk.len()) {
                return false;
            }
        }
        let newest = self.newest.iter().fold(0_u64, |sum, entry| sum.saturating_add(entry.cost));
        let total = chunks.saturating_add(newest);
        let is_in_order = self.newest.iter().all(|entry| in_order(entry.at) && entry.cost > 0);
        let expired = total.checked_sub(used);
        is_in_order
            && total <= MAX_TOTAL
            && self.newest.len() <= MAX_NEWEST
            && self.newest.back().map_or(used == 0, |newest| newest.at <= last)
            && match self.chunks.front() {
                Some(chunk) => expired.is_some_and(|it| it < last_of(chunk).cost) && newest > 0,
                None => expired == Some(0),
            }
    }
}

/// Returns the last entry of a chunk; no chunk is empty.
pub(crate) fn last_of(chunk: &[Entry]) -> Entry {
    chunk.last().copied().unwrap_or(Entry { at: 0, cost: 0 })
}

/// Returns the total before the entry in this place.
pub(crate) fn before(chunk: &[Entry], place: usize) -> u64 {
    place.checked_sub(1).map_or(0, |place| chunk[place].cost)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look random, the same in every run.
    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) % bound
        }
    }

    /// Compares the entries of a few thousand calls with a plain list.
    fn compare(seed: u64, [push, take, take_newest]: [u64; 3]) -> usize {
        let (mut random, mut entries, mut plain) =
            (Random(seed), Entries::default(), Vec::<Entry>::new());
        let (mut now, mut most_chunks) = (0, 0);
        for _ in 0..12_000 {
            let all = plain.len() as u64;
            let chosen = random.below(push + take + take_newest + 1);
            if chosen < push || all == 0 {
                now += random.below(3);
                let cost = 1 + random.below(3);
                entries.push(now, cost);
                match plain.last_mut().filter(|last| last.at == now) {
                    Some(last) => last.cost += cost,
                    None => plain.push(Entry { at: now, cost }),
                }
            } else if chosen < push + take {
                // Older ones more often.
                let bound = 1 + random.below(all);
                let place = random.below(bound) as usize;
                let Entry { at, cost } = plain[place];
                let part = 1 + random.below(cost);
                entries.take(at, part);
                plain[place].cost -= part;
            } else if chosen < push + take + take_newest {
                let most = if random.below(50) == 0 { entries.total() } else { 60 };
                let bound = 1 + random.below(most);
                let mut cost = random.below(bound).min(entries.total());
                entries.take_newest(cost);
                for entry in plain.iter_mut().rev() {
                    let part = entry.cost.min(cost);
                    cost -= part;
                    entry.cost -= part;
                }
            } else {
                let bound = 1 + random.below(entries.total());
                let mut expired = random.below(bound);
                entries.drop_oldest(expired);
                for entry in &mut plain {
                    let part = entry.cost.min(expired);
                    expired -= part;
                    entry.cost -= part;
                }
                // Some of them stay in the first chunk.
                let stays = entries.total() - plain.iter().map(|entry| entry.cost).sum::<u64>();
                assert!(entries.chunks.front().map_or(stays == 0, |it| stays < last_of(it).cost));
                plain.retain(|entry| entry.cost > 0);
                entries = Entries::default();
                plain.iter().for_each(|entry| entries.push(entry.at, entry.cost));
            }
            plain.retain(|entry| entry.cost > 0);
            let total = plain.iter().map(|entry| entry.cost).sum();
            assert_eq!(entries.total(), total);
            assert_eq!(entries.is_empty(), plain.is_empty());
            let at = random.below(now + 2);
            let since = plain.iter().filter(|entry| entry.at >= at).map(|entry| entry.cost).sum();
            assert_eq!(entries.since(at), since, "{at}");
            let goal = 1 + random.below(total + 1);
            let mut up_to = 0;
            let reaching = plain.iter().find_map(|entry| {
                up_to += entry.cost;
                (up_to >= goal).then_some(entry.at)
            });
            assert_eq!(entries.reaching(goal), reaching, "{goal}");
            let cost = plain.iter().find(|entry| entry.at == at).map(|entry| entry.cost);
            assert_eq!(entries.find(at).map(|(cost, _)| cost), cost);
            most_chunks = most_chunks.max(entries.chunks.len());
            let few = 2 + 2 * plain.len() / MAX_CHUNK + plain.len().isqrt() / 2;
            assert!(entries.chunks.len() <= few);
        }
        assert!(entries.is_sound(entries.total(), now));
        most_chunks
    }

    #[test]
    fn entries_in_chunks_are_as_a_plain_list_of_them() {
        for (seed, weights) in
            [[99, 0, 0], [90, 9, 0], [60, 39, 0], [95, 0, 4], [600, 350, 5]].into_iter().enumerate()
        {
            let chunks = compare(seed as u64, weights.map(|weight| weight * 10));
            assert!(chunks > 1, "{weights:?}: {chunks}");
        }
    }
}
