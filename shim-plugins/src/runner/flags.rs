//! Parses the command line of a shim, as containerd writes it.

/// A parsed command line: flags in the syntax of Go, then words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) debug: bool,
    pub(crate) version: bool,
    pub(crate) info: bool,
    pub(crate) help: bool,
    pub(crate) namespace: String,
    pub(crate) id: String,
    pub(crate) socket: String,
    pub(crate) debug_socket: String,
    pub(crate) bundle: String,
    pub(crate) address: String,
    pub(crate) publish_binary: String,
    pub(crate) words: Vec<String>,
}

/// Why a command line could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlagError {
    /// The flag is unknown.
    #[error("unknown flag -{0}")]
    Unknown(String),

    /// The value of the flag is missing.
    #[error("flag -{0} needs a value")]
    NoValue(String),

    /// The value of a boolean flag is neither true nor false.
    #[error("flag -{flag} must be true or false, not {value:?}")]
    NotBoolean {
        /// The flag.
        flag: String,
        /// The value.
        value: String,
    },
}

impl Flags {
    /// Parses flags up to the first word. A flag is `-x v` or `-x=v`, with one dash or two.
    pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Self, FlagError> {
        let mut flags = Self::default();
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let Some(flag) = arg.strip_prefix('-').filter(|flag| !flag.is_empty()) else {
                flags.words.push(arg);
                break;
            };
            let flag = flag.strip_prefix('-').unwrap_or(flag);
            if flag.is_empty() {
                break;
            }
            let (flag, value) = match flag.split_once('=') {
                Some((flag, value)) => (flag, Some(value.to_owned())),
                None => (flag, None),
            };
            flags.set(flag, value, &mut args)?;
        }
        flags.words.extend(args);
        Ok(flags)
    }

    fn set(
        &mut self,
        flag: &str,
        value: Option<String>,
        rest: &mut impl Iterator<Item = String>,
    ) -> Result<(), FlagError> {
        if let Some(switch) = self.switch(flag) {
            *switch = match value.as_deref() {
                None | Some("1" | "t" | "T" | "true" | "TRUE" | "True") => true,
                Some("0" | "f" | "F" | "false" | "FALSE" | "False") => false,
                Some(value) => return Err(FlagError::NotBoolean { flag: flag.to_owned(), value: value.to_owned() }),
            };
            return Ok(());
        }
        let Some(text) = self.text(flag) else { return Err(FlagError::Unknown(flag.to_owned())) };
        *text = value.or_else(|| rest.next()).ok_or_else(|| FlagError::NoValue(flag.to_owned()))?;
        Ok(())
    }

    fn switch(&mut self, flag: &str) -> Option<&mut bool> {
        match flag {
            "debug" => Some(&mut self.debug),
            "v" | "version" => Some(&mut self.version),
            "info" => Some(&mut self.info),
            "h" | "help" => Some(&mut self.help),
            _ => None,
        }
    }

    fn text(&mut self, flag: &str) -> Option<&mut String> {
        match flag {
            "namespace" => Some(&mut self.namespace),
            "id" => Some(&mut self.id),
            "socket" => Some(&mut self.socket),
            "debug-socket" => Some(&mut self.debug_socket),
            "bundle" => Some(&mut self.bundle),
            "address" => Some(&mut self.address),
            "publish-binary" => Some(&mut self.publish_binary),
            _ => None,
        }
    }
}
