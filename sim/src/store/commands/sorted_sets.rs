//! Commands on sorted sets: enough for the sliding logs that other projects ship.

use super::Outcome;
use super::positions;
use crate::store::error::CommandError;
use crate::store::keyspace::Keyspace;
use crate::store::numbers::{float, format_g17, integer, range_end};
use crate::store::resp::RespValue;
use crate::store::sorted_set::SortedSet;

pub(super) fn zadd(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    const OPTIONS: [&str; 6] = ["nx", "xx", "gt", "lt", "ch", "incr"];
    if OPTIONS.iter().any(|option| args[1].eq_ignore_ascii_case(option.as_bytes())) {
        return Err(CommandError::NotSimulated { what: "the options of ZADD" });
    }
    let (pairs, rest) = args[1..].as_chunks();
    if !rest.is_empty() {
        return Err(CommandError::Syntax);
    }
    // Every score is read before the first is stored: a wrong one must leave no trace of the others.
    let scored = |[score, member]: &[&'_ [u8]; 2]| Ok((float(score)?, member.to_vec()));
    let scored: Vec<(f64, Vec<u8>)> =
        pairs.iter().map(scored).collect::<Result<_, CommandError>>()?;
    let set: &mut SortedSet = keyspace.edit_or_new(args[0])?;
    Ok(RespValue::count(scored.iter().filter(|(score, member)| set.insert(member, *score)).count()))
}

pub(super) fn zcard(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    Ok(RespValue::count(keyspace.read::<SortedSet>(args[0])?.map_or(0, SortedSet::len)))
}

pub(super) fn zscore(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let score = keyspace.read::<SortedSet>(args[0])?.and_then(|set| set.score(args[1]));
    Ok(RespValue::bulk_or_nil(score.map(format_g17)))
}

pub(super) fn zcount(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let range = ScoreRange::parse(args[1], args[2])?;
    let set = keyspace.read::<SortedSet>(args[0])?;
    Ok(RespValue::count(
        set.map_or(0, |set| set.iter().filter(|(_, score)| range.holds(*score)).count()),
    ))
}

pub(super) fn zrange(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let with_scores = match args[3..] {
        [] => false,
        [word] if word.eq_ignore_ascii_case(b"withscores") => true,
        _ => {
            return Err(CommandError::NotSimulated {
                what: "the options of ZRANGE but WITHSCORES",
            });
        }
    };
    let (start, stop) = (integer(args[1])?, integer(args[2])?);
    let Some(set) = keyspace.read::<SortedSet>(args[0])? else {
        return Ok(RespValue::Array(Vec::new()));
    };
    let range = positions(start, stop, set.len());
    Ok(listed(set.iter().skip(range.start).take(range.len()), with_scores))
}

pub(super) fn zrangebyscore(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let (mut with_scores, mut offset, mut limit) = (false, 0, -1);
    let mut words = args[3..].iter();
    while let Some(word) = words.next() {
        if word.eq_ignore_ascii_case(b"withscores") {
            with_scores = true;
        } else if word.eq_ignore_ascii_case(b"limit") && words.len() >= 2 {
            let mut number =
                || words.next().map_or(Err(CommandError::Syntax), |word| integer(word));
            (offset, limit) = (number()?, number()?);
        } else {
            return Err(CommandError::Syntax);
        }
    }
    let range = ScoreRange::parse(args[1], args[2])?;
    let Some(set) = keyspace.read::<SortedSet>(args[0])? else {
        return Ok(RespValue::Array(Vec::new()));
    };
    // A negative offset finds nothing, a negative limit is none.
    let skipped = usize::try_from(offset).unwrap_or(usize::MAX);
    let taken = usize::try_from(limit).unwrap_or(usize::MAX);
    let found = set.iter().filter(|(_, score)| range.holds(*score)).skip(skipped).take(taken);
    Ok(listed(found, with_scores))
}

pub(super) fn zrem(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let members = args[1..].iter().map(|member| member.to_vec()).collect();
    remove(keyspace, args[0], |_| members)
}

pub(super) fn zremrangebyscore(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let range = ScoreRange::parse(args[1], args[2])?;
    remove(keyspace, args[0], |set| {
        set.iter()
            .filter(|(_, score)| range.holds(*score))
            .map(|(member, _)| member.to_vec())
            .collect()
    })
}

pub(super) fn zremrangebyrank(keyspace: &mut Keyspace, args: &[&[u8]]) -> Outcome {
    let (start, stop) = (integer(args[1])?, integer(args[2])?);
    remove(keyspace, args[0], |set| {
        let range = positions(start, stop, set.len());
        set.iter().skip(range.start).take(range.len()).map(|(member, _)| member.to_vec()).collect()
    })
}

/// A range of scores; each end counts unless `(` precedes it.
struct ScoreRange {
    min: f64,
    max: f64,
    min_counts: bool,
    max_counts: bool,
}

impl ScoreRange {
    fn parse(min: &[u8], max: &[u8]) -> Result<ScoreRange, CommandError> {
        let end = |text: &[u8]| {
            let bound = text.strip_prefix(b"(");
            range_end(bound.unwrap_or(text)).map(|score| (score, bound.is_none()))
        };
        let ((min, min_counts), (max, max_counts)) = (end(min)?, end(max)?);
        Ok(ScoreRange { min, max, min_counts, max_counts })
    }

    fn holds(&self, score: f64) -> bool {
        let above_min = score > self.min || self.min_counts && score == self.min;
        let below_max = score < self.max || self.max_counts && score == self.max;
        above_min && below_max
    }
}

/// Removes the members that `chosen` picks, and the key with its last member, and replies their number.
fn remove(
    keyspace: &mut Keyspace,
    key: &[u8],
    chosen: impl FnOnce(&SortedSet) -> Vec<Vec<u8>>,
) -> Outcome {
    let Some(set) = keyspace.edit::<SortedSet>(key)? else {
        return Ok(RespValue::Integer(0));
    };
    let members = chosen(set);
    let removed = members.iter().filter(|member| set.remove(member)).count();
    keyspace.drop_if_empty(key);
    Ok(RespValue::count(removed))
}

fn listed<'a>(members: impl Iterator<Item = (&'a [u8], f64)>, with_scores: bool) -> RespValue {
    let shown = |(member, score): (&[u8], f64)| {
        let score = with_scores.then(|| RespValue::bulk(format_g17(score)));
        std::iter::once(RespValue::bulk(member)).chain(score)
    };
    RespValue::Array(members.flat_map(shown).collect())
}
