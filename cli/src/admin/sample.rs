//! Limiters that deny, and limiters that are charged, by several looks at a bounded sample.
//!
//! A denial writes nothing, so the number of denials cannot be read from a store. A look shows whether a request would
//! be denied then, and two looks show the least that was charged between them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lockage::{Key, limiter};
use lockage_core::Timestamp;
use lockage_core::view::{LimiterView, View};

use super::scan::pause;
use super::{Admin, AdminError, BATCH, Contents, Entry, Selection};

/// The limiters of a sample.
pub struct Sample {
    limiters: BTreeMap<String, Sampled>,
    /// The number of looks.
    pub looks: u32,
    /// The number of keys of all masters, of any form.
    pub keys: u64,
}

/// One limiter of a sample.
pub struct Sampled {
    /// The latest look.
    pub entry: Entry,
    /// The number of looks at which a request of cost 1 would have been denied.
    pub denied: u32,
    /// The least that was charged since the first look, less refunds.
    pub charged: u64,
}

impl Sample {
    /// Returns the limiters, by their keys.
    pub fn limiters(&self) -> impl ExactSizeIterator<Item = &Sampled> {
        self.limiters.values()
    }
}

impl Admin {
    /// Draws at most `most` limiters, in equal parts from all masters, in the order of the servers' tables, which does
    /// not follow from the names. This is the first look.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn sample(
        &self,
        selection: &Selection,
        most: usize,
        pace: Duration,
    ) -> Result<Sample, AdminError> {
        let mut sample = Sample { limiters: BTreeMap::new(), looks: 1, keys: 0 };
        let masters = self.masters.len();
        for master in 0..masters {
            sample.keys += self.size(master).await?;
        }
        // The only master of a key is found by the first walk.
        let walks = if matches!(selection, Selection::Key(_)) { 1 } else { masters };
        for walk in 0..walks {
            // The first ones take the rest.
            let end = sample.limiters.len() + most / walks + usize::from(walk < most % walks);
            let mut scan = self.scan_on(walk..walk + 1, selection, pace);
            while sample.limiters.len() < end
                && let Some(entries) = scan.next().await?
            {
                for entry in entries.into_iter().filter(|it| denies(it).is_some()) {
                    if sample.limiters.len() < end {
                        let denied = u32::from(denies(&entry) == Some(true));
                        let key = entry.key.to_string();
                        let sampled = Sampled { entry, denied, charged: 0 };
                        sample.limiters.entry(key).or_insert(sampled);
                    }
                }
            }
        }
        Ok(sample)
    }

    /// Looks at all limiters of a sample once more. Those that have ended meanwhile stay, as of the look before.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn look(&self, sample: &mut Sample, pace: Duration) -> Result<(), AdminError> {
        sample.looks += 1;
        for master in 0..self.masters.len() {
            let own = sample.limiters().filter(|sampled| sampled.entry.master == master);
            let keys: Vec<Key> = own.map(|sampled| sampled.entry.key.clone()).collect();
            for keys in keys.chunks(BATCH) {
                let began = Instant::now();
                for entry in self.read_from(master, keys.to_vec()).await? {
                    let Some(sampled) = sample.limiters.get_mut(entry.key.as_str()) else {
                        continue;
                    };
                    let Some(is_denied) = denies(&entry) else { continue };
                    sampled.denied += u32::from(is_denied);
                    sampled.charged += charged(&sampled.entry, &entry).unwrap_or_default();
                    sampled.entry = entry;
                }
                pause(pace, began).await;
            }
        }
        Ok(())
    }
}

/// Returns whether a limiter would deny a request of cost 1; `None` for another record.
fn denies(entry: &Entry) -> Option<bool> {
    let decision = of_limiter(entry)?.decision.as_ref()?;
    Some(!decision.is_allowed())
}

/// Returns the least that was charged between two looks, less refunds: the difference of the remaining capacity at the
/// later time. It may be more if capacity came back meanwhile, and is unknown for a key that was blocked, or whose limit
/// was changed.
pub fn charged(earlier: &Entry, later: &Entry) -> Option<u64> {
    let (before, after) = (of_limiter(earlier)?, of_limiter(later)?);
    let is_open = before.blocked_until.is_none() && after.blocked_until.is_none();
    if !is_open || before.limit != after.limit {
        return None;
    }
    let before = remaining_at(earlier, later.now)?;
    Some(before.saturating_sub(after.decision.as_ref()?.remaining))
}

/// Returns the capacity that remains at a later time if nothing is charged until then; of a log, the least.
fn remaining_at(entry: &Entry, now: Timestamp) -> Option<u64> {
    let view = of_limiter(entry)?;
    let Some(record) = &entry.record else {
        return view.decision.as_ref().map(|decision| decision.remaining);
    };
    match View::of(record, now, |window| limiter::bounded_at(window, now)).ok()? {
        Some(View::Limiter(view)) => view.decision.map(|decision| decision.remaining),
        Some(_) => None,
        None => Some(view.limit.capacity()),
    }
}

fn of_limiter(entry: &Entry) -> Option<&LimiterView> {
    match &entry.contents {
        Contents::View(View::Limiter(view)) => Some(view),
        _ => None,
    }
}
