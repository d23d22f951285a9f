//! The checks of each decoder of requests, for any input: it is read, refused, or awaited whole, and nothing panics. Tests
//! and fuzz targets make the inputs.

use prost::Message;

use crate::{api, resp, rls};

/// Checks that each descriptor of a message of Envoy's has one place, and that the message is written as it was read.
///
/// # Panics
/// Where that does not hold.
pub fn envoy(bytes: &[u8]) {
    let Ok(request) = rls::RateLimitRequest::decode(bytes) else { return };
    assert_eq!(rls::RateLimitRequest::decode(&request.encode_to_vec()[..]), Ok(request.clone()));
    let descriptors = request.descriptors.len();
    if let Ok(parts) = rls::parts(request) {
        assert_eq!(parts.places.len(), descriptors);
        let asked = [&parts.charged, &parts.looked_at, &parts.given_back];
        assert_eq!(asked.iter().map(|asked| asked.requests.len()).sum::<usize>(), descriptors);
    }
}

/// Checks commands by the protocol of Redis: one that is read is within its text, and any beginning of it is awaited whole.
///
/// # Panics
/// Where that does not hold.
pub fn redis(bytes: &[u8]) {
    let Ok(Some((words, length))) = resp::command(bytes) else { return };
    // Numbers may begin with zeros.
    let written: usize = words.iter().map(|word| word.len() + 5).sum();
    assert!(written < length && length <= bytes.len(), "{}", bytes.escape_ascii());
    for end in 0..length {
        assert_eq!(resp::command(&bytes[..end]), Ok(None), "{end} of {}", bytes.escape_ascii());
    }
}

/// Checks requests for limits by JSON.
pub fn json(bytes: &[u8]) {
    if let Ok(ask) = serde_json::from_slice::<api::limits::Ask>(bytes) {
        let _ = ask.asked();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            bytes in prop::collection::vec(
                prop_oneof![any::<u8>(), prop::sample::select(b"*$\r\n0123".to_vec())], 0..80),
        ) {
            redis(&bytes);
            json(&bytes);
            // Bytes at random are seldom a message of several parts, so they stand in one too.
            let length = bytes.len() as u8;
            let entry = [&[0x0a, 2, b'a', b'b', 0x12][..], &[length + 2, 0x0a, length], &bytes].concat();
            envoy(&bytes);
            envoy(&entry);
        }
    }
}
