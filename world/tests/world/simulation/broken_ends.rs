//! Ends that are a microsecond off, to which by chance alone hardly a request comes, in scripts that run only where nothing calls for
//! another one: worlds in which requests are aimed, and that stay plain, find them.

use lockage_core::ScriptId;
use lockage_world::simulation::Property;

use super::broken::found_in_script;

#[test]
fn windows_that_end_a_microsecond_late_are_found() {
    for (property, script, text, broken) in [
        (Property::D9, ScriptId::FixedWindowAcquire, "if now >= kept then", "if now > kept then"),
        (
            Property::D4,
            ScriptId::LimiterAcquire,
            "used > 0 and now < opened + window",
            "used > 0 and now <= opened + window",
        ),
        (
            Property::D4,
            ScriptId::LimiterAcquire,
            "at >= times[place] + log.window",
            "at > times[place] + log.window",
        ),
    ] {
        found_in_script(property, script, text, broken);
    }
}

#[test]
fn a_window_that_ends_a_microsecond_early_is_found() {
    let script = ScriptId::FixedWindowAcquire;
    found_in_script(Property::D4, script, "if now >= kept then", "if now >= kept - 1 then");
}

#[test]
fn leases_that_end_a_microsecond_late_are_found() {
    let script = ScriptId::FastLockAcquire;
    found_in_script(Property::L8, script, "now < deadline", "now <= deadline");
    found_in_script(Property::L8, script, "if now > not_after", "if now >= not_after");
}
