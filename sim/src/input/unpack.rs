//! Unpacks compressed files.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::BlockDecodingStrategy;
use ruzstd::decoding::FrameDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};

/// Returns the text of a source, which may be compressed with gzip or zstd.
///
/// # Errors
/// The error of the source, or if the file is packed or encoded in another way.
pub(super) fn unpack<'a>(mut source: impl BufRead + 'a) -> io::Result<Box<dyn BufRead + 'a>> {
    let head = source.fill_buf()?;
    let other = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidData, what));
    Ok(match head {
        [0x1f, 0x8b, ..] => {
            Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(source)))
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
            let frames = Frames { source, decoder: FrameDecoder::new(), is_open: false };
            Box::new(BufReader::with_capacity(1 << 16, frames))
        }
        [b'B', b'Z', b'h', ..] => return other("it is packed with bzip2: bzcat it into -"),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => {
            return other("it is packed with xz: xzcat it into -");
        }
        [b'P', b'K', 3, 4, ..] => return other("it is a zip archive: unzip -p it into -"),
        [0xff, 0xfe, 0, ..] | [0xff, 0xfe, _, 0, ..] | [0xfe, 0xff, 0, ..] => {
            return other("it is UTF-16: iconv -f UTF-16 -t UTF-8 makes text of it");
        }
        _ => Box::new(source),
    })
}

/// Frames of zstd, one after another, as `cat a.zst b.zst` makes them.
struct Frames<R> {
    source: R,
    decoder: FrameDecoder,
    is_open: bool,
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.is_open && !self.open()? {
                return Ok(0);
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.source, one).map_err(io::Error::other)?;
            }
            let read = self.decoder.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let stored = self.decoder.get_checksum_from_data();
            if stored.is_some() && stored != self.decoder.get_calculated_checksum() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a wrong checksum of zstd"));
            }
            self.is_open = false;
        }
    }
}

impl<R: BufRead> Frames<R> {
    /// Begins the next frame, and returns false at the end.
    fn open(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => {
                    self.is_open = true;
                    return Ok(true);
                }
                // Frames of other programs, such as the sizes that pzstd writes.
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let mut frame = self.source.by_ref().take(u64::from(length));
                    io::copy(&mut frame, &mut io::sink())?;
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }
}
