//! The timeout of a gRPC caller.

use std::time::Duration;

use http::HeaderMap;

/// Returns the `grpc-timeout` of a request, or `None` if the header is absent or invalid.
pub(super) fn timeout(head: &HeaderMap) -> Option<Duration> {
    let text = head.get("grpc-timeout")?.to_str().ok()?;
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if number.len() > 8 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = number.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_limit_is_eight_digits_and_a_unit_and_anything_else_is_none() {
        let cases = [
            ("1S", Some(Duration::from_secs(1))),
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3600))),
            ("250m", Some(Duration::from_millis(250))),
            ("7u", Some(Duration::from_micros(7))),
            ("7n", Some(Duration::from_nanos(7))),
            ("2M", Some(Duration::from_secs(120))),
            ("100000000S", None),
            ("S", None),
            ("", None),
            ("+1S", None),
            ("1s", None),
            ("1é", None),
        ];
        for (text, expected) in cases {
            let value = HeaderValue::from_bytes(text.as_bytes()).unwrap();
            assert_eq!(timeout(&HeaderMap::from_iter([("grpc-timeout".parse().unwrap(), value)])), expected, "{text}");
        }
        assert_eq!(timeout(&HeaderMap::new()), None);
    }
}
