use std::time::Duration;

use tokio::time::Instant;

use super::INTERVAL;
use super::LINES;
use super::LineSplitter;
use super::MAX_LINE;
use super::Quota;
use super::quoted_line;

/// Returns the lines of this output, each with the number of bytes that were cut off.
fn lines(pieces: &[&[u8]]) -> Vec<(String, usize)> {
    let (mut lines, mut out) = (LineSplitter::default(), Vec::new());
    let mut take = |line: &[u8], n_cut| out.push((String::from_utf8(line.to_vec()).unwrap(), n_cut));
    for piece in pieces {
        lines.push(piece, &mut take);
    }
    lines.finish(&mut take);
    out
}

#[test]
fn lines_are_whole_however_they_arrive() {
    let expected = ["one", "", "two", "end"].map(|line| (line.to_owned(), 0));
    assert_eq!(lines(&[b"one\n\ntwo\nend"]), expected);
    assert_eq!(lines(&[b"on", b"e\n", b"\nt", b"wo", b"\nend"]), expected);
    assert_eq!(lines(&[b"end\n"]), [("end".to_owned(), 0)]);
    assert_eq!(lines(&[]), []);
}

#[test]
fn a_line_that_never_ends_is_cut_and_no_more_is_held() {
    let piece = [b'x'; 4096];
    let (mut lines, mut out) = (LineSplitter::default(), Vec::new());
    for _ in 0..1000 {
        lines.push(&piece, |_, _| unreachable!("it has not ended"));
        assert!(lines.line.capacity() <= 2 * MAX_LINE);
    }
    lines.push(b"\nnext\n", |line, n_cut| out.push((line.len(), n_cut)));
    assert_eq!(out, [(MAX_LINE, 1000 * piece.len() - MAX_LINE), (4, 0)]);
}

#[test]
fn a_line_cannot_look_like_two_or_speak_to_a_terminal() {
    assert_eq!(quoted_line(b"a\tb\r"), r#""a\tb""#);
    assert_eq!(quoted_line(b"\x1b[31mred\rover"), r#""\x1b[31mred\rover""#);
    assert_eq!(quoted_line("\u{202e}a\u{2028}b\u{200b}".as_bytes()), r#""\u202ea\u2028b\u200b""#);
    assert_eq!(quoted_line(b"\xff caf\xc3\xa9"), "\"\u{fffd} caf\u{e9}\"");
}

#[test]
fn a_line_cannot_look_like_fields_of_the_log() {
    let forged = quoted_line(br#"x" plugin=10-other stream="stdout" line="y"#);
    assert_eq!(forged, r#""x\" plugin=10-other stream=\"stdout\" line=\"y""#);
}

#[test]
fn a_flood_is_left_out_and_counted() {
    let begun = Instant::now();
    let mut quota = Quota::new(begun);
    for _ in 0..LINES {
        assert_eq!(quota.take(begun), (true, 0));
    }
    for _ in 0..7 {
        assert_eq!(quota.take(begun + Duration::from_millis(900)), (false, 0));
    }
    assert_eq!(quota.take(begun + INTERVAL), (true, 7));
    assert_eq!(quota.take(begun + INTERVAL), (true, 0));
}
