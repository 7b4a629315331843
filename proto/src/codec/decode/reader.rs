//! Where words are read from.

/// The kind of a field that is one number.
pub(super) const VARINT: u8 = 0;
/// The kind of a field that says how long it is.
pub const SIZED: u8 = 2;

/// What is left to read of a message.
#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Begins to read a message.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// How many bytes are left.
    #[must_use]
    pub fn length(&self) -> usize {
        self.0.len()
    }

    /// The number and the kind of the next field. Those that we know are all below sixteen, and then it is one byte.
    #[inline]
    pub fn next_field(&mut self) -> Option<(u8, u8)> {
        let (&tag, rest) = self.0.split_first()?;
        self.0 = rest;
        Some((tag >> 3, tag & 7))
    }

    /// A number that follows.
    #[inline]
    pub fn varint(&mut self) -> Option<u64> {
        let (&first, rest) = self.0.split_first()?;
        // Most are one byte.
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

    /// What follows, as long as it says it is.
    #[inline]
    pub fn sized(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.varint()?).ok()?;
        let (sized, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(sized)
    }

    /// A text that follows.
    pub fn text(&mut self) -> Option<String> {
        std::str::from_utf8(self.sized()?).ok().map(str::to_owned)
    }

    /// A message that follows.
    pub fn message(&mut self) -> Option<Reader<'a>> {
        self.sized().map(Reader)
    }
}
