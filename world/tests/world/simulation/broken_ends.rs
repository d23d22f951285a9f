//! Ends that are a microsecond off, to which by chance alone hardly a request comes, in scripts that run only where nothing calls for
//! another one: worlds in which requests are aimed, and that stay plain, find them.

use lockage_core::ScriptId;
use lockage_world::simulation::Property;

use super::broken::found_in_script;

#[test]
fn windows_that_end_a_microsecond_late_are_found() {
    for (property, script, text, broken) in [
        (
            Property::D9,
            ScriptId::FixedWindowAcquire,
            "now >= opened + window",
            "now > opened + window",
        ),
        (Property::D4, ScriptId::LimiterAcquire, "now >= opened + window", "now > opened + window"),
        (
            Property::D4,
            ScriptId::LimiterAcquire,
            "find_entry(1, at - log.window + 1)",
            "find_entry(1, at - log.window)",
        ),
    ] {
        found_in_script(property, script, text, broken);
    }
}

#[test]
fn a_window_that_ends_a_microsecond_early_is_found() {
    let script = ScriptId::FixedWindowAcquire;
    found_in_script(Property::D4, script, "now >= opened + window", "now >= opened + window - 1");
}

#[test]
fn leases_that_end_a_microsecond_late_are_found() {
    let script = ScriptId::FastLockAcquire;
    found_in_script(Property::L8, script, "now < deadline", "now <= deadline");
    found_in_script(Property::L8, script, "if now > not_after", "if now >= not_after");
}
