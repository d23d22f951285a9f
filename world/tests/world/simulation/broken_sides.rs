//! The same for those who hold one side of a read-write lock after the other.

use lockage_core::ScriptId;
use lockage_world::simulation::Property;

use super::broken::found_in_script;

#[test]
fn what_is_wrong_where_sides_are_changed_is_found() {
    for (property, script, text, broken) in [
        // One who reads writes beside others who do.
        (Property::L1, ScriptId::RwLockAcquire, "why = UPGRADE\n", "return nil\n"),
        // The caller is told to wait for them.
        (Property::L2, ScriptId::RwLockAcquire, "why = UPGRADE\n", "why = REFUSED\n"),
        // One who writes must not read, since a writer waits.
        (Property::L2, ScriptId::RwLockAcquire, "      till = 0\n", "      till = kept_till\n"),
        // The read side ends with the write side.
        (
            Property::L2,
            ScriptId::RwLockRelease,
            "if grant.holds == 0 then table.remove(grants, at) end",
            "if grant.holds == 0 then grants = {} end",
        ),
    ] {
        found_in_script(property, script, text, broken);
    }
}
