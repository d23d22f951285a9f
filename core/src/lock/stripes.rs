//! Ids, distributed over a fixed number of locks.

use alloc::format;
use alloc::string::String;

use crate::error::ConfigError;

/// The most stripes.
pub const MAX_STRIPES: u32 = 1 << 16;

/// A fixed number of stripes, each one lock, to which ids are assigned by their hash (L13).
///
/// The stripe of an id follows from its bytes and the number of stripes alone, in every process, version and language:
/// the 64-bit [FNV-1a] hash, whose halves are combined by exclusive or, modulo the number of stripes.
///
/// ```
/// use lockage_core::lock::Stripes;
///
/// let stripes = Stripes::new(64)?;
/// assert_eq!(stripes.of("user:42"), 38);
/// assert_eq!(stripes.name("accounts", 38), "accounts#38/64");
/// # Ok::<(), lockage_core::ConfigError>(())
/// ```
///
/// [FNV-1a]: http://www.isthe.com/chongo/tech/comp/fnv/
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripes(u32);

impl Stripes {
    /// Creates this many stripes, from 1 to [`MAX_STRIPES`].
    ///
    /// # Errors
    /// [`ConfigError`] for zero, or more.
    pub fn new(count: u32) -> Result<Self, ConfigError> {
        let (what, max, unit) = ("number of stripes", MAX_STRIPES.into(), "");
        match count {
            0 => Err(ConfigError::Zero { what }),
            1..=MAX_STRIPES => Ok(Stripes(count)),
            _ => Err(ConfigError::TooLarge { what, max, unit, bound: "one name" }),
        }
    }

    /// Returns the number of stripes.
    pub fn count(self) -> u32 {
        self.0
    }

    /// Returns the stripe of an id, from 0 on.
    pub fn of(self, id: &str) -> u32 {
        let hash = fnv_1a(id.as_bytes());
        // As its authors advise for fewer bits: the lowest bit of the hash itself is the parity of the lowest bits of all
        // bytes.
        ((hash >> 32) as u32 ^ hash as u32) % self.0
    }

    /// Returns the name of the lock of a stripe of `name`. It contains the number of stripes, so that stripes of
    /// different numbers are never confused.
    pub fn name(self, name: &str, stripe: u32) -> String {
        format!("{name}#{stripe}/{}", self.0)
    }
}

/// Returns the 64-bit FNV-1a hash.
fn fnv_1a(bytes: &[u8]) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    bytes.iter().fold(BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    /// Vectors that the authors publish.
    #[test]
    fn the_hash_is_fnv_1a() {
        for (text, hash) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
        ] {
            assert_eq!(fnv_1a(text.as_bytes()), hash, "{text}");
        }
    }

    /// L13: the stripe of an id never changes. These are from another implementation, in Python.
    #[test]
    fn l13_the_stripe_of_an_id_is_the_same_for_ever() {
        for (id, stripes) in [
            ("a", [0, 5, 0, 12_480]),
            ("user:42", [0, 4, 38, 16_230]),
            ("za\u{17c}\u{f3}\u{142}\u{107}", [0, 5, 55, 62_775]),
            ("\0", [0, 4, 19, 2_707]),
        ] {
            let seen = [1, 7, 64, MAX_STRIPES].map(|count| Stripes::new(count).unwrap().of(id));
            assert_eq!(seen, stripes, "{id}");
        }
        assert_eq!(Stripes::new(8).unwrap().name("accounts", 3), "accounts#3/8");
    }

    #[test]
    fn ids_that_are_alike_are_spread_evenly() {
        let forms: [fn(u32) -> String; 4] = [
            |number| format!("user:{number}"),
            |number| format!("{}", 64 * number),
            |number| format!("{:032x}", u128::from(number).wrapping_mul(0x9e37_79b9 << 90)),
            // The lowest bits of its bytes always cancel out.
            |number| format!("{number:04x}{number:04x}"),
        ];
        for (form, ids) in forms.into_iter().enumerate() {
            for count in [2, 8, 10, 64] {
                let stripes = Stripes::new(count).unwrap();
                let mut counts = vec![0; count as usize];
                for number in 0..1_000 * count {
                    counts[stripes.of(&ids(number)) as usize] += 1;
                }
                let near = counts.iter().all(|ids| (850..1_150).contains(ids));
                assert!(near, "form {form}, {count} stripes: {counts:?}");
            }
        }
    }

    #[test]
    fn a_number_of_stripes_out_of_range_is_refused() {
        assert!(matches!(Stripes::new(0), Err(ConfigError::Zero { .. })));
        assert_eq!(Stripes::new(MAX_STRIPES).map(Stripes::count), Ok(65_536));
        let error = Stripes::new(MAX_STRIPES + 1).unwrap_err();
        let told = "the number of stripes is too large: at most 65536 fits within one name";
        assert_eq!(format!("{error}"), told);
    }
}
