//! The properties that kill an entry.

pub use crate::property::Property;

/// All of them.
pub const PROPERTIES: [Property; 27] = {
    use Property::*;
    [
        E1, E2, E3, E4, E5, D1, D2, D3, D4, D5, D6, D7, D8, D9, D10, D11, D12, L1, L2, L3, L4, L5,
        L6, L8, L9, L10, InputGuard,
    ]
};
