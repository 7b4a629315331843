//! Text in quotes, as Go's `%q` writes it, and untrusted text and errors for log lines.

use std::error::Error;
use std::fmt::{self, Display, Formatter, Write};

/// Formats `text` in double quotes, escaped as Go's `%q` does, for errors that read as upstream's.
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

/// Formats one character in single quotes, escaped as Go's `%q` does.
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

/// Formats untrusted text as one line for a log.
///
/// Characters that are not printable are escaped, and a long text is truncated.
///
/// ```
/// use nri_proto::quote::line;
///
/// assert_eq!(line("no\nERROR all is \"well\"").to_string(), r#"no\nERROR all is "well""#);
/// ```
pub fn line(text: &str) -> impl Display {
    line_up_to(text, LineWriter::LONGEST - 1)
}

/// Formats untrusted text as one line, like [`line()`], with another limit for its length in
/// characters. A longer text ends with an ellipsis after the limit.
///
/// ```
/// use nri_proto::quote::line_up_to;
///
/// assert_eq!(line_up_to("\u{202e}abc", 4).to_string(), r"\u202eabc");
/// assert_eq!(line_up_to("abcde", 4).to_string(), "abcd\u{2026}");
/// ```
pub fn line_up_to(text: &str, longest: usize) -> impl Display {
    fmt::from_fn(move |f| LineWriter { f, room: longest.saturating_add(1) }.write_str(text))
}

/// Formats an error and its causes: each text follows a colon, and none is escaped or truncated.
///
/// For a log, use [`error_line`]: some of the texts may come from a peer.
///
/// ```
/// use nri_proto::quote::error_chain;
///
/// #[derive(Debug, thiserror::Error)]
/// #[error("could not read the configuration")]
/// struct ReadError(#[source] std::io::Error);
///
/// let error = ReadError(std::io::Error::other("disk failure"));
/// assert_eq!(error_chain(&error).to_string(), "could not read the configuration: disk failure");
/// ```
pub fn error_chain(error: &dyn Error) -> impl Display {
    fmt::from_fn(move |f| write_chain(f, error))
}

/// Formats an error and its causes, like [`error_chain`], as one line for a log, like [`line()`].
///
/// ```
/// use nri_proto::quote::error_line;
///
/// let error = std::io::Error::other("one\ntwo");
/// assert_eq!(error_line(&error).to_string(), r"one\ntwo");
/// ```
pub fn error_line(error: &dyn Error) -> impl Display {
    fmt::from_fn(move |f| write_chain(&mut LineWriter::new(f), error))
}

fn write_chain(out: &mut dyn Write, error: &dyn Error) -> fmt::Result {
    write!(out, "{error}")?;
    let mut cause = error.source();
    while let Some(error) = cause {
        write!(out, ": {error}")?;
        cause = error.source();
    }
    Ok(())
}

/// A writer that escapes line breaks and control characters, and truncates after a fixed length.
struct LineWriter<'f, 'b> {
    f: &'f mut Formatter<'b>,
    room: usize,
}

impl<'f, 'b> LineWriter<'f, 'b> {
    /// The length of the longest line, in characters.
    const LONGEST: usize = 1024;

    fn new(f: &'f mut Formatter<'b>) -> Self {
        Self { f, room: Self::LONGEST }
    }
}

impl Write for LineWriter<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match self.room {
                0 => return Ok(()),
                1 => self.f.write_char('\u{2026}')?,
                _ if is_printable(c) => self.f.write_char(c)?,
                _ => write_char(self.f, c, '"')?,
            }
            self.room -= 1;
        }
        Ok(())
    }
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
    // The standard library tells which characters are printable only by escaping the others. The
    // letter in front is for combining marks: a mark at the beginning is escaped although
    // printable.
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

    #[test]
    fn a_text_of_somebody_else_is_one_line_and_not_a_long_one() {
        let forged = "no\r\n2026-01-01 ERROR \x1b[31m\u{202e}\u{2028}";
        assert_eq!(line(forged).to_string(), r"no\r\n2026-01-01 ERROR \x1b[31m\u202e\u2028");
        assert_eq!(line(&"\n".repeat(1 << 20)).to_string().len(), 2 * 1023 + '\u{2026}'.len_utf8());
    }

    #[test]
    fn an_error_and_its_causes_are_one_line_together() {
        #[derive(Debug)]
        struct Outer(std::io::Error);
        impl Display for Outer {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                f.write_str("it\nfailed")
            }
        }
        impl Error for Outer {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&self.0)
            }
        }
        let error = |text: &str| Outer(std::io::Error::other(text.to_owned()));
        assert_eq!(error_line(&error("a\0")).to_string(), r"it\nfailed: a\x00");
        assert_eq!(error_chain(&error("a\0")).to_string(), "it\nfailed: a\0");
        let long = error_line(&error(&"a".repeat(1 << 20))).to_string();
        assert_eq!(long.chars().count(), r"\".len() + 1024, "the line break is written as two characters");
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(quoted(text).to_string(), expected);
    }
}
