//! A list of names, as people write it in an annotation: YAML, of which JSON is a part.

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};

/// Why something is not a list of names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NamesError {
    #[error(transparent)]
    Syntax(#[from] ScanError),
    #[error("it must be a list of names")]
    NoList,
    #[error("line {line}: each entry must be a name")]
    NoName { line: usize },
}

/// Reads a list. As with Go, names need no quotes, `null` is nothing, and what follows the list is not looked at.
pub(super) fn read(text: &str) -> Result<Vec<String>, NamesError> {
    let mut names = Vec::new();
    let mut is_in_list = false;
    for event in Parser::new_from_str(text) {
        let (event, span) = event?;
        match event {
            Event::Scalar(name, style, ..) => match (is_in_list, is_null(&name, style)) {
                (true, true) => {}
                (true, false) => names.push(name.into_owned()),
                (false, true) => return Ok(names),
                (false, false) => return Err(NamesError::NoList),
            },
            Event::SequenceStart(..) if !is_in_list => is_in_list = true,
            Event::SequenceEnd | Event::DocumentEnd | Event::StreamEnd => return Ok(names),
            Event::SequenceStart(..) | Event::MappingStart(..) | Event::MappingEnd | Event::Alias(_) => {
                let line = span.start.line();
                return Err(if is_in_list { NamesError::NoName { line } } else { NamesError::NoList });
            }
            Event::Nothing | Event::StreamStart | Event::DocumentStart(_) => {}
        }
    }
    Ok(names)
}

fn is_null(text: &str, style: ScalarStyle) -> bool {
    style == ScalarStyle::Plain && matches!(text, "" | "~" | "null" | "Null" | "NULL")
}
