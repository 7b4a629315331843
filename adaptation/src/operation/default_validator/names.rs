//! Reader for a list of names in an annotation. The list is YAML, of which JSON is a part.

use serde::Deserialize as _;
use serde_saphyr::{Options, budget, options, with_deserializer_from_str_with_options};

/// The largest size of a list, in bytes. The annotations of a pod in Kubernetes are at most as
/// large together.
const MOST: usize = 256 << 10;

/// The reason why a text is not a list of names.
#[derive(Debug, thiserror::Error)]
pub(super) enum NamesError {
    #[error("it must not be longer than {MOST} bytes")]
    TooLong,
    #[error("it must be a list of names: {0}")]
    Yaml(#[from] Box<serde_saphyr::Error>),
}

/// Reads a list of names. As in Go, names need no quotes, `null` counts as nothing, and later
/// documents are ignored.
pub(super) fn read(text: &str) -> Result<Vec<String>, NamesError> {
    if text.len() > MOST {
        return Err(NamesError::TooLong);
    }
    let mut names = None;
    let end = with_deserializer_from_str_with_options(text, settings(), |document| {
        names = Some(Option::<Vec<Option<String>>>::deserialize(document)?);
        Ok(())
    });
    match (names, end) {
        (Some(names), _) => Ok(names.unwrap_or_default().into_iter().flatten().collect()),
        (None, Err(error)) => Err(Box::new(error).into()),
        (None, Ok(())) => Ok(Vec::new()),
    }
}

/// Returns the options of the reader. Everybody who may create a pod writes this text, so nothing
/// in it is expanded or nested.
fn settings() -> Options {
    options! {
        budget: budget! {
            max_aliases: 0,
            max_depth: 2,
            flow_nesting_limit: 2,
            max_events: usize::MAX,
            max_nodes: usize::MAX,
        },
        with_snippet: false,
    }
}
