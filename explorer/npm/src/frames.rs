//! Frames: strings of bytes, each after its length, and lists of them, each after its count.

/// The rest of the input.
pub(crate) struct Frames<'a>(pub(crate) &'a [u8]);

impl<'a> Frames<'a> {
    pub(crate) fn number(&mut self) -> Result<u32, String> {
        let (bytes, rest) = self.0.split_first_chunk::<4>().ok_or(CUT)?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*bytes))
    }

    pub(crate) fn next(&mut self) -> Result<&'a [u8], String> {
        let length = self.number()? as usize;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(CUT)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(crate) fn all(&mut self) -> Result<Vec<&'a [u8]>, String> {
        (0..self.number()?).map(|_| self.next()).collect()
    }
}

const CUT: &str = "the input is cut off";

pub(crate) fn push_number(output: &mut Vec<u8>, number: u32) {
    output.extend(number.to_le_bytes());
}

pub(crate) fn push(output: &mut Vec<u8>, bytes: &[u8]) {
    push_number(output, bytes.len() as u32);
    output.extend(bytes);
}

pub(crate) fn push_all(output: &mut Vec<u8>, all: &[Vec<u8>]) {
    push_number(output, all.len() as u32);
    all.iter().for_each(|bytes| push(output, bytes));
}
