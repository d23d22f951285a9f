//! The entries, by the kind of limit or lock that has the bug, and their parts.

mod buckets;
mod locks;
mod logs;
mod windows;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::LazyLock;

use lockage_sim::store::RespValue;

use super::stage::{Alphabet, Judge};
use super::step::{Deed, Seen, Step};
use super::subject::{Ask, Foreign, Limiter, Machine, Run, World};
use super::{Entry, Kind, Property, Way};

const MS: u64 = 1_000;
const S: u64 = 1_000_000;

/// The scripts by name: each stands after `--- NAME` in one of the museum's files.
static SCRIPTS: LazyLock<BTreeMap<&str, &str>> = LazyLock::new(|| {
    let files = [
        include_str!("../../../museum/buckets.lua"),
        include_str!("../../../museum/locks.lua"),
        include_str!("../../../museum/logs.lua"),
        include_str!("../../../museum/windows.lua"),
    ];
    let scripts = files.into_iter().flat_map(|file| file.split("\n--- ").skip(1));
    scripts.filter_map(|script| script.split_once('\n')).collect()
});

fn lua(name: &str) -> &'static str {
    SCRIPTS[name]
}

pub(super) fn all() -> Vec<Entry> {
    let rooms = [windows::entries(), logs::entries(), buckets::entries(), locks::entries()];
    rooms.into_iter().flatten().collect()
}

/// Begins the entry of a bug that others shipped: its number, its name, and where it was seen.
fn bug(number: u8, name: &'static str, seen_in: &'static str) -> Entry {
    Entry { bug: Some(number), ..own(name, seen_in) }
}

/// Begins an entry without a number. Until all parts are given, nothing can be played.
fn own(name: &'static str, seen_in: &'static str) -> Entry {
    Entry {
        bug: None,
        name,
        seen_in,
        kind: Kind::Script,
        property: Property::D1,
        about: "",
        scene: "",
        broken: Box::new(|| Machine::of((), |_, _, _, _| None)),
        shipped: Box::new(|| Machine::of((), |_, _, _, _| None)),
        judge: Box::new(|_, _| None),
        way: Way::Searched(Alphabet { steps: Vec::new(), gap_us: 0, depth: 0 }),
    }
}

impl Entry {
    /// Describes the bug, and the setup.
    fn about(self, about: &'static str, scene: &'static str) -> Self {
        Entry { about, scene, ..self }
    }

    fn killed_by(self, property: Property, judge: Judge) -> Self {
        Entry { property, judge, ..self }
    }

    /// A client as [`scripted`].
    fn script(
        self,
        source: &'static str,
        words: [&'static str; 2],
        read: fn(RespValue) -> Seen,
    ) -> Self {
        self.client(scripted(source, words, read))
    }

    /// A client that runs scripts.
    fn client(self, client: impl Client) -> Self {
        Entry { broken: Box::new(move || Foreign::by(client)), ..self }
    }

    /// A client whose own part is wrong.
    fn flow(self, client: impl Client) -> Self {
        Entry { kind: Kind::Flow, ..self.client(client) }
    }

    fn machine<S>(self, fresh: S, run: Run<S>) -> Self
    where
        S: Clone + Debug + PartialEq + Send + Sync + 'static,
    {
        let broken = Box::new(move || Machine::of(fresh.clone(), run));
        Entry { kind: Kind::Machine, broken, ..self }
    }

    /// The shipped limiter of this limit stands beside it.
    fn beside(self, limit: &'static str) -> Self {
        Entry { shipped: Box::new(move || Limiter::under(limit)), ..self }
    }

    /// Searches all traces of these steps, up to `depth` steps long.
    fn searched(self, steps: impl Into<Vec<Step>>, depth: usize) -> Self {
        self.searched_slowly(steps, depth, 0)
    }

    /// Searches all traces of these steps, up to `depth` steps long, where each step takes `gap_us`.
    fn searched_slowly(self, steps: impl Into<Vec<Step>>, depth: usize, gap_us: u64) -> Self {
        Entry { way: Way::Searched(Alphabet { steps: steps.into(), gap_us, depth }), ..self }
    }
}

/// How a client does a deed; nothing if it cannot.
trait Client: Fn(&mut World, &Ask) -> Option<Seen> + Copy + Send + Sync + 'static {}

impl<C: Fn(&mut World, &Ask) -> Option<Seen> + Copy + Send + Sync + 'static> Client for C {}

/// Runs a script for each acquire, with keys and arguments that are filled in: the client (`{who}`), a fresh name for
/// the request (`{name}`), the time in a unit (`{us}`, `{ms}`, `{s}`) or in windows of 2 s (`{window}`), and the cost
/// (`{cost}`), which is 1 if the script takes none.
fn scripted(
    source: &'static str,
    words: [&'static str; 2],
    read: fn(RespValue) -> Seen,
) -> impl Client {
    move |world: &mut World, ask: &Ask| {
        let cost = match ask.deed {
            Deed::Acquire(cost) => cost.to_string(),
            Deed::AcquireText(cost) => cost.to_owned(),
            _ => return None,
        };
        if cost != "1" && !words[1].contains("{cost}") {
            return None;
        }
        let [keys, argv] = words.map(|words| {
            let text = words.replace("{cost}", &cost).replace("{who}", &ask.who.to_string());
            let units = [("{us}", 1), ("{ms}", MS), ("{s}", S), ("{window}", 2 * S)];
            let text = units
                .into_iter()
                .fold(text, |text, (unit, us)| text.replace(unit, &(ask.now_us / us).to_string()));
            if text.contains("{name}") {
                text.replace("{name}", &name(world, ask.who))
            } else {
                text
            }
        });
        Some(read(world.eval(source, &keys, &argv)))
    }
}

/// Returns a name for a request, as clients draw them.
fn name(world: &mut World, who: char) -> String {
    let drawn = world.memory.entry(who).or_default();
    *drawn += 1;
    format!("{who}{drawn}")
}

const fn a(deed: Deed) -> Step {
    Step::By('A', deed)
}

const fn b(deed: Deed) -> Step {
    Step::By('B', deed)
}

const fn c(deed: Deed) -> Step {
    Step::By('C', deed)
}

const DENIED: Seen = Seen::Denied { retry_after_us: None };

/// Reads a reply of two numbers: whether the request is admitted, and the remaining permits.
fn admitted_and_left(reply: RespValue) -> Seen {
    match pair(&reply) {
        Ok((0, _)) => DENIED,
        Ok((_, left)) => Seen::Admitted { remaining: u64::try_from(left).ok() },
        Err(error) => Seen::Failed(error),
    }
}

/// Reads a reply that is the remaining permits, below zero if the request is denied.
fn left(reply: RespValue) -> Seen {
    or_failed(&reply, remaining)
}

/// Reads a reply that is 1 if the request is admitted, and 0 if it is denied.
fn admitted(reply: RespValue) -> Seen {
    or_failed(&reply, |admitted| match admitted {
        0 => DENIED,
        _ => Seen::Admitted { remaining: None },
    })
}

/// Returns an admission with these permits left, or a denial below zero.
fn remaining(left: i64) -> Seen {
    u64::try_from(left).map_or(DENIED, |left| Seen::Admitted { remaining: Some(left) })
}

/// Reads the number of a reply; an error is a failure.
fn or_failed(reply: &RespValue, read: impl FnOnce(i64) -> Seen) -> Seen {
    number(reply).map_or_else(Seen::Failed, read)
}

fn pair(reply: &RespValue) -> Result<(i64, i64), String> {
    match reply {
        RespValue::Array(both) if both.len() == 2 => Ok((number(&both[0])?, number(&both[1])?)),
        RespValue::Error(error) => Err(error.clone()),
        other => Err(other_form(other)),
    }
}

fn number(reply: &RespValue) -> Result<i64, String> {
    match reply {
        RespValue::Integer(number) => Ok(*number),
        RespValue::Error(error) => Err(error.clone()),
        other => Err(other_form(other)),
    }
}

fn other_form(reply: &RespValue) -> String {
    format!("a reply of another form: {reply:?}")
}
