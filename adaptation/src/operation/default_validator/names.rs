//! Reader for a list of names in an annotation. The list is YAML, of which JSON is a part.

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Tag};

/// The prefix of YAML's own tags.
const CORE: &str = "tag:yaml.org,2002:";

/// The reason why a text is not a list of names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NamesError {
    #[error(transparent)]
    Syntax(#[from] ScanError),
    #[error("line {line}: a tab where a line begins")]
    Tab { line: usize },
    #[error("line {line}: a directive that is not of YAML 1.1")]
    Directive { line: usize },
    #[error("it must be a list of names")]
    NoList,
    #[error("line {line}: each entry must be a name")]
    NoName { line: usize },
}

/// A scalar at a place where a name may be.
enum Scalar {
    Name,
    Nothing,
    /// A scalar whose tag says that it is not text.
    Other,
}

/// Reads a list of names. As in Go, names need no quotes, `null` counts as nothing, and text behind
/// the list is ignored.
pub(super) fn read(text: &str) -> Result<Vec<String>, NamesError> {
    check_directives(text)?;
    check_tabs(text)?;
    let mut names = Vec::new();
    let mut is_in_list = false;
    for event in Parser::new_from_str(text) {
        let (event, span) = event?;
        match event {
            Event::Scalar(name, style, _, tag) => match (is_in_list, Scalar::of(&name, style, tag.as_deref())) {
                (true, Scalar::Name) => names.push(name.into_owned()),
                (true, Scalar::Nothing) => {}
                (true, Scalar::Other) => return Err(NamesError::NoName { line: span.start.line() }),
                (false, Scalar::Nothing) => return Ok(names),
                (false, Scalar::Name | Scalar::Other) => return Err(NamesError::NoList),
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

impl Scalar {
    fn of(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Self {
        let tag = tag.map(|tag| format!("{}{}", tag.handle, tag.suffix)).unwrap_or_default();
        let is_null = style == ScalarStyle::Plain && matches!(text, "" | "~" | "null" | "Null" | "NULL");
        match tag.strip_prefix(CORE) {
            Some("binary" | "bool" | "float" | "int" | "null" | "timestamp") => Self::Other,
            None if is_null && matches!(&*tag, "" | "!") => Self::Nothing,
            Some(_) | None => Self::Name,
        }
    }
}

/// Checks the directives at the beginning of a text. Go refuses every `%YAML` version but 1.1,
/// while the parser accepts unknown versions.
fn check_directives(text: &str) -> Result<(), NamesError> {
    let is_before = |line: &str| line.trim().is_empty() || line.starts_with(['#', '%']);
    for (line, text) in (1..).zip(text.lines()).take_while(|(_, text)| is_before(text)) {
        let mut words = text.split_whitespace();
        let is_known = match words.next() {
            Some("%YAML") => words.next() == Some("1.1"),
            Some(word) => word == "%TAG" || !word.starts_with('%'),
            None => true,
        };
        if !is_known {
            return Err(NamesError::Directive { line });
        }
    }
    Ok(())
}

/// Checks that no line begins with a tab, until a line begins with a bracket. The parser reads a
/// tab as a blank, and Go does so only within brackets.
fn check_tabs(text: &str) -> Result<(), NamesError> {
    for (line, text) in (1..).zip(text.lines()) {
        let rest = text.trim_start_matches([' ', '-', '\t']);
        if text[..text.len() - rest.len()].contains('\t') {
            return Err(NamesError::Tab { line });
        }
        if rest.starts_with('[') {
            break;
        }
    }
    Ok(())
}
