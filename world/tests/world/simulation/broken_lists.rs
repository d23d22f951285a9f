//! The same for several permits in one call.

use lockage_core::ScriptId;
use lockage_world::simulation::{Property, Ran};

use super::broken::{found_in_outcomes, found_in_script};

#[test]
fn what_is_wrong_with_lists_is_found() {
    for (script, text, broken) in [
        // The first alone is charged.
        (ScriptId::FixedWindowAcquire, "if at > size then break end", "if true then break end"),
        (
            ScriptId::LimiterAcquire,
            "    charge(cost)\n",
            "    if i == costs then charge(cost) end\n",
        ),
    ] {
        found_in_script(Property::D4, script, text, broken);
    }
    let in_another_order = |ran: &mut Ran| {
        if let Ran::Decisions(decisions) = ran {
            decisions.reverse();
        }
    };
    found_in_outcomes(Property::D4, &in_another_order);
    let one_less = |ran: &mut Ran| {
        if let Ran::Decisions(decisions) = ran {
            decisions.pop();
        }
    };
    found_in_outcomes(Property::D12, &one_less);
}
