//! Text in quotes, as Go's `%q` writes it.

use std::fmt::{self, Display, Formatter, Write};

/// Puts `text` in double quotes for an error that reads as upstream's.
///
/// ```
/// use nri_proto::quote::quoted;
///
/// assert_eq!(quoted("a\tb \"c\" é \0").to_string(), r#""a\tb \"c\" é \x00""#);
/// ```
pub fn quoted(text: &str) -> impl Display {
    fmt::from_fn(move |f| {
        f.write_char('"')?;
        text.chars().try_for_each(|c| write_char(f, c, '"'))?;
        f.write_char('"')
    })
}

/// Puts one character in single quotes, likewise.
///
/// ```
/// use nri_proto::quote::quoted_char;
///
/// assert_eq!(quoted_char('\n').to_string(), r"'\n'");
/// ```
pub fn quoted_char(c: char) -> impl Display {
    fmt::from_fn(move |f| {
        f.write_char('\'')?;
        write_char(f, c, '\'')?;
        f.write_char('\'')
    })
}

fn write_char(f: &mut Formatter<'_>, c: char, quote: char) -> fmt::Result {
    match c {
        '\x07' => f.write_str(r"\a"),
        '\x08' => f.write_str(r"\b"),
        '\t' => f.write_str(r"\t"),
        '\n' => f.write_str(r"\n"),
        '\x0b' => f.write_str(r"\v"),
        '\x0c' => f.write_str(r"\f"),
        '\r' => f.write_str(r"\r"),
        '\\' => f.write_str(r"\\"),
        c if c == quote => write!(f, "\\{c}"),
        c if is_printable(c) => f.write_char(c),
        c if c.is_ascii() => write!(f, "\\x{:02x}", u32::from(c)),
        '\u{80}'..='\u{ffff}' => write!(f, "\\u{:04x}", u32::from(c)),
        _ => write!(f, "\\U{:08x}", u32::from(c)),
    }
}

fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return matches!(c, ' '..='~');
    }
    // The standard library knows, and tells only by escaping. The letter is there for marks to stand on: one
    // without is escaped however printable.
    ['a', c].iter().collect::<String>().escape_debug().nth(1) == Some(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_only_quoted() {
        check("", r#""""#);
        check("10-logger", r#""10-logger""#);
        check("it's", r#""it's""#);
        check("é 日本 e\u{301}", "\"é 日本 e\u{301}\"");
    }

    #[test]
    fn what_cannot_be_seen_is_escaped() {
        check("\x07\x08\t\n\x0b\x0c\r", r#""\a\b\t\n\v\f\r""#);
        check("\0\x1b\x7f", r#""\x00\x1b\x7f""#);
        check("\u{80}\u{a0}\u{200b}\u{feff}", r#""\u0080\u00a0\u200b\ufeff""#);
        check("\u{e0001}", r#""\U000e0001""#);
    }

    #[test]
    fn quotes_are_escaped_where_they_would_end_the_text() {
        check(r#"a"b\c"#, r#""a\"b\\c""#);
        assert_eq!(quoted_char('\'').to_string(), r"'\''");
        assert_eq!(quoted_char('"').to_string(), r#"'"'"#);
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(quoted(text).to_string(), expected);
    }
}
