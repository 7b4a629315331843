//! The input of decoding.

/// The wire type of numbers.
pub(super) const VARINT: u8 = 0;
/// The wire type of length-delimited fields.
pub const SIZED: u8 = 2;

/// The rest of an encoded message.
#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Creates a reader for an encoded message.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the number of bytes left.
    #[must_use]
    pub fn length(&self) -> usize {
        self.0.len()
    }

    /// Reads the number and the wire type of the next field.
    ///
    /// The tag is read as one byte, since all known field numbers are below sixteen.
    #[inline]
    pub fn next_field(&mut self) -> Option<(u8, u8)> {
        let (&tag, rest) = self.0.split_first()?;
        self.0 = rest;
        Some((tag >> 3, tag & 7))
    }

    /// Reads a number.
    #[inline]
    pub fn varint(&mut self) -> Option<u64> {
        let (&first, rest) = self.0.split_first()?;
        // Most numbers fit into one byte.
        if first < 0x80 {
            self.0 = rest;
            return Some(first.into());
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for (place, &byte) in self.0.iter().enumerate().take(10) {
            let bits = u64::from(byte & 0x7f);
            let shifted = bits << (7 * place);
            if shifted >> (7 * place) != bits {
                return None;
            }
            value |= shifted;
            if byte < 0x80 {
                self.0 = &self.0[place + 1..];
                return Some(value);
            }
        }
        None
    }

    /// Reads a length, and that many bytes.
    #[inline]
    pub fn sized(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.varint()?).ok()?;
        let (sized, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(sized)
    }

    /// Reads a length, and a string of that many bytes.
    pub fn text(&mut self) -> Option<String> {
        std::str::from_utf8(self.sized()?).ok().map(str::to_owned)
    }

    /// Reads a length, and returns a reader for a message of that many bytes.
    pub fn message(&mut self) -> Option<Reader<'a>> {
        self.sized().map(Reader)
    }
}
