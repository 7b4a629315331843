use std::error::Error;
use std::fmt::{self, Display, Formatter};

use nri_proto::quote::error_chain;

/// A plugin's answer that says no. What it was asked then fails with this text, where the runtime can still say no.
///
/// Every error becomes one with its causes, so `?` works in handlers. For that it is no error itself, as `anyhow`'s is none.
///
/// ```
/// use nri_plugin::Refusal;
///
/// fn cpus(annotation: &str) -> Result<u32, Refusal> {
///     let cpus = annotation.parse()?;
///     if cpus == 0 {
///         return Err(Refusal::new("a container needs a CPU"));
///     }
///     Ok(cpus)
/// }
/// assert_eq!(cpus("many").unwrap_err().to_string(), "invalid digit found in string");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    message: String,
}

impl Refusal {
    /// Says no with this text.
    pub fn new(message: impl Display) -> Self {
        Self { message: message.to_string() }
    }
}

impl Display for Refusal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: Error> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self { message: chain(&error) }
    }
}

/// An error with its causes, as one sentence.
pub fn chain(error: &dyn Error) -> String {
    error_chain(error).to_string()
}
