//! Rejections of gRPC requests: status 200, with a code in `grpc-status`.
//!
//! The details are a `google.rpc.Status` with a `google.rpc.RetryInfo`: four messages of a fixed form, for which a
//! library of protocol buffers would be a third of this package's dependencies.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response};

/// Codes of gRPC.
pub(crate) const INVALID_ARGUMENT: u8 = 3;
pub(crate) const RESOURCE_EXHAUSTED: u8 = 8;
pub(crate) const INTERNAL: u8 = 13;
pub(crate) const UNAVAILABLE: u8 = 14;
pub(crate) const UNAUTHENTICATED: u8 = 16;

const RETRY_INFO: &[u8] = b"type.googleapis.com/google.rpc.RetryInfo";

/// Returns whether a request is one of gRPC, including gRPC-Web.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// Returns a response without messages. `retry_after` is in seconds.
pub(crate) fn response(code: u8, message: &str, retry_after: Option<u64>) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-status", u16::from(code).into());
    let mut encoded = String::with_capacity(message.len());
    for byte in message.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(byte.into()),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    let encoded = HeaderValue::try_from(encoded).expect("visible ASCII");
    headers.insert("grpc-message", encoded);
    if let Some(seconds) = retry_after {
        let details = STANDARD_NO_PAD.encode(details(code, message, seconds));
        let details = HeaderValue::try_from(details).expect("base64 is ASCII");
        headers.insert("grpc-status-details-bin", details);
    }
    response
}

/// Encodes `Status { 1: code, 2: message, 3: Any { 1: type, 2: RetryInfo { 1: Duration { 1: seconds } } } }`.
fn details(code: u8, message: &str, seconds: u64) -> Vec<u8> {
    let duration = [&[1 << 3][..], &varint(seconds)].concat();
    let any = [field(1, RETRY_INFO), field(2, &field(1, &duration))].concat();
    [vec![1 << 3, code], field(2, message.as_bytes()), field(3, &any)].concat()
}

/// Encodes a field of bytes, a string or a message.
fn field(number: u8, value: &[u8]) -> Vec<u8> {
    let length = u64::try_from(value.len()).expect("a short message");
    [&[number << 3 | 2][..], &varint(length), value].concat()
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}
