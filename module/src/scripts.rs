//! The scripts whose calls the module serves, by digest.

use std::sync::OnceLock;

use lockage_core::ScriptId;

/// The scripts, each after the beginning of its digest.
static SERVED: OnceLock<Vec<(u64, ScriptId)>> = OnceLock::new();

/// Makes the digests, which takes a server longer than a caller waits for a call: so it is done as the module is loaded.
pub(crate) fn prepare() {
    SERVED.get_or_init(|| {
        let served = ScriptId::ALL.into_iter().filter(|id| is_served(*id));
        let mut all: Vec<_> = served.filter_map(|id| Some((prefix(digest_of(id))?, id))).collect();
        all.sort_unstable();
        all
    });
}

/// Returns the script of this digest, if the module serves it.
pub(crate) fn find(digest: &[u8]) -> Option<ScriptId> {
    let (served, wanted) = (SERVED.get()?, prefix(digest)?);
    let at = served.binary_search_by_key(&wanted, |(prefix, _)| *prefix).ok()?;
    Some(served[at].1).filter(|id| digest_of(*id) == digest)
}

fn digest_of(script: ScriptId) -> &'static [u8] {
    lockage_lua::script(script).digest().as_bytes()
}

/// Returns the first eight characters of a digest.
fn prefix(digest: &[u8]) -> Option<u64> {
    digest.first_chunk().map(|first| u64::from_be_bytes(*first))
}

/// Returns whether the calls of a script are served here: not those of sliding logs, whose records are lists, which Lua
/// changes in place.
fn is_served(script: ScriptId) -> bool {
    script != ScriptId::SlidingLogAcquire
}

/// Returns whether a full server refuses a call: all that neither frees nor keeps anything.
pub(crate) fn takes_memory(script: ScriptId, arguments: &[&[u8]]) -> bool {
    const FREE_OR_KEEP: [&str; 7] =
        ["_release", "_renew", "_settle", "_withdraw", "_cancel", "_reset", "_count_down"];
    match script {
        // Refunds, and the ends of blocks, free.
        ScriptId::LimiterAdjust => !matches!(arguments.get(3), Some(&b"f" | &b"u")),
        // A removal has no value.
        ScriptId::FencedWrite => arguments.len() > 4,
        // A renewal has its end in the place of the cost.
        ScriptId::LimiterReserve => !arguments.iter().any(|argument| argument.starts_with(b"=")),
        other => !FREE_OR_KEEP.iter().any(|end| other.name().ends_with(end)),
    }
}
