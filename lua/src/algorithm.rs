//! The parts of an algorithm's file, and the values that templates derive from them.
//!
//! | part | |
//! |---|---|
//! | `@tag`, `@config`, `@state` | the tag of its records, and the names of its numbers |
//! | `@given` | numbers that each call carries after the configuration, and no record; `@off` then sets `off`: whether they cannot settle the state. Not in fast composites |
//! | `@call` | numbers that its calls carry after the configuration. Not in fast composites |
//! | `@capacity`, `@counted`, `@unit`, `@latest`, `@window`, `@previous`, `@warmth` | the role of each name: see `limiters/algorithms.lua` |
//! | `@lease` | the name of the least time for which a charge is held, of which the settlement of its reservation gives back all |
//! | `@wrong` | sets `wrong`: whether no such configuration can be built |
//! | `@most` | sets `most`: the most that can be counted |
//! | `@new` | sets a fresh state |
//! | `@settle` | brings the state to `now` |
//! | `@identity` | for windows, sets `identity`, which distinguishes the current window from others. An algorithm without it is a bucket, which empties as time passes |
//! | `@left` | sets `left`: the largest cost that fits |
//! | `@wait` | for queues, sets `left` to 0 if the turn would come too late |
//! | `@fresh_at` | sets `till` to when the state is as a fresh one |
//! | `@unused` | sets `till` to until when a state in which nothing is counted is kept. Only for fast composites |
//! | `@span`, `@keep` | set `till` to until when a record by itself is kept |
//! | `@reply` | sets `reply`, if it is not the time and the state as stored |
//! | `@like` | the algorithm whose parts stand in for the missing ones |

use std::collections::BTreeMap;

use crate::template::{File, Part};

/// An algorithm: its file, and before it the one that it is like.
pub(crate) struct Algorithm<'l> {
    pub(crate) files: Vec<&'l File>,
}

impl<'l> Algorithm<'l> {
    pub(crate) fn part(&self, name: &str) -> Option<&'l Part> {
        self.files.iter().rev().find_map(|file| file.part(name))
    }

    /// Returns the names on the line of a part.
    pub(crate) fn names(&self, part: &str) -> &'l [String] {
        self.part(part).map_or(&[], |part| &part.names)
    }

    pub(crate) fn tag(&self) -> &'l str {
        &self.names("tag")[0]
    }

    /// Returns the values of `$name` in a template for several algorithms, of which this is the one at `index`.
    ///
    /// # Panics
    /// If the file has no `@counted`, or a name that is not in its state.
    pub(crate) fn variables(&self, index: usize) -> BTreeMap<String, String> {
        let [config, given, state, call] =
            ["config", "given", "state", "call"].map(|part| self.names(part));
        let only = |part: &str| self.names(part).first().map(String::as_str);
        let place = |name: &str| {
            let place = state.iter().position(|it| it == name);
            place.unwrap_or_else(|| panic!("{}: no {name} in the state", self.tag()))
        };
        let place_or_nil =
            |part| only(part).map_or("nil".to_owned(), |it| (place(it) + 1).to_string());
        let counted = only("counted").unwrap_or_else(|| panic!("{}: what is counted", self.tag()));
        let words = |part| self.part(part).map_or("", |part| &part.words).to_owned();
        let record_size = |numbers: usize| 3 + 8 * numbers;

        let lists = [
            ("config", listed(config, "")),
            ("state", listed(state, "")),
            ("limit", listed(&[config, given].concat(), "")),
            ("asked", listed(&[config, given, call].concat(), "")),
            ("stored_config", listed(config, "stored_")),
            ("reserved_config", listed(config, "reserved_")),
            ("stored_state", listed(state, "stored_")),
            ("old_state", listed(state, "old_")),
            // Before anything was charged.
            ("reserved_state", listed(state, "").replace(counted, "before")),
            ("config_at", places("all[c", 0..config.len())),
            ("old_at", places("all[o", 0..state.len())),
            ("state_at", places("state[s", 0..state.len())),
            ("counted_at", places("state[s", place(counted)..place(counted) + 1)),
        ];
        let names = [
            ("config_words", words("config")),
            ("state_words", words("state")),
            ("given_words", words("given")),
            ("call_words", words("call")),
            ("capacity", only("capacity").unwrap_or("nil").to_owned()),
            ("counted", counted.to_owned()),
            ("unit", only("unit").unwrap_or("1").to_owned()),
            ("latest", only("latest").unwrap_or("nil").to_owned()),
            ("window", only("window").unwrap_or("nil").to_owned()),
            ("lease", only("lease").unwrap_or("nil").to_owned()),
            ("warmth", only("warmth").unwrap_or("nil").to_owned()),
            ("previous", only("previous").unwrap_or("nil").to_owned()),
            ("elseif", if index == 0 { "if" } else { "elseif" }.to_owned()),
        ];
        let numbers = [
            ("TAG", self.tag().to_owned()),
            ("TAG_NUMBER", tag_number(self.tag(), b':').to_string()),
            // The number of a record with requests after its state.
            ("REMEMBERING_NUMBER", tag_number(self.tag(), b'|').to_string()),
            ("LETTER", self.tag().as_bytes()[0].to_string()),
            // From 1 for `A`.
            ("LETTER_NUMBER", (self.tag().as_bytes()[0] & 31).to_string()),
            ("D_CONFIG", "d".repeat(config.len())),
            ("D_STATE", "d".repeat(state.len())),
            ("D_ASKED", "d".repeat(config.len() + given.len() + call.len())),
            ("CONFIGS", config.len().to_string()),
            ("STATES", state.len().to_string()),
            ("CALL_SIZE", (8 * (config.len() + given.len() + call.len() + 1)).to_string()),
            ("CONFIG_SIZE", (8 * config.len()).to_string()),
            ("RECORD_SIZE", record_size(config.len() + state.len()).to_string()),
            ("PLACE", record_size(config.len()).to_string()),
            // The size of one remembered request.
            ("REQUEST_SIZE", (16 + 8 * (3 + state.len())).to_string()),
            // The size of a stored limit's record: two bytes and two numbers more.
            ("STORED_SIZE", (2 + record_size(2 + config.len() + state.len())).to_string()),
            ("STORED_PLACE", (2 + record_size(1 + config.len())).to_string()),
            // The size of one open reservation.
            ("RESERVED_SIZE", record_size(8 + config.len() + state.len()).to_string()),
            ("COUNTED", place_or_nil("counted")),
            ("LATEST", place_or_nil("latest")),
            ("PREVIOUS", place_or_nil("previous")),
            ("WARMTH", place_or_nil("warmth")),
            ("COST", only("unit").map_or("cost".to_owned(), |unit| format!("cost * {unit}"))),
            ("IS_QUEUE", self.part("wait").is_some().to_string()),
            ("IS_BUCKET", self.part("identity").is_none().to_string()),
        ];
        let all = lists.into_iter().chain(names).chain(numbers);
        all.map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

fn listed(names: &[String], before: &str) -> String {
    names.iter().map(|name| format!("{before}{name}")).collect::<Vec<_>>().join(", ")
}

/// Returns the places of a table, the first one at the index that ends `at`: `state[s], state[s + 1]`.
fn places(at: &str, range: std::ops::Range<usize>) -> String {
    let place = |index| if index == 0 { format!("{at}]") } else { format!("{at} + {index}]") };
    range.map(place).collect::<Vec<_>>().join(", ")
}

/// Returns the first bytes of a packed record, its tag and the byte `behind` it, as the number that `<I3` reads.
pub(crate) fn tag_number(tag: &str, behind: u8) -> u32 {
    let bytes = tag.bytes().chain([behind]).enumerate();
    bytes.map(|(place, byte)| u32::from(byte) << (8 * place)).sum()
}
