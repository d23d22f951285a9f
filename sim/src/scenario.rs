//! Scenarios: limits, traffic, and how callers react to a denial.

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use lockage_core::{Limit, Timestamp, parse_duration};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use toml::value::Datetime;

use crate::clocks::Clocks;
use crate::dates;
use crate::report::Source;
use crate::traffic::{Costs, Keys, Plan, Shape};
use crate::waiting::Waiting;

/// A scenario. One scenario gives one report, on every platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The limits, side by side.
    pub limits: Vec<Given<Limit>>,
    /// The shapes of the traffic as given, joined by ` + `.
    pub shape: String,
    /// One or several plans of traffic.
    pub plans: Vec<Plan>,
    /// How callers wait, if they do.
    pub waiting: Option<Waiting>,
    /// The callers' clocks, if they have any.
    pub clocks: Option<Clocks>,
}

/// A value and the text that it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given<T> {
    /// The text.
    pub text: String,
    /// The value.
    pub value: T,
}

impl Scenario {
    /// Returns the source of its requests.
    pub(crate) fn source(&self) -> Source {
        Source::Traffic {
            shape: self.shape.clone(),
            seed: self.plans.first().map_or(1, |plan| plan.seed),
        }
    }
}

/// Reads a scenario from TOML.
impl FromStr for Scenario {
    type Err = toml::de::Error;

    fn from_str(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str::<File>(text)?.scenario(Requests::Traffic).map_err(Error::custom)
    }
}

/// The source of a scenario's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requests {
    /// Its own traffic.
    Traffic,
    /// Elsewhere: its traffic is ignored.
    Elsewhere,
}

impl File {
    /// Returns the scenario.
    ///
    /// # Errors
    /// A sentence about a missing value or a contradiction.
    pub(crate) fn scenario(self, requests: Requests) -> Result<Scenario, &'static str> {
        let file = self;
        if file.limits.is_empty() {
            return Err("limits is empty: expected at least one limit");
        }
        if requests == Requests::Traffic && file.traffic.is_empty() {
            return Err("traffic is empty: expected at least one shape");
        }
        let shapes: Vec<&str> = file.traffic.iter().map(|one| one.shape.text.as_str()).collect();
        let shape = shapes.join(" + ");
        let mut plans: Vec<Plan> = Vec::new();
        for (seed, traffic) in (0..).map(|place| file.seed.wrapping_add(place)).zip(file.traffic) {
            plans.push(traffic.plan(seed, plans.first()));
        }
        let waiting = file.callers.map(|callers| Waiting {
            timeout: callers.wait.0,
            round_trip: callers.round_trip.map_or(Duration::ZERO, |Time(time)| time),
            jitter: callers.jitter,
            processes: callers.processes,
            seed: file.seed,
        });
        if waiting.is_some() && file.clocks.is_some() {
            return Err(
                "what clocks change is told where nobody waits: leave out callers or clocks",
            );
        }
        let clocks = file.clocks.map(|clocks| Clocks {
            nodes: clocks.nodes,
            skew: clocks.skew.map_or(Duration::ZERO, |Time(skew)| skew),
            drift_ppm: clocks.drift_ppm,
            seed: file.seed,
        });
        Ok(Scenario { limits: file.limits, shape, plans, waiting, clocks })
    }
}

/// The scenario as written. Defaults are those of the command line.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    #[serde(default = "one")]
    seed: u64,
    limits: Vec<Given<Limit>>,
    #[serde(default, deserialize_with = "one_or_several")]
    traffic: Vec<Traffic>,
    callers: Option<Callers>,
    clocks: Option<OwnClocks>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Traffic {
    name: Option<String>,
    shape: Given<Shape>,
    keys: Option<Given<Keys>>,
    cost: Option<Given<Costs>>,
    duration: Option<Time>,
    start: Option<Date>,
    after: Option<Time>,
}

impl Traffic {
    /// Returns the plan, with the start and duration of the first by default.
    fn plan(self, seed: u64, first: Option<&Plan>) -> Plan {
        let plan = Plan::new(self.shape.value);
        let (start, duration) =
            first.map_or((plan.start, plan.duration), |first| (first.start, first.duration));
        let start = self.start.map_or(start, |Date(start)| start);
        Plan {
            name: self.name.unwrap_or(plan.name),
            start: start.saturating_add(self.after.map_or(Duration::ZERO, |Time(after)| after)),
            duration: self.duration.map_or(duration, |Time(duration)| duration),
            keys: self.keys.map_or(plan.keys, |keys| keys.value),
            costs: self.cost.map_or(plan.costs, |cost| cost.value),
            seed,
            shape: plan.shape,
        }
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Callers {
    wait: Time,
    round_trip: Option<Time>,
    #[serde(default = "yes")]
    jitter: bool,
    #[serde(default = "one_process")]
    processes: NonZeroU32,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct OwnClocks {
    nodes: NonZeroU32,
    skew: Option<Time>,
    #[serde(default)]
    drift_ppm: u32,
}

fn one_process() -> NonZeroU32 {
    NonZeroU32::MIN
}

fn one() -> u64 {
    1
}

fn yes() -> bool {
    true
}

struct Time(Duration);

struct Date(Timestamp);

impl<T: FromStr> FromStr for Given<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        Ok(Given { text: text.to_owned(), value: text.parse()? })
    }
}

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Given<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read(deserializer, str::parse)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read(deserializer, parse_duration).map(Time)
    }
}

impl<'de> Deserialize<'de> for Date {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read(deserializer, dates::parse).map(Date)
    }
}

/// Reads `[traffic]`, or each `[[traffic]]`.
fn one_or_several<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Traffic>, D::Error> {
    deserializer.deserialize_any(OneOrSeveral)
}

struct OneOrSeveral;

impl<'de> Visitor<'de> for OneOrSeveral {
    type Value = Vec<Traffic>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table [traffic], or several [[traffic]]")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vec<Traffic>, A::Error> {
        Ok(vec![Traffic::deserialize(MapAccessDeserializer::new(map))?])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, tables: A) -> Result<Vec<Traffic>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(tables))
    }
}

/// Reads a value from a string, or from a whole number or a date as if it were one.
fn read<'de, D: Deserializer<'de>, T, E: fmt::Display>(
    deserializer: D,
    parse: fn(&str) -> Result<T, E>,
) -> Result<T, D::Error> {
    deserializer.deserialize_any(Parsed { parse, error: PhantomData })
}

struct Parsed<T, E> {
    parse: fn(&str) -> Result<T, E>,
    error: PhantomData<E>,
}

impl<'de, T, E: fmt::Display> Visitor<'de> for Parsed<T, E> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<F: Error>(self, text: &str) -> Result<T, F> {
        (self.parse)(text).map_err(F::custom)
    }

    fn visit_i64<F: Error>(self, number: i64) -> Result<T, F> {
        self.visit_str(&number.to_string())
    }

    // A date without quotes comes as a map that the crate's own type reads.
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        let date = Datetime::deserialize(MapAccessDeserializer::new(map))?;
        self.visit_str(&date.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = r#"
        seed = 7
        limits = ["fixed-window 10/60s", "sliding-log 5/s"]

        [traffic]
        shape = "poisson 5/s"
        keys = "1000 zipf 1.1"
        cost = "1:90% 10:10%"
        duration = "1h"
        start = "2026-03-02T09:00:00Z"

        [callers]
        wait = "2s"
        round-trip = "1ms"
        jitter = false
    "#;

    #[test]
    fn a_file_says_all_of_it() {
        let scenario: Scenario = FULL.parse().unwrap();
        let limits: Vec<_> = scenario.limits.iter().map(|limit| limit.text.as_str()).collect();
        assert_eq!(limits, ["fixed-window 10/60s", "sliding-log 5/s"]);
        assert_eq!(scenario.shape, "poisson 5/s");
        let plan = Plan {
            start: dates::parse("2026-03-02T09:00:00Z").unwrap(),
            duration: Duration::from_secs(3600),
            keys: "1000 zipf 1.1".parse().unwrap(),
            costs: "1:90% 10:10%".parse().unwrap(),
            seed: 7,
            ..Plan::new("poisson 5/s".parse().unwrap())
        };
        assert_eq!(scenario.plans, [plan]);
        let (timeout, round_trip) = (Duration::from_secs(2), Duration::from_millis(1));
        let waiting =
            Waiting { timeout, round_trip, jitter: false, processes: one_process(), seed: 7 };
        assert_eq!(scenario.waiting, Some(waiting));
    }

    #[test]
    fn a_date_needs_no_quotes() {
        let bare = FULL.replace("\"2026-03-02T09:00:00Z\"", "2026-03-02T09:00:00Z");
        assert_ne!(bare, FULL);
        assert_eq!(bare.parse::<Scenario>(), FULL.parse());
    }

    #[test]
    fn omitted_fields_default_as_on_the_command_line() {
        let text = "limits = ['sliding-log 5/s']\ntraffic = { shape = 'poisson 5/s', keys = 3 }";
        let scenario: Scenario = text.parse().unwrap();
        let keys = "3".parse().unwrap();
        assert_eq!(scenario.plans, [Plan { keys, ..Plan::new("poisson 5/s".parse().unwrap()) }]);
        assert_eq!((scenario.waiting, scenario.clocks), (None, None));
    }

    #[test]
    fn clocks_are_accepted_only_without_waiting() {
        let (before, _) = FULL.split_once("[callers]").unwrap();
        let clocks = "[clocks]\nnodes = 4\nskew = '500ms'\ndrift-ppm = 100";
        let text = format!("{before}{clocks}");
        let (nodes, skew) = (NonZeroU32::new(4).unwrap(), Duration::from_millis(500));
        let expected = Clocks { nodes, skew, drift_ppm: 100, seed: 7 };
        assert_eq!(text.parse::<Scenario>().unwrap().clocks, Some(expected));
        for (right, wrong, expected) in [
            ("nodes = 4", "", "missing field `nodes`"),
            ("nodes = 4", "nodes = 0", "nonzero"),
            ("'500ms'", "'far'", "expected a duration"),
            ("drift-ppm", "drift", "expected one of `nodes`, `skew`, `drift-ppm`"),
            ("[clocks]", "[callers]\nwait = '1s'\n[clocks]", "leave out callers or clocks"),
        ] {
            let error = text.replace(right, wrong).parse::<Scenario>().unwrap_err().to_string();
            assert!(error.contains(expected), "{wrong}: {error}");
        }
    }

    #[test]
    fn several_shapes_begin_with_the_first_and_each_has_a_seed_of_its_own() {
        let text = r#"
            seed = 7
            limits = ["sliding-log 5/s"]

            [[traffic]]
            name = "customer"
            shape = "poisson 5/s"
            keys = 20
            duration = "5min"
            start = 2026-03-02T09:00:00Z

            [[traffic]]
            shape = "burst 9 every 1s"
            after = "2min"
            cost = 2

            [[traffic]]
            shape = "constant 1/s"
            duration = "1min"
            start = 2026-03-02T10:00:00Z
        "#;
        let scenario: Scenario = text.parse().unwrap();
        assert_eq!(scenario.shape, "poisson 5/s + burst 9 every 1s + constant 1/s");
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let nine = dates::parse("2026-03-02T09:00:00Z").unwrap();
        let plan = |shape: &str| Plan::new(shape.parse().unwrap());
        let customers = Plan {
            name: "customer".to_owned(),
            keys: "20".parse().unwrap(),
            duration: minutes(5),
            start: nine,
            seed: 7,
            ..plan("poisson 5/s")
        };
        let burst = Plan {
            costs: "2".parse().unwrap(),
            duration: minutes(5),
            start: nine.saturating_add(minutes(2)),
            seed: 8,
            ..plan("burst 9 every 1s")
        };
        let last = Plan {
            duration: minutes(1),
            start: nine.saturating_add(minutes(60)),
            seed: 9,
            ..plan("constant 1/s")
        };
        assert_eq!(scenario.plans, [customers, burst, last]);
        for (right, wrong, expected) in [
            ("name =", "nam =", "unknown field `nam`, expected one of `name`, `shape`"),
            ("after =", "later =", "unknown field `later`"),
            ("9 every 1s", "9 every now", "line 13, column 21"),
        ] {
            let error = text.replace(right, wrong).parse::<Scenario>().unwrap_err().to_string();
            assert!(error.contains(expected), "{wrong}: {error}");
        }
        let none = "limits = ['sliding-log 5/s']\ntraffic = []".parse::<Scenario>().unwrap_err();
        assert!(none.to_string().contains("traffic is empty"), "{none}");
        let text = "limits = ['sliding-log 5/s']\ntraffic = 5".parse::<Scenario>().unwrap_err();
        assert!(text.to_string().contains("a table [traffic], or several [[traffic]]"), "{text}");
    }

    #[test]
    fn invalid_scenarios_are_refused_with_position_and_expectation() {
        for (right, wrong, expected) in [
            ("limits =", "limit =", "unknown field `limit`, expected one of `seed`, `limits`"),
            ("keys =", "key =", "unknown field `key`, expected one of `name`, `shape`, `keys`"),
            ("jitter =", "jiter =", "expected one of `wait`, `round-trip`, `jitter`, `processes`"),
            ("shape = \"poisson 5/s\"", "", "missing field `shape`"),
            ("wait = \"2s\"", "", "missing field `wait`"),
            ("\"fixed-window 10/60s\", \"sliding-log 5/s\"", "", "limits is empty"),
            ("sliding-log 5/s", "sliding 5/s", "line 3, column 42"),
            ("sliding-log 5/s", "sliding 5/s", "expected a kind of limit"),
            ("poisson 5/s", "wavy 5/s", "expected constant, poisson"),
            ("zipf 1.1", "zipf", "expected an exponent"),
            ("\"1:90% 10:10%\"", "0", "a number of zero"),
            ("\"1:90% 10:10%\"", "-1", "expected a whole number"),
            ("\"1:90% 10:10%\"", "1.5", "invalid type: floating point `1.5`, expected a string"),
            ("\"1h\"", "\"long\"", "expected a duration"),
            ("2026-03-02T09", "2026-03-02 at 9", "RFC 3339"),
            ("false", "\"no\"", "expected a boolean"),
            ("seed = 7", "seed = -7", "expected u64"),
        ] {
            assert!(FULL.contains(right), "{right}");
            let error = FULL.replace(right, wrong).parse::<Scenario>().unwrap_err().to_string();
            assert!(error.contains(expected), "{wrong}: {error}");
        }
    }
}
