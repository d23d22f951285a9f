//! The same for turns that are given back.

use lockage_core::ScriptId;
use lockage_world::simulation::Property;

use super::broken::found_in_script;

#[test]
fn what_is_wrong_with_turns_that_are_given_back_is_found() {
    for (property, text, broken) in [
        // Also where others were admitted since.
        (Property::D14, "if state ~= after then return {0, now, 1} end", ""),
        // Also once it has come.
        (Property::D14, "if now >= turn then return {0, now, 2} end", ""),
        // Told, and not done.
        (Property::D4, "packed(head .. before .. behind)", "packed(head .. after .. behind)"),
        (Property::D9, "'PX', ttl_ms(max(keep, till))", "'PX', ttl_ms(now)"),
    ] {
        found_in_script(property, ScriptId::LeakyBucketCancel, text, broken);
    }
}
