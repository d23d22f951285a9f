//! Compares limits pairwise on one trace.

use crate::replay::Outcome;
use crate::trace::Trace;

/// Two limits on the same requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The index of the first limit.
    pub first: usize,
    /// The index of the second limit, which is larger.
    pub second: usize,
    /// Requests that both admit.
    pub both: u64,
    /// Requests that only the first one admits.
    pub only_first: u64,
    /// Requests that only the second one admits.
    pub only_second: u64,
    /// Requests that neither admits.
    pub neither: u64,
    /// Keys on which they differ.
    pub keys_differing: u64,
    /// The keys with the most differences, most first; of equals the busier one, then by name.
    pub keys: Vec<KeyPair>,
}

/// Two limits on the requests of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPair {
    /// The key's number in the trace.
    pub key: u32,
    /// Its requests.
    pub requests: u64,
    /// Those that only the first one admits.
    pub only_first: u64,
    /// Those that only the second one admits.
    pub only_second: u64,
}

/// Returns all pairs of limits with these outcomes of one trace, in their order, with up to `top` keys each.
pub fn pairs(trace: &Trace, outcomes: &[&[Outcome]], top: usize) -> Vec<Pair> {
    let seconds = |first| (first + 1..outcomes.len()).map(move |second| (first, second));
    let pairs = (0..outcomes.len()).flat_map(seconds);
    pairs.map(|(first, second)| pair(trace, outcomes, first, second, top)).collect()
}

fn pair(trace: &Trace, outcomes: &[&[Outcome]], first: usize, second: usize, top: usize) -> Pair {
    let (mut both, mut neither) = (0, 0);
    let mut keys: Vec<KeyPair> = (0..)
        .take(trace.key_count())
        .map(|key| KeyPair { key, requests: 0, only_first: 0, only_second: 0 })
        .collect();
    let decided = outcomes[first].iter().zip(outcomes[second]);
    for (request, (a, b)) in trace.requests().iter().zip(decided) {
        let key = &mut keys[request.key as usize];
        key.requests += 1;
        match (*a == Outcome::Admitted, *b == Outcome::Admitted) {
            (true, true) => both += 1,
            (true, false) => key.only_first += 1,
            (false, true) => key.only_second += 1,
            (false, false) => neither += 1,
        }
    }
    let only_first = keys.iter().map(|key| key.only_first).sum();
    let only_second = keys.iter().map(|key| key.only_second).sum();
    let differing = |key: &KeyPair| key.only_first + key.only_second;
    keys.retain(|key| differing(key) > 0);
    keys.sort_by(|a, b| {
        let more = (differing(b), b.requests).cmp(&(differing(a), a.requests));
        more.then_with(|| trace.key(a.key).cmp(trace.key(b.key)))
    });
    let keys_differing = keys.len() as u64;
    keys.truncate(top);
    Pair { first, second, both, only_first, only_second, neither, keys_differing, keys }
}

#[cfg(test)]
mod tests {
    use super::super::measured::tests::trace;
    use super::*;
    use Outcome::{Admitted, Denied, Never};

    #[test]
    fn pairs_add_up_and_their_keys_are_in_a_settled_order() {
        let trace = trace([
            (1, "b", 1),
            (2, "a", 1),
            (3, "c", 9),
            (4, "c", 1),
            (5, "c", 1),
            (6, "d", 1),
            (7, "a", 1),
        ]);
        let all = [Admitted; 7];
        let some = [Denied, Denied, Never, Denied, Admitted, Admitted, Admitted];
        let none = [Denied; 7];
        let pairs = pairs(&trace, &[&all, &some, &none], 2);
        let places: Vec<_> = pairs.iter().map(|pair| (pair.first, pair.second)).collect();
        assert_eq!(places, [(0, 1), (0, 2), (1, 2)]);
        let counts = |pair: &Pair| (pair.both, pair.only_first, pair.only_second, pair.neither);
        let counted: Vec<_> = pairs.iter().map(counts).collect();
        assert_eq!(counted, [(3, 4, 0, 0), (0, 7, 0, 0), (0, 3, 0, 4)]);
        let turned = super::pairs(&trace, &[&some, &all], 2);
        assert_eq!(counts(&turned[0]), (3, 0, 4, 0));
        assert_eq!(turned[0].keys[0].only_second, 2);
        let names = |pair: &Pair| -> Vec<String> {
            pair.keys.iter().map(|key| trace.key(key.key).to_owned()).collect()
        };
        // The busier of two, and of equally busy ones by name.
        assert_eq!(names(&pairs[0]), ["c", "a"]);
        assert_eq!(names(&pairs[2]), ["c", "a"]);
        assert_eq!((pairs[0].keys_differing, pairs[2].keys_differing), (3, 3));
        assert_eq!(
            pairs[2].keys[0],
            KeyPair { key: 2, requests: 3, only_first: 1, only_second: 0 }
        );
    }
}
