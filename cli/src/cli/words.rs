//! Records in words.

use std::time::Duration;

use lockage::Verdict;
use lockage_core::view::{LimiterView, View};
use lockage_core::{Scope, Timestamp};

use super::output::Mood;
use crate::admin::{Contents, Entry, Hold, Role, holds};

/// Returns the state of a record on one line.
pub(super) fn state(entry: &Entry) -> (Mood, String) {
    let left = |until: Timestamp| span(until.saturating_since(entry.now));
    let view = match &entry.contents {
        Contents::View(view) => view,
        Contents::Absent => return (Mood::Plain, "no record".to_owned()),
        Contents::Unreadable(error) => return (Mood::Bad, error.to_string()),
        Contents::Moved => return (Mood::Bad, "its slot is moving".to_owned()),
    };
    let text = match view {
        View::Limiter(it) => return limiter(it, entry.now),
        View::Reservation(it) => match it.settled {
            None => format!("{} reserved, for {}", it.cost, left(it.until)),
            Some(actual) => format!("settled at {actual} of {}", it.cost),
        },
        View::Lock(it) => {
            let line = match it.line.len() {
                0 => String::new(),
                count => format!(", {count} in line"),
            };
            match holds(view).first() {
                Some(hold) => format!("{}, {} left{line}", held(hold, entry.now), left(hold.until)),
                None => format!("free{line}"),
            }
        }
        View::Semaphore(it) => match it.grants.iter().map(|(_, grant)| grant.count).sum::<u64>() {
            0 => "free".to_owned(),
            used => format!("{used} permits in {}", counted(it.grants.len(), "grant")),
        },
        View::RwLock(it) => {
            let waits = if it.kept_until.is_some() { ", a writer waits" } else { "" };
            match &holds(view)[..] {
                [] => format!("free{waits}"),
                [hold] => format!("{}{waits}", held(hold, entry.now)),
                all => format!("{} holders{waits}", all.len()),
            }
        }
        View::Latch(it) if it.left == 0 => "open".to_owned(),
        View::Latch(it) => format!("{} left, opens in {} at most", it.left, left(it.open_at)),
        View::Fenced(it) => match &it.kept {
            Some(kept) => {
                let bytes = counted(kept.value.len(), "byte");
                format!("{bytes}, newest token {}, for {}", it.token, left(it.until))
            }
            None => format!("no value, newest token {}, for {}", it.token, left(it.until)),
        },
        _ => "of an unknown kind".to_owned(),
    };
    (Mood::Plain, text)
}

fn limiter(it: &LimiterView, now: Timestamp) -> (Mood, String) {
    if let Some(until) = it.blocked_until {
        return (Mood::Bad, format!("blocked for {}", span(until.saturating_since(now))));
    }
    let Some(decision) = &it.decision else {
        let per_client = it.stored.is_some_and(|stored| stored.scope() == Scope::PerClient);
        let text = if per_client { "each client by itself" } else { "changed meanwhile" };
        return (Mood::Plain, text.to_owned());
    };
    match decision.verdict {
        Verdict::Denied { retry_after, .. } => {
            (Mood::Bad, format!("denies for {}", span(retry_after)))
        }
        _ => (Mood::Plain, format!("{} of {} left", decision.remaining, decision.limit)),
    }
}

/// Returns how something is held, by which holder, and since when.
pub(super) fn held(hold: &Hold, now: Timestamp) -> String {
    let (how, who) = (role(hold), holder(hold));
    format!("{how} by {who} for {}", span(now.saturating_since(hold.since)))
}

/// Returns how something is held, in a word.
pub(super) fn role(hold: &Hold) -> &'static str {
    match &hold.role {
        Role::Side(_, lockage_core::rw_lock::Mode::Read, _) => "read",
        Role::Side(..) => "written",
        _ => "held",
    }
}

/// Returns the label of a holder, or its id.
pub(super) fn holder(hold: &Hold) -> String {
    match (&hold.label, &hold.role) {
        (Some(label), _) => label.to_string(),
        (None, Role::Lock(owner) | Role::Side(owner, ..)) => owner.to_string(),
        (None, Role::Permits(id)) => id.to_string(),
    }
}

/// Returns the limit of a record, as a text that can be parsed.
pub(super) fn limit(view: &View) -> String {
    match view {
        View::Limiter(it) => match it.stored {
            Some(stored) => format!("stored: {stored}"),
            None => it.limit.to_string(),
        },
        View::Reservation(it) => it.limit.to_string(),
        _ => String::new(),
    }
}

/// Returns all fields of a record: names and values.
pub(super) fn fields(entry: &Entry, view: &View, with_value: bool) -> Vec<(String, String)> {
    let now = entry.now;
    let mut all: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, value: String| all.push((name.to_owned(), value));
    add("key", entry.key.to_string());
    add("kind", view.kind().to_owned());
    add("state", state(entry).1);
    match view {
        View::Limiter(it) => {
            add("limit", it.limit.to_string());
            let stored = it.stored.map_or_else(|| "no".to_owned(), |stored| stored.to_string());
            add("stored", stored);
            if let Some(decision) = &it.decision {
                add("left", format!("{} of {}", decision.remaining, decision.limit));
                add("reset", after(decision.reset_after));
                if decision.turn_after > Duration::ZERO {
                    add("next turn", after(decision.turn_after));
                }
            }
            if let Some(until) = it.blocked_until {
                add("blocked", time(until, now));
            }
            add("request ids", it.remembered.to_string());
        }
        View::Reservation(it) => {
            add("limit", it.limit.to_string());
            add("estimate", it.cost.to_string());
            let settled = it.settled.map_or_else(|| "no".to_owned(), |cost| format!("at {cost}"));
            add("settled", settled);
            add("until", time(it.until, now));
        }
        View::Latch(it) => {
            add("left", it.left.to_string());
            if it.left > 0 {
                add("opens", time(it.open_at, now));
            }
        }
        View::Fenced(it) => {
            add("newest token", it.token.to_string());
            add("until", time(it.until, now));
            if let Some(kept) = it.kept.as_ref().filter(|_| with_value) {
                add("value", kept.value.escape_ascii().to_string());
            }
        }
        View::Lock(it) => {
            add("latest token", it.token.to_string());
            add_holds(view, now, &mut add);
            for (place, (owner, until)) in it.line.iter().enumerate() {
                add(
                    &format!("in line {}", place + 1),
                    format!("{owner} until {}", time(*until, now)),
                );
            }
            add_waiters(it.awaited_until, now, &mut add);
        }
        View::Semaphore(it) => {
            add_holds(view, now, &mut add);
            add_waiters(it.awaited_until, now, &mut add);
        }
        View::RwLock(it) => {
            add_holds(view, now, &mut add);
            if let Some(until) = it.kept_until {
                add("a writer waits", format!("readers stay out until {}", time(until, now)));
            }
            add_waiters(it.awaited_until, now, &mut add);
        }
        _ => {}
    }
    all
}

fn add_holds(view: &View, now: Timestamp, add: &mut impl FnMut(&str, String)) {
    for hold in holds(view) {
        let id = match &hold.role {
            Role::Lock(owner) | Role::Side(owner, ..) => format!("owner {owner}"),
            Role::Permits(id) => format!("permit {id}"),
        };
        let label = hold.label.map_or_else(String::new, |label| format!("{label}, "));
        let count = match hold.role {
            Role::Permits(_) => format!("count {}", hold.count),
            _ => counted(hold.count as usize, "hold"),
        };
        let (since, until) = (time(hold.since, now), time(hold.until, now));
        let token = hold.token;
        let text = format!("{label}{id}, token {token}, {count}, since {since}, until {until}");
        add(role(&hold), text);
    }
}

fn add_waiters(until: Option<Timestamp>, now: Timestamp, add: &mut impl FnMut(&str, String)) {
    if let Some(until) = until {
        add("waiters", format!("at least one announced to wait until {}", time(until, now)));
    }
}

/// Returns a time as a date, and how far it is from now.
pub(super) fn time(time: Timestamp, now: Timestamp) -> String {
    let date = date(time);
    match time > now {
        true => format!("{date} ({})", after(time.saturating_since(now))),
        false => format!("{date} ({} ago)", span(now.saturating_since(time))),
    }
}

/// Returns a time as a date in UTC, to the millisecond.
pub(super) fn date(time: Timestamp) -> String {
    let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    match jiff::Timestamp::from_microsecond(micros) {
        Ok(date) => format!("{date:.3}"),
        Err(_) => time.to_string(),
    }
}

fn after(time: Duration) -> String {
    format!("in {}", span(time))
}

/// Returns a duration in two units at most, rounded down.
pub(super) fn span(time: Duration) -> String {
    let (seconds, micros) = (time.as_secs(), time.subsec_micros());
    match seconds {
        0 if micros < 1_000 => format!("{micros}us"),
        0 => format!("{}ms", micros / 1_000),
        1..60 => format!("{seconds}.{}s", micros / 100_000),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

pub(super) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units_at_most() {
        for (micros, expected) in [
            (0, "0us"),
            (999, "999us"),
            (1_000, "1ms"),
            (999_999, "999ms"),
            (1_250_000, "1.2s"),
            (59_999_999, "59.9s"),
            (60_000_000, "1m00s"),
            (3_599_000_000, "59m59s"),
            (3_600_000_000, "1h00m"),
            (86_399_000_000, "23h59m"),
            (90_000_000_000, "1d01h"),
        ] {
            assert_eq!(span(Duration::from_micros(micros)), expected);
        }
    }

    #[test]
    fn a_time_is_a_date_and_its_distance() {
        let at = |micros| Timestamp::from_micros(micros).unwrap();
        let now = at(1_763_700_000_000_000);
        assert_eq!(time(at(1_763_700_001_500_000), now), "2025-11-21T04:40:01.500Z (in 1.5s)");
        assert_eq!(time(at(1_763_699_999_000_000), now), "2025-11-21T04:39:59.000Z (1.0s ago)");
    }
}
