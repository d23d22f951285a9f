//! The plain scripts as functions, for servers that have such (7.0 and later).

use std::sync::LazyLock;

use lockage_core::ScriptId;

use crate::{script, sources};

/// The library of functions, as `FUNCTION LOAD` takes it: each plain script, as it is, is one
/// function of it.
///
/// Its name and those of its functions carry the digest of it all. So the libraries of several
/// versions stand side by side, and what has this name has this text. `FUNCTION LIST` tells by its
/// description which script a function is.
pub fn functions() -> &'static str {
    &LIBRARY.text
}

/// The name of the function that does what this script does, as `FCALL` takes it. Only plain scripts
/// have one.
pub fn function(id: ScriptId) -> Option<&'static str> {
    LIBRARY.names.iter().find(|(of, _)| *of == id).map(|(_, name)| name.as_str())
}

/// In the place of the digest where the digest is made.
const NO_DIGEST: &str = "00000000";

struct Library {
    text: String,
    names: Vec<(ScriptId, String)>,
}

static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
    let text = Library::of_digest(NO_DIGEST).text;
    Library::of_digest(&sha1_smol::Sha1::from(text).hexdigest()[..NO_DIGEST.len()])
});

impl Library {
    fn of_digest(digest: &str) -> Self {
        let mut text = format!("#!lua name=lockage_{digest}\n");
        let mut names = Vec::new();
        for id in ScriptId::ALL.into_iter().filter(|&id| sources::is_fast_path(id)) {
            // Short: each letter costs a server a dozen instructions at each call.
            let name = format!("l{digest}_{}", names.len());
            text += &format!(
                "redis.register_function{{function_name='{name}', description='lockage: {}',\n\
                 callback=function(KEYS, ARGV)\n{}end}}\n",
                id.name(),
                script(id).source()
            );
            names.push((id, name));
        }
        Library { text, names }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_are_the_plain_scripts_as_they_are() {
        let plain = [
            ScriptId::FixedWindowAcquire,
            ScriptId::SlidingWindowAcquire,
            ScriptId::TokenBucketAcquire,
            ScriptId::IntervalBucketAcquire,
            ScriptId::LeakyBucketAcquire,
            ScriptId::SlidingLogAcquire,
            ScriptId::CompositeAcquire,
            ScriptId::FastLockAcquire,
            ScriptId::FastLockRenew,
            ScriptId::FastLockRelease,
        ];
        for id in ScriptId::ALL {
            assert_eq!(function(id).is_some(), plain.contains(&id), "{}", id.name());
            let Some(name) = function(id) else { continue };
            let (before, _) = functions().split_once(script(id).source()).expect("its text");
            let head = format!(
                "redis.register_function{{function_name='{name}', description='lockage: {}',\n\
                 callback=function(KEYS, ARGV)\n",
                id.name()
            );
            assert!(before.ends_with(&head), "{name}");
        }
        assert_eq!(functions().matches("redis.register_function").count(), plain.len());
    }

    #[test]
    fn names_are_of_one_text_and_legal() {
        let (head, _) = functions().split_once('\n').expect("it has lines");
        let digest = head.strip_prefix("#!lua name=lockage_").expect("its engine and its name");
        let text = functions().replace(digest, NO_DIGEST);
        assert!(sha1_smol::Sha1::from(text).hexdigest().starts_with(digest), "{digest}");
        for (index, name) in ScriptId::ALL.into_iter().filter_map(function).enumerate() {
            assert_eq!(name, format!("l{digest}_{index}"));
        }
    }
}
