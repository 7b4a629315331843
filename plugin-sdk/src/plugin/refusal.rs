//! The negative reply of a handler.

use std::error::Error;
use std::fmt::{self, Display, Formatter};

use nri_proto::quote::error_chain;

/// A negative reply of a plugin. The request fails with this message, if its event can be vetoed.
///
/// Every error converts into a refusal whose message includes the causes of the error, so `?` works
/// in handlers. Like `anyhow::Error`, a refusal does not implement [`Error`]: that would conflict
/// with the conversion.
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
    /// Creates a refusal with this message.
    pub fn new(message: impl Display) -> Self {
        Self { message: message.to_string() }
    }

    /// Returns a function that converts an error into a refusal, with a text in front that says
    /// what failed.
    ///
    /// ```
    /// use nri_plugin::Refusal;
    ///
    /// let text = "many";
    /// let cpus = text.parse::<u32>().map_err(Refusal::context("could not read the annotation cpus"));
    /// let message = cpus.unwrap_err().to_string();
    /// assert_eq!(message, "could not read the annotation cpus: invalid digit found in string");
    /// ```
    pub fn context<E: Error>(text: impl Display) -> impl FnOnce(E) -> Self {
        move |error| Self { message: format!("{text}: {}", chain(&error)) }
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

/// Formats an error and its causes, separated by colons.
pub fn chain(error: &dyn Error) -> String {
    error_chain(error).to_string()
}
