//! Unpacks compressed files.

use std::io::{self, BufRead, BufReader};

use flate2::bufread::MultiGzDecoder;

#[cfg(not(target_arch = "wasm32"))]
use super::zstd::Frames;

/// Returns the text of a source, which may be compressed with gzip or zstd.
///
/// # Errors
/// The error of the source, or if the file is packed or encoded in another way.
pub(super) fn unpack<'a>(mut source: Box<dyn BufRead + 'a>) -> io::Result<Box<dyn BufRead + 'a>> {
    let head = source.fill_buf()?;
    let other = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidData, what));
    match head {
        [0x1f, 0x8b, ..] => {
            let text = BufReader::with_capacity(1 << 16, MultiGzDecoder::new(source));
            unpack(Box::new(text))
        }
        #[cfg(not(target_arch = "wasm32"))]
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
            unpack(Box::new(BufReader::with_capacity(1 << 16, Frames::new(source))))
        }
        #[cfg(target_arch = "wasm32")]
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
            other("it is packed with zstd, which a page does not unpack: zstd -d it")
        }
        [b'B', b'Z', b'h', ..] => other("it is packed with bzip2: bzcat it into -"),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => other("it is packed with xz: xzcat it into -"),
        [b'P', b'K', 3, 4, ..] => other("it is a zip archive: unzip -p it into -"),
        [0xff, 0xfe, 0, ..]
        | [0xff, 0xfe, _, 0, ..]
        | [0xfe, 0xff, 0, ..]
        | [b' '..=b'~', 0, b' '..=b'~', 0, ..]
        | [0, b' '..=b'~', 0, b' '..=b'~', ..] => {
            other("it is UTF-16: iconv -f UTF-16 -t UTF-8 makes text of it")
        }
        _ => Ok(source),
    }
}
