//! Choices that the input of a target determines.

/// The bytes from which choices are read. After their end, every choice is zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Script<'a>(pub(super) &'a [u8]);

impl<'a> Script<'a> {
    pub(super) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub(super) fn number(&mut self) -> usize {
        usize::from(self.byte()) << 8 | usize::from(self.byte())
    }

    pub(super) fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.is_empty()
    }
}
