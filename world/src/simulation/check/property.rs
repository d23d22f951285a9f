//! The properties that a world is checked for.

pub use lockage_oracle::property::{Property, Violation};

/// All of them.
pub const PROPERTIES: [Property; 29] = {
    use Property::*;
    [
        E1, E2, E3, E4, E5, E6, E7, D1, D2, D4, D5, D9, D10, D11, D12, D13, D14, D15, L1, L2, L3,
        L4, L5, L6, L7, L8, L9, L10, L12,
    ]
};
