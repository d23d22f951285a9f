//! The numbers of a history.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use super::history::{Access, Acquired, Call, Entry, GivenBack, Loss};

/// The numbers of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// All that was noted.
    pub entries: usize,
    /// Fresh grants that reached their callers.
    pub grants: usize,
    /// Grants held once more by their owners.
    pub held_again: usize,
    /// Acquires that were answered with another task as the holder.
    pub refused: usize,
    /// Acquires that were answered with "not done".
    pub not_done: usize,
    /// Acquires and releases without an answer, or whose answer was not waited for.
    pub unknown: usize,
    /// Locks that were lost because no renewal was answered in time.
    pub expired: usize,
    /// Locks that were lost because the store knew of no such grant.
    pub forgotten: usize,
    /// The number of times that two holders were both inside their own deadlines (L6).
    pub overlaps: usize,
    /// The longest time for which two were.
    pub longest_overlap: Duration,
    /// Grants with a token that is not above one that was granted before they were asked for (L5).
    pub tokens_back: usize,
    /// Grants with the token of another one: of two masters, in the same microsecond.
    pub tokens_twice: usize,
    /// Accepted reads and writes of the guarded value.
    pub accepted: usize,
    /// Accepted accesses with a token below one that was accepted before (L7).
    pub accepted_back: usize,
    /// Reads and writes that were refused for a newer token.
    pub stale: usize,
    /// Accepted writes of tasks that had lost their lock to another one, which had not touched the value yet.
    pub stale_writes: usize,
    /// Accepted writes, each of one more than was read.
    pub writes: u64,
    /// Writes without an answer.
    pub unknown_writes: u64,
    /// The sum of the guarded values at the end.
    pub counted: u64,
    /// Updates of the values that check no tokens.
    pub updates: u64,
    /// Updates that did not end within the deadline of the lock.
    pub late_updates: u64,
    /// The sum of the unfenced values at the end.
    pub updated: u64,
}

/// A time for which a caller held a lock, by its own account.
struct Belief {
    from: u64,
    until: u64,
}

impl Report {
    /// Counts these entries; `counted` and `updated` are the final sums of the values of both kinds.
    pub fn new(entries: &[Entry], counted: u64, updated: u64) -> Self {
        let mut report = Report { entries: entries.len(), counted, updated, ..Report::default() };
        entries.iter().for_each(|entry| report.count(entry));
        for entries in by_key(entries).values() {
            report.count_overlaps(entries);
            report.count_order(entries);
        }
        report
    }

    /// Writes that others have overwritten without having seen them, of the guarded values.
    pub fn lost_writes(&self) -> u64 {
        self.writes.saturating_sub(self.counted)
    }

    /// Returns the lost updates of the values that check no tokens.
    pub fn lost_updates(&self) -> u64 {
        self.updates.saturating_sub(self.updated)
    }

    fn count(&mut self, entry: &Entry) {
        match &entry.call {
            Call::Acquire(Acquired::Granted { holds: 1, .. }) => self.grants += 1,
            Call::Acquire(Acquired::Granted { .. }) => self.held_again += 1,
            Call::Acquire(Acquired::Held(_)) => self.refused += 1,
            Call::Acquire(Acquired::NotDone) => self.not_done += 1,
            Call::Acquire(Acquired::Unknown) | Call::Release(_, GivenBack::Unknown) => {
                self.unknown += 1;
            }
            Call::Release(..) => {}
            Call::Lost(_, Loss::Expired) => self.expired += 1,
            Call::Lost(_, Loss::Refused) => self.forgotten += 1,
            Call::Read(_, Access::Accepted(_)) => self.accepted += 1,
            Call::Write(_, _, Access::Accepted(())) => {
                self.accepted += 1;
                self.writes += 1;
            }
            Call::Read(_, Access::Stale(_)) | Call::Write(_, _, Access::Stale(_)) => {
                self.stale += 1;
            }
            Call::Write(_, _, Access::Unknown) => self.unknown_writes += 1,
            Call::Read(..) | Call::Write(..) => {}
            Call::Update(_) => {
                self.updates += 1;
                self.late_updates += u64::from(entry.deadline.is_none());
            }
        }
    }

    fn count_overlaps(&mut self, entries: &[&Entry]) {
        let mut beliefs = beliefs(entries);
        beliefs.sort_by_key(|belief| belief.from);
        // Earlier beliefs that have not ended.
        let mut live: Vec<&Belief> = Vec::new();
        for belief in &beliefs {
            live.retain(|other| other.until > belief.from);
            for other in &live {
                let both = other.until.min(belief.until) - belief.from;
                self.overlaps += 1;
                self.longest_overlap = self.longest_overlap.max(Duration::from_nanos(both));
            }
            live.push(belief);
        }
    }

    fn count_order(&mut self, entries: &[&Entry]) {
        let grants = tokens(entries, |call| match call {
            Call::Acquire(Acquired::Granted { token, holds: 1 }) => Some(*token),
            _ => None,
        });
        let accepted = tokens(entries, |call| match call {
            Call::Read(token, Access::Accepted(_))
            | Call::Write(token, _, Access::Accepted(())) => Some(*token),
            _ => None,
        });
        let written = tokens(entries, |call| match call {
            Call::Write(token, _, Access::Accepted(())) => Some(*token),
            _ => None,
        });
        let distinct: BTreeSet<u64> = grants.iter().map(|[token, ..]| *token).collect();
        self.tokens_twice += grants.len() - distinct.len();
        self.tokens_back += behind(&grants, &grants, |token, newest| token <= newest);
        self.accepted_back += behind(&accepted, &accepted, |token, newest| token < newest);
        self.stale_writes += behind(&written, &grants, |token, newest| token < newest);
    }
}

/// Returns the entries of each lock.
pub fn by_key(entries: &[Entry]) -> BTreeMap<&str, Vec<&Entry>> {
    let mut keys: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        keys.entry(entry.key.as_str()).or_default().push(entry);
    }
    keys
}

/// Returns the spans in which a task took the lock for its own: from the grant until its own deadline, its release, or
/// until it noticed its loss.
fn beliefs(entries: &[&Entry]) -> Vec<Belief> {
    let mut grants: BTreeMap<u64, (Belief, u64)> = BTreeMap::new();
    for entry in entries {
        if let Call::Acquire(Acquired::Granted { token, holds: 1 }) = entry.call {
            let belief = Belief { from: entry.returned, until: 0 };
            grants.insert(token, (belief, 0));
        }
    }
    for entry in entries {
        let (token, ends) = match entry.call {
            Call::Acquire(Acquired::Granted { token, .. }) => (token, false),
            Call::Release(token, _) | Call::Lost(token, _) => (token, true),
            Call::Read(token, _) | Call::Write(token, ..) | Call::Update(token) => (token, false),
            Call::Acquire(_) => continue,
        };
        let Some((belief, end)) = grants.get_mut(&token) else { continue };
        belief.until = belief.until.max(entry.deadline.unwrap_or_default());
        // It is released once per hold, the last time after its loss was noticed.
        let is_loss = matches!(entry.call, Call::Lost(..));
        if ends && (*end == 0 || is_loss || entry.invoked > *end) {
            *end = entry.invoked;
        }
    }
    let ended = |(mut belief, end): (Belief, u64)| {
        if end > 0 {
            belief.until = belief.until.min(end);
        }
        belief
    };
    grants.into_values().map(ended).collect()
}

/// Returns the calls that have a token of this kind: the token, and the beginning and the end of the call.
fn tokens(entries: &[&Entry], token: impl Fn(&Call) -> Option<u64>) -> Vec<[u64; 3]> {
    let of = |entry: &&Entry| Some([token(&entry.call)?, entry.invoked, entry.returned]);
    entries.iter().filter_map(of).collect()
}

/// Returns how many of `calls` began when a token of `others` was there that theirs is behind.
fn behind(calls: &[[u64; 3]], others: &[[u64; 3]], is_behind: fn(u64, u64) -> bool) -> usize {
    let (mut calls, mut others) = (calls.to_vec(), others.to_vec());
    calls.sort_by_key(|[_, invoked, _]| *invoked);
    others.sort_by_key(|[.., returned]| *returned);
    let (mut next, mut newest, mut count) = (0, None, 0);
    for [token, invoked, _] in calls {
        while next < others.len() && others[next][2] < invoked {
            newest = newest.max(Some(others[next][0]));
            next += 1;
        }
        count += usize::from(newest.is_some_and(|newest| is_behind(token, newest)));
    }
    count
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  lock: {} grants, {} held again, {} refused, {} not done, {} unknown; \
             lost: {} expired, {} forgotten",
            self.grants,
            self.held_again,
            self.refused,
            self.not_done,
            self.unknown,
            self.expired,
            self.forgotten
        )?;
        writeln!(
            f,
            "  two holders inside their deadlines: {} times, the longest {} ms; tokens back: {}, twice: {}",
            self.overlaps,
            self.longest_overlap.as_millis(),
            self.tokens_back,
            self.tokens_twice
        )?;
        writeln!(
            f,
            "  fenced: {} accepted, {} of them with a token below an earlier one, {} refused, \
             {} stale writes before the new holder's first touch; {} of {} writes lost",
            self.accepted,
            self.accepted_back,
            self.stale,
            self.stale_writes,
            self.lost_writes(),
            self.writes
        )?;
        write!(
            f,
            "  not fenced: {} of {} updates lost, {} were not over within the deadline",
            self.lost_updates(),
            self.updates,
            self.late_updates
        )
    }
}
