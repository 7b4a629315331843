//! The output of containers of mini-runtime.

use crate::mini_output::lines;

async fn said(output: &[u8]) -> Vec<String> {
    let mut said = vec![];
    lines(output, |line| said.push(line.to_owned())).await.unwrap();
    said
}

#[tokio::test]
async fn what_a_container_says_is_told_by_line_also_if_it_is_no_text() {
    assert_eq!(said(b"").await, Vec::<String>::new());
    assert_eq!(said(b"one\n\ntwo \xff\xfe\nthe end").await, ["one", "", "two \u{fffd}\u{fffd}", "the end"]);
}

#[tokio::test]
async fn a_line_without_an_end_is_told_in_parts() {
    let lines = said(&[b'x'; 40_000]).await;
    assert_eq!(lines.iter().map(String::len).collect::<Vec<_>>(), [16_384, 16_384, 7_232]);
}
