//! The files that scripts are made of.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use lockage_core::ScriptId;

use crate::constants;
use crate::template::Library;

/// Embeds files: the name and the text of each.
macro_rules! files {
    ($($folder:literal: $($name:literal)*;)*) => {
        &[$($(($name, include_str!(concat!("../", $folder, "/", $name, ".lua"))),)*)*]
    };
}

/// The files by folder. A script is the file or the part of its own name; `NAME_acquire` of an algorithm with a tag is the
/// template `fast` with that one's parts. Scripts for several look for algorithms in the order in which they stand here.
const FILES: &[(&str, &str)] = files! {
    "algorithms": "fixed_window" "sliding_window" "token_bucket" "interval_bucket" "warmup_bucket" "in_flight" "leaky_bucket" "calendar_window" "sliding_log";
    "limiters": "algorithms" "any_limit" "any_record" "conversion" "counters" "leaky_bucket_cancel" "limit_record"
        "limiter_acquire" "limiter_adjust" "limiter_peek" "limiter_reserve" "limiter_reset" "limiter_set" "limiter_settle"
        "log_entries" "packed" "penalty" "requests" "reservations" "steps";
    "locks": "bounds" "fast_lock" "fast_lock_acquire" "fast_lock_release" "fast_lock_renew" "fenced_read" "fenced_record"
        "fenced_write" "ids" "latch_count_down" "latch_inspect" "latch_record" "latch_reset" "latch_set" "leases" "lock_acquire"
        "lock_force_release" "lock_inspect" "lock_record" "lock_release" "lock_renew" "lock_withdraw" "pieces" "publish"
        "rw_lock_acquire" "rw_lock_inspect" "rw_lock_record" "rw_lock_release" "rw_lock_renew" "semaphore_acquire"
        "semaphore_inspect" "semaphore_record" "semaphore_release" "semaphore_renew" "spans" "wake";
    "templates": "all" "composite_acquire" "fast" "fast_call" "fast_requests" "fast_reserve" "fast_settle" "many" "prelude"
        "rewrite" "stored_acquire";
};

/// A script without keys that replies whether scripts publish to the channels of shards (1) or to plain ones (0)
/// on the server that runs it.
pub const SHARDED_CHANNELS: &str =
    concat!(include_str!("../locks/publish.lua"), "return sharded and 1 or 0\n");

/// A script that rewrites the record of its only key unchanged, so that `WAIT` on the same connection counts the
/// replicas that have all earlier writes to the key. It replies 1 if it did.
pub const REWRITE: &str = include_str!("../templates/rewrite.lua");

static LIBRARY: LazyLock<Library> =
    LazyLock::new(|| Library::new(FILES.iter().copied(), constants::all()));

/// Returns the text of a script.
pub(crate) fn source(id: ScriptId) -> String {
    LIBRARY.script(id.name()).text
}

/// Returns the text that runs this script for each of several keys.
pub(crate) fn many(id: ScriptId) -> String {
    let each = include_str!("../templates/many.lua");
    ["local function run(redis, KEYS, ARGV)\n", &source(id), "end\n", each].concat()
}

/// Returns the text that runs these scripts, each for one or more of several keys.
pub(crate) fn all(ids: &[ScriptId]) -> String {
    let each =
        ids.iter().map(|id| ["function(redis, KEYS, ARGV)\n", &source(*id), "end,\n"].concat());
    let all = include_str!("../templates/all.lua");
    ["local run = {\n", &each.collect::<String>(), "}\n", all].concat()
}

/// Returns the name and the text of each file that scripts are made of, for tests that change them.
#[doc(hidden)]
pub fn files() -> &'static [(&'static str, &'static str)] {
    FILES
}

/// Returns the names of the files that a script is made of.
#[doc(hidden)]
pub fn files_of(id: ScriptId) -> BTreeSet<&'static str> {
    LIBRARY.script(id.name()).files
}

/// Returns the text of a script with another text for the file of this name.
#[doc(hidden)]
pub fn source_with(id: ScriptId, file: &'static str, text: &str) -> String {
    LIBRARY.with(file, text).script(id.name()).text
}
