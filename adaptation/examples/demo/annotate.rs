//! The annotations that a user adds to the pod: `ANNOTATE` of `make run`.

use anyhow::{Context, Result};

/// Parses `key=value …`. A value ends where the next annotation begins, so it may contain spaces:
/// a word begins an annotation if it has a `=` behind a plain key.
pub(crate) fn parse(text: &str) -> Result<Vec<(String, String)>> {
    let mut found: Vec<(String, String)> = Vec::new();
    for word in text.split_whitespace() {
        if let Some((key, value)) = word.split_once('=').filter(|(key, _)| is_key(key)) {
            found.push((key.to_owned(), value.to_owned()));
        } else {
            let (_, value) = found.last_mut().with_context(|| format!("{word:?} is no annotation: write key=value"))?;
            value.push(' ');
            value.push_str(word);
        }
    }
    Ok(found)
}

fn is_key(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c))
}
