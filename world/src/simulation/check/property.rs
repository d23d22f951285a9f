//! The properties that a world is checked for.

pub use crate::property::Property;

/// All of them.
pub const PROPERTIES: [Property; 28] = {
    use Property::*;
    [
        E1, E2, E3, E4, E5, E6, E7, D1, D2, D4, D5, D9, D10, D11, D12, D13, D14, D15, L1, L2, L3,
        L4, L5, L6, L7, L8, L9, L10,
    ]
};

impl Property {
    pub(super) fn broken(self, what: String) -> Violation {
        Violation { property: self, what }
    }
}

/// A property that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub property: Property,
    /// What was seen.
    pub what: String,
}

impl Violation {
    pub(in crate::simulation) fn new(property: Property, what: String) -> Violation {
        property.broken(what)
    }
}
