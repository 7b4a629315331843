//! Parses durations in Go's format.

#[cfg(test)]
mod tests;

use std::time::Duration;

use nri_proto::quote::quoted;

/// Why a text is not a valid duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DurationError {
    #[error("invalid duration {}", quoted(.0))]
    Invalid(String),
    #[error("missing unit in duration {}", quoted(.0))]
    MissingUnit(String),
    #[error("unknown unit {} in duration {}", quoted(unit), quoted(text))]
    UnknownUnit { unit: String, text: String },
    #[error("negative duration {}", quoted(.0))]
    Negative(String),
}

/// The bound for nanoseconds in Go's parser: 2^63 is one more than the largest positive duration,
/// and is valid only for negative ones.
const MOST: u64 = 1 << 63;

/// Parses a duration as Go's `time.ParseDuration` does, to the nanosecond and with the same errors:
/// `2s`, `500ms`, `1m30s`, `1.5h`. Negative durations are refused, because no timeout can be
/// negative.
// No crate does this: the maintained ones parse another format ("2min 3s", no fractions, no sign).
pub(crate) fn parse(text: &str) -> Result<Duration, DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if unsigned == "0" {
        return Ok(Duration::ZERO);
    }
    if unsigned.is_empty() {
        return Err(invalid());
    }
    let mut nanos = 0_u64;
    let mut rest = unsigned;
    while !rest.is_empty() {
        let number = DecimalNumber::take(&mut rest).ok_or_else(invalid)?;
        let unit = take_while(&mut rest, |byte| byte != b'.' && !byte.is_ascii_digit());
        if unit.is_empty() {
            return Err(DurationError::MissingUnit(text.to_owned()));
        }
        let Some(in_nanos) = nanos_of(unit) else {
            return Err(DurationError::UnknownUnit { unit: unit.to_owned(), text: text.to_owned() });
        };
        nanos = number.times(in_nanos).and_then(|part| within(nanos.checked_add(part)?)).ok_or_else(invalid)?;
    }
    match (text.starts_with('-'), nanos) {
        (true, 1..) => Err(DurationError::Negative(text.to_owned())),
        (false, MOST) => Err(invalid()),
        _ => Ok(Duration::from_nanos(nanos)),
    }
}

/// A decimal number: digits before and after a dot. One of the two parts may be missing.
struct DecimalNumber {
    whole: u64,
    fraction: u64,
    scale: f64,
}

impl DecimalNumber {
    fn take(rest: &mut &str) -> Option<Self> {
        let digits = take_while(rest, |byte| byte.is_ascii_digit());
        let behind = match rest.strip_prefix('.') {
            Some(after) => {
                *rest = after;
                take_while(rest, |byte| byte.is_ascii_digit())
            }
            None => "",
        };
        if digits.is_empty() && behind.is_empty() {
            return None;
        }
        let whole = digits.bytes().try_fold(0, push)?;
        let (mut fraction, mut scale) = (0, 1.0);
        // Digits that would overflow are dropped.
        for digit in behind.bytes() {
            let Some(longer) = push(fraction, digit) else { break };
            fraction = longer;
            scale *= 10.0;
        }
        Some(Self { whole, fraction, scale })
    }

    fn times(&self, unit: u64) -> Option<u64> {
        let whole = within(self.whole.checked_mul(unit)?)?;
        // Uses floating point as Go does, so that the result is the same to the nanosecond.
        #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let part = (self.fraction as f64 * (unit as f64 / self.scale)) as u64;
        within(whole.checked_add(part)?)
    }
}

fn push(number: u64, digit: u8) -> Option<u64> {
    within(number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?)
}

fn within(nanos: u64) -> Option<u64> {
    (nanos <= MOST).then_some(nanos)
}

fn nanos_of(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // The micro sign and the Greek letter mu.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// Removes the longest prefix whose bytes satisfy `is_part`, and returns it. For a character that
/// is not ASCII, `is_part` must be true for all of its bytes or for none.
fn take_while<'t>(rest: &mut &'t str, is_part: impl Fn(u8) -> bool) -> &'t str {
    let end = rest.bytes().position(|byte| !is_part(byte)).unwrap_or(rest.len());
    let (taken, left) = rest.split_at(end);
    *rest = left;
    taken
}
