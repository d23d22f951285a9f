//! Sorted sets: members ordered by score, equal scores by member.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// A set of members, each with a score that is never NaN.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SortedSet {
    scores: BTreeMap<Vec<u8>, f64>,
    ranked: BTreeSet<Ranked>,
}

impl SortedSet {
    pub(crate) fn len(&self) -> usize {
        self.scores.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    /// Returns the bytes of all members, without their scores.
    pub(crate) fn member_bytes(&self) -> usize {
        self.scores.keys().map(Vec::len).sum()
    }

    pub(crate) fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).copied()
    }

    /// Adds a member or moves it to a new score, and returns whether it is new. The score must not be NaN.
    pub(crate) fn insert(&mut self, member: &[u8], score: f64) -> bool {
        let is_new = !self.remove(member);
        self.scores.insert(member.to_vec(), score);
        self.ranked.insert(Ranked { score, member: member.to_vec() });
        is_new
    }

    /// Removes a member, and returns whether it was there.
    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        let Some((member, score)) = self.scores.remove_entry(member) else {
            return false;
        };
        self.ranked.remove(&Ranked { score, member })
    }

    /// Returns members and scores from the lowest score up.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], f64)> {
        self.ranked.iter().map(|ranked| (ranked.member.as_slice(), ranked.score))
    }
}

#[derive(Debug, Clone, PartialEq)]
struct Ranked {
    score: f64,
    member: Vec<u8>,
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    /// Compares zero and minus zero as one score, as Redis does, and unlike `f64::total_cmp`.
    fn cmp(&self, other: &Self) -> Ordering {
        let by_score =
            self.score.partial_cmp(&other.score).expect("commands refuse NaN as a score");
        by_score.then_with(|| self.member.cmp(&other.member))
    }
}
